// Tests of a checkpoint larger than memory: it opens, because its weights are mapped. Failing to pack it is a
// one-line error, and the encoder works again once memory is available.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;

constexpr int64_t kWide = 60'000;  // inside the MLPs: 31 MB a layer in float32, 8 in int8

// Bytes of anonymous and writable memory, which RLIMIT_DATA counts.
rlim_t memory_now() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) << 10;
  }
  return 0;
}

Matrix<float> grey_picture(const EncoderInfo& info) {
  Matrix<float> pixels(1, int64_t{3} * info.image_height * info.image_width);
  std::fill_n(pixels.data(), pixels.columns(), 0.5F);
  return pixels;
}

// Returns the error of encoding an image with 5 MiB left, and whether it works without the limit. A small
// checkpoint is encoded first: oneDNN generates some kernels at a process's first product, and ends the
// process if that fails.
std::string encode_with_little(const fs::path& checkpoint, Precision precision) {
  const BackendOptions options{.precision = precision, .threads = 1};
  {
    const auto small = load_encoder(golden("clip-gelu"), options);
    if (!small) return "load: " + small.error().message;
    if (const auto rows = (*small)->encode_images(grey_picture((*small)->info()).view()); !rows) {
      return rows.error().message;
    }
  }
  const auto encoder = load_encoder(checkpoint, options);
  if (!encoder) return "load: " + encoder.error().message;
  const Matrix<float> pixels = grey_picture((*encoder)->info());
  rlimit before{};
  ::getrlimit(RLIMIT_DATA, &before);
  const rlimit little{memory_now() + (rlim_t{5} << 20), before.rlim_max};
  ::setrlimit(RLIMIT_DATA, &little);
  const auto rows = (*encoder)->encode_images(pixels.view());
  ::setrlimit(RLIMIT_DATA, &before);
  const std::string said = rows ? "rows" : rows.error().message;
  const auto again = (*encoder)->encode_images(pixels.view());
  return said + (again ? "; then rows" : "; then " + again.error().message);
}

TEST(Memory, WeightsThatDoNotFitAreOneSentence) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers' shadow memory leaves no room for a limit";
#endif
  const GoldenCopy copy("clip-gelu");
  edit_config(copy.path(), [](Json& config) { config["vision_config"]["intermediate_size"] = kWide; });
  edit_weights(copy.path(), [](nn::TensorMap& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (!name.starts_with("vision_model.encoder") || name.find(".mlp.") == std::string::npos) continue;
      nn::Shape shape = tensor.sizes();
      for (int64_t& side : shape) side = side == 128 ? kWide : side;
      tensor = nn::Tensor::full(shape, 1e-4F);
    }
  });
  // Runs in a fresh process, because free heap memory would be used first.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
    EXPECT_EXIT(
        {
          std::fputs(encode_with_little(copy.path(), precision).c_str(), stderr);
          std::exit(0);
        },
        testing::ExitedWithCode(0), "^encode: out of memory; then rows$")
        << static_cast<int>(precision);
  }
}

}  // namespace
}  // namespace saccade

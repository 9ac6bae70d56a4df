// Benchmark of resizing and preprocessing decoded images, in bytes of source pixels per second, against
// libvips' own resize.
//
// libvips' vips_resize is a peer, not an oracle: it first shrinks by whole factors with a box and rounds
// elsewhere. Both run on one thread.
#include <random>

#include <benchmark/benchmark.h>
#include <vips/vips.h>

#include "saccade/image/preprocess.h"
#include "saccade/image/resize.h"

namespace saccade {
namespace {

Image picture(int width, int height) {
  std::mt19937 random(1);
  Image image{width, height, 3, PixelMode::kRgb, {}};
  image.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
  return image;
}

// Returns the size that both resizes make: the shorter side is 224.
ResizeWindow small_size(const Image& image) {
  const int width = 224 * image.width / image.height;
  return {width, 224, 0, 0, width, 224};
}

void count_bytes(benchmark::State& state, const Image& image) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(image.pixels.size()));
}

void resize_bicubic(benchmark::State& state, ResizeKernel kernel) {
  const Image image = picture(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(resize_window(image, small_size(image), ResizeFilter::kBicubic, kernel));
  }
  count_bytes(state, image);
}

void preprocess_clip(benchmark::State& state) {
  const Image image = picture(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Preprocessing preprocessing;
  std::vector<float> out(3 * 224 * 224);
  for (auto _ : state) {
    if (!preprocess(image, preprocessing, out)) state.SkipWithError("preprocess failed");
    benchmark::DoNotOptimize(out.data());
  }
  count_bytes(state, image);
}

void libvips_resize(benchmark::State& state) {
  const Image image = picture(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  if (VIPS_INIT("preprocess_bench") != 0) return state.SkipWithError("libvips does not start");
  vips_concurrency_set(1);
  vips_cache_set_max(0);
  for (auto _ : state) {
    VipsImage* in = vips_image_new_from_memory(image.pixels.data(), image.pixels.size(), image.width,
                                               image.height, 3, VIPS_FORMAT_UCHAR);
    VipsImage* out = nullptr;
    if (vips_resize(in, &out, 224.0 / image.height, "kernel", VIPS_KERNEL_CUBIC, nullptr) != 0) {
      state.SkipWithError("vips_resize failed");
      g_object_unref(in);
      break;
    }
    size_t size = 0;
    void* pixels = vips_image_write_to_memory(out, &size);
    benchmark::DoNotOptimize(pixels);
    g_free(pixels);
    g_object_unref(out);
    g_object_unref(in);
  }
  count_bytes(state, image);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({640, 480})
      ->Args({1600, 1200})
      ->Args({4000, 3000})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

BENCHMARK_CAPTURE(resize_bicubic, fastest, ResizeKernel::kFastest)->Apply(sizes);
BENCHMARK_CAPTURE(resize_bicubic, portable, ResizeKernel::kPortable)->Apply(sizes);
BENCHMARK(preprocess_clip)->Apply(sizes);
BENCHMARK(libvips_resize)->Apply(sizes);

}  // namespace
}  // namespace saccade

BENCHMARK_MAIN();

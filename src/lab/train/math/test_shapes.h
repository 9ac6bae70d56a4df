// Test data of the module: a dataset and a model small enough to train in seconds.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/train/recipes/train_dual.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab::test {

using namespace saccade::test;

// Coloured shapes on transparency with their names: small enough to learn in seconds.
class SmallData {
 public:
  SmallData() {
    const std::pair<const char*, std::array<uint8_t, 3>> kColours[] = {{"red", {220, 20, 20}},
                                                                       {"green", {20, 200, 20}},
                                                                       {"blue", {20, 20, 220}},
                                                                       {"yellow", {230, 220, 20}}};
    std::string manifest;
    for (const auto& [colour, rgb] : kColours) {
      for (const char* shape : {"square", "bar", "post", "frame"}) {
        for (int copy = 0; copy < 2; ++copy) {
          const std::string file = fmt::format("{}-{}-{}.png", colour, shape, copy);
          write_picture(file, shape, rgb, copy);
          manifest += fmt::format(
              "{{\"image\": \"{}\", \"captions\": [\"{} {}\", \"a {} that is {}\"], \"group\": \"{} {}\"}}\n",
              file, colour, shape, shape, colour, colour, shape);
        }
      }
    }
    folder_.write("shapes.jsonl", manifest);
    folder_.write("arch.json", R"({
      "model": {"projection_dim": 16,
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                          "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "hidden_act": "gelu"},
        "text_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                        "num_attention_heads": 2, "max_position_embeddings": 24, "hidden_act": "gelu"}},
      "preprocessor": {"do_resize": true, "size": {"height": 16, "width": 16}, "resample": 3,
                       "do_center_crop": false, "do_rescale": true, "do_normalize": true,
                       "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
      "tokenizer": "tokenizer"})");
    write_tokenizer();
  }

  [[nodiscard]] DualTrainingOptions options(const std::string& run) const {
    DualTrainingOptions options;
    options.datasets = {folder_ / "shapes.jsonl"};
    options.held_out = {folder_ / "shapes.jsonl"};  // here: does it learn at all
    options.config = folder_ / "arch.json";
    options.run = folder_ / run;
    options.cache = folder_ / "cache";
    options.steps = 8;
    options.batch = 16;
    options.precision = Precision::kFp32;
    options.evaluate_every = 4;
    options.checkpoint_every = 4;
    options.threads = 1;  // tests run side by side
    return options;
  }
  [[nodiscard]] const TestFolder& folder() const { return folder_; }

 private:
  void write_picture(const std::string& file, const std::string& shape, const std::array<uint8_t, 3>& rgb,
                     int copy) {
    constexpr int kSide = 24;
    Image image{.width = kSide, .height = kSide, .channels = 4, .mode = PixelMode::kRgba, .pixels = {}};
    image.pixels.resize(size_t{kSide} * kSide * 4);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool middle_x = x >= 9 + copy && x < 15;
        const bool middle_y = y >= 9 + copy && y < 15;
        const bool inside = x >= 3 && x < 21 && y >= 3 && y < 21;
        const bool filled = shape == "square" ? inside
                            : shape == "bar"  ? inside && middle_y
                            : shape == "post" ? inside && middle_x
                                              : inside && !(x >= 7 && x < 17 && y >= 7 && y < 17);
        uint8_t* pixel = image.pixels.data() + 4 * (static_cast<size_t>(y) * kSide + static_cast<size_t>(x));
        for (size_t c = 0; c < 3; ++c) pixel[c] = filled ? rgb[c] : 0;
        pixel[3] = filled ? 255 : 0;
      }
    }
    folder_.write(file, encode_png(image).value());
  }

  // Writes a tokenizer with CLIP's byte symbols and no merges: every word is spelled letter by letter.
  void write_tokenizer() {
    const Json clip =
        read_json(std::filesystem::path(test::kSourceDir) / "tests/golden/tokenizers/clip/vocab.json")
            .value();
    Json vocabulary = Json::object();
    for (const auto& [token, id] : clip.items()) {
      if (id.get<int>() < 512) vocabulary[token] = id;
    }
    vocabulary["<|startoftext|>"] = 512;
    vocabulary["<|endoftext|>"] = 513;
    folder_.write("tokenizer/vocab.json", dump_json(vocabulary));
    folder_.write("tokenizer/merges.txt", "#version: 0.2\n");
  }

  TestFolder folder_;
};

inline std::string read(const std::filesystem::path& path) {
  return read_file(path).value();
}

inline DualTrainingReport train(const DualTrainingOptions& options, std::stop_token stop = {},
                                const ProgressCallback& progress = {}) {
  auto report = train_dual(options, progress, stop);
  EXPECT_TRUE(report) << report.error().message;
  return report.value_or(DualTrainingReport{});
}

}  // namespace saccade::lab::test

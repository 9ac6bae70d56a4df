// Test utilities: an editor of random weights over the starter's texts.
#pragma once

#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "lab/editor/editor.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/source_dir.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::lab::test {

using namespace saccade::test;

inline EditorConfig small_editor_config() {
  EditorConfig config;
  config.side = 16;
  config.patch_size = 4;
  config.width = 24;
  config.layers = 2;
  config.heads = 3;
  config.mlp_width = 40;
  config.text_width = 192;
  config.text_tokens = 8;
  config.steps = 3;
  config.guidance = 1.5;
  const std::filesystem::path starter = std::filesystem::path(kSourceDir) / "models/starter";
  config.frozen = {.name = "starter", .family = "clip", .fingerprint = "", .path = starter.string()};
  const auto fingerprint = checkpoint_fingerprint(starter);
  EXPECT_TRUE(fingerprint) << fingerprint.error().message;
  if (fingerprint) config.frozen.fingerprint = *fingerprint;
  return config;
}

// Writes an editor into an existing folder; returns the weights.
inline nn::TensorMap write_random_editor(const std::filesystem::path& folder, const EditorConfig& config) {
  RandomParameters source(7);
  EXPECT_TRUE(EditorOf<nn::Tensor>::make(config, source));
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : source.parameters()) named.push_back({name, nn::view_of(tensor)});
  EXPECT_TRUE(write_safetensors(folder / "model.safetensors", named));
  EXPECT_TRUE(write_file_atomic(folder / "config.json", dump_json(editor_config_json(config))));
  EXPECT_TRUE(write_file_atomic(folder / "frozen.json", dump_json({{"path", config.frozen.path}})));
  return source.parameters();
}

// Returns a reference of some colours.
inline Image some_reference(int side, int number) {
  Image image{.width = side, .height = side, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  for (int i = 0; i < side * side * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((i * 7 + number * 31) % 256));
  }
  return image;
}

}  // namespace saccade::lab::test

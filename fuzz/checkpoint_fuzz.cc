// A checkpoint's configs around sound weights: a byte that chooses the weights, config.json, a zero byte,
// preprocessor_config.json. Outlined and loaded, without a tokenizer, which tokenizer_folder_fuzz.cc has.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/encoder_backend.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> kWeights = {"clip-gelu", "siglip",  "align",     "bert",
                                                      "blip2-itm", "colpali", "jina-clip", "long-clip"};
constexpr std::array<std::string_view, 40> kWords = {"model_type",
                                                     "clip",
                                                     "siglip",
                                                     "bert",
                                                     "align",
                                                     "blip-2",
                                                     "text_config",
                                                     "vision_config",
                                                     "hidden_size",
                                                     "num_hidden_layers",
                                                     "num_attention_heads",
                                                     "intermediate_size",
                                                     "patch_size",
                                                     "image_size",
                                                     "projection_dim",
                                                     "max_position_embeddings",
                                                     "vocab_size",
                                                     "hidden_act",
                                                     "gelu",
                                                     "quick_gelu",
                                                     "layer_norm_eps",
                                                     "num_channels",
                                                     "architectures",
                                                     "do_resize",
                                                     "size",
                                                     "shortest_edge",
                                                     "crop_size",
                                                     "height",
                                                     "width",
                                                     "image_mean",
                                                     "image_std",
                                                     "resample",
                                                     "rescale_factor",
                                                     "do_center_crop",
                                                     "num_key_value_heads",
                                                     "head_dim",
                                                     "eos_token_id",
                                                     "torch_dtype",
                                                     "embed_dim",
                                                     "vision_cfg"};

struct Folders {
  TemporaryFolder base = TemporaryFolder::make().value();
  Folders() {
    for (const std::string_view name : kWeights) {
      fs::create_directory(base.path() / name);
      const fs::path weights = fs::path(test::kSourceDir) / "tests/golden" / name / "model.safetensors";
      fs::create_symlink(weights, base.path() / name / "model.safetensors");
    }
  }
};

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static const Folders folders;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t zero = std::min(input.find('\0'), input.size());
  const fs::path folder = folders.base.path() / kWeights[data[0] % kWeights.size()];
  FUZZ_CHECK(write_file_atomic(folder / "config.json", input.substr(0, zero)));
  fs::remove(folder / "preprocessor_config.json");
  if (zero < input.size()) {
    FUZZ_CHECK(write_file_atomic(folder / "preprocessor_config.json", input.substr(zero + 1)));
  }
  const auto outline = outline_checkpoint(folder);
  FUZZ_CHECK(outline || !outline.error().message.empty());
  // No tokenizer lies there: whatever else is wrong comes first.
  const auto encoder = load_encoder(folder);
  FUZZ_CHECK(encoder || !encoder.error().message.empty());
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  if (input.empty()) return input;
  const std::array<Mutation, 1> kinds = {
      [&](std::string_view text) { return mutate_json(text, kWords, random); }};
  return input[0] + mutate_part(std::string_view(input).substr(1), '\0', kinds, random);
}

// Utilities of encoder benchmarks: checkpoints of real shapes with random weights, and the process's memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "saccade/core/error.h"

namespace saccade::bench {

struct TowerShape {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t mlp = 4 * width;
};

// Shape of a CLIP like the published ones: 77 positions.
struct ClipShape {
  const char* name = "";
  TowerShape vision;
  TowerShape text;
  int64_t patch = 0;
  int64_t projection = 0;
  int64_t side = 224;

  [[nodiscard]] int64_t patches() const { return (side / patch) * (side / patch); }
};

inline constexpr int64_t kPictureSide = 224;
inline constexpr int64_t kPositions = 77;
inline constexpr int64_t kVocabulary = 49408;  // the last two: start and end of text

inline constexpr ClipShape kVitB32{"ViT-B/32", {768, 12, 12}, {512, 12, 8}, 32, 512};
inline constexpr ClipShape kVitL14{"ViT-L/14", {1024, 24, 16}, {768, 12, 12}, 14, 768};
inline constexpr ClipShape kVitL14At336{"ViT-L/14-336", {1024, 24, 16}, {768, 12, 12}, 14, 768, 336};
inline constexpr ClipShape kVitH14{"ViT-H/14", {1280, 32, 16}, {1024, 24, 16}, 14, 1024};
inline constexpr ClipShape kVitH14At378{"ViT-H/14-378", {1280, 32, 16}, {1024, 24, 16}, 14, 1024, 378};

// Shape of a SigLIP: image and text towers of one shape, texts of 64 tokens.
struct SiglipShape {
  const char* name = "";
  TowerShape tower;
  int64_t patch = 0;
  int64_t side = 0;
  int64_t vocabulary = 32'000;
  int64_t positions = 64;

  [[nodiscard]] int64_t patches() const { return (side / patch) * (side / patch); }
};

inline constexpr SiglipShape kSo400m{"so400m/384", {1152, 27, 16, 4304}, 14, 384};

// Shape of a ColPali: SigLIP's vision tower, and a Gemma with one key-value head.
struct ColPaliShape {
  const char* name = "";
  TowerShape vision;
  TowerShape language;
  int64_t head_width = 0;  // of the language model
  int64_t patch = 0;
  int64_t side = 0;
  int64_t vocabulary = 257'216;
  int64_t projection = 128;

  [[nodiscard]] int64_t patches() const { return (side / patch) * (side / patch); }
};

inline constexpr ColPaliShape kColPali{"ColPali", {1152, 27, 16, 4304}, {2048, 18, 8, 16'384}, 256, 14, 448};
inline constexpr int64_t kColPaliPrompt = 6;  // tokens behind the patches

// Write config.json and model.safetensors in the Hugging Face layout: float32, and for ColPali bfloat16 with
// a tokenizer, as it is published. Weights are drawn from a normal distribution, so that products run at
// their ordinary speed: neither constant nor denormal.
Status write_random_clip(const std::filesystem::path& folder, const ClipShape& shape);
Status write_random_siglip(const std::filesystem::path& folder, const SiglipShape& shape);
Status write_random_colpali(const std::filesystem::path& folder, const ColPaliShape& shape);

// Returns true if SACCADE_BENCH_SHAPES, a list with commas, or "all", has the name. Without it ViT-B/32 alone is wanted.
bool is_wanted_shape(const std::string& name);

// A folder below the system's temporary one, removed with its contents by the destructor.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Returns the peak resident memory since the last reset_peak_memory, in bytes. If the kernel does not let a
// process reset it, since the start.
int64_t peak_memory();
void reset_peak_memory();

}  // namespace saccade::bench

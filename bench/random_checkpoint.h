// What benchmarks of encoders share: checkpoints of real shapes with random weights, and the process's
// memory.
#pragma once

#include <cstdint>
#include <filesystem>

#include "saccade/core/error.h"

namespace saccade::bench {

struct TowerShape {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
};

// A CLIP as published ones are shaped: 224 x 224 pictures, 77 positions, MLPs four times as wide as the
// tower.
struct ClipShape {
  const char* name = "";
  TowerShape vision;
  TowerShape text;
  int64_t patch = 0;
  int64_t projection = 0;
};

inline constexpr int64_t kPictureSide = 224;
inline constexpr int64_t kPositions = 77;
inline constexpr int64_t kVocabulary = 49408;  // the last two: start and end of text
inline constexpr int64_t kMlpRatio = 4;

inline constexpr ClipShape kVitB32{"ViT-B/32", {768, 12, 12}, {512, 12, 8}, 32, 512};
inline constexpr ClipShape kVitL14{"ViT-L/14", {1024, 24, 16}, {768, 12, 12}, 14, 768};

// Writes config.json and model.safetensors (float32) in the Hugging Face layout. Weights are drawn from a
// normal distribution, so that products run at their ordinary speed: neither constant nor denormal.
Status write_random_clip(const std::filesystem::path& folder, const ClipShape& shape);

// A folder of its own below the system's temporary one, removed with all in it at the end.
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

// The most memory the process has had resident since the last reset_peak_memory, in bytes. Where the kernel
// does not let a process reset it, since the start.
int64_t peak_memory();
void reset_peak_memory();

}  // namespace saccade::bench

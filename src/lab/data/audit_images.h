// The audit's images: hashes of their bytes, and near-duplicates. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/audit_options.h"
#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_view.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade::lab::data {

constexpr int kThumbWidth = 17;
constexpr int kThumbHeight = 16;

// A difference hash. Bit 16 y + x is set if a grey thumbnail grows brighter from (x, y) to (x + 1, y).
struct Look {
  std::array<uint64_t, 4> bits{};
  std::array<uint8_t, size_t{kThumbWidth} * kThumbHeight> grey{};
};
Look look_of(const ImageView& image);

// Returns the number of different bits; -1 above the limit, or if the thumbnails differ.
int near_distance(const Look& a, const Look& b);

struct LookedAt {
  std::vector<std::string> hashes;  // SHA-256 of each image's bytes, empty if unreadable
  std::vector<Error> errors;        // of those
  std::vector<bool> failed;
  std::vector<Look> looks;
  Matrix<float> rows;  // with an encoder
};

Result<LookedAt> look_at_images(std::span<const ImageRef> images, const AuditOptions& options,
                                ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop);

struct Near {
  size_t a = 0;
  size_t b = 0;
  double distance = 0;
};
// Returns pairs that look alike and do not have the same bytes, in order.
Result<std::vector<Near>> near_pairs(const LookedAt& looked, const AuditOptions& options, ThreadPool& pool);
std::string near_method(const AuditOptions& options);

}  // namespace saccade::lab::data

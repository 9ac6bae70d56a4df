#include "saccade/search/explain.h"

#include <algorithm>

namespace saccade {
namespace {

struct Size {
  double width = 0;
  double height = 0;
};

// The picture as it is resized, before it is cropped or padded.
Size resized(const Preprocessing& preprocessing, double width, double height) {
  const double to_width = preprocessing.resize_width;
  const double to_height = preprocessing.resize_height;
  switch (preprocessing.resize_mode) {
    case ResizeMode::kSquash:
      return {to_width, to_height};
    case ResizeMode::kShortestEdge: {
      const double scale = to_height / std::min(width, height);
      return {width * scale, height * scale};
    }
    case ResizeMode::kLongestEdge: {
      const double scale = std::min(to_width / width, to_height / height);
      return {width * scale, height * scale};
    }
    case ResizeMode::kNone:
      return {width, height};
  }
  return {width, height};
}

// The part of [begin, end) that lies in [0, 1).
std::optional<std::pair<double, double>> within(double begin, double end) {
  begin = std::clamp(begin, 0.0, 1.0);
  end = std::clamp(end, 0.0, 1.0);
  if (!(end > begin)) return std::nullopt;
  return std::pair(begin, end);
}

}  // namespace

std::optional<PictureBox> patch_box(const Preprocessing& preprocessing, int64_t width, int64_t height,
                                    PatchGrid grid, const PatchBlock& patches) {
  if (width < 1 || height < 1 || grid.rows < 1 || grid.columns < 1) return std::nullopt;
  const Size size = resized(preprocessing, static_cast<double>(width), static_cast<double>(height));
  const double seen_width = preprocessing.output_width();
  const double seen_height = preprocessing.output_height();
  // The crop's corner in the resized picture; negative where it was padded.
  const double left = preprocessing.crop ? (size.width - seen_width) / 2 : 0;
  const double top = preprocessing.crop ? (size.height - seen_height) / 2 : 0;
  const auto along = [](int64_t first, int64_t count, int64_t of, double seen, double offset, double whole) {
    const double patch = seen / static_cast<double>(of);
    return within((offset + static_cast<double>(first) * patch) / whole,
                  (offset + static_cast<double>(first + count) * patch) / whole);
  };
  const auto x = along(patches.column, patches.columns, grid.columns, seen_width, left, size.width);
  const auto y = along(patches.row, patches.rows, grid.rows, seen_height, top, size.height);
  if (!x || !y) return std::nullopt;
  return PictureBox{static_cast<float>(x->first), static_cast<float>(y->first),
                    static_cast<float>(x->second - x->first), static_cast<float>(y->second - y->first)};
}

}  // namespace saccade

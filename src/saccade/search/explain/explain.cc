#include "saccade/search/explain/explain.h"

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

// Region that the encoder sees, in pixels of the resized image, whose size is `whole`. Its corner is negative
// if the image was padded.
struct Seen {
  Size whole, size;
  double left = 0;
  double top = 0;
};

Seen seen_of(const Preprocessing& preprocessing, int64_t width, int64_t height) {
  Seen seen;
  seen.whole = resized(preprocessing, static_cast<double>(width), static_cast<double>(height));
  seen.size = {static_cast<double>(preprocessing.output_width()),
               static_cast<double>(preprocessing.output_height())};
  if (!preprocessing.crop) return seen;
  seen.left = (seen.whole.width - seen.size.width) / 2;
  seen.top = (seen.whole.height - seen.size.height) / 2;
  return seen;
}

}  // namespace

std::optional<PictureBox> patch_box(const Preprocessing& preprocessing, int64_t width, int64_t height,
                                    PatchGrid grid, const PatchBlock& patches) {
  if (width < 1 || height < 1 || grid.rows < 1 || grid.columns < 1) return std::nullopt;
  const Seen seen = seen_of(preprocessing, width, height);
  const auto along = [](int64_t first, int64_t count, int64_t of, double size, double offset, double whole) {
    const double patch = size / static_cast<double>(of);
    return within((offset + static_cast<double>(first) * patch) / whole,
                  (offset + static_cast<double>(first + count) * patch) / whole);
  };
  const auto x =
      along(patches.column, patches.columns, grid.columns, seen.size.width, seen.left, seen.whole.width);
  const auto y = along(patches.row, patches.rows, grid.rows, seen.size.height, seen.top, seen.whole.height);
  if (!x || !y) return std::nullopt;
  return PictureBox{static_cast<float>(x->first), static_cast<float>(y->first),
                    static_cast<float>(x->second - x->first), static_cast<float>(y->second - y->first)};
}

std::optional<PictureBox> grid_box(const Preprocessing& preprocessing, int64_t width, int64_t height) {
  if (width < 1 || height < 1) return std::nullopt;
  const Seen seen = seen_of(preprocessing, width, height);
  return PictureBox{static_cast<float>(seen.left / seen.whole.width),
                    static_cast<float>(seen.top / seen.whole.height),
                    static_cast<float>(seen.size.width / seen.whole.width),
                    static_cast<float>(seen.size.height / seen.whole.height)};
}

}  // namespace saccade

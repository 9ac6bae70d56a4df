#include "saccade/image/metadata/look.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace saccade {
namespace {

constexpr int kSide = 32;    // of the grey picture
constexpr int kSigns = 8;    // of its frequencies, each way
constexpr int kInCell = 16;  // pixels looked at in each of its cells, each way

// Luminance of one pixel over white, 0 to 255, and whether it is visible at all.
struct Seen {
  double grey = 255;
  bool visible = false;
};
Seen seen(const ImageView& image, const uint8_t* pixel) {
  const bool colour = image.channels >= 3;
  const double alpha = image.channels % 2 == 0 ? pixel[image.channels - 1] / 255.0 : 1.0;
  const double grey =
      colour ? 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2] : static_cast<double>(pixel[0]);
  return {alpha * grey + (1 - alpha) * 255, alpha > 0};
}

// Means of 32 x 32 cells, row by row.
std::vector<double> small_grey(const ImageView& image) {
  std::vector<double> cells(size_t{kSide} * kSide);
  const auto step = static_cast<size_t>(image.channels);
  const auto place = [](int cell, int i, int length) {
    return static_cast<int>((static_cast<int64_t>(cell) * kInCell + i) * length / (kSide * kInCell));
  };
  for (int cy = 0; cy < kSide; ++cy) {
    for (int cx = 0; cx < kSide; ++cx) {
      double sum = 0;
      for (int i = 0; i < kInCell; ++i) {
        const auto row = static_cast<size_t>(place(cy, i, image.height)) * static_cast<size_t>(image.width);
        for (int j = 0; j < kInCell; ++j) {
          const size_t at = (row + static_cast<size_t>(place(cx, j, image.width))) * step;
          sum += seen(image, image.pixels.data() + at).grey;
        }
      }
      cells[static_cast<size_t>(cy) * kSide + static_cast<size_t>(cx)] = sum / (kInCell * kInCell);
    }
  }
  return cells;
}

// cosine[k][x] of the DCT-II.
using Cosines = std::array<std::array<double, kSide>, kSigns + 1>;
Cosines make_cosines() {
  Cosines cosines{};
  for (size_t k = 0; k < cosines.size(); ++k) {
    for (size_t x = 0; x < kSide; ++x) {
      cosines[k][x] =
          std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(x) + 0.5) / kSide);
    }
  }
  return cosines;
}

// Signs against the median, so that half of them are ones; the mean (frequency 0)
// is left out, as brightness is.
uint64_t hash_of(const std::vector<double>& cells) {
  static const Cosines cosines = make_cosines();
  std::vector<double> found;
  for (size_t ky = 1; ky <= kSigns; ++ky) {
    for (size_t kx = 1; kx <= kSigns; ++kx) {
      double sum = 0;
      for (size_t y = 0; y < kSide; ++y) {
        double line = 0;
        for (size_t x = 0; x < kSide; ++x) line += cells[y * kSide + x] * cosines[kx][x];
        sum += line * cosines[ky][y];
      }
      found.push_back(sum);
    }
  }
  std::vector<double> sorted = found;
  std::nth_element(sorted.begin(), sorted.begin() + kSigns * kSigns / 2, sorted.end());
  const double median = sorted[kSigns * kSigns / 2];
  uint64_t hash = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] > median) hash |= uint64_t{1} << i;
  }
  return hash;
}

// Pairs of pixels that stand side by side in the file, in up to 512 rows of up to 512 pairs.
double grain_of(const ImageView& image) {
  constexpr int kMost = 512;
  if (image.width < 2) return 0;
  const auto step = static_cast<size_t>(image.channels);
  const int rows = std::min(image.height, kMost);
  const int pairs = std::min(image.width - 1, kMost);
  int64_t different = 0;
  for (int i = 0; i < rows; ++i) {
    const int64_t y = static_cast<int64_t>(i) * image.height / rows;
    for (int j = 0; j < pairs; ++j) {
      const int64_t x = static_cast<int64_t>(j) * (image.width - 1) / pairs;
      const uint8_t* left = image.pixels.data() + static_cast<size_t>(y * image.width + x) * step;
      const uint8_t* right = left + step;
      const bool visible = seen(image, left).visible && seen(image, right).visible;
      different += visible && !std::equal(left, right, right, right + step) ? 1 : 0;
    }
  }
  return static_cast<double>(different) / (static_cast<double>(rows) * pairs);
}

}  // namespace

PictureLook look_of(const ImageView& image) {
  const auto needed = static_cast<size_t>(image.width) * static_cast<size_t>(image.height) *
                      static_cast<size_t>(image.channels);
  if (image.width < 1 || image.height < 1 || image.pixels.size() < needed) return {};
  return {hash_of(small_grey(image)), grain_of(image)};
}

}  // namespace saccade

#include "lab/eval/figures/relevance.h"

#include <algorithm>
#include <unordered_map>

namespace saccade::lab {

std::span<const EnumName<Direction>> enum_names(Direction /*unused*/) {
  static constexpr EnumName<Direction> kNames[] = {{Direction::kTextToImage, "t2i"},
                                                   {Direction::kImageToText, "i2t"}};
  return kNames;
}

std::string_view direction_name(Direction direction) {
  return enum_name(direction);
}

Result<Relevance> Relevance::from_pairs(int64_t texts, int64_t images,
                                        std::vector<std::pair<int64_t, int64_t>> pairs) {
  for (const auto& [text, image] : pairs) {
    if (text < 0 || text >= texts)
      return fail(ErrorCode::kBadData, "a pair with text {}, there are {}", text, texts);
    if (image < 0 || image >= images) {
      return fail(ErrorCode::kBadData, "text {} belongs to image {}, there are {}", text, image, images);
    }
  }
  const auto lists = [&](int64_t count) {
    std::ranges::sort(pairs);
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    Lists result;
    result.begin.assign(static_cast<size_t>(count) + 1, 0);
    result.items.reserve(pairs.size());
    for (const auto& [from, to] : pairs) {
      ++result.begin[static_cast<size_t>(from) + 1];
      result.items.push_back(to);
    }
    for (size_t i = 1; i < result.begin.size(); ++i) result.begin[i] += result.begin[i - 1];
    return result;
  };
  Relevance relevance;
  relevance.images_of_text_ = lists(texts);
  for (auto& [text, image] : pairs) std::swap(text, image);
  relevance.texts_of_image_ = lists(images);
  return relevance;
}

Result<Relevance> Relevance::from_text_image(std::span<const int64_t> text_image, int64_t images) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t t = 0; t < text_image.size(); ++t) {
    if (text_image[t] != -1) pairs.emplace_back(static_cast<int64_t>(t), text_image[t]);
  }
  return from_pairs(static_cast<int64_t>(text_image.size()), images, std::move(pairs));
}

Result<Relevance> Relevance::from_labels(std::span<const int64_t> labels) {
  std::unordered_map<int64_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(static_cast<int64_t>(i));
  int64_t count = 0;
  for (const auto& [label, same] : members) {
    const auto size = static_cast<int64_t>(same.size());
    if (size > kMaxPairs / size || count > kMaxPairs - size * size) {
      return fail(ErrorCode::kLimit, "{} of {} items share a label: more than {} right pairs", size,
                  labels.size(), kMaxPairs);
    }
    count += size * size;
  }
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(static_cast<size_t>(count));
  for (const auto& [label, same] : members) {
    for (const int64_t text : same) {
      for (const int64_t image : same) pairs.emplace_back(text, image);
    }
  }
  const auto items = static_cast<int64_t>(labels.size());
  return from_pairs(items, items, std::move(pairs));
}

}  // namespace saccade::lab

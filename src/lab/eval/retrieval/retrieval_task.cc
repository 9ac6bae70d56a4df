#include "lab/eval/retrieval/retrieval_task.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

namespace saccade::lab {
namespace {

// Returns the number of captions of an image that a policy uses.
int64_t captions_taken(CaptionPolicy policy) {
  switch (policy) {
    case CaptionPolicy::kFirst5:
      return 5;
    case CaptionPolicy::kFirst1:
    case CaptionPolicy::kOneCaption:
      return 1;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

std::string text_name(const RetrievalSource& source, size_t text) {
  const std::string& caption = source.texts[text].caption;
  return caption.empty() ? fmt::format("text {}", text) : caption.substr(0, 60);
}

// Selects the images and texts that stay, and counts the others.
class Filter {
 public:
  Filter(const RetrievalSource& source, std::span<const int64_t> unreadable) {
    Dataset counts;  // counts exclusions as datasets do
    keep_image.assign(source.images.size(), true);
    for (const int64_t image : unreadable) {
      keep_image[static_cast<size_t>(image)] = false;
      counts.exclude("images that cannot be read", source.images[static_cast<size_t>(image)].image.name());
    }
    keep_text.assign(source.texts.size(), true);
    std::vector<bool> has_text(source.images.size());
    for (size_t t = 0; t < source.texts.size(); ++t) {
      const int64_t image = source.texts[t].image;
      if (image < 0) {
        keep_text[t] = false;
        counts.exclude("texts without an image", text_name(source, t));
      } else if (!keep_image[static_cast<size_t>(image)]) {
        keep_text[t] = false;
        counts.exclude("texts of images that cannot be read", text_name(source, t));
      } else {
        has_text[static_cast<size_t>(image)] = true;
      }
    }
    for (size_t i = 0; i < source.images.size(); ++i) {
      if (!keep_image[i] || has_text[i]) continue;
      keep_image[i] = false;
      counts.exclude("images without a text", source.images[i].id);
    }
    excluded = std::move(counts.excluded);
  }

  std::vector<bool> keep_image;
  std::vector<bool> keep_text;
  std::vector<Exclusion> excluded;
};

}  // namespace

std::span<const EnumName<CaptionPolicy>> enum_names(CaptionPolicy) {
  static constexpr std::array<EnumName<CaptionPolicy>, 5> kWords{
      {{CaptionPolicy::kAll, "all", "every caption is a query, and its own image the one right answer"},
       {CaptionPolicy::kFirst5, "first5",
        "each image's first five captions are queries, and their own image the one right answer"},
       {CaptionPolicy::kFirst1, "first1",
        "each image's first caption is a query, and its own image the one right answer"},
       {CaptionPolicy::kDedup, "dedup",
        "every different caption is a query, and all images that have it are right answers"},
       {CaptionPolicy::kOneCaption, "one-caption",
        "each image's first caption is a query, and all images with an equal first caption are right "
        "answers, as all equal captions are to an image"}}};
  return kWords;
}

Result<RetrievalSource> retrieval_source(const Dataset& dataset) {
  SACCADE_ASSIGN(const CaptionedImages* images, dataset.need<CaptionedImages>());
  RetrievalSource source;
  for (const DatasetItem& item : images->items) {
    const auto image = static_cast<int64_t>(source.images.size());
    source.images.push_back({item.id, item.image});
    for (const std::string& caption : item.captions) source.texts.push_back({caption, image});
  }
  return source;
}

Result<RetrievalTask> make_retrieval_task(const RetrievalSource& source, CaptionPolicy policy,
                                          std::span<const int64_t> unreadable, bool leave_out) {
  const bool by_caption = policy == CaptionPolicy::kDedup || policy == CaptionPolicy::kOneCaption;
  if (by_caption && !source.captions_known) {
    return fail(ErrorCode::kUsage,
                "captions {} asks which captions are equal: name their dataset with --dataset",
                enum_name(policy));
  }
  Filter filter(source, unreadable);
  if (!filter.excluded.empty() && !leave_out) {
    const Exclusion& first = filter.excluded.front();
    return fail(ErrorCode::kBadData,
                "{}: {}, the first: {}; another gallery gives other figures: --leave-out "
                "leaves them out and says so",
                first.reason, first.count, first.examples.front());
  }
  RetrievalTask task;
  task.excluded = std::move(filter.excluded);
  std::vector<int64_t> image_number(source.images.size(), -1);
  for (size_t i = 0; i < source.images.size(); ++i) {
    if (!filter.keep_image[i]) continue;
    image_number[i] = static_cast<int64_t>(task.images.size());
    task.images.push_back(static_cast<int64_t>(i));
    task.items.images.push_back(source.images[i]);
  }
  const int64_t taken = captions_taken(policy);
  std::vector<int64_t> seen(source.images.size());
  std::unordered_map<std::string_view, size_t> by_words;
  std::vector<std::pair<int64_t, int64_t>> first;  // text (its place among these), image
  FirstCaptions firsts;
  for (size_t t = 0; t < source.texts.size(); ++t) {
    const SourceText& text = source.texts[t];
    if (!filter.keep_text[t]) continue;
    const auto from = static_cast<size_t>(text.image);
    const int64_t ordinal = seen[from]++;
    if (ordinal >= taken) continue;
    const int64_t image = image_number[from];
    if (policy == CaptionPolicy::kDedup) {
      const auto [known, fresh] = by_words.emplace(text.caption, task.texts.size());
      if (!fresh) {
        std::vector<int64_t>& right = task.items.texts[known->second].images;
        if (right.back() != image) right.push_back(image);
        continue;
      }
    }
    if (ordinal == 0) {
      first.emplace_back(std::ssize(firsts.texts), image);
      firsts.texts.push_back(std::ssize(task.texts));
    }
    task.texts.push_back(static_cast<int64_t>(t));
    task.items.texts.push_back({text.caption, {image}});
    task.image_of_text.push_back(image);
    task.text_ids.push_back(fmt::format("{}#{}", source.images[from].id, ordinal));
  }
  if (task.texts.empty()) return fail(ErrorCode::kBadData, "no image with a text is left to rank");
  if (policy == CaptionPolicy::kOneCaption) {
    std::unordered_map<std::string_view, std::vector<int64_t>> same;
    for (const RunText& text : task.items.texts) same[text.text].push_back(text.images.front());
    std::vector<int64_t> labels;
    for (RunText& text : task.items.texts) labels.push_back(same[text.text].front());
    SACCADE_ASSIGN(task.relevance, Relevance::from_labels(labels));
    // from_labels gives text i and image i the same number, which holds if each image has one text.
    std::vector<std::vector<int64_t>> right(task.items.texts.size());
    for (size_t t = 0; t < right.size(); ++t) {
      right[t] = same[task.items.texts[t].text];
      std::ranges::sort(right[t]);
    }
    for (size_t t = 0; t < right.size(); ++t) task.items.texts[t].images = std::move(right[t]);
    return task;
  }
  if (!by_caption) {
    SACCADE_ASSIGN(firsts.relevance, Relevance::from_pairs(std::ssize(firsts.texts), std::ssize(task.images),
                                                           std::move(first)));
    task.first = std::move(firsts);
  }
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t t = 0; t < task.items.texts.size(); ++t) {
    for (const int64_t image : task.items.texts[t].images) pairs.emplace_back(static_cast<int64_t>(t), image);
  }
  SACCADE_ASSIGN(task.relevance,
                 Relevance::from_pairs(static_cast<int64_t>(task.items.texts.size()),
                                       static_cast<int64_t>(task.items.images.size()), std::move(pairs)));
  return task;
}

}  // namespace saccade::lab

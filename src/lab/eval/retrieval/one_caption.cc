#include "lab/eval/retrieval/one_caption.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "lab/data/read_dataset.h"
#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/image/read_pixels.h"

namespace saccade::lab {

Result<OneCaptionSet> load_one_caption_set(const DatasetSource& source, const Preprocessing& preprocessing,
                                           const Tokenizer& tokenizer, int64_t context, ThreadPool& pool,
                                           const DecodeOptions& decode) {
  SACCADE_ASSIGN(Dataset dataset, read_dataset(source));
  const std::string where = source.path.string();
  SACCADE_ASSIGN(const CaptionedImages* images, dataset.need<CaptionedImages>());
  const std::vector<DatasetItem>& items = images->items;
  Preprocessing on_white = preprocessing;
  on_white.alpha = AlphaPolicy::kComposite;
  for (const DatasetItem& item : items) {
    if (item.captions.empty())
      return fail(ErrorCode::kBadData, "{}: {}: no caption", where, item.image.name());
  }
  const PixelOptions options = pixel_options(on_white, decode);
  PixelBatch batch = read_pixels(
      static_cast<int64_t>(items.size()),
      [&](int64_t i) {
        return read_image_bytes(items[static_cast<size_t>(i)].image, options.decode.max_bytes);
      },
      options, pool);
  if (!batch.failed.empty()) {
    const auto& [i, error] = batch.failed.front();
    const std::string name = items[static_cast<size_t>(i)].image.name();
    const Error named = error.message.find(name) == std::string::npos ? error.in(name) : error;
    return fail(ErrorCode::kBadData, "{}: {}", where, named.message);
  }
  OneCaptionSet set{.name = dataset.name,
                    .hash = dataset.hash,
                    .pixels = std::move(batch.pixels),
                    .texts = {},
                    .labels = {}};
  std::unordered_map<std::string, int64_t> labels;
  for (const DatasetItem& item : items) {
    const std::string& caption = item.captions.front();
    set.labels.push_back(labels.emplace(caption, static_cast<int64_t>(labels.size())).first->second);
    set.texts.push_back(tokenizer.encode(caption, context));
  }
  return set;
}

namespace {

Result<Recall> recall_of(const PairScores& scores, const Relevance& relevance, Direction direction,
                         ThreadPool& pool) {
  static constexpr std::array<int64_t, 3> kDepths = {1, 5, 10};
  SACCADE_ASSIGN(const QueryRanks ranks, rank_right_answers(scores, relevance, direction, {}, pool));
  std::array<int64_t, 3> hits{};
  Recall recall;
  for (int64_t q = 0; q < ranks.queries(); ++q) {
    if (ranks.of(q).empty()) continue;
    ++recall.queries;
    for (size_t k = 0; k < kDepths.size(); ++k) {
      hits[k] += ranks.of(q).front() <= static_cast<double>(kDepths[k]) ? 1 : 0;
    }
  }
  const auto count = static_cast<double>(std::max<int64_t>(recall.queries, 1));
  recall.r1 = static_cast<double>(hits[0]) / count;
  recall.r5 = static_cast<double>(hits[1]) / count;
  recall.r10 = static_cast<double>(hits[2]) / count;
  return recall;
}

}  // namespace

Result<OneCaptionRecall> score_one_caption(const OneCaptionSet& set, MatrixView<const float> images,
                                           MatrixView<const float> texts, ThreadPool& pool) {
  OneCaptionRecall recall{
      .name = set.name, .images = images.rows(), .text_to_image = {}, .image_to_text = {}};
  SACCADE_ASSIGN(const auto scores, dot_scores(texts, images));
  SACCADE_ASSIGN(const Relevance relevance, Relevance::from_labels(set.labels));
  SACCADE_ASSIGN(recall.text_to_image, recall_of(*scores, relevance, Direction::kTextToImage, pool));
  SACCADE_ASSIGN(recall.image_to_text, recall_of(*scores, relevance, Direction::kImageToText, pool));
  return recall;
}

}  // namespace saccade::lab

#include "saccade/eval/one_caption.h"

#include <algorithm>
#include <unordered_map>

#include "saccade/data/manifest.h"
#include "saccade/image/image.h"

namespace saccade {

Result<OneCaptionSet> load_one_caption_set(const std::filesystem::path& manifest,
                                           const Preprocessing& preprocessing, const Tokenizer& tokenizer,
                                           int64_t context, ThreadPool& pool) {
  SACCADE_ASSIGN(Dataset dataset, read_manifest(manifest));
  if (dataset.items.empty()) return fail(ErrorCode::kBadData, "{}: no images in it", manifest.string());
  Preprocessing on_white = preprocessing;
  on_white.alpha = AlphaPolicy::kComposite;
  DecodeOptions decode;
  decode.vector_side = 2 * std::max(preprocessing.output_height(), preprocessing.output_width());
  const int64_t values = int64_t{3} * preprocessing.output_height() * preprocessing.output_width();
  const auto count = static_cast<int64_t>(dataset.items.size());
  Matrix<float> pixels(count, values);
  std::vector<std::string> errors(dataset.items.size());
  pool.parallel_for(count, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const DatasetItem& item = dataset.items[static_cast<size_t>(i)];
      std::string& error = errors[static_cast<size_t>(i)];
      const auto decoded = decode_image_file(item.image, decode);
      if (!decoded) {
        error = decoded.error().message;
      } else if (const Status status = preprocess(decoded->image, on_white, pixels.row(i)); !status) {
        error = status.error().message;
      } else if (item.captions.empty()) {
        error = "no caption";
      }
      if (!error.empty() && error.find(item.image.string()) == std::string::npos) {
        error = item.image.string() + ": " + error;
      }
    }
  });
  for (const std::string& error : errors) {
    if (!error.empty()) return fail(ErrorCode::kBadData, "{}: {}", manifest.string(), error);
  }
  OneCaptionSet set{
      .name = dataset.name, .hash = dataset.hash, .pixels = std::move(pixels), .texts = {}, .labels = {}};
  std::unordered_map<std::string, int64_t> labels;
  for (const DatasetItem& item : dataset.items) {
    const std::string& caption = item.captions.front();
    set.labels.push_back(labels.emplace(caption, static_cast<int64_t>(labels.size())).first->second);
    set.texts.push_back(tokenizer.encode(caption, context));
  }
  return set;
}

Result<OneCaptionRecall> score_one_caption(const OneCaptionSet& set, MatrixView<const float> images,
                                           MatrixView<const float> texts, ThreadPool& pool) {
  OneCaptionRecall recall{
      .name = set.name, .images = images.rows(), .text_to_image = {}, .image_to_text = {}};
  SACCADE_ASSIGN(const auto to_image, retrieval_ranks(texts, images, set.labels, set.labels, pool));
  SACCADE_ASSIGN(const auto to_text, retrieval_ranks(images, texts, set.labels, set.labels, pool));
  recall.text_to_image = recall_of(to_image);
  recall.image_to_text = recall_of(to_text);
  return recall;
}

Result<OneCaptionRecall> one_caption_recall(Encoder& encoder, const std::filesystem::path& manifest,
                                            ThreadPool& pool) {
  if (encoder.tokenizer() == nullptr) return fail(ErrorCode::kUsage, "the checkpoint has no tokenizer");
  SACCADE_ASSIGN(const OneCaptionSet set,
                 load_one_caption_set(manifest, encoder.preprocessing(), *encoder.tokenizer(),
                                      encoder.info().context, pool));
  SACCADE_ASSIGN(const Matrix<float> images, encoder.encode_images(set.pixels.view()));
  SACCADE_ASSIGN(const Matrix<float> texts, encoder.encode_texts(set.texts));
  return score_one_caption(set, images.view(), texts.view(), pool);
}

Recall chance_recall(const std::vector<int64_t>& labels) {
  std::unordered_map<int64_t, int64_t> sizes;
  for (const int64_t label : labels) ++sizes[label];
  const auto all = static_cast<int64_t>(labels.size());
  const auto hit = [&](int64_t positives, int64_t k) {
    double miss = 1;  // that none of k draws without replacement is right
    for (int64_t i = 0; i < std::min(k, all); ++i) {
      miss *= std::max(0.0, static_cast<double>(all - positives - i) / static_cast<double>(all - i));
    }
    return 1 - miss;
  };
  Recall recall;
  recall.queries = all;
  for (const int64_t label : labels) {
    const int64_t positives = sizes[label];
    recall.r1 += hit(positives, 1) / static_cast<double>(all);
    recall.r5 += hit(positives, 5) / static_cast<double>(all);
    recall.r10 += hit(positives, 10) / static_cast<double>(all);
  }
  return recall;
}

}  // namespace saccade

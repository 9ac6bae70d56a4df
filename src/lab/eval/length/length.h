// The effective token length of a model on a dataset: how much of a text it takes to retrieve as well as it
// can ("Assessing Effective Token Length of Multimodal Models for Text-to-Image Retrieval"; the procedure by
// tokens is that of github.com/beichenzbc/Long-CLIP, issue 71).
//
// Texts are cut to n token ids, the start token among them, with the end token behind (keep_first), and R@1
// is measured at each n of a grid, texts to images and images to texts. The effective length is the smallest
// n whose R@1 is at least a share (95%) of the curve's largest. It is a property of model and dataset
// together: a curve cannot rise beyond the texts' own ends, which TokenLengths tells.
//
// Beside that curve: the same over random subsets of 1,000 images; with the sentences in another order and
// with the last tokens kept instead of the first, which tell whether it is the beginning that counts or its
// content; and for texts beyond what the model reads, their chunks pooled into one row.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "lab/data/audit.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "saccade/model/encoder.h"
#include "saccade/model/options/long_text.h"
#include "saccade/text/token_parts.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// How long texts are, in their own tokens: without start, end and prompt.
struct TokenLengths {
  Lengths lengths;
  std::optional<int64_t> limit;  // own tokens that a model has room for
  int64_t beyond = 0;            // texts that have more
  // counts[i]: texts of i * width .. (i + 1) * width - 1 tokens; the last one is not 0.
  int64_t width = 1;
  std::vector<int64_t> counts;
};
TokenLengths token_lengths(std::span<const int64_t> own_tokens, std::optional<int64_t> limit);

// The lengths that are measured where none are given: every one from 2 to 20, then in steps of 5 to 60, of 10
// to 120, of 20 to 260 and of 50 to 510, then twice the last, and `last` itself. Ascending.
std::vector<int64_t> default_lengths(int64_t last);

// The first place where the curve reaches `share` of its largest value. None where it is 0 throughout, empty,
// or NaN somewhere.
std::optional<size_t> effective_place(std::span<const double> curve, double share);

struct EffectiveLength {
  std::optional<int64_t> value;  // none: nothing was ever found
  // The interval over resamples, each with a curve and an effective length of its own; none without.
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  // The value is the last length there is: with more to read, the model might do better yet.
  bool at_end = false;
};

// R@1 at one length.
struct LengthPoint {
  int64_t n = 0;
  Figure r1;                    // over all images, resampled by image
  std::vector<double> subsets;  // in each subset of images
};

struct LengthCurve {
  std::vector<LengthPoint> points;
  EffectiveLength effective;
  // Of the subsets' mean curve; resampled by subset and, within each, by image.
  EffectiveLength subset_effective;
  std::vector<std::optional<int64_t>> subset_values;  // of each subset's own curve
  // R@1 of guessing, and whether the largest R@1 is above it by an interval that allows for having picked the
  // largest of all points (Bonferroni). Where it is not, the effective length is that of noise.
  double chance = 0;
  bool above_chance = false;
};

struct LengthCurves {
  LengthCurve t2i;
  LengthCurve i2t;
  [[nodiscard]] LengthCurve& of(Direction direction) {
    return direction == Direction::kTextToImage ? t2i : i2t;
  }
  [[nodiscard]] const LengthCurve& of(Direction direction) const {
    return direction == Direction::kTextToImage ? t2i : i2t;
  }
};

// Texts beyond the limit in chunks, pooled.
struct ChunkedTexts {
  Chunking chunking = Chunking::kEqual;
  std::optional<ChunkPooling> pooling;  // none: rows of late interaction, which are simply joined
  int64_t chunks = 0;                   // of all texts
  // Lengths beyond the limit, the last of them all of every text; effective lengths are of these curves
  // behind the plain one's.
  LengthCurves curves;
  // All of every text in chunks, less the text cut at the limit.
  Difference t2i;
  Difference i2t;
};

struct LengthOutcome {
  int64_t images = 0;
  int64_t texts = 0;
  int64_t queries_t2i = 0;  // texts with an image, and images with a text
  int64_t queries_i2t = 0;
  int64_t first = 0;                 // ids in front of a text's own: an own token's place in a length
  int64_t limit = 0;                 // the largest n there is room for, by the context or by options
  std::vector<int64_t> text_tokens;  // own tokens of each text
  TokenLengths token_lengths;        // of these
  int64_t subset_items = 0;          // 0: there are no more images than that, so that no subsets were drawn
  LengthCurves plain;
  int64_t texts_of_sentences = 0;  // texts that `permuted` can change: of two sentences or more
  std::optional<LengthCurves> permuted;
  std::optional<LengthCurves> last;
  std::vector<ChunkedTexts> chunked;  // none where no text is beyond the limit
  int64_t encoded = 0;                // texts the encoder was given: equal ones once
};

// A dataset's texts and their right images.
struct LengthTexts {
  std::vector<std::string> texts;
  Relevance relevance;
  // The image each text counts as of, for the bootstrap and for subsets: RetrievalTask::image_of_text.
  std::vector<int64_t> image_of_text;
};

// A model, and the dataset's images as it sees them.
struct LengthModel {
  const Tokenizer* tokenizer = nullptr;
  int64_t context = 0;
  const EmbeddedRows* images = nullptr;
  // Rows of texts, as embed_texts gives them. The second is for a line of progress: "20 tokens, 12 of 31".
  std::function<Result<EmbeddedRows>(std::span<const TokenizedText>, const std::string&)> encode;
};
// The encoder's own rows of texts. `encoder` and `images` are borrowed. kUnsupported without a tokenizer.
Result<LengthModel> length_model(EncoderBackend& encoder, const EmbeddedRows& images, const EmbedOptions& options);

struct LengthOptions {
  // The lengths to measure, those beyond the limit in chunks; empty: default_lengths up to the limit or to
  // the longest text, and from there twice as many tokens each time. The limit itself, and all of the longest
  // text, are measured always.
  std::vector<int64_t> lengths;
  // Ids a chunk, and a cut text, may have; 0: the model's context.
  int64_t chunk_tokens = 0;
  double share = 0.95;
  int64_t subsets = 10;
  int64_t subset_items = 1000;
  BootstrapOptions bootstrap;
  bool controls = true;
  bool chunking = true;
};

// Ties count against the model (TiePolicy::kPessimistic): texts that are equal once they are cut do not find
// their images by luck. Deterministic: the same from the same seed, whatever the number of threads. kUsage
// for options out of range; kBadData where there are no texts or images, kMismatch where their numbers differ
// from the relation's; the encoder's errors; kCancelled. Memory: two lengths' rows of different texts. Cost:
// encoding each different cut text once, and for each length and control all scores twice.
Result<LengthOutcome> study_length(const LengthTexts& texts, const LengthModel& model,
                                   const LengthOptions& options, ThreadPool& pool, std::stop_token stop = {});

// The study as runs hold it (docs/runs.md): "t2i", "i2t", "controls", "chunking", "token_lengths".
Json length_outcome_json(const LengthOutcome& study, double share);
Json token_lengths_json(const TokenLengths& lengths);

}  // namespace saccade::lab

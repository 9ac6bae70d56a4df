// The effective token length of a model on a dataset: how much of a text it needs to retrieve as well as it
// can ("Assessing Effective Token Length of Multimodal Models for Text-to-Image Retrieval"; the procedure by
// tokens is that of github.com/beichenzbc/Long-CLIP, issue 71).
//
// Texts are cut to n token ids, the start token among them, with the end token behind (keep_first). R@1 is
// measured at each n of a grid, texts to images and images to texts. The effective length is the smallest n
// whose R@1 is at least a share (95%) of the curve's largest. It is a property of model and dataset together:
// a curve cannot rise beyond the texts' own ends, which TokenLengths describes.
//
// Controls beside that curve: the same over random subsets of 1,000 images; the sentences in another order;
// and the last tokens kept instead of the first. The latter two tell whether a text's beginning counts or its
// content. Texts beyond the model's context are split into chunks, which are pooled into one embedding.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/length/length_curve.h"
#include "lab/eval/length/length_metrics.h"
#include "lab/eval/rows/embed.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/options/long_text.h"
#include "saccade/text/token_parts.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

TokenLengths token_lengths(std::span<const int64_t> own_tokens, std::optional<int64_t> limit);

// Returns the default lengths: every one from 2 to 20, then in steps of 5 to 60, of 10 to 120, of 20 to 260
// and of 50 to 510, then twice the previous one, and `last` itself. Ascending.
std::vector<int64_t> default_lengths(int64_t last);

// Ways of cutting a text to n token ids.
enum class LengthCut {
  kTokens,  // the ids themselves, with the frame's end behind them: the model reads exactly n
  // The ids are decoded to text, and that is tokenized again, as github.com/aiforsec/EffectiveTokenLength-MModels
  // does. A word that was cut may become other tokens, and more of them; the model's limit still holds.
  kRetokenize,
};
std::span<const EnumName<LengthCut>> enum_names(LengthCut);  // "tokens", "retokenize"

// Texts beyond the limit, in pooled chunks.
struct ChunkedTexts {
  Chunking chunking = Chunking::kEqual;
  std::optional<ChunkPooling> pooling;  // nullopt: late interaction, whose rows are concatenated
  int64_t chunks = 0;                   // number of chunks of all texts
  // Curves of the lengths beyond the limit; the last length is the whole of every text. Effective lengths are
  // of the plain curves continued by these.
  LengthCurves curves;
  // Difference of all of every text in chunks minus the text cut at the limit.
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
  TokenLengths token_lengths;        // lengths of these texts
  int64_t subset_items = 0;          // 0: there are no more images than that, so that no subsets were drawn
  LengthCurves plain;
  int64_t texts_of_sentences = 0;  // texts that `permuted` can change: of two sentences or more
  std::optional<LengthCurves> permuted;
  std::optional<LengthCurves> last;
  std::vector<ChunkedTexts> chunked;  // empty if no text is beyond the limit
  int64_t encoded = 0;                // texts the encoder was given: equal ones once
};

// A dataset's texts and their relevant images.
struct LengthTexts {
  std::vector<std::string> texts;
  Relevance relevance;
  // Image to which each text belongs, for the bootstrap and for subsets: RetrievalTask::image_of_text.
  std::vector<int64_t> image_of_text;
};

// A model, and its embeddings of the dataset's images.
struct LengthModel {
  const Tokenizer* tokenizer = nullptr;
  int64_t context = 0;
  const EmbeddedRows* images = nullptr;
  // Returns the text of a text's own tokens (TokenDecoder::decode). Thread-safe. Empty if the tokenizer has no
  // decoder.
  std::function<std::string(std::span<const int32_t>)> decode;
  // Returns embeddings of texts, as embed_texts does. The second argument is for a progress line: "20 tokens,
  // 12 of 31".
  std::function<Result<EmbeddedRows>(std::span<const TokenizedText>, const std::string&)> encode;
};
// Makes a model from an encoder. `encoder` and `images` are borrowed. Returns kUnsupported without a
// tokenizer.
Result<LengthModel> length_model(EncoderBackend& encoder, const EmbeddedRows& images,
                                 const EmbedOptions& options);

struct LengthOptions {
  // Lengths to measure; those beyond the limit are measured in chunks. If empty: default_lengths up to the
  // limit or to the longest text, and from there twice as many tokens each time. The limit itself, and all of
  // the longest text, are always measured.
  std::vector<int64_t> lengths;
  // Step of even lengths 1, 1 + step, 1 + 2 step, ... through the limit to the longest text, in place of
  // `lengths`; 0 if they are not even. The limit and the longest text are added here too.
  int64_t length_step = 0;
  LengthCut cut = LengthCut::kTokens;
  // Maximum number of ids of a chunk or a cut text; 0 means the model's context.
  int64_t chunk_tokens = 0;
  double share = 0.95;
  int64_t subsets = 10;
  int64_t subset_items = 1000;
  BootstrapOptions bootstrap;
  bool controls = true;
  bool chunking = true;
  std::vector<Chunking> chunks = {Chunking::kEqual, Chunking::kSentences};  // kinds to measure
};

// Runs the study. Ties count against the model (TiePolicy::kPessimistic), so texts that become equal when
// they are cut do not find their images by luck. Deterministic: the same result from the same seed, for any
// number of threads. Errors: kUsage for options out of range; kBadData without texts or images; kMismatch if
// their numbers differ from the relation's; kUnsupported for LengthCut::kRetokenize without `decode`; the
// encoder's errors; kCancelled. Memory: the embeddings of two lengths' distinct texts. Cost: encoding each
// distinct cut text once, and for each length and control all scores twice.
Result<LengthOutcome> study_length(const LengthTexts& texts, const LengthModel& model,
                                   const LengthOptions& options, ThreadPool& pool, std::stop_token stop = {});

// Returns the study as runs hold it, without names.
LengthResult length_result(const LengthOutcome& study, double share);

}  // namespace saccade::lab

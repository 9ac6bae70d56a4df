// Shared parts of the families' encoders: input checks, batches, exclusive forward passes, and the checkpoint
// files other than the weights. Internal to the module.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/nn/exceptions.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/workspace.h"

namespace saccade {

// Number of tokens per forward pass: enough to use the kernels fully, but few enough that the largest models'
// activations stay within a few hundred megabytes.
constexpr int64_t kTokensAtOnce = 64 * 77;
// Number of tokens per forward pass in int8. Products are so fast that memory traffic between them matters;
// the activations of 600 tokens stay in the caches (one thread, width 768 to 3,072: 790 GFLOP/s with 400
// rows, 450 with 1,600).
constexpr int64_t kInt8TokensAtOnce = 8 * 77;
// Number of tokens per pass on a device, which needs more of them to be fully used. Attention's scores are the
// largest intermediate values: 0.6 GB for 128 images of ViT-L/14.
constexpr int64_t kDeviceTokensAtOnce = 128 * 257;

// Runs body() under the lock; converts its exceptions (out of memory, oneDNN's failures) into an error.
template <typename Body>
Status run_alone(std::mutex& mutex, const Body& body) {
  const std::lock_guard lock(mutex);
  return nn::without_exceptions("encode", [&]() -> Status {
    body();
    return {};
  });
}

// Members of every family's encoder other than its model. The model borrows from the weights and must be
// destroyed before them.
struct EncoderParts {
  EncoderInfo info;
  Preprocessing preprocessing;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<nn::Workspace> workspace;  // workspace of all forward passes, which run one at a time
  Weights weights;
  DType dtype = DType::kF32;    // type of values between the products
  DType packing = DType::kF32;  // type of the products: packed weights
  int64_t tokens_at_once = kTokensAtOnce;
};
// Opens the weights, mapped, and fills in the values known before the family's config is read: family,
// layout, fingerprint and number of parameters. The workspace has the number of threads in the options. Cost:
// reads every file of the checkpoint once.
Result<EncoderParts> open_parts(const Checkpoint& checkpoint, const BackendOptions& options,
                                std::string_view family);

// Returns kUsage for images of another size than the encoder takes: 3 * image_height * image_width values.
Status check_pictures(MatrixView<const float> pixels, const EncoderInfo& info);
// Returns kUsage for a row that does not have the encoder's width.
Status check_target(std::span<const float> target, const EncoderInfo& info);
// Returns the rows as a tensor over the same memory, in the workspace: [rows, 3, image_height, image_width].
nn::Tensor picture_tensor(MatrixView<const float> pixels, const EncoderParts& parts);

// Calls body(first, piece) for consecutive pieces, images [first, first + piece.size(0)); `tokens_each` is
// the cost of one image in the tower. tokens_at_once: of a piece; 0 takes that of `parts`.
template <typename Body>
void for_pictures(MatrixView<const float> pixels, const EncoderParts& parts, int64_t tokens_each,
                  const Body& body, int64_t tokens_at_once = 0) {
  if (tokens_at_once == 0) tokens_at_once = parts.tokens_at_once;
  const int64_t at_once = std::max<int64_t>(1, tokens_at_once / tokens_each);
  for (int64_t first = 0; first < pixels.rows(); first += at_once) {
    body(first, picture_tensor(pixels.slice(first, std::min(at_once, pixels.rows() - first)), parts));
  }
}

// Returns kUsage for a text without tokens or with more than `info.context`, and kMismatch for ids outside
// the vocabulary.
Status check_texts(std::span<const TokenizedText> texts, const EncoderInfo& info, int64_t vocabulary);

// Batch of texts of similar lengths, because a batch costs as many tokens as its longest text. Texts of equal
// length are grouped by common prefixes.
struct TextBatch {
  std::vector<size_t> items;  // indices of its texts in the input
  nn::Tensor ids;             // [items, longest] int64, the rest filled with the padding's id
  nn::Tensor mask;            // [items, longest] int64: 1 for a text's own tokens, 0 for padding
};
struct TextBatching {
  nn::Workspace* workspace = nullptr;  // workspace of the ids, and so of the forward pass
  int64_t extra_tokens = 0;            // additional tokens per text in the tower
  int64_t at_once = kTokensAtOnce;     // tokens of a batch, about
  int64_t padded_to = 0;               // padded length of every text; 0 pads to the longest of its batch
};
std::vector<TextBatch> text_batches(std::span<const TokenizedText> texts, int64_t pad_id,
                                    const TextBatching& batching = {});

// Copies rows [n, width] of any dtype to n rows of `out`: row i to out.row(items[i]), or to row first + i.
void store_rows(const nn::Tensor& rows, std::span<const size_t> items, Matrix<float>& out);
void store_rows(const nn::Tensor& rows, int64_t first, Matrix<float>& out);

// Allocates the rows of n items with `each` rows.
RowSets equal_row_sets(int64_t n, int64_t each, int64_t width);
// Allocates the rows of texts with one row per token, without padding.
RowSets token_row_sets(std::span<const TokenizedText> texts, int64_t width);
// Copies the states [items, longest, width] of one batch to the rows of its texts.
void store_token_rows(const nn::Tensor& states, const TextBatch& batch, RowSets& sets);
// Returns kUsage for a state that the encoder lacks (width 0).
Status check_state(int64_t width, const EncoderInfo& info);
// Returns the mean of each item's rows, normalized to length 1: [n, width]. rows: [n, each, width]; counted:
// undefined, or [n, each], 0 excludes a row.
nn::Tensor mean_rows(const nn::Tensor& rows, const nn::Tensor& counted = {});

// Return the inputs of an io.safetensors by their usual names, checked against the encoder; undefined if
// absent. pixel_values: [n, 3, image_height, image_width] as float32.
Result<nn::Tensor> pixel_values_of(const nn::TensorMap& inputs, const EncoderParts& parts);
// Text inputs: input_ids [n, tokens <= max_tokens] int64 below `vocabulary`, and attention_mask of the same
// shape (ones if absent).
struct TextInputs {
  nn::Tensor ids, mask;
};
Result<TextInputs> text_inputs_of(const nn::TensorMap& inputs, const EncoderParts& parts, int64_t max_tokens,
                                  int64_t vocabulary);
// Returns true if a mask [n, tokens] int64 keeps at least one token of every text.
bool keeps_a_token_of_each(const nn::Tensor& mask);

// Returns kMismatch if the preprocessed size differs from the model's (info.image_height, info.image_width).
Status check_output_size(const Preprocessing& preprocessing, const EncoderInfo& info);
// Returns the checkpoint's preprocessing (Checkpoint::pictures), or `otherwise` if it has none; checks its
// size.
Result<Preprocessing> load_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info,
                                         const Json& otherwise);
// Returns "image_mean" and "image_std" of CLIP's preprocessing, which many families use.
Json clip_mean_and_std();

// Returns the prefix of tensor errors after renaming to the Hugging Face layout: the checkpoint, and a note
// on the names if its own layout differs.
std::string where_of_tensors(const Checkpoint& checkpoint);

// Token embedding table of a model.
struct WordTable {
  std::string_view tensor;  // its name in messages
  int64_t rows = 0;
  int64_t without_row = 0;  // tokens a tokenizer may have beyond the rows, as the model never reads them
  int64_t unlisted = 0;     // rows of tokens that a tokenizer's files may leave out
};
// Largest number of padding rows of a table. Tables are padded to round numbers: by 28 rows in T5, 6 in
// Jina-CLIP, 63 in ColPali. A larger difference means another tokenizer's table.
constexpr int64_t kMaxPaddingRows = 127;

// Position of the state that becomes a text's embedding; the tokenizer must produce that token.
enum class ReadAt {
  kStart,     // at the start token, which comes first
  kEnd,       // at the end token, which comes last
  kAnywhere,  // at all of them, or at a place that is always there
};

bool has_tokenizer_files(const Checkpoint& checkpoint);
// Loads the folder's tokenizer; nullptr if it has no tokenizer files. Returns kMismatch if its size differs
// from the table's (check_vocabulary), or if it does not produce the token that texts are read at.
Result<std::unique_ptr<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint,
                                                             TextCleanup cleanup, const WordTable& table,
                                                             ReadAt read_at);
// Returns kMismatch for a tokenizer with more tokens than the table has rows, or with too few to explain the
// rest as padding.
Status check_vocabulary(const Checkpoint& checkpoint, int64_t tokenizer_size, const WordTable& table);

// Special token by its config field, with the tokenizer's id for it.
struct SpecialId {
  const char* key;
  int32_t tokenizer = 0;
  // Value in configs that were saved with another family's default; it is ignored.
  std::optional<int32_t> unset = {};
};
// Returns kMismatch for the first field of a config's section whose id differs from the tokenizer's, with
// both ids. Fields that are absent or null are ignored. `where` is the section's name in messages.
Status check_special_ids(const Json& section, const char* where, std::initializer_list<SpecialId> ids);
// Checks the fields of families based on BERT in the same way; does nothing without a tokenizer.
Status check_bert_ids(const Json& section, const char* where, const Tokenizer* tokenizer);

// Copies the contents of both into an outline.
void fill_outline(const EncoderInfo& info, const Preprocessing& preprocessing, CheckpointOutline& outline);
// Fills an outline from a family's config. set_shape(config, info) fills in the fields that follow from the config
// alone; load_pictures(checkpoint, info) returns the preprocessing.
template <typename Config, typename SetShape, typename LoadPictures>
Status outline_from(const Result<Config>& config, const Checkpoint& checkpoint, const SetShape& set_shape,
                    const LoadPictures& load_pictures, CheckpointOutline& outline) {
  if (!config) return fail(config.error());
  EncoderInfo info;
  set_shape(*config, info);
  SACCADE_ASSIGN(const Preprocessing preprocessing, load_pictures(checkpoint, info));
  fill_outline(info, preprocessing, outline);
  return {};
}

}  // namespace saccade

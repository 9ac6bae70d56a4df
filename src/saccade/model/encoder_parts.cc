#include "saccade/model/encoder_parts.h"

#include <cstring>
#include <numeric>

#include <fmt/ranges.h>

#include "saccade/core/threads.h"
#include "saccade/model/device/device_name.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/linear/packed_linear.h"

namespace saccade {

using nn::Tensor;

Result<EncoderParts> open_parts(const Checkpoint& checkpoint, const BackendOptions& options,
                                std::string_view family) {
  const bool bf16 = options.precision == Precision::kBf16 && nn::multiplies(DType::kBF16);
  if (options.precision == Precision::kBf16 && !bf16 && is_processor(options.device)) {
    return fail(
        ErrorCode::kUnsupported,
        "precision bf16: this processor has no instructions for products in bf16 (AVX-512 or later); fp32 "
        "and int8 run on every processor");
  }
  EncoderParts parts;
  parts.workspace = std::make_unique<nn::Workspace>(options.threads);
  SACCADE_ASSIGN(parts.weights, map_weights(checkpoint));
  parts.info.family = std::string(family);
  parts.info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(parts.info.fingerprint, checkpoint_fingerprint(checkpoint, options.fingerprints));
  for (const auto& [name, tensor] : parts.weights.tensors) parts.info.parameters += tensor.numel();
  // In the other layouts, the programs have their own defaults, on which checkpoints rely.
  parts.info.preprocessing_guessed =
      checkpoint.layout == Layout::kHuggingFace && checkpoint.pictures.json.is_null();
  // The processor's share of an encoder on a device is in float32 if the processor has no bf16.
  parts.dtype = bf16 ? DType::kBF16 : DType::kF32;
  if (options.precision == Precision::kInt8) parts.tokens_at_once = kInt8TokensAtOnce;
  parts.info.precision = options.precision;
  parts.info.device = is_processor(options.device) ? kProcessor : options.device;
  parts.packing = options.precision == Precision::kInt8 ? DType::kI8 : parts.dtype;
  return parts;
}

Status check_pictures(MatrixView<const float> pixels, const EncoderInfo& info) {
  const int64_t expected = int64_t{3} * info.image_height * info.image_width;
  if (pixels.columns() == expected) return {};
  return fail(ErrorCode::kUsage, "images of {} values, this encoder takes {}", pixels.columns(), expected);
}

Status check_state(int64_t width, const EncoderInfo& info) {
  if (width > 0) return {};
  return fail(ErrorCode::kUsage, "a state that this encoder ({}) has none of", info.family);
}

Status check_target(std::span<const float> target, const EncoderInfo& info) {
  if (std::ssize(target) == info.dim) return {};
  return fail(ErrorCode::kUsage, "a row of {} values to explain, the encoder's have {}", target.size(),
              info.dim);
}

Tensor picture_tensor(MatrixView<const float> pixels, const EncoderParts& parts) {
  const int64_t height = parts.info.image_height;
  const int64_t width = parts.info.image_width;
  return Tensor::borrow(pixels.data(), {pixels.rows(), 3, height, width},
                        {pixels.stride(), height * width, width, 1}, DType::kF32, parts.workspace.get());
}

Status check_texts(std::span<const TokenizedText> texts, const EncoderInfo& info, int64_t vocabulary) {
  for (const TokenizedText& text : texts) {
    const auto length = static_cast<int64_t>(text.ids.size());
    if (length < 1 || length > info.context) {
      return fail(ErrorCode::kUsage, "a text of {} tokens, this encoder takes 1 to {}", length, info.context);
    }
    for (const int32_t id : text.ids) {
      if (id < 0 || id >= vocabulary) {
        return fail(ErrorCode::kMismatch, "token id {} is outside the model's vocabulary of {}", id,
                    vocabulary);
      }
    }
  }
  return {};
}

std::vector<TextBatch> text_batches(std::span<const TokenizedText> texts, int64_t pad_id,
                                    const TextBatching& batching) {
  const auto length = [&](size_t item) {
    return std::max(static_cast<int64_t>(texts[item].ids.size()), batching.padded_to);
  };
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const std::vector<int32_t>& one = texts[a].ids;
    const std::vector<int32_t>& other = texts[b].ids;
    return one.size() < other.size() || (one.size() == other.size() && one < other);
  });
  std::vector<TextBatch> batches;
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    const auto cost = [&](size_t end) {
      return static_cast<int64_t>(end - first) * (length(order[end - 1]) + batching.extra_tokens);
    };
    while (last < order.size() && cost(last + 1) <= batching.at_once) ++last;
    TextBatch batch;
    batch.items.assign(order.begin() + static_cast<std::ptrdiff_t>(first),
                       order.begin() + static_cast<std::ptrdiff_t>(last));
    const auto count = static_cast<int64_t>(batch.items.size());
    const auto longest = static_cast<size_t>(length(batch.items.back()));
    const nn::Shape shape = {count, static_cast<int64_t>(longest)};
    batch.ids = Tensor::full_integers(shape, pad_id, batching.workspace);
    batch.mask = Tensor::zeros(shape, DType::kI64, batching.workspace);
    for (size_t row = 0; row < batch.items.size(); ++row) {
      const std::vector<int32_t>& ids = texts[batch.items[row]].ids;
      std::copy(ids.begin(), ids.end(), batch.ids.data<int64_t>() + row * longest);
      std::fill_n(batch.mask.data<int64_t>() + row * longest, ids.size(), int64_t{1});
    }
    batches.push_back(std::move(batch));
    first = last;
  }
  return batches;
}

void store_rows(const Tensor& rows, std::span<const size_t> items, Matrix<float>& out) {
  const Tensor plain = rows.to(DType::kF32).contiguous();
  const auto width = static_cast<size_t>(out.columns());
  for (size_t i = 0; i < items.size(); ++i) {
    std::memcpy(out.row(static_cast<int64_t>(items[i])).data(), plain.data<float>() + i * width,
                width * sizeof(float));
  }
}

void store_rows(const Tensor& rows, int64_t first, Matrix<float>& out) {
  const Tensor plain = rows.to(DType::kF32).contiguous();
  if (plain.numel() == 0) return;
  std::memcpy(out.row(first).data(), plain.data<float>(), static_cast<size_t>(plain.nbytes()));
}

RowSets equal_row_sets(int64_t n, int64_t each, int64_t width) {
  RowSets sets;
  sets.rows = Matrix<float>(n * each, width);
  for (int64_t i = 0; i < n; ++i) sets.begin.push_back((i + 1) * each);
  return sets;
}

RowSets token_row_sets(std::span<const TokenizedText> texts, int64_t width) {
  RowSets sets;
  for (const TokenizedText& text : texts) {
    sets.begin.push_back(sets.begin.back() + static_cast<int64_t>(text.ids.size()));
  }
  sets.rows = Matrix<float>(sets.begin.back(), width);
  return sets;
}

void store_token_rows(const Tensor& states, const TextBatch& batch, RowSets& sets) {
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const size_t item = batch.items[i];
    const int64_t length = sets.begin[item + 1] - sets.begin[item];
    store_rows(states[static_cast<int64_t>(i)].slice(0, 0, length), sets.begin[item], sets.rows);
  }
}

Tensor mean_rows(const Tensor& rows, const Tensor& counted) {
  return nn::normalize_rows(counted.defined() ? nn::mean_of_kept(rows, counted) : nn::mean(rows, 1));
}

Result<Tensor> pixel_values_of(const nn::TensorMap& inputs, const EncoderParts& parts) {
  const auto found = inputs.find("pixel_values");
  if (found == inputs.end()) return Tensor();
  const std::vector<int64_t> wanted = {3, parts.info.image_height, parts.info.image_width};
  const Tensor& pixels = found->second;
  if (pixels.dim() != 4 || !std::equal(wanted.begin(), wanted.end(), pixels.sizes().begin() + 1)) {
    return fail(ErrorCode::kMismatch, "pixel_values has shape {}, expected [n, {}]",
                shape_text(pixels.sizes()), fmt::join(wanted, ", "));
  }
  return pixels.in(parts.workspace.get()).to(DType::kF32);
}

Result<TextInputs> text_inputs_of(const nn::TensorMap& inputs, const EncoderParts& parts, int64_t max_tokens,
                                  int64_t vocabulary) {
  const auto found = inputs.find("input_ids");
  if (found == inputs.end()) return TextInputs{};
  const Tensor& ids = found->second;
  const auto whole = [&](const Tensor& numbers) {
    return numbers.in(parts.workspace.get()).to(DType::kI64).contiguous();
  };
  const auto outside = [&](int64_t id) { return id < 0 || id >= vocabulary; };
  if (ids.dim() != 2 || ids.numel() == 0 || ids.size(1) > max_tokens || ids.is_floating_point() ||
      std::ranges::any_of(whole(ids).integers(), outside)) {
    return fail(ErrorCode::kMismatch, "input_ids has shape {}: expected [n, up to {}] of ids below {}",
                shape_text(ids.sizes()), max_tokens, vocabulary);
  }
  TextInputs result{whole(ids), Tensor::full_integers(ids.sizes(), 1, parts.workspace.get())};
  if (const auto mask = inputs.find("attention_mask"); mask != inputs.end()) {
    if (mask->second.sizes() != ids.sizes()) {
      return fail(ErrorCode::kMismatch, "attention_mask has shape {}, input_ids {}",
                  shape_text(mask->second.sizes()), shape_text(ids.sizes()));
    }
    if (mask->second.is_floating_point()) {
      return fail(ErrorCode::kMismatch, "attention_mask has dtype {}, expected whole numbers",
                  dtype_name(mask->second.dtype()));
    }
    result.mask = whole(mask->second);
  }
  return result;
}

bool keeps_a_token_of_each(const Tensor& mask) {
  for (int64_t i = 0; i < mask.size(0); ++i) {
    if (std::ranges::all_of(mask[i].integers(), [](int64_t kept) { return kept == 0; })) return false;
  }
  return true;
}

Status check_output_size(const Preprocessing& preprocessing, const EncoderInfo& info) {
  if (preprocessing.output_height() == info.image_height &&
      preprocessing.output_width() == info.image_width) {
    return {};
  }
  return fail(ErrorCode::kMismatch, "preprocessing makes images of {} x {}, the model takes {} x {}",
              preprocessing.output_width(), preprocessing.output_height(), info.image_width,
              info.image_height);
}

Result<Preprocessing> load_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info,
                                         const Json& otherwise) {
  const PictureConfig& said = checkpoint.pictures;
  const Json& json = said.json.is_null() ? otherwise : said.json;
  SACCADE_ASSIGN(const Preprocessing preprocessing,
                 preprocessing_from_hugging_face(json, info.image_height).in(said.where));
  SACCADE_TRY(check_output_size(preprocessing, info).in(said.where));
  return preprocessing;
}

Json clip_mean_and_std() {
  return Json{{"image_mean", {0.48145466, 0.4578275, 0.40821073}},
              {"image_std", {0.26862954, 0.26130258, 0.27577711}}};
}

std::string where_of_tensors(const Checkpoint& checkpoint) {
  return fmt::format("checkpoint {}{}", checkpoint.folder.string(),
                     checkpoint.layout == Layout::kHuggingFace
                         ? ""
                         : " (its tensors by their names in the Hugging Face layout)");
}

bool has_tokenizer_files(const Checkpoint& checkpoint) {
  constexpr const char* kFiles[] = {"tokenizer.json", "vocab.json", "vocab.txt", "spiece.model",
                                    "tokenizer.model"};
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(checkpoint.folder / name, ignored);
  });
}

namespace {

// Without its token a model would still return embeddings: CLIP would return the same one for all texts.
Status check_read_at(const Tokenizer& tokenizer, ReadAt read_at) {
  if (read_at == ReadAt::kAnywhere) return {};
  const bool at_start = read_at == ReadAt::kStart;
  const int32_t wanted = at_start ? tokenizer.start_id() : tokenizer.end_id();
  const std::vector<int32_t> ids = tokenizer.encode("", kWholeText).ids;
  if (!ids.empty() && (at_start ? ids.front() : ids.back()) == wanted) return {};
  return fail(ErrorCode::kMismatch,
              "texts are read at their {} token, {}, which the tokenizer does not add: \"\" becomes [{}]",
              at_start ? "start" : "end", wanted, fmt::join(ids, ", "));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_checkpoint_tokenizer(const Checkpoint& checkpoint,
                                                             TextCleanup cleanup, const WordTable& table,
                                                             ReadAt read_at) {
  if (!has_tokenizer_files(checkpoint)) return std::unique_ptr<Tokenizer>();
  SACCADE_ASSIGN(std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(checkpoint.folder, cleanup));
  SACCADE_TRY(check_vocabulary(checkpoint, tokenizer->vocabulary_size(), table));
  SACCADE_TRY(
      check_read_at(*tokenizer, read_at).in(fmt::format("checkpoint {}", checkpoint.folder.string())));
  return tokenizer;
}

Status check_vocabulary(const Checkpoint& checkpoint, int64_t tokenizer_size, const WordTable& table) {
  const int64_t most = table.rows + table.without_row;
  const int64_t fewest = table.rows - table.unlisted - kMaxPaddingRows;
  if (tokenizer_size >= fewest && tokenizer_size <= most) return {};
  return fail(ErrorCode::kMismatch,
              "checkpoint {}: the tokenizer has {} tokens, tensor {} has {} rows, for {} to {} tokens",
              checkpoint.folder.string(), tokenizer_size, table.tensor, table.rows,
              std::max<int64_t>(fewest, 1), most);
}

Status check_special_ids(const Json& section, const char* where, std::initializer_list<SpecialId> ids) {
  for (const SpecialId& id : ids) {
    SACCADE_ASSIGN(const auto config, json_field_or<int64_t>(section, id.key, id.tokenizer).in(where));
    if (config == id.tokenizer || (id.unset && config == *id.unset)) continue;
    return fail(ErrorCode::kMismatch, "{}: {} is {}, the tokenizer's is {}", where, id.key, config,
                id.tokenizer);
  }
  return {};
}

Status check_bert_ids(const Json& section, const char* where, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return {};
  return check_special_ids(section, where,
                           {{"cls_token_id", tokenizer->start_id()},
                            {"sep_token_id", tokenizer->end_id()},
                            {"pad_token_id", tokenizer->pad_id()}});
}

void fill_outline(const EncoderInfo& info, const Preprocessing& preprocessing, CheckpointOutline& outline) {
  outline.dim = info.dim;
  outline.context = info.context;
  outline.image_height = info.image_height;
  outline.image_width = info.image_width;
  outline.preprocessing = preprocessing.describe();
}

}  // namespace saccade

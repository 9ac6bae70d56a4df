// A ColPali checkpoint as an encoder: a row for every patch and every token.
#include <algorithm>
#include <mutex>

#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/families/colpali.h"
#include "saccade/nn/kernels/post_norm.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"

namespace saccade {
namespace {

using nn::Tensor;

// Buffers that older transformers saved beside the weights: 0, 1, 2, ..., and rotary frequencies.
constexpr std::string_view kBuffers[] = {"*.embeddings.position_ids", "*.rotary_emb.inv_freq"};

// Tokenizer of the folder with the query template, and the prompt that follows every image.
struct Words {
  std::unique_ptr<Tokenizer> queries;
  std::vector<int64_t> image_prompt;
};

class ColPaliEncoder : public Architecture, public LateInteraction {
 public:
  ColPaliEncoder(EncoderParts parts, ColPaliModel model, std::vector<int64_t> image_prompt)
      : parts_(std::move(parts)), model_(std::move(model)), image_prompt_(std::move(image_prompt)) {}

  const EncoderInfo& info() const override { return parts_.info; }
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  WideLayers wide_layers() const override { return model_.wide_layers(); }
  EncoderCapabilities capabilities() override { return {.late_interaction = this}; }
  int patch_rows() const override { return static_cast<int>(config().patch_side()); }
  int patch_columns() const override { return static_cast<int>(config().patch_side()); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    Matrix<float> rows(pixels.rows(), info().dim);
    SACCADE_TRY(
        look(pixels, [&](int64_t first, const Tensor& all) { store_rows(mean_rows(all), first, rows); }));
    return rows;
  }

  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    RowSets sets = equal_row_sets(pixels.rows(), rows_each(), info().dim);
    SACCADE_TRY(look(pixels, [&](int64_t first, const Tensor& all) {
      store_rows(all.reshape({-1, info().dim}), first * rows_each(), sets.rows);
    }));
    return sets;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    Matrix<float> rows(static_cast<int64_t>(texts.size()), info().dim);
    SACCADE_TRY(read(texts, [&](const TextBatch& batch, const Tensor& all) {
      store_rows(mean_rows(all, batch.mask), batch.items, rows);
    }));
    return rows;
  }

  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    RowSets sets = token_row_sets(texts, info().dim);
    SACCADE_TRY(
        read(texts, [&](const TextBatch& batch, const Tensor& all) { store_token_rows(all, batch, sets); }));
    return sets;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, parts_));
    SACCADE_ASSIGN(const TextInputs texts,
                   text_inputs_of(inputs, parts_, config().text.positions, config().text.vocabulary));
    nn::TensorMap result;
    if (pixels.defined()) {
      SACCADE_ASSIGN(const Tensor prompts, prompts_of(inputs, pixels.size(0)));
      result["image_embeds"] = model_.image_rows(pixels, prompts, parts_.dtype);
    }
    if (texts.ids.defined()) {
      SACCADE_ASSIGN(const Tensor mask, reference_mask(inputs, texts));
      const Tensor rows = model_.text_rows(texts.ids, mask, parts_.dtype);
      for (int64_t i = 0; i < texts.mask.numel(); ++i) {  // padding's rows are 0
        if (texts.mask.integers()[static_cast<size_t>(i)] == 0) rows.view({-1, info().dim})[i].fill(0);
      }
      result["text_embeds"] = rows;
    }
    if (pixels.defined() && texts.ids.defined()) {
      // Rows of padding are 0 and add nothing.
      const Tensor& queries = result["text_embeds"];
      std::vector<Tensor> columns;  // one per image: [texts, 1]
      for (int64_t i = 0; i < pixels.size(0); ++i) {
        const Tensor best = nn::largest(nn::row_products(queries, result["image_embeds"][i]), 2);
        columns.push_back((nn::mean(best, 1) * static_cast<double>(queries.size(1))).unsqueeze(1));
      }
      result["maxsim"] = nn::cat(columns, 1);
    }
    return result;
  }

 private:
  const ColPaliConfig& config() const { return model_.config(); }
  int64_t rows_each() const { return config().patches() + static_cast<int64_t>(image_prompt_.size()); }

  // Calls body(first, rows) with rows [n, rows_each(), dim] of images first, first + 1, ...
  template <typename Body>
  Status look(MatrixView<const float> pixels, const Body& body) {
    SACCADE_TRY(check_pictures(pixels, info()));
    if (image_prompt_.empty()) {
      return fail(ErrorCode::kUnsupported,
                  "the checkpoint has no tokenizer files: the prompt that ColPali reads behind every image "
                  "cannot be written");
    }
    return run_alone(mutex_, [&] {
      const Tensor prompt = own_prompt();
      for_pictures(pixels, parts_, rows_each(), [&](int64_t first, const Tensor& piece) {
        body(first, model_.image_rows(piece, prompt, parts_.dtype));
      });
    });
  }

  // Calls body(batch, rows) with rows [items, longest, dim].
  template <typename Body>
  Status read(std::span<const TokenizedText> texts, const Body& body) {
    SACCADE_TRY(check_texts(texts, info(), config().text.vocabulary));
    return run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, 0, {.workspace = parts_.workspace.get()})) {
        // A query is a prefix in PaliGemma's terms: all its tokens attend to each other.
        body(batch, model_.text_rows(batch.ids, nn::padding_mask(batch.mask), parts_.dtype));
      }
    });
  }

  [[nodiscard]] Tensor own_prompt() const {
    return Tensor::of(image_prompt_, {1, static_cast<int64_t>(image_prompt_.size())});
  }

  // Returns a reference's prompts after its images, from image_prompt_ids [n, patches + tokens], or our own
  // if absent.
  Result<Tensor> prompts_of(const nn::TensorMap& inputs, int64_t n) const {
    const auto found = inputs.find("image_prompt_ids");
    if (found == inputs.end()) {
      if (image_prompt_.empty()) {
        return fail(ErrorCode::kUnsupported, "neither image_prompt_ids nor tokenizer files are there");
      }
      return own_prompt();
    }
    const Tensor& ids = found->second;
    const int64_t patches = config().patches();
    if (ids.dim() != 2 || ids.size(0) != n || ids.size(1) <= patches || ids.is_floating_point()) {
      return fail(ErrorCode::kMismatch, "image_prompt_ids has shape {}, expected [{}, {} and more]",
                  shape_text(ids.sizes()), n, patches);
    }
    const Tensor whole = ids.to(DType::kI64);
    const Tensor prompt = whole.slice(1, patches).contiguous();
    const Tensor places = whole.slice(1, 0, patches).contiguous();
    const auto is_image = [&](int64_t id) { return id == config().image_token; };
    const auto is_no_word = [&](int64_t id) {
      return is_image(id) || id < 0 || id >= config().text.vocabulary;
    };
    if (!std::ranges::all_of(places.integers(), is_image) ||
        std::ranges::any_of(prompt.integers(), is_no_word)) {
      return fail(ErrorCode::kMismatch,
                  "image_prompt_ids: expected {} times the image's id {}, then ids of words below {}",
                  patches, config().image_token, config().text.vocabulary);
    }
    return prompt;
  }

  // Computes the attention mask as transformers does for a reference's own inputs. With token_type_ids, 0
  // marks a prefix with full attention, and 1 causal tokens. With an attention_mask alone, all tokens are
  // causal, although its processor's queries are prefixes.
  static Result<Tensor> reference_mask(const nn::TensorMap& inputs, const TextInputs& texts) {
    const bool padded = inputs.contains("attention_mask");
    const int64_t tokens = texts.ids.size(1);
    const Tensor padding = nn::padding_mask(texts.mask);
    if (const auto types = inputs.find("token_type_ids"); types != inputs.end()) {
      if (types->second.sizes() != texts.ids.sizes()) {
        return fail(ErrorCode::kMismatch, "token_type_ids has shape {}, input_ids {}",
                    shape_text(types->second.sizes()), shape_text(texts.ids.sizes()));
      }
      const Tensor kinds = types->second.to(DType::kF64).contiguous();
      std::vector<Tensor> masks;
      for (int64_t i = 0; i < kinds.size(0); ++i) {
        const Tensor mask = nn::causal_mask(tokens);
        for (int64_t t = 0; t < tokens; ++t) {
          if (kinds.at({i, t}) == 0) mask.slice(1, t, t + 1).fill(0);
        }
        masks.push_back(mask.view({1, 1, tokens, tokens}));
      }
      return padding + nn::cat(masks);
    }
    return padded ? padding + nn::causal_mask(tokens) : padding;
  }

  EncoderParts parts_;
  ColPaliModel model_;
  std::vector<int64_t> image_prompt_;  // empty without a tokenizer
  std::mutex mutex_;
};

Status check_tokenizer(const Checkpoint& checkpoint, const ColPaliConfig& config,
                       const PieceTokenizer& pieces) {
  const Json& json = checkpoint.config;
  SACCADE_ASSIGN(const Json model, section(json, "vlm_config", json));
  SACCADE_ASSIGN(const Json text, section(model, "text_config"));
  SACCADE_TRY(check_special_ids(
      text, "text_config",
      {{"bos_token_id", pieces.start_id}, {"eos_token_id", pieces.end_id}, {"pad_token_id", pieces.pad_id}}));
  const int32_t image = pieces.added.find("<image>");
  if (image < 0) return {};
  // Compares the id in use, which has a default.
  const Json used{{"image_token_index", config.image_token}};
  return check_special_ids(used, "config.json", {{"image_token_index", image}});
}

// Loads tokenizer and prompt; empty if the folder has no tokenizer files.
Result<Words> load_words(const Checkpoint& checkpoint, const ColPaliConfig& config) {
  constexpr size_t kQueryPaddings = 10;
  Words words;
  if (!has_tokenizer_files(checkpoint)) return words;
  SACCADE_ASSIGN(const TokenizerFiles files, read_tokenizer_files(checkpoint.folder));
  if (!is_piece_tokenizer(files)) {
    return fail(ErrorCode::kUnsupported, "{}: its tokenizer is not Gemma's", checkpoint.folder.string());
  }
  SACCADE_ASSIGN(PieceTokenizer pieces, load_piece_tokenizer(files));
  SACCADE_TRY(check_vocabulary(checkpoint, pieces.vocabulary_size,
                               {"language_model.embed_tokens.weight", config.text.vocabulary}));
  SACCADE_TRY(check_tokenizer(checkpoint, config, pieces)
                  .in(fmt::format("checkpoint {}", checkpoint.folder.string())));
  words.image_prompt = {pieces.start_id};
  for (const int32_t id : pieces.ids_of(config.image_prompt + "\n")) words.image_prompt.push_back(id);

  const std::vector<int32_t> before = {pieces.start_id};
  std::vector<int32_t> after(kQueryPaddings, pieces.pad_id);
  const bool hugging_face = config.queries == ColPaliQueries::kHuggingFace;
  if (hugging_face) {
    const std::vector<int32_t> line_end = pieces.ids_of("\n");
    after.insert(after.end(), line_end.begin(), line_end.end());
  }
  words.queries =
      make_framed_tokenizer(std::move(pieces), before, after, hugging_face ? config.query_prefix : "");
  return words;
}

Result<ColPaliConfig> load_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  Json processor = Json::object();
  const std::filesystem::path file = checkpoint.folder / "processor_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    SACCADE_ASSIGN(processor, read_json(file));
  }
  return colpali_config(checkpoint.config, processor, tensors)
      .in((checkpoint.folder / "config.json").string());
}

// Fills in the fields that follow from the config alone.
void set_shape(const ColPaliConfig& config, EncoderInfo& info) {
  info.dim = config.projection;
  info.context = config.context();
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
  info.logit_scale = 1;
}

Result<Preprocessing> colpali_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info) {
  return load_preprocessing(checkpoint, info,
                            Json{{"image_processor_type", "SiglipImageProcessor"},
                                 {"size", {{"height", info.image_height}, {"width", info.image_width}}}});
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "colpali"));
  SACCADE_ASSIGN(nn::TensorMap tensors, rename_colpali(parts.weights.tensors).in(where));
  SACCADE_ASSIGN(const ColPaliConfig config, load_config(checkpoint, tensors));
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(ColPaliModel model, ColPaliModel::make(config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));

  set_shape(config, parts.info);
  SACCADE_ASSIGN(parts.preprocessing, colpali_preprocessing(checkpoint, parts.info));
  SACCADE_ASSIGN(Words words, load_words(checkpoint, config));
  parts.tokenizer = std::move(words.queries);
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(
      std::make_unique<ColPaliEncoder>(std::move(parts), std::move(model), std::move(words.image_prompt)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& result) {
  SACCADE_ASSIGN(const nn::TensorMap renamed, rename_colpali(tensors));
  return outline_from(load_config(checkpoint, renamed), checkpoint, set_shape, colpali_preprocessing, result);
}

}  // namespace

// colpali-engine publishes ColPali as "paligemma".
extern const Family colpali_family = {{"colpali", "paligemma"}, load, outline};

}  // namespace saccade

// BERT checkpoints as text encoders, and as sequence classifiers if they have a classifier.
//
// A text's embedding is the last block's state at the first token ([CLS]), normalized to length 1. Plain BERT
// is not trained to make these comparable. They are the starting point of fine-tuned checkpoints, and the
// input of the pooler and the classifier.
#include <algorithm>
#include <mutex>

#include "saccade/model/architecture.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/towers/bert.h"

namespace saccade {
namespace {

using nn::Tensor;

class BertEncoder : public Architecture, public TextClassifier {
 public:
  struct Parts : EncoderParts {
    BertModel model;
    bool has_pooler = false;
    std::vector<std::string> labels;  // empty without a classifier
    nn::Linear classifier;
  };
  explicit BertEncoder(Parts parts) : parts_(std::move(parts)) {}

  const EncoderInfo& info() const override { return parts_.info; }
  // Unused, because there are no images.
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  EncoderCapabilities capabilities() override {
    return {.text_classifier = parts_.labels.empty() ? nullptr : this};
  }
  const std::vector<std::string>& labels() const override { return parts_.labels; }

  Result<Matrix<float>> encode_images(MatrixView<const float>) override {
    return fail(ErrorCode::kUnsupported, "a BERT checkpoint encodes texts only, not images");
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    return rows_of(texts, parts_.info.dim, [&](const TextBatch& batch) {
      return nn::normalize_rows(parts_.model.first_state(batch.ids, batch.mask, parts_.dtype));
    });
  }

  Result<Matrix<float>> classify_texts(std::span<const TokenizedText> texts) override {
    return rows_of(texts, static_cast<int64_t>(parts_.labels.size()), [&](const TextBatch& batch) {
      return classify(parts_.model.first_state(batch.ids, batch.mask, parts_.dtype));
    });
  }

  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    AttentionMaps maps;
    maps.layers = parts_.model.config().shape.layers;
    maps.heads = parts_.model.config().shape.heads;
    maps.tokens = static_cast<int64_t>(text.ids.size());
    SACCADE_TRY(check_texts({&text, 1}, parts_.info, parts_.model.config().vocabulary));
    SACCADE_TRY(run_alone(mutex_, [&] {
      const TextBatch batch = text_batches({&text, 1}, parts_.model.config().pad_id, batching()).front();
      BertTrace trace;
      (void)parts_.model.states(batch.ids, batch.mask, parts_.dtype, {}, &trace);
      const Tensor weights = nn::cat(trace.attentions);  // [layers, heads, tokens, tokens]
      maps.weights.assign(weights.floats().begin(), weights.floats().end());
    }));
    return maps;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const BertConfig& config = parts_.model.config();
    nn::TensorMap result;
    if (inputs.contains("pixel_values")) {
      return fail(ErrorCode::kUnsupported, "pixel_values for a BERT checkpoint, which encodes texts only");
    }
    SACCADE_ASSIGN(const TextInputs given,
                   text_inputs_of(inputs, parts_, config.positions, config.vocabulary));
    if (!given.ids.defined()) return result;
    if (!keeps_a_token_of_each(given.mask)) {
      return fail(ErrorCode::kMismatch, "attention_mask leaves out every token of a text");
    }
    Tensor types;
    if (const auto found = inputs.find("token_type_ids"); found != inputs.end()) {
      types = found->second;
      const auto outside = [&](int64_t type) { return type < 0 || type >= config.token_types; };
      if (types.is_floating_point() || types.sizes() != given.ids.sizes() ||
          std::ranges::any_of(types.to(DType::kI64).contiguous().integers(), outside)) {
        return fail(ErrorCode::kMismatch, "token_type_ids has shape {}: expected {} of 0 to {}",
                    shape_text(types.sizes()), shape_text(given.ids.sizes()), config.token_types - 1);
      }
      types = types.to(DType::kI64).contiguous();
    }
    BertTrace trace;
    result["last_hidden_state"] = parts_.model.states(given.ids, given.mask, parts_.dtype, types, &trace);
    result["hidden_1"] = trace.hidden_1;
    result["last_attention"] = trace.attentions.back();
    // Embeddings and logits are computed in the same way as for users.
    const Tensor first = parts_.model.first_state(given.ids, given.mask, parts_.dtype, types);
    result["text_embeds"] = nn::normalize_rows(first);
    if (parts_.has_pooler) result["pooler_output"] = parts_.model.pool(first);
    if (!parts_.labels.empty()) result["logits"] = classify(first);
    return result;
  }

 private:
  // Runs forward over batches of the texts and returns its rows in the texts' order.
  template <typename Forward>
  Result<Matrix<float>> rows_of(std::span<const TokenizedText> texts, int64_t width, const Forward& forward) {
    const BertConfig& config = parts_.model.config();
    SACCADE_TRY(check_texts(texts, parts_.info, config.vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), width);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config.pad_id, batching())) {
        store_rows(forward(batch), batch.items, rows);
      }
    }));
    return rows;
  }
  [[nodiscard]] TextBatching batching() const { return {.workspace = parts_.workspace.get()}; }
  [[nodiscard]] Tensor classify(const Tensor& first_state) const {
    return parts_.classifier.forward(parts_.model.pool(first_state));
  }

  Parts parts_;
  std::mutex mutex_;
};

// Returns the class names: "id2label", or unnamed ones, "num_labels" of them (2 without either).
Result<std::vector<std::string>> read_labels(const Json& config) {
  constexpr int64_t kMaxLabels = 100'000;
  const auto found = config.find("id2label");
  const bool named = found != config.end() && !found->is_null();
  if (named && !found->is_object()) {
    return fail(ErrorCode::kBadData, "\"id2label\" is {}, not an object", json_kind(*found));
  }
  SACCADE_ASSIGN(const int64_t stated, json_field_or<int64_t>(config, "num_labels", 2));
  const int64_t count = named ? static_cast<int64_t>(found->size()) : stated;
  if (count < 1 || count > kMaxLabels) {
    return fail(ErrorCode::kBadData, "{} classes, expected 1 to {}", count, kMaxLabels);
  }
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    if (!named) {
      labels.push_back(fmt::format("LABEL_{}", i));
      continue;
    }
    SACCADE_ASSIGN(labels.emplace_back(),
                   json_field<std::string>(*found, std::to_string(i)).in("\"id2label\""));
  }
  return labels;
}

bool is_classifier(const Json& config, const nn::TensorMap& tensors) {
  const auto names = config.find("architectures");
  if (names == config.end() || !names->is_array() || names->empty()) {
    return tensors.contains("classifier.weight");
  }
  return std::find(names->begin(), names->end(), "BertForSequenceClassification") != names->end();
}

Status load_model(const Json& config, BertEncoder::Parts& parts) {
  SACCADE_ASSIGN(const BertConfig shape, bert_config_from_hugging_face(config));
  nn::TensorMap tensors = with_current_bert_names(parts.weights.tensors);
  // BERT's pre-training heads (masked words, next sentence) are not used.
  std::erase_if(tensors, [](const auto& entry) { return entry.first.starts_with("cls."); });
  const std::string prefix = tensors.contains("bert.embeddings.word_embeddings.weight") ? "bert." : "";
  const bool classifies = is_classifier(config, tensors);
  parts.has_pooler = classifies || tensors.contains(prefix + "pooler.dense.weight");
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(parts.model, BertModel::make(shape, source, prefix, parts.has_pooler));
  if (classifies) {
    SACCADE_ASSIGN(parts.labels, read_labels(config));
    SACCADE_ASSIGN(parts.classifier, nn::Linear::make(source, "classifier", shape.shape.width,
                                                      static_cast<int64_t>(parts.labels.size()), 0.02));
  }
  constexpr std::string_view kBuffers[] = {"*embeddings.position_ids"};  // 0, 1, 2, ...
  SACCADE_TRY(source.all_used(kBuffers));
  parts.info.dim = shape.shape.width;
  parts.info.context = shape.positions;
  return {};
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  BertEncoder::Parts parts;
  SACCADE_ASSIGN(static_cast<EncoderParts&>(parts), open_parts(checkpoint, options, "bert"));
  SACCADE_TRY(load_model(checkpoint.config, parts).in(where));
  parts.info.logit_scale = 1;
  const WordTable table{"embeddings.word_embeddings.weight", parts.model.config().vocabulary};
  SACCADE_ASSIGN(parts.tokenizer,
                 load_checkpoint_tokenizer(checkpoint, TextCleanup::kTokenizerFile, table, ReadAt::kStart));
  SACCADE_TRY(check_bert_ids(checkpoint.config, "config.json", parts.tokenizer.get()).in(where));
  parts.model.pack(parts.packing);
  if (!parts.labels.empty()) parts.classifier.pack(DType::kF32);
  return std::unique_ptr<Architecture>(std::make_unique<BertEncoder>(std::move(parts)));
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap&, CheckpointOutline& result) {
  SACCADE_ASSIGN(const BertConfig config, bert_config_from_hugging_face(checkpoint.config));
  result.dim = config.shape.width;
  result.context = config.positions;
  return {};
}

}  // namespace

extern const Family bert_family = {{"bert"}, load, outline};

}  // namespace saccade

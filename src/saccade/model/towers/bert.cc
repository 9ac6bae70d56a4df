#include "saccade/model/towers/bert.h"

#include "saccade/model/checkpoints/config_fields.h"

namespace saccade {
namespace {

// Rejects switches that would make it a different model.
Status refuse_other_models(const Json& config) {
  const std::pair<const char*, Json> plain[] = {
      {"position_embedding_type", "absolute"}, {"is_decoder", false}, {"add_cross_attention", false}};
  for (const auto& [key, value] : plain) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null() || *found == value) continue;
    return fail(ErrorCode::kUnsupported, "\"{}\": {} is not supported, only {}", key, dump_json(*found),
                dump_json(value));
  }
  return {};
}

}  // namespace

Result<BertConfig> bert_config_from_hugging_face(const Json& config) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  SACCADE_TRY(refuse_other_models(config));
  constexpr int64_t kMaxSide = 65'536;
  BertConfig result;
  nn::TransformerShape& shape = result.shape;
  SACCADE_ASSIGN(shape.width, json_field_or<int64_t>(config, "hidden_size", 768));
  SACCADE_ASSIGN(shape.layers, json_field_or<int64_t>(config, "num_hidden_layers", 12));
  SACCADE_ASSIGN(shape.heads, json_field_or<int64_t>(config, "num_attention_heads", 12));
  SACCADE_ASSIGN(shape.mlp_width, json_field_or<int64_t>(config, "intermediate_size", 3072));
  SACCADE_ASSIGN(shape.eps, json_field_or<double>(config, "layer_norm_eps", 1e-12));
  SACCADE_ASSIGN(const std::string activation, json_field_or<std::string>(config, "hidden_act", "gelu"));
  SACCADE_ASSIGN(shape.activation, nn::activation_named(activation).in("\"hidden_act\""));
  SACCADE_ASSIGN(result.vocabulary, json_field_or<int64_t>(config, "vocab_size", 30522));
  SACCADE_ASSIGN(result.positions, json_field_or<int64_t>(config, "max_position_embeddings", 512));
  SACCADE_ASSIGN(result.token_types, json_field_or<int64_t>(config, "type_vocab_size", 2));
  SACCADE_ASSIGN(result.pad_id, json_field_or<int64_t>(config, "pad_token_id", 0));
  SACCADE_TRY(in_range("\"hidden_size\"", shape.width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_hidden_layers\"", shape.layers, 1, 1000));
  SACCADE_TRY(in_range("\"num_attention_heads\"", shape.heads, 1, kMaxSide));
  SACCADE_TRY(in_range("\"intermediate_size\"", shape.mlp_width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"vocab_size\"", result.vocabulary, 1, 10'000'000));
  SACCADE_TRY(in_range("\"max_position_embeddings\"", result.positions, 2, kMaxSide));
  SACCADE_TRY(in_range("\"type_vocab_size\"", result.token_types, 1, 1000));
  SACCADE_TRY(in_range("\"pad_token_id\"", result.pad_id, 0, result.vocabulary - 1));
  if (shape.width % shape.heads != 0) {
    return fail(ErrorCode::kBadData, "\"hidden_size\" {} is not a multiple of {} heads", shape.width,
                shape.heads);
  }
  if (!(shape.eps > 0 && shape.eps < 1)) {
    return fail(ErrorCode::kBadData, "\"layer_norm_eps\" is {}, expected above 0 and below 1", shape.eps);
  }
  return result;
}

const nn::BlockNames& bert_block_names() {
  static const nn::BlockNames kNames = [] {
    nn::BlockNames names;
    names.query = "attention.self.query";
    names.key = "attention.self.key";
    names.value = "attention.self.value";
    names.output = "attention.output.dense";
    names.norm1 = "attention.output.LayerNorm";
    names.mlp_in = "intermediate.dense";
    names.mlp_out = "output.dense";
    names.norm2 = "output.LayerNorm";
    return names;
  }();
  return kNames;
}

nn::TensorMap with_current_bert_names(nn::TensorMap tensors) {
  nn::TensorMap renamed;
  for (auto& [name, tensor] : tensors) {
    std::string current = name;
    const std::pair<std::string_view, std::string_view> rules[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                                                   {"LayerNorm.beta", "LayerNorm.bias"}};
    for (const auto& [from, to] : rules) {
      if (current.ends_with(from)) current.replace(current.size() - from.size(), from.size(), to);
    }
    renamed.emplace(std::move(current), tensor);
  }
  return renamed;
}

template class BertModelOf<nn::Tensor>;

}  // namespace saccade

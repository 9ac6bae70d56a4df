// Text Embeddings Inference's own routes: /embed, /rerank, /info and /health. huggingface_hub's client, and
// programs built on it, request / for the result of /embed.
//
//   /embed    {"inputs": a text or a list, "truncate": false, "normalize": true}      -> [[0.1, ...], ...]
//   /rerank   {"query", "texts": [...], "raw_scores", "return_text", "truncate"}      -> [{"index",
//             "score"}, ...], best first; LiteLLM's "huggingface/" adds "top_n"
//   /similarity, and / too
//             {"inputs": {"source_sentence", "sentences": [...]}, "parameters"}       -> [0.7, ...]
//
// A text that is an image's data address ("data:image/...") represents that image.
#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "saccade/model/options/precision_names.h"
#include "saccade/serve/formats/rerank_formats.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

// A text or a list of texts.
Result<std::vector<Input>> inputs_of(const Json& json, const char* field) {
  if (!json.contains(field)) return fail(ErrorCode::kBadData, "\"{}\" is missing", field);
  const Json& given = json[field];
  std::vector<Input> inputs;
  const auto add = [&](const Json& item) -> Status {
    if (!item.is_string()) {
      return fail(ErrorCode::kBadData, "\"{}\": {}, expected a text", field, json_kind(item));
    }
    SACCADE_ASSIGN(Input input, input_of(item.get<std::string>()));
    inputs.push_back(std::move(input));
    return {};
  };
  if (!given.is_array()) {
    SACCADE_TRY(add(given));
    return inputs;
  }
  for (const Json& item : given) SACCADE_TRY(add(item).in(fmt::format("input {}", inputs.size())));
  return inputs;
}

// Texts are cut where the request allows it.
Status check_truncation(const Json& json, int64_t dropped_tokens, const ServedModel& model) {
  SACCADE_ASSIGN(const bool truncate, json_field_or<bool>(json, "truncate", false));
  if (!truncate && dropped_tokens > 0) {
    return fail(ErrorCode::kLimit, "{} tokens more than {} reads, and \"truncate\" is false", dropped_tokens,
                model.name);
  }
  return {};
}

// Checks the fields that say how a text is read.
Status check_reading(const Json& json) {
  SACCADE_ASSIGN(const std::string prompt, json_field_or<std::string>(json, "prompt_name", ""));
  if (!prompt.empty())
    return fail(ErrorCode::kUnsupported, "\"prompt_name\": \"{}\", there are no prompts", prompt);
  SACCADE_ASSIGN(const std::string side, json_field_or<std::string>(json, "truncation_direction", "Right"));
  if (side != "Right" && side != "right")
    return fail(ErrorCode::kUnsupported, "\"truncation_direction\": \"{}\", texts are cut at their end",
                side);
  return {};
}

// The cosine of one text with each of others, in their order.
Result<HttpResponse> similarity(const Context& context, const Json& json) {
  constexpr std::array<std::string_view, 2> kFields = {"inputs", "parameters"};
  constexpr std::array<std::string_view, 2> kInputs = {"source_sentence", "sentences"};
  constexpr std::array<std::string_view, 3> kParameters = {"truncate", "truncation_direction", "prompt_name"};
  SACCADE_TRY(check_fields(json, kFields));
  if (!json.contains("inputs") || !json["inputs"].is_object())
    return fail(ErrorCode::kBadData, "\"inputs\": expected \"source_sentence\" and \"sentences\"");
  SACCADE_TRY(check_fields(json["inputs"], kInputs));
  Json parameters = json.contains("parameters") ? json["parameters"] : Json();
  if (parameters.is_null()) parameters = Json::object();
  if (!parameters.is_object())
    return fail(ErrorCode::kBadData, "\"parameters\": {}, expected an object", json_kind(parameters));
  SACCADE_TRY(check_fields(parameters, kParameters).in("\"parameters\""));
  SACCADE_TRY(check_reading(parameters));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(""));
  SACCADE_ASSIGN(std::vector<Input> inputs, inputs_of(json["inputs"], "source_sentence"));
  if (inputs.size() != 1)
    return fail(ErrorCode::kUsage, "\"source_sentence\": {} texts, expected one", inputs.size());
  SACCADE_ASSIGN(std::vector<Input> sentences, inputs_of(json["inputs"], "sentences"));
  if (sentences.empty()) return fail(ErrorCode::kUsage, "\"sentences\" is empty");
  std::ranges::move(sentences, std::back_inserter(inputs));
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, std::move(inputs)));
  SACCADE_TRY(check_truncation(parameters, encoded.dropped_tokens, *model));
  const auto source = encoded.rows.row(0);
  Json cosines = Json::array();
  for (int64_t i = 1; i < encoded.rows.rows(); ++i) {
    const auto row = encoded.rows.row(i);
    cosines.push_back(std::inner_product(row.begin(), row.end(), source.begin(), 0.0F));
  }
  return with_tokens(json_response(cosines), encoded.tokens, encoded.dropped_tokens);
}

Result<HttpResponse> similarity_route(const Context& context, const HttpRequest& request,
                                      const std::vector<std::string>&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_object(context, request));
  return similarity(context, json);
}

Result<HttpResponse> embed(const Context& context, const Json& json) {
  constexpr std::array<std::string_view, 6> kFields = {"inputs",      "truncate",   "normalize",
                                                       "prompt_name", "dimensions", "truncation_direction"};
  SACCADE_TRY(check_fields(json, kFields));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(""));
  SACCADE_ASSIGN(const bool normalize, json_field_or<bool>(json, "normalize", true));
  if (!normalize) return fail(ErrorCode::kUnsupported, "\"normalize\": false, rows here have length 1");
  SACCADE_TRY(check_reading(json));
  const int64_t dim = model->info.dim;
  SACCADE_ASSIGN(const auto dimensions, json_field_or<int64_t>(json, "dimensions", dim));
  if (dimensions != dim)
    return fail(ErrorCode::kUnsupported, "\"dimensions\": {}, rows of {} have {}", dimensions, model->name,
                dim);
  SACCADE_ASSIGN(const std::vector<Input> inputs, inputs_of(json, "inputs"));
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, inputs));
  SACCADE_TRY(check_truncation(json, encoded.dropped_tokens, *model));
  return with_tokens(json_response(rows_json(encoded.rows)), encoded.tokens, encoded.dropped_tokens);
}

Result<HttpResponse> embed_route(const Context& context, const HttpRequest& request,
                                 const std::vector<std::string>&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_object(context, request));
  return embed(context, json);
}

// huggingface_hub asks here for either task.
Result<HttpResponse> root_route(const Context& context, const HttpRequest& request,
                                const std::vector<std::string>&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_object(context, request));
  const bool compares = json.contains("inputs") && json["inputs"].is_object();
  return compares ? similarity(context, json) : embed(context, json);
}

// Other programs' clients ask here too: they say "documents".
Result<HttpResponse> rerank(const Context& context, const HttpRequest& request,
                            const std::vector<std::string>&) {
  constexpr std::array<std::string_view, 7> kFields = {
      "query", "texts", "truncate", "return_text", "raw_scores", "truncation_direction", "top_n"};
  SACCADE_ASSIGN(const UntrustedJson json, json_object(context, request));
  if (json.contains("texts") == json.contains("documents"))
    return fail(ErrorCode::kUsage, "either \"texts\" or \"documents\" is needed");
  if (json.contains("documents")) return rerank_documents(context, json);
  SACCADE_TRY(check_fields(json, kFields));
  SACCADE_ASSIGN(ServedModel * model, ranking_model(context, ""));
  SACCADE_ASSIGN(std::vector<Input> query, inputs_of(json, "query"));
  if (query.size() != 1) return fail(ErrorCode::kUsage, "\"query\": {} texts, expected one", query.size());
  SACCADE_ASSIGN(std::vector<Input> texts, inputs_of(json, "texts"));
  SACCADE_ASSIGN(const bool return_text, json_field_or<bool>(json, "return_text", false));
  SACCADE_ASSIGN(const bool raw, json_field_or<bool>(json, "raw_scores", false));
  SACCADE_ASSIGN(const auto top, json_field_or<int64_t>(json, "top_n", context.options.most_inputs));
  if (top < 1) return fail(ErrorCode::kUsage, "\"top_n\": {}, expected 1 or more", top);
  SACCADE_ASSIGN(Ranking ranking,
                 rank_inputs(context, *model, std::move(query.front()), {"texts", std::move(texts)}, raw));
  if (top < std::ssize(ranking.ranks)) ranking.ranks.resize(static_cast<size_t>(top));
  SACCADE_TRY(check_truncation(json, ranking.dropped_tokens, *model));
  Json ranks = Json::array();
  for (const auto& [score, index] : ranking.ranks) {
    Json rank = {{"index", index}, {"score", score}};
    if (return_text) rank["text"] = json["texts"].is_array() ? json["texts"][index] : json["texts"];
    ranks.push_back(std::move(rank));
  }
  return with_ranking(json_response(ranks), ranking);
}

Result<HttpResponse> info(const Context& context, const HttpRequest&, const std::vector<std::string>&) {
  SACCADE_ASSIGN(const ServedModel* model, context.served.model(""));
  const EncoderInfo& encoder = model->info;
  return json_response({{"model_id", model->name},
                        {"model_sha", encoder.fingerprint},
                        {"model_dtype", enum_name(encoder.precision)},
                        {"model_type", {{"embedding", {{"pooling", encoder.family}}}}},
                        {"max_input_length", encoder.context},
                        {"max_client_batch_size", context.options.most_inputs},
                        {"auto_truncate", false}});
}

// TEI's clients look at the status alone, infinity's reads what is in it.
Result<HttpResponse> health(const Context&, const HttpRequest&, const std::vector<std::string>&) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return json_response({{"unix", now.count()}});
}

}  // namespace

Format tei_format() {
  return {{{"POST", "/embed", embed_route},
           {"POST", "/", root_route},
           {"POST", "/similarity", similarity_route},
           {"POST", "/rerank", rerank},
           {"GET", "/info", info},
           {"GET", "/health", health, Right::kNone, true}},
          [](int status, std::string_view, std::string_view message) -> Json {
            const char* type = status == 429 || status == 503 ? "Overloaded"
                               : status >= 500                ? "Backend"
                                                              : "Validation";
            return {{"error", message}, {"error_type", type}};
          }};
}

}  // namespace saccade::serve

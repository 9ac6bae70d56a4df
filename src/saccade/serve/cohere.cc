// Cohere's embeddings endpoints, /v2/embed and /v1/embed; LiteLLM's "cohere/" is one of its clients.
//
//   {"model", "input_type", "texts": [...] | "images": [data addresses] | "inputs": [{"content": [one part]}],
//    "embedding_types": ["float", "base64"], "output_dimension", "max_tokens", "truncate": "END" or "NONE"}
//
//   -> {"id", "response_type", "embeddings": {"float": [[0.1, ...], ...]}, "texts": [...],
//       "meta": {"api_version": {"version"}, "billed_units": {"input_tokens", "images"}}}
//
// Older clients, which call /v1/embed without "embedding_types", get the list alone as "embeddings".
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

constexpr std::array<std::string_view, 9> kFields = {
    "model",           "input_type",       "texts",      "images",  "inputs",
    "embedding_types", "output_dimension", "max_tokens", "truncate"};
constexpr std::string_view kOlder = "/v1/embed";

Result<Input> input_of_field(const Json& item, std::string_view field) {
  if (field == "inputs") return input_of_json(item);
  if (!item.is_string()) return fail(ErrorCode::kBadData, "{}, expected a text", json_kind(item));
  if (field == "images") return picture_of(item.get<std::string>());
  return Input{.text = item.get<std::string>(), .picture = {}};
}

Result<std::vector<Input>> inputs_of(const Json& json) {
  SACCADE_ASSIGN(const auto most_tokens, json_field_or<int64_t>(json, "max_tokens", kWholeText));
  if (most_tokens < 1) return fail(ErrorCode::kUsage, "\"max_tokens\": {}, expected 1 or more", most_tokens);
  std::vector<Input> inputs;
  std::string_view given;
  for (const std::string_view field : {"texts", "images", "inputs"}) {
    if (!json.contains(field) || json[field].is_null()) continue;
    if (!given.empty()) {
      return fail(ErrorCode::kUsage,
                  "\"{}\" and \"{}\": one of \"texts\", \"images\" and \"inputs\" is needed", given, field);
    }
    given = field;
    if (!json[field].is_array())
      return fail(ErrorCode::kBadData, "\"{}\": {}, expected a list", field, json_kind(json[field]));
    for (const Json& item : json[field]) {
      SACCADE_ASSIGN(Input input,
                     input_of_field(item, field).in(fmt::format("\"{}\" {}", field, inputs.size())));
      input.most_tokens = most_tokens;
      inputs.push_back(std::move(input));
    }
  }
  if (given.empty()) return fail(ErrorCode::kUsage, "one of \"texts\", \"images\" and \"inputs\" is needed");
  return inputs;
}

// Names of the number formats asked for; empty if none is named.
Result<std::vector<std::string>> types_of(const Json& json) {
  std::vector<std::string> types;
  if (!json.contains("embedding_types") || json["embedding_types"].is_null()) return types;
  const Json& given = json["embedding_types"];
  if (!given.is_array())
    return fail(ErrorCode::kBadData, "\"embedding_types\": {}, expected a list", json_kind(given));
  for (const Json& type : given) {
    if (type != "float" && type != "base64") {
      return fail(ErrorCode::kUnsupported, "\"embedding_types\": {}, there are \"float\" and \"base64\"",
                  dump_json(type));
    }
    types.push_back(type.get<std::string>());
  }
  return types;
}

Json embeddings_as(std::string_view type, const Matrix<float>& rows) {
  if (type != "base64") return rows_json(rows);
  Json list = Json::array();
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const auto row = rows.row(i);
    list.push_back(encode_base64({reinterpret_cast<const char*>(row.data()), row.size_bytes()}));
  }
  return list;
}

Result<HttpResponse> embed(const Context& context, const HttpRequest& request,
                           const std::vector<std::string>&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kFields));
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "model", ""));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(name));
  // An embedding is the same whatever it is for.
  SACCADE_TRY(json_field_or<std::string>(json, "input_type", ""));
  const int64_t dim = model->info.dim;
  SACCADE_ASSIGN(const auto dimensions, json_field_or<int64_t>(json, "output_dimension", dim));
  if (dimensions != dim) {
    return fail(ErrorCode::kUnsupported, "\"output_dimension\": {}, embeddings of {} have {}", dimensions,
                model->name, dim);
  }
  SACCADE_ASSIGN(const std::string truncate, json_field_or<std::string>(json, "truncate", "END"));
  if (truncate != "END" && truncate != "NONE")
    return fail(ErrorCode::kUnsupported, "\"truncate\": \"{}\", expected \"END\" or \"NONE\"", truncate);
  SACCADE_ASSIGN(const std::vector<std::string> types, types_of(json));
  SACCADE_ASSIGN(const std::vector<Input> inputs, inputs_of(json));
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, inputs));
  if (truncate == "NONE" && encoded.dropped_tokens > 0) {
    return fail(ErrorCode::kUsage, "{} tokens more than {} reads, and \"truncate\" is \"NONE\"",
                encoded.dropped_tokens, model->name);
  }
  const bool older = request.path == kOlder;
  const bool by_type = !older || !types.empty();
  Json embeddings = Json::object();
  if (!by_type) embeddings = embeddings_as("float", encoded.rows);
  for (const std::string& type : types) embeddings[type] = embeddings_as(type, encoded.rows);
  if (by_type && types.empty()) embeddings["float"] = embeddings_as("float", encoded.rows);
  Json units = {{"input_tokens", encoded.tokens}};
  const auto images = std::ranges::count_if(inputs, [](const Input& input) { return !input.is_text(); });
  if (images > 0) units["images"] = images;
  return with_tokens(json_response({{"id", request.id},
                                    {"response_type", by_type ? "embeddings_by_type" : "embeddings_floats"},
                                    {"embeddings", std::move(embeddings)},
                                    {"texts", json.contains("texts") ? json["texts"] : Json::array()},
                                    {"meta",
                                     {{"api_version", {{"version", older ? "1" : "2"}}},
                                      {"billed_units", std::move(units)}}}}),
                     encoded.tokens, encoded.dropped_tokens);
}

}  // namespace

Format cohere_format() {
  return {{{"POST", "/v2/embed", embed}, {"POST", kOlder, embed}}, openai_error};
}

}  // namespace saccade::serve

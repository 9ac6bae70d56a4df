// Embeddings over HTTP, as OpenAI's clients ask for them, with what others have added for pictures:
//
//   OpenAI       "input": a text or a list of texts; "encoding_format": "float" or "base64"; "dimensions"
//   vLLM         "input" items as content parts: [{"type": "text", "text"} | {"type":
//                "image_url", "image_url": {"url"}}]
//   Jina         "input": [{"text"} | {"image": base64 or address}]
//   NVIDIA NIM   "input": texts and data addresses, with "modality", "input_type" and "truncate"
//   infinity     "modality": "image", "input": addresses
//
// Addresses are data addresses, or https:// ones where the server fetches pictures.
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

constexpr std::array<std::string_view, 10> kFields = {
    "model",    "input",      "encoding_format", "dimensions", "user",
    "modality", "input_type", "truncate",        "normalized", "embedding_type"};

// One of a list: a text, Jina's object, or a content part.
Result<Input> item_of(const Json& item, bool picture) {
  if (item.is_string()) {
    const auto text = item.get<std::string>();
    return picture ? picture_of(text) : input_of(text);
  }
  if (item.is_number() || item.is_array()) {
    return fail(ErrorCode::kUnsupported,
                "tokens in place of a text: another tokenizer's mean nothing to this model");
  }
  if (!item.is_object())
    return fail(ErrorCode::kBadData, "{}, expected a text or an object", json_kind(item));
  if (item.contains("image_url")) {
    const Json& address = item["image_url"];
    if (address.is_string()) return picture_of(address.get<std::string>());
    SACCADE_ASSIGN(const std::string url, json_field<std::string>(address, "url"));
    return picture_of(url);
  }
  if (item.contains("image")) {
    SACCADE_ASSIGN(const std::string image, json_field<std::string>(item, "image"));
    return picture_of(image);
  }
  SACCADE_ASSIGN(std::string text, json_field<std::string>(item, "text"));
  return Input{.text = std::move(text), .picture = {}};
}

// Whether input `i` is a picture by what the request says: infinity's word for all, or one of NIM's list.
Result<bool> is_picture(const Json& json, size_t i) {
  if (!json.contains("modality")) return false;
  const Json& modality = json["modality"];
  const Json& own = modality.is_array() && i < modality.size() ? modality[i] : modality;
  if (!own.is_string()) return false;  // nothing is said of it
  const auto word = own.get<std::string>();
  if (word == "image" || word == "text") return word == "image";
  return fail(ErrorCode::kUnsupported, "\"modality\": \"{}\", expected \"text\" or \"image\"", word);
}

Result<std::vector<Input>> inputs_of(const Json& json) {
  if (!json.contains("input")) return fail(ErrorCode::kBadData, "\"input\" is missing");
  const Json& input = json["input"];
  std::vector<Input> inputs;
  if (!input.is_array()) {
    SACCADE_ASSIGN(const bool picture, is_picture(json, 0));
    SACCADE_ASSIGN(Input only, item_of(input, picture));
    inputs.push_back(std::move(only));
    return inputs;
  }
  for (const Json& item : input) {
    SACCADE_ASSIGN(const bool picture, is_picture(json, inputs.size()));
    SACCADE_ASSIGN(Input one, item_of(item, picture).in(fmt::format("input {}", inputs.size())));
    inputs.push_back(std::move(one));
  }
  return inputs;
}

Result<HttpResponse> embeddings(const Context& context, const HttpRequest& request,
                                const std::vector<std::string>&) {
  SACCADE_ASSIGN(const Json json, json_body(context, request, kFields));
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "model", ""));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(name));
  SACCADE_ASSIGN(std::string format, json_field_or<std::string>(json, "encoding_format", "float"));
  SACCADE_ASSIGN(format, json_field_or<std::string>(json, "embedding_type", format));
  if (format != "float" && format != "base64") {
    return fail(ErrorCode::kUnsupported, "\"encoding_format\": \"{}\", expected \"float\" or \"base64\"",
                format);
  }
  const int64_t dim = model->info.dim;
  SACCADE_ASSIGN(const auto dimensions, json_field_or<int64_t>(json, "dimensions", dim));
  if (dimensions != dim) {
    return fail(ErrorCode::kUnsupported,
                "\"dimensions\": {}: rows of {} have {}, and nothing is known of shorter ones", dimensions,
                model->name, dim);
  }
  SACCADE_ASSIGN(const std::string truncate, json_field_or<std::string>(json, "truncate", "END"));
  if (truncate != "END" && truncate != "NONE") {
    return fail(ErrorCode::kUnsupported, "\"truncate\": \"{}\", expected \"END\" or \"NONE\"", truncate);
  }
  SACCADE_ASSIGN(const std::vector<Input> inputs, inputs_of(json));
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, inputs));
  if (truncate == "NONE" && encoded.dropped_tokens > 0) {
    return fail(ErrorCode::kUsage, "{} tokens more than {} reads, and \"truncate\" is \"NONE\"",
                encoded.dropped_tokens, model->name);
  }
  Json data = Json::array();
  for (int64_t i = 0; i < encoded.rows.rows(); ++i) {
    const auto row = encoded.rows.row(i);
    Json embedding;
    if (format == "base64") {
      embedding = encode_base64({reinterpret_cast<const char*>(row.data()), row.size_bytes()});
    } else {
      embedding = Json::array();
      for (const float value : row) embedding.push_back(value);
    }
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(embedding)}});
  }
  HttpResponse response =
      json_response({{"object", "list"},
                     {"data", std::move(data)},
                     {"model", model->name},
                     {"usage", {{"prompt_tokens", encoded.tokens}, {"total_tokens", encoded.tokens}}}});
  response.headers.emplace_back("X-Saccade-Dropped-Tokens", std::to_string(encoded.dropped_tokens));
  return response;
}

Result<HttpResponse> models(const Context& context, const HttpRequest&, const std::vector<std::string>&) {
  Json data = Json::array();
  for (const auto& model : context.served.models()) {
    data.push_back({{"id", model->name}, {"object", "model"}, {"created", 0}, {"owned_by", "saccade"}});
  }
  return json_response({{"object", "list"}, {"data", std::move(data)}});
}

}  // namespace

Format openai_format() {
  return {{{"POST", "/v1/embeddings", embeddings}, {"GET", "/v1/models", models}},
          [](int status, std::string_view code, std::string_view message) -> Json {
            return {{"error",
                     {{"message", message},
                      {"type", status >= 500 ? "server_error" : "invalid_request_error"},
                      {"param", nullptr},
                      {"code", code}}}};
          }};
}

}  // namespace saccade::serve

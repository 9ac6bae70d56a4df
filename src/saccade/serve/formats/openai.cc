// OpenAI's embeddings endpoint, with the extensions of other servers for images:
//
//   OpenAI       "input": a text or a list of texts; "encoding_format": "float" or "base64"; "dimensions";
//                lists of token ids in place of texts, with "tokenizer": the model's name. "tokenizer" is our
//                own field: clients send another tokenizer's ids too, and nothing else distinguishes these
//   vLLM         "messages": one, its "content" a text or one content part: [{"type": "text", "text"} |
//                {"type": "image_url", "image_url": {"url"}}]; content parts are accepted as "input" too
//   Jina         "input": [{"text"} | {"image": base64 or address}], older clients {"bytes"} and {"url"};
//                "task", "late_chunking", "truncate": true or false, "embedding_type" or "encoding_type"
//   NVIDIA NIM   "input": texts and data addresses, with "modality", "input_type" and "truncate"
//   infinity     "modality": "image", "input": addresses; its client calls it without /v1, asks for 0
//                "dimensions", and for the model "default/not-specified" if its user names none; older ones
//                use /embeddings_image for images
//
// Addresses are data addresses, or https:// ones if the server fetches images.
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

constexpr std::array<std::string_view, 15> kFields = {
    "model",          "input",         "messages",   "encoding_format", "dimensions",
    "user",           "modality",      "input_type", "truncate",        "normalized",
    "embedding_type", "encoding_type", "task",       "late_chunking",   "tokenizer"};

// Endpoint that older infinity clients use for images.
constexpr std::string_view kOfPictures = "/embeddings_image";

// Returns true if the request declares input `i` an image: by infinity's modality for all inputs, or by NIM's
// list.
Result<bool> is_picture(const Json& json, size_t i) {
  if (!json.contains("modality")) return false;
  const Json& modality = json["modality"];
  const Json& own = modality.is_array() && i < modality.size() ? modality[i] : modality;
  if (!own.is_string()) return false;  // nothing is said of it
  const auto word = own.get<std::string>();
  if (word == "image" || word == "text") return word == "image";
  return fail(ErrorCode::kUsage, "\"modality\": \"{}\", expected \"text\" or \"image\"", word);
}

// A conversation is one input.
Result<Input> input_of_messages(const Json& messages) {
  if (!messages.is_array() || messages.size() != 1) {
    return fail(ErrorCode::kUsage, "\"messages\": one message is expected, with a text or an image");
  }
  if (!messages[0].is_object() || !messages[0].contains("content")) {
    return fail(ErrorCode::kBadData, "\"messages\": message 0 has no \"content\"");
  }
  return input_of_json(messages[0]).in("\"messages\"");
}

// Returns true if token ids in the request are of the model's own tokenizer. kUsage for another one's name.
Result<bool> has_own_tokens(const Json& json, const ServedModel& model) {
  SACCADE_ASSIGN(const std::string tokenizer, json_field_or<std::string>(json, "tokenizer", ""));
  if (tokenizer.empty() || tokenizer == model.name) return !tokenizer.empty();
  return fail(ErrorCode::kUsage, "\"tokenizer\": \"{}\", only {}'s own is known here", tokenizer, model.name);
}

Result<std::vector<Input>> inputs_of(const Json& json, bool own_tokens) {
  if (json.contains("messages")) {
    if (json.contains("input"))
      return fail(ErrorCode::kUsage, "\"input\" and \"messages\": one of them is enough");
    SACCADE_ASSIGN(Input only, input_of_messages(json["messages"]));
    std::vector<Input> inputs;
    inputs.push_back(std::move(only));
    return inputs;
  }
  if (!json.contains("input")) return fail(ErrorCode::kBadData, "\"input\" is missing");
  const Json& input = json["input"];
  std::vector<Input> inputs;
  if (own_tokens && input.is_array() && !input.empty() && input[0].is_number()) {
    SACCADE_ASSIGN(Input only, input_of_tokens(input).in("\"input\""));
    inputs.push_back(std::move(only));
    return inputs;
  }
  if (!input.is_array()) {
    SACCADE_ASSIGN(const bool picture, is_picture(json, 0));
    SACCADE_ASSIGN(Input only, input_of_json(input, picture).in("\"input\""));
    inputs.push_back(std::move(only));
    return inputs;
  }
  for (const Json& item : input) {
    SACCADE_ASSIGN(const bool picture, is_picture(json, inputs.size()));
    const bool tokens = own_tokens && item.is_array();
    SACCADE_ASSIGN(Input one, (tokens ? input_of_tokens(item) : input_of_json(item, picture))
                                  .in(fmt::format("input {}", inputs.size())));
    inputs.push_back(std::move(one));
  }
  return inputs;
}

// "float" or "base64", by whichever name it is asked for; Jina also takes a list of formats.
Result<std::string> format_of(const Json& json) {
  std::string format = "float";
  for (const char* field : {"encoding_format", "encoding_type", "embedding_type"}) {
    if (!json.contains(field)) continue;
    const Json& given = json[field];
    const Json one = {{field, given.is_array() && given.size() == 1 ? given[0] : given}};
    SACCADE_ASSIGN(format, json_field_or<std::string>(one, field, format));
    if (format != "float" && format != "base64") {
      return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected \"float\" or \"base64\"", field, format);
    }
  }
  return format;
}

// Returns true if a text that is too long may be truncated: NIM's name, or Jina's true or false.
Result<bool> may_be_cut(const Json& json) {
  if (json.contains("truncate") && json["truncate"].is_boolean()) return json["truncate"].get<bool>();
  SACCADE_ASSIGN(const std::string truncate, json_field_or<std::string>(json, "truncate", "END"));
  if (truncate != "END" && truncate != "NONE") {
    return fail(ErrorCode::kUsage, "\"truncate\": \"{}\", expected \"END\" or \"NONE\"", truncate);
  }
  return truncate == "END";
}

// A dual encoder's rows are the same whatever they are for, and have length 1: fields that say so may be
// given, and have to be of their kind.
Status check_other_fields(const Json& json) {
  for (const char* field : {"user", "input_type", "task"}) {
    SACCADE_TRY(json_field_or<std::string>(json, field, ""));
  }
  SACCADE_TRY(json_field_or<bool>(json, "normalized", true));
  SACCADE_ASSIGN(const bool late, json_field_or<bool>(json, "late_chunking", false));
  if (late) return fail(ErrorCode::kUsage, "\"late_chunking\": true, each input has its own row here");
  return {};
}

Result<HttpResponse> embeddings(const Context& context, const HttpRequest& request,
                                const std::vector<std::string>&) {
  SACCADE_ASSIGN(UntrustedJson json, json_body(context, request, kFields));
  if (request.path == kOfPictures && !json.contains("modality")) json["modality"] = "image";
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "model", ""));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(name == kNoModelNamed ? "" : name));
  SACCADE_ASSIGN(const std::string format, format_of(json));
  const int64_t dim = model->info.dim;
  SACCADE_ASSIGN(const auto dimensions, json_field_or<int64_t>(json, "dimensions", dim));
  if (dimensions != dim && dimensions != 0) {
    return fail(ErrorCode::kUsage,
                "\"dimensions\": {}: rows of {} have {}, and nothing is known of shorter ones", dimensions,
                model->name, dim);
  }
  SACCADE_ASSIGN(const bool cut, may_be_cut(json));
  SACCADE_TRY(check_other_fields(json));
  SACCADE_ASSIGN(const bool own_tokens, has_own_tokens(json, *model));
  SACCADE_ASSIGN(const std::vector<Input> inputs, inputs_of(json, own_tokens));
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, inputs));
  if (!cut && encoded.dropped_tokens > 0) {
    return fail(ErrorCode::kUsage, "{} tokens more than {} reads, and \"truncate\" is {}",
                encoded.dropped_tokens, model->name, dump_json(json["truncate"]));
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

Json entry_of(const ServedModel& model) {
  return {{"id", model.name}, {"object", "model"}, {"created", 0}, {"owned_by", "saccade"}};
}

Result<HttpResponse> models(const Context& context, const HttpRequest&, const std::vector<std::string>&) {
  Json data = Json::array();
  for (const auto& model : context.served.models()) data.push_back(entry_of(*model));
  return json_response({{"object", "list"}, {"data", std::move(data)}});
}

Result<HttpResponse> model(const Context& context, const HttpRequest&,
                           const std::vector<std::string>& parts) {
  SACCADE_ASSIGN(const ServedModel* found, context.served.model(parts[0]));
  return json_response(entry_of(*found));
}

// Returns the model list that infinity's client expects: "stats" and "capabilities" are required, and the
// owner must be infinity.
Result<HttpResponse> infinity_models(const Context& context, const HttpRequest&,
                                     const std::vector<std::string>&) {
  Json data = Json::array();
  for (const auto& model : context.served.models()) {
    Json entry = entry_of(*model);
    entry.erase("owned_by");
    entry["backend"] = "saccade";
    entry["capabilities"] = Json::array();
    if (model->reads_texts) entry["capabilities"].push_back("embed");
    if (model->info.image_width > 0) entry["capabilities"].push_back("image_embed");
    entry["capabilities"].push_back("rerank");
    entry["stats"] = Json::object();
    data.push_back(std::move(entry));
  }
  return json_response({{"object", "list"}, {"data", std::move(data)}});
}

}  // namespace

Json openai_error(int status, std::string_view code, std::string_view message) {
  Json detail = message;
  if (status == 422) {  // as infinity's client reads it
    detail = Json::array({{{"loc", {"body"}}, {"msg", message}, {"type", code}}});
  }
  return {{"error",
           {{"message", message},
            {"type", status >= 500 ? "server_error" : "invalid_request_error"},
            {"param", nullptr},
            {"code", code}}},
          {"message", message},
          {"detail", std::move(detail)}};
}

Format openai_format() {
  return {{{"POST", "/v1/embeddings", embeddings},
           {"GET", "/v1/models", models},
           {"GET", "/v1/models/{name}", model},
           {"POST", "/embeddings", embeddings},
           {"POST", kOfPictures, embeddings},
           {"GET", "/models", infinity_models}},
          openai_error};
}

}  // namespace saccade::serve

// Immich's machine-learning service, as its server asks it: POST /predict, a form of "entries" (JSON: task,
// type, model's name) with an "image" or a "text"; GET /ping. The task "clip" alone: faces and text in
// pictures are other models' work.
//
//   entries   {"clip": {"visual": {"modelName": "ViT-B-32__openai"}}}
//   answer    {"clip": "[0.1, ...]", "imageHeight": 480, "imageWidth": 640}
#include <array>

#include <fmt/format.h>

#include "saccade/serve/formats/multipart.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

struct Asked {
  std::string model;
  bool of_picture = false;
};

Result<Asked> asked_of(const Context& context, std::string_view entries) {
  SACCADE_ASSIGN(const UntrustedJson json, client_json(context, entries).in("\"entries\""));
  if (!json.is_object() || json.size() != 1 || !json.contains("clip")) {
    return fail(ErrorCode::kUnsupported, "\"entries\": the task \"clip\" alone is served here");
  }
  const Json& types = json["clip"];
  if (!types.is_object() || types.size() != 1 || (!types.contains("visual") && !types.contains("textual"))) {
    return fail(ErrorCode::kBadData,
                "\"entries\": \"clip\" is expected to have \"visual\" or \"textual\", and no more");
  }
  Asked asked;
  asked.of_picture = types.contains("visual");
  SACCADE_ASSIGN(asked.model, json_field<std::string>(types.front(), "modelName").in("\"entries\""));
  return asked;
}

Result<HttpResponse> predict(const Context& context, const HttpRequest& request,
                             const std::vector<std::string>&) {
  SACCADE_ASSIGN(const std::vector<FormPart> parts,
                 parse_form(request.header("content-type").value_or(""), request.body));
  const auto part = [&](std::string_view name) -> const FormPart* {
    for (const FormPart& one : parts) {
      if (one.name == name) return &one;
    }
    return nullptr;
  };
  const FormPart* entries = part("entries");
  if (entries == nullptr) return fail(ErrorCode::kUsage, "the form has no \"entries\"");
  SACCADE_ASSIGN(const Asked asked, asked_of(context, entries->bytes));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(asked.model));
  const char* wanted = asked.of_picture ? "image" : "text";
  const FormPart* input = part(wanted);
  if (input == nullptr || input->bytes.empty())
    return fail(ErrorCode::kUsage, "the form has no \"{}\"", wanted);
  Json json = Json::object();
  std::vector<Input> inputs(1);
  if (asked.of_picture) {
    inputs.front().picture = std::string(input->bytes);
    DecodeOptions size_only = context.limits();
    size_only.size_only_above = 1;
    SACCADE_ASSIGN(const DecodedImage picture,
                   decode_image(std::as_bytes(std::span(input->bytes)), size_only));
    json["imageHeight"] = picture.original_height;
    json["imageWidth"] = picture.original_width;
  } else {
    inputs.front().text = std::string(input->bytes);
  }
  SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, *model, inputs));
  // A text of JSON inside the JSON: what Immich gives to its database as it is.
  Json row = Json::array();
  for (const float value : encoded.rows.row(0)) row.push_back(value);
  json["clip"] = dump_json(row);
  return with_tokens(json_response(json), encoded.tokens, encoded.dropped_tokens);
}

Result<HttpResponse> ping(const Context&, const HttpRequest&, const std::vector<std::string>&) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "pong";
  return response;
}

}  // namespace

Format immich_format() {
  return {{{"POST", "/predict", predict}, {"GET", "/ping", ping, Right::kNone, true}},
          [](int, std::string_view, std::string_view message) -> Json {
            return {{"detail", message}};
          }};
}

}  // namespace saccade::serve

// Inference container of Weaviate's module multi2vec-clip: Weaviate asks the address in CLIP_INFERENCE_API,
// or the `inferenceUrl` of a collection, for the vectors of objects and of queries (nearText, nearImage).
//
//   GET  /.well-known/live, /.well-known/ready   204
//   GET  /meta                                   an object, which Weaviate shows under its own /v1/meta
//   POST /vectorize   {"texts": ["a bell", ...], "images": ["<base64>", ...]}
//                     -> {"textVectors": [[0.1, ...], ...], "imageVectors": [[...], ...]}
//   errors            {"error": "a sentence"}
//
// The module sends no key of its own, but Go turns "http://saccade:KEY@host:port" into Basic authorization.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

// A list of strings; the module leaves an empty one out.
Result<std::vector<Input>> vectorizer_inputs(const Json& json, const char* field) {
  std::vector<Input> inputs;
  if (!json.contains(field) || json[field].is_null()) return inputs;
  if (!json[field].is_array())
    return fail(ErrorCode::kBadData, "\"{}\": {}, expected a list", field, json_kind(json[field]));
  for (const Json& item : json[field]) {
    const std::string name = fmt::format("\"{}\" {}", field, inputs.size());
    if (!item.is_string())
      return fail(ErrorCode::kBadData, "{}: {}, expected a string", name, json_kind(item));
    Input input;
    const auto text = item.get<std::string>();
    if (field == std::string_view("images")) {
      SACCADE_ASSIGN(input.picture, decode_picture_text(text).in(name));
    } else {
      input.text = text;
      input.may_be_empty = true;
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<HttpResponse> vectorize(const Context& context, const HttpRequest& request,
                               const std::vector<std::string>&) {
  constexpr std::array<std::string_view, 2> kFields = {"texts", "images"};
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kFields));
  SACCADE_ASSIGN(ServedModel * model, context.served.model(""));
  SACCADE_ASSIGN(std::vector<Input> texts, vectorizer_inputs(json, "texts"));
  SACCADE_ASSIGN(std::vector<Input> images, vectorizer_inputs(json, "images"));
  const size_t inputs = texts.size() + images.size();
  if (std::cmp_greater(inputs, context.options.most_inputs)) {
    return fail(ErrorCode::kUsage, "{} texts and images, at most {} are taken at a time", inputs,
                context.options.most_inputs);
  }
  Json answer = {{"textVectors", Json::array()}, {"imageVectors", Json::array()}};
  EncodedInputs encoded;
  if (!texts.empty() || images.empty()) {
    SACCADE_ASSIGN(encoded, encode_inputs(context, *model, std::move(texts)).in("\"texts\""));
    answer["textVectors"] = rows_json(encoded.rows);
  }
  if (!images.empty()) {
    SACCADE_ASSIGN(const EncodedInputs seen,
                   encode_inputs(context, *model, std::move(images)).in("\"images\""));
    answer["imageVectors"] = rows_json(seen.rows);
  }
  return with_tokens(json_response(answer), encoded.tokens, encoded.dropped_tokens);
}

Result<HttpResponse> vectorizer_meta(const Context& context, const HttpRequest&,
                                     const std::vector<std::string>&) {
  SACCADE_ASSIGN(const ServedModel* model, context.served.model(""));
  const EncoderInfo& encoder = model->info;
  return json_response({{"model",
                         {{"_name_or_path", model->name},
                          {"model_type", encoder.family},
                          {"projection_dim", encoder.dim},
                          {"max_position_embeddings", encoder.context},
                          {"torch_dtype", enum_name(encoder.precision)},
                          {"fingerprint", encoder.fingerprint}}}});
}

Result<HttpResponse> vectorizer_ready(const Context&, const HttpRequest&, const std::vector<std::string>&) {
  HttpResponse response;
  response.status = 204;
  return response;
}

}  // namespace

Format weaviate_format() {
  return {{{"POST", "/vectorize", vectorize},
           {"GET", "/meta", vectorizer_meta},
           {"GET", "/.well-known/live", vectorizer_ready, Right::kNone, true},
           {"GET", "/.well-known/ready", vectorizer_ready, Right::kNone, true}},
          [](int, std::string_view, std::string_view message) -> Json {
            return {{"error", message}};
          }};
}

}  // namespace saccade::serve

// Client of OpenAI's image API, also spoken by many servers of open models:
//
//   POST /images/edits        multipart/form-data: image (a PNG), prompt, model, n, size
//   POST /images/generations  JSON: prompt, model, n, size
//   answer                    {"data": [{"b64_json": BASE64}]} or {"data": [{"url": ADDRESS}]}
//
// Fields that only some models accept ("response_format", "quality", "background") are set by the user.
#include "saccade/core/base64.h"
#include "saccade/imagegen/http_engine.h"

namespace saccade {
namespace {

class OpenAiEngine : public HttpEngine {
 public:
  using HttpEngine::HttpEngine;

 protected:
  Result<std::string> make_one(const PictureRequest& request, const std::stop_token& stop) override {
    SACCADE_ASSIGN(hub::HttpRequest asked,
                   request.reference != nullptr ? edit(request) : generation(request));
    SACCADE_ASSIGN(const hub::HttpReply reply, caller().call(std::move(asked), stop));
    return picture_of(reply, stop);
  }

 private:
  Result<hub::HttpRequest> edit(const PictureRequest& request) const {
    hub::HttpRequest asked;
    asked.url = "/images/edits";
    SACCADE_ASSIGN(std::string png, encode_png(*request.reference));
    asked.form = {{.name = "image",
                   .content = std::move(png),
                   .file_name = "reference.png",
                   .content_type = "image/png"},
                  {.name = "prompt", .content = prompt_of(request)},
                  {.name = "n", .content = "1"}};
    if (!options().model.empty()) asked.form.push_back({.name = "model", .content = options().model});
    if (options().width > 0) asked.form.push_back({.name = "size", .content = size()});
    for (const auto& [key, value] : options().set) {
      asked.form.push_back(
          {.name = key, .content = value.is_string() ? value.get<std::string>() : dump_json(value)});
    }
    return asked;
  }

  Result<hub::HttpRequest> generation(const PictureRequest& request) const {
    Json json = {{"prompt", prompt_of(request)}, {"n", 1}};
    if (!options().model.empty()) json["model"] = options().model;
    if (options().width > 0) json["size"] = size();
    for (const auto& [key, value] : options().set) json[key] = value;
    return json_request("/images/generations", json);
  }

  [[nodiscard]] std::string size() const { return fmt::format("{}x{}", options().width, options().height); }

  Result<std::string> picture_of(const hub::HttpReply& reply, const std::stop_token& stop) {
    const auto json = parse_json(reply.body);
    if (!json) return fail(ErrorCode::kBadData, "the answer is no JSON but {}", said_in(reply.body));
    const auto data = json->is_object() ? json->find("data") : json->end();
    if (!json->is_object() || data == json->end() || !data->is_array() || data->empty()) {
      return fail(ErrorCode::kBadData, "the answer has no image (\"data\"): {}", said_in(reply.body));
    }
    const Json& first = data->front();
    SACCADE_ASSIGN(const auto base64, json_field_or<std::string>(first, "b64_json", ""));
    if (!base64.empty()) return decode_picture_text(base64).in("\"b64_json\"");
    SACCADE_ASSIGN(const auto url, json_field_or<std::string>(first, "url", ""));
    if (url.empty()) return fail(ErrorCode::kBadData, "the answer has neither \"b64_json\" nor \"url\"");
    if (url.starts_with("data:")) return decode_picture_text(url).in("\"url\"");
    hub::HttpRequest fetch;
    fetch.url = url;
    SACCADE_ASSIGN(hub::HttpReply picture, caller().call(std::move(fetch), stop, EngineCaller::Counted::kNo));
    return std::move(picture.body);
  }
};

}  // namespace

Result<std::unique_ptr<PictureEngine>> open_openai_engine(const ImageEngineOptions& options) {
  SACCADE_ASSIGN(auto caller,
                 EngineCaller::open(options, options.key.empty() ? std::string() : "Bearer " + options.key));
  return std::unique_ptr<PictureEngine>(std::make_unique<OpenAiEngine>(options, std::move(caller), 4));
}

}  // namespace saccade

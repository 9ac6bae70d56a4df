// Client of the API of AUTOMATIC1111's Stable Diffusion web UI, also spoken by Forge and others:
//
//   POST /sdapi/v1/img2img   {"init_images": [BASE64], "prompt", "seed", "width", "height", ...}
//   POST /sdapi/v1/txt2img   {"prompt", "seed", "width", "height", ...}
//   answer                   {"images": [BASE64, ...], "parameters": {...}, "info": "..."}
//
// All other fields of the API (steps, cfg_scale, denoising_strength, negative_prompt) are set by the user.
#include "saccade/core/base64.h"
#include "saccade/imagegen/http_engine.h"

namespace saccade {
namespace {

class Automatic1111Engine : public HttpEngine {
 public:
  using HttpEngine::HttpEngine;

 protected:
  Result<std::string> make_one(const PictureRequest& request, const std::stop_token& stop) override {
    Json json = {{"prompt", prompt_of(request)},
                 {"seed", request.seed & 0x7fff'ffffU},
                 {"width", options().width},
                 {"height", options().height},
                 {"batch_size", 1},
                 {"n_iter", 1}};
    if (!options().model.empty()) {
      json["override_settings"] = {{"sd_model_checkpoint", options().model}};
    }
    for (const auto& [key, value] : options().set) json[key] = value;
    if (request.reference != nullptr) {
      SACCADE_ASSIGN(const std::string png, encode_png(*request.reference));
      json["init_images"] = Json::array({encode_base64(png)});
    }
    const char* path = request.reference != nullptr ? "/sdapi/v1/img2img" : "/sdapi/v1/txt2img";
    SACCADE_ASSIGN(const hub::HttpReply reply, caller().call(json_request(path, json), stop));
    const auto answer = parse_json(reply.body);
    if (!answer) return fail(ErrorCode::kBadData, "the answer is no JSON but {}", said_in(reply.body));
    const auto images = answer->is_object() ? answer->find("images") : answer->end();
    if (!answer->is_object() || images == answer->end() || !images->is_array() || images->empty() ||
        !images->front().is_string()) {
      return fail(ErrorCode::kBadData, "the answer has no image (\"images\"): {}", said_in(reply.body));
    }
    return decode_picture_text(images->front().get_ref<const std::string&>()).in("\"images\"");
  }
};

}  // namespace

Result<std::unique_ptr<PictureEngine>> open_automatic1111_engine(const ImageEngineOptions& options) {
  ImageEngineOptions settled = options;
  if (settled.width == 0) settled.width = settled.height = 512;  // its own default, said
  SACCADE_ASSIGN(auto caller,
                 EngineCaller::open(
                     settled, settled.key.empty() ? std::string() : "Basic " + encode_base64(settled.key)));
  return std::unique_ptr<PictureEngine>(std::make_unique<Automatic1111Engine>(settled, std::move(caller), 1));
}

}  // namespace saccade

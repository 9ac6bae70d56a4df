// Client of ComfyUI's API, with a workflow provided by the user ("Save (API format)"):
//
//   POST /upload/image    multipart/form-data: image (a PNG), overwrite -> {"name", "subfolder", "type"}
//   POST /prompt          {"prompt": workflow, "client_id"}            ->
//                         {"prompt_id", "number", "node_errors"}
//   GET  /history/ID      {} until it is done, then
//                         {ID: {"outputs": {node: {"images": [{"filename", "subfolder", "type"}]}},
//                               "status": {"status_str": "success" or "error", "completed", "messages"}}}
//   GET  /view?filename=&subfolder=&type=   the image
//
// Placeholders in the workflow's strings: %prompt%, %reference% (the uploaded image's name), %seed%, %width%,
// %height%. A string that is exactly one of the last three becomes a number.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/core/hash.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/imagegen/http_engine.h"

namespace saccade {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstLook{100};
constexpr milliseconds kLongestLook{2000};

struct Placeholder {
  std::string_view name;
  Json value;
};

Json filled(const Json& json, std::span<const Placeholder> placeholders) {
  if (json.is_object()) {
    Json copy = Json::object();
    for (const auto& [key, value] : json.items()) copy[key] = filled(value, placeholders);
    return copy;
  }
  if (json.is_array()) {
    Json copy = Json::array();
    for (const Json& value : json) copy.push_back(filled(value, placeholders));
    return copy;
  }
  if (!json.is_string()) return json;
  const auto& text = json.get_ref<const std::string&>();
  std::string said;
  // A single pass: placeholders inside an inserted text are not replaced.
  for (size_t at = 0; at < text.size();) {
    const auto here = std::ranges::find_if(placeholders, [&](const Placeholder& each) {
      return text.compare(at, each.name.size(), each.name) == 0;
    });
    if (here == placeholders.end()) {
      said += text[at++];
      continue;
    }
    if (here->name.size() == text.size()) return here->value;
    said += here->value.is_string() ? here->value.get<std::string>() : dump_json(here->value);
    at += here->name.size();
  }
  return said;
}

bool has_placeholder(const Json& json, std::string_view name) {
  if (json.is_string()) return json.get_ref<const std::string&>().find(name) != std::string::npos;
  return json.is_structured() &&
         std::ranges::any_of(json, [&](const Json& value) { return has_placeholder(value, name); });
}

class ComfyUiEngine : public HttpEngine {
 public:
  ComfyUiEngine(ImageEngineOptions options, std::unique_ptr<EngineCaller> caller, Json workflow)
      : HttpEngine(std::move(options), std::move(caller), 2),
        workflow_(std::move(workflow)),
        takes_reference_(has_placeholder(workflow_, "%reference%")) {}

  Json settings() const override {
    Json settings = HttpEngine::settings();
    settings["workflow_sha256"] = sha256_hex(dump_json(workflow_));
    return settings;
  }

 protected:
  Result<std::string> make_one(const PictureRequest& request, const std::stop_token& stop) override {
    if (takes_reference_ != (request.reference != nullptr)) {
      return fail(ErrorCode::kUsage, "the workflow has {} %reference%, and there is {} reference",
                  takes_reference_ ? "a" : "no", request.reference != nullptr ? "a" : "no");
    }
    std::string reference;
    if (request.reference != nullptr) {
      SACCADE_ASSIGN(reference, upload(*request.reference, stop));
    }
    const std::array<Placeholder, 5> placeholders = {{{"%prompt%", prompt_of(request)},
                                                      {"%reference%", reference},
                                                      {"%seed%", request.seed & 0xffff'ffffU},
                                                      {"%width%", options().width},
                                                      {"%height%", options().height}}};
    Json asked = {{"prompt", filled(workflow_, placeholders)}, {"client_id", "saccade"}};
    SACCADE_ASSIGN(const hub::HttpReply reply, caller().call(json_request("/prompt", asked), stop));
    SACCADE_ASSIGN(const Json queued, answer_of(reply).in("/prompt"));
    if (const auto errors = queued.find("node_errors");
        errors != queued.end() && errors->is_object() && !errors->empty()) {
      return fail(ErrorCode::kBadData, "the workflow is refused: {}", said_in(dump_json(*errors)));
    }
    SACCADE_ASSIGN(const auto id, json_field<std::string>(queued, "prompt_id").in("/prompt"));
    Result<Json> done = wait_for(id, stop);
    if (!done) {
      forget(id);
      return fail(std::move(done).error());
    }
    return fetch(*done, stop);
  }

 private:
  static Result<Json> answer_of(const hub::HttpReply& reply) {
    auto json = parse_json(reply.body);
    if (!json) return fail(ErrorCode::kBadData, "the answer is no JSON but {}", said_in(reply.body));
    if (!json->is_object()) return fail(ErrorCode::kBadData, "the answer is {}", json_kind(*json));
    return json;
  }

  // Uploads an image and returns its name for the workflow.
  Result<std::string> upload(const Image& reference, const std::stop_token& stop) {
    SACCADE_ASSIGN(std::string png, encode_png(reference));
    hub::HttpRequest asked;
    asked.url = "/upload/image";
    // The name is a hash of the content, so the same image is the same file on the server for all clients.
    const std::string name = fmt::format("saccade-{}.png", sha256_hex(png).substr(0, 16));
    asked.form = {
        {.name = "image", .content = std::move(png), .file_name = name, .content_type = "image/png"},
        {.name = "overwrite", .content = "true"}};
    SACCADE_ASSIGN(const hub::HttpReply reply, caller().call(std::move(asked), stop));
    SACCADE_ASSIGN(const Json json, answer_of(reply).in("/upload/image"));
    SACCADE_ASSIGN(const auto there, json_field<std::string>(json, "name").in("/upload/image"));
    SACCADE_ASSIGN(const auto folder, json_field_or<std::string>(json, "subfolder", "").in("/upload/image"));
    return folder.empty() ? there : folder + "/" + there;
  }

  // Waits for the end of the job and returns its history entry.
  Result<Json> wait_for(const std::string& id, const std::stop_token& stop) {
    const auto until = std::chrono::steady_clock::now() + options().silence;
    for (milliseconds time = kFirstLook;; time = std::min(time * 2, kLongestLook)) {
      hub::HttpRequest look;
      look.url = "/history/" + percent_encoded(id);
      SACCADE_ASSIGN(const hub::HttpReply reply,
                     caller().call(std::move(look), stop, EngineCaller::Counted::kNo));
      SACCADE_ASSIGN(const Json json, answer_of(reply).in("/history"));
      if (const auto found = json.find(id); found != json.end()) {
        SACCADE_TRY(check_done(*found));
        return *found;
      }
      if (std::chrono::steady_clock::now() > until) {
        return fail(ErrorCode::kLimit, "not done after {} seconds", options().silence.count());
      }
      SACCADE_TRY(stoppable_wait(time, stop));
    }
  }

  static Status check_done(const Json& entry) {
    const auto status = entry.is_object() ? entry.find("status") : entry.end();
    if (!entry.is_object() || status == entry.end() || !status->is_object()) return {};
    if (status->value("status_str", Json()) != "error") return {};
    std::string why = "no reason is given";
    if (const auto messages = status->find("messages"); messages != status->end() && messages->is_array()) {
      for (const Json& message : *messages) {
        if (!message.is_array() || message.size() < 2 || message[0] != "execution_error") continue;
        const Json& details = message[1];
        if (!details.is_object()) continue;
        why = said_in(dump_json({{"message", details.value("exception_message", Json("?"))}}));
        if (const auto node = details.find("node_type"); node != details.end() && node->is_string()) {
          why = node->get<std::string>() + ": " + why;
        }
      }
    }
    return fail(ErrorCode::kIo, "the workflow failed: {}", why);
  }

  // Downloads the first image of an output node; a preview (type "temp") only if there is no other.
  Result<std::string> fetch(const Json& entry, const std::stop_token& stop) {
    const Json* chosen = nullptr;
    const auto outputs = entry.is_object() ? entry.find("outputs") : entry.end();
    if (entry.is_object() && outputs != entry.end() && outputs->is_object()) {
      for (const auto& [node, output] : outputs->items()) {
        const auto images = output.is_object() ? output.find("images") : output.end();
        if (!output.is_object() || images == output.end() || !images->is_array()) continue;
        for (const Json& image : *images) {
          if (!image.is_object()) continue;
          const bool kept = image.value("type", Json()) == "output";
          if (chosen == nullptr || (kept && chosen->value("type", Json()) != "output")) chosen = &image;
        }
      }
    }
    if (chosen == nullptr) {
      return fail(ErrorCode::kBadData, "the workflow made no image: does it end in a node that saves one?");
    }
    SACCADE_ASSIGN(const auto name, json_field<std::string>(*chosen, "filename").in("/history"));
    SACCADE_ASSIGN(const auto folder, json_field_or<std::string>(*chosen, "subfolder", "").in("/history"));
    SACCADE_ASSIGN(const auto type, json_field_or<std::string>(*chosen, "type", "output").in("/history"));
    hub::HttpRequest asked;
    asked.url = fmt::format("/view?filename={}&subfolder={}&type={}", percent_encoded(name),
                            percent_encoded(folder), percent_encoded(type));
    SACCADE_ASSIGN(hub::HttpReply picture, caller().call(std::move(asked), stop, EngineCaller::Counted::kNo));
    return std::move(picture.body);
  }

  // Removes an abandoned job from the server's queue.
  void forget(const std::string& id) {
    caller().tell(json_request("/queue", {{"delete", Json::array({id})}}));
  }

  Json workflow_;
  bool takes_reference_;
};

}  // namespace

Result<std::unique_ptr<PictureEngine>> open_comfyui_engine(const ImageEngineOptions& options) {
  if (options.workflow.empty()) {
    return fail(ErrorCode::kUsage,
                "ComfyUI needs a workflow (--workflow FILE.json, saved in its API format, with %prompt% and "
                "%reference% in it)");
  }
  ImageEngineOptions settled = options;
  if (settled.width == 0) settled.width = settled.height = 512;
  SACCADE_ASSIGN(Json workflow, read_json(settled.workflow));
  const std::string where = settled.workflow.string();
  if (!workflow.is_object()) {
    return fail(ErrorCode::kBadData, "{}: {}, not a workflow", where, json_kind(workflow));
  }
  if (workflow.contains("nodes") && workflow.contains("links")) {
    return fail(ErrorCode::kUsage,
                "{}: a workflow as the page saves it; the API takes what \"Save (API format)\" writes",
                where);
  }
  if (!has_placeholder(workflow, "%prompt%")) {
    return fail(ErrorCode::kUsage, "{}: no %prompt% in it: nothing would be told to it", where);
  }
  if (!settled.set.empty() || !settled.model.empty()) {
    return fail(ErrorCode::kUsage, "--set and --engine-model are for engines without a workflow: change {}",
                where);
  }
  SACCADE_ASSIGN(auto caller,
                 EngineCaller::open(settled, settled.key.empty() ? std::string() : "Bearer " + settled.key));
  return std::unique_ptr<PictureEngine>(
      std::make_unique<ComfyUiEngine>(settled, std::move(caller), std::move(workflow)));
}

}  // namespace saccade

#include "lab/generate/own_engine.h"

#include <atomic>

#include "saccade/image/image_codec.h"
#include "saccade/imagegen/http_engine.h"
#include "saccade/model/checkpoints/locate.h"

namespace saccade::lab {
namespace {

class OwnEngine : public PictureEngine {
 public:
  OwnEngine(std::unique_ptr<Editor> editor, const OwnEngineOptions& options)
      : editor_(std::move(editor)), settings_(options.edit), prompt_(options.prompt) {}

  Json settings() const override {
    const EditorConfig& config = editor_->config();
    return {{"name", "own"},
            {"editor", editor_->fingerprint()},
            {"encoder", config.frozen.fingerprint},
            {"steps", settings_.steps > 0 ? settings_.steps : config.steps},
            {"guidance", settings_.guidance >= 0 ? settings_.guidance : config.guidance},
            {"prompt", prompt_}};
  }
  int64_t at_once() const override { return 16; }
  int vector_side() const override { return static_cast<int>(2 * editor_->config().side); }
  Image reference(const ImageView& picture) const override { return editor_->reference(picture); }
  int64_t cut_texts() const override { return cut_; }

  std::vector<Result<std::string>> make(std::span<const PictureRequest> requests,
                                        const std::stop_token& stop) override {
    std::vector<Image> references;
    std::vector<std::string> texts;
    std::vector<uint64_t> seeds;
    for (const PictureRequest& request : requests) {
      if (request.reference == nullptr) {
        return {requests.size(),
                fail(ErrorCode::kUnsupported, "the editor draws no image without a reference")};
      }
      references.push_back(*request.reference);
      texts.push_back(prompted(prompt_, request.text));
      seeds.push_back(request.seed);
    }
    int64_t cut = 0;
    const auto drawn = editor_->draw(references, texts, seeds, settings_, stop, cut);
    cut_ += cut;
    if (!drawn) return {requests.size(), fail(drawn.error())};
    std::vector<Result<std::string>> pictures;
    for (const Image& image : *drawn) pictures.push_back(encode_png(image));
    return pictures;
  }

 private:
  std::unique_ptr<Editor> editor_;
  EditSettings settings_;
  std::string prompt_;
  std::atomic<int64_t> cut_ = 0;
};

}  // namespace

Result<std::unique_ptr<PictureEngine>> open_own_engine(const OwnEngineOptions& options) {
  SACCADE_TRY(check_prompt(options.prompt));
  std::filesystem::path folder = options.editor;
  if (folder.empty()) {
    SACCADE_ASSIGN(folder, editor_checkpoint());
  }
  SACCADE_ASSIGN(std::unique_ptr<Editor> editor, Editor::open(folder, options.encoder));
  return std::unique_ptr<PictureEngine>(std::make_unique<OwnEngine>(std::move(editor), options));
}

}  // namespace saccade::lab

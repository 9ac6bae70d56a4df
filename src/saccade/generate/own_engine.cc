// The editor of our own as an engine.
#include <atomic>

#include "saccade/generate/http_engine.h"
#include "saccade/model/locate.h"

namespace saccade {
namespace {

class OwnEngine : public PictureEngine {
 public:
  OwnEngine(std::unique_ptr<Editor> editor, const EngineOptions& options)
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
                fail(ErrorCode::kUnsupported, "the editor draws no picture without a reference")};
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

Result<std::unique_ptr<PictureEngine>> open_own_engine(const EngineOptions& options) {
  if (!options.set.empty() || options.width > 0 || !options.endpoint.empty() || !options.model.empty() ||
      !options.workflow.empty()) {
    return fail(ErrorCode::kUsage,
                "--endpoint, --size, --set, --engine-model and --workflow are for engines elsewhere");
  }
  std::filesystem::path folder = options.editor;
  if (folder.empty()) {
    SACCADE_ASSIGN(folder, editor_checkpoint());
  }
  SACCADE_ASSIGN(std::unique_ptr<Editor> editor, Editor::open(folder, options.encoder));
  return std::unique_ptr<PictureEngine>(std::make_unique<OwnEngine>(std::move(editor), options));
}

}  // namespace saccade

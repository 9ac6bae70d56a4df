// A stage of composers' training as the loop's task. Internal to the module.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/train/data/composed_data.h"
#include "lab/train/data/composed_held_out.h"
#include "lab/train/loop.h"
#include "lab/train/trained_composers.h"
#include "saccade/core/threads.h"
#include "saccade/model/families/clip.h"

namespace saccade::lab {

// Contents of encoder/ in a composer's checkpoint: nothing if only the composer was trained; the text tower
// if that alone was trained; or the whole encoder.
enum class OwnEncoder { kNone, kTexts, kWhole };

// A stage's model and data. All pointers are borrowed. Those that may be null say when.
struct ComposedStage {
  bool align = false;  // stage one: texts towards targets; else stage two
  TrainedTowers towers = TrainedTowers::kNone;
  ComposerConfig composer;  // stage two's; its encoder is the one that the training begins with
  OwnEncoder own = OwnEncoder::kNone;
  const LoadedEncoder* loaded = nullptr;
  const ComposedData* data = nullptr;
  const StoredPixels* pixels = nullptr;          // null unless the image tower is trained
  const StoredTokens* picture_tokens = nullptr;  // null if the image tower is trained; SPRC: vision states
  const StoredTokens* text_tokens = nullptr;     // null if the text tower is trained
  std::span<const TokenizedText> texts;          // [data->texts]
};

struct ComposedBatch {
  // Images of the batch, each once, the references first: pixels, or states of a frozen tower.
  torch::Tensor pixels;          // [u, 3, height, width]
  torch::Tensor picture_rows;    // [u, dim]: the tokens that stand for the whole
  torch::Tensor picture_tokens;  // [references, tokens, dim]
  // Texts of the batch, each once: one of the two.
  torch::Tensor ids;             // [v, longest] int64
  torch::Tensor text_tokens;     // [v, longest, dim]
  std::vector<int64_t> lengths;  // [v]
  torch::Tensor ends;            // [v] int64: the tokens that stand for the whole
  torch::Tensor references;      // [n] int64: places among the images
  torch::Tensor targets;         // [n]
  torch::Tensor wordings;        // [n]: places among the texts
  torch::Tensor positives;       // [n, candidates] bool
  int64_t step = -1;             // step of the training; below 0: none
};

// A stage as a task that can be measured by itself.
class ComposedStageTask : public TrainingTask {
 public:
  [[nodiscard]] const TorchMap& parameters() const override { return trained_; }
  [[nodiscard]] double rate_of(const std::string& parameter) const override;
  void after_update() override;
  Result<Json> evaluate() override;
  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override {
    return composed_headline(held_out);
  }
  // Loads the weights that write_model has written.
  virtual Status read_model(const std::filesystem::path& folder) = 0;
  // Measures a set with the current weights, without gradients.
  [[nodiscard]] virtual Result<Json> measure(const HeldOutQueries& set) const = 0;

 protected:
  static constexpr const char* kPrefix = "composer.";  // prefix of the parameters that are not the encoder's

  ComposedStageTask(const ComposedTrainingOptions& options, const ComposedStage& stage, ThreadPool& pool);
  // Adds the logit scale to the parameters of a composer and returns it.
  static Result<torch::Tensor> add_log_scale(InitializedParameters& source);
  // Releases the mapped states from time to time. images: the number of those read since the last call.
  void release_states(int64_t images);
  // Returns the id of the encoder that was written into `folder`/encoder.
  [[nodiscard]] Result<EncoderId> own_encoder(const std::filesystem::path& folder) const;

  const ComposedTrainingOptions& options_;
  const ComposedStage stage_;
  ThreadPool& pool_;
  DType dtype_ = DType::kF32;                 // type of the products
  const ItemFile& images_;                    // the stage's pixels or states
  std::map<std::string, std::string> files_;  // files of the encoder's checkpoint beside the weights
  torch::Tensor log_scale_;
  TorchMap trained_;
  GroupedOrder order_;             // used by prepare(), which one thread runs at a time
  std::vector<int64_t> class_of_;  // images of equal content have equal numbers

 private:
  int64_t unreleased_ = 0;  // bytes of mapped states read since they were released
};

class ComposedTrainingTask : public ComposedStageTask {
 public:
  static Result<std::unique_ptr<ComposedTrainingTask>> make(const ComposedTrainingOptions& options,
                                                            const ComposedStage& stage, ThreadPool& pool);

  Result<StepLosses> prepare(int64_t step) override;
  [[nodiscard]] Status write_model(const std::filesystem::path& folder) const override;
  Status read_model(const std::filesystem::path& folder) override;
  [[nodiscard]] Result<Json> measure(const HeldOutQueries& set) const override;

  // Returns the data of a step, a function of the seed and the step alone.
  ComposedBatch batch(int64_t step);
  // The batch must live until the backward pass has run.
  [[nodiscard]] torch::Tensor loss(const ComposedBatch& batch) const;

 private:
  ComposedTrainingTask(const ComposedTrainingOptions& options, const ComposedStage& stage, ThreadPool& pool);
  Status make_towers();
  Status make_composer();
  [[nodiscard]] bool trains_pictures() const { return stage_.towers == TrainedTowers::kBoth; }
  [[nodiscard]] bool trains_texts() const { return stage_.towers != TrainedTowers::kNone; }
  // Fills the batch's images. references: the number of first images that are represented by their tokens.
  void fill_pictures(std::span<const int64_t> pictures, int64_t references, ComposedBatch& batch) const;
  void fill_texts(std::span<const int64_t> texts, ComposedBatch& batch) const;

  // The batch's images and texts: tokens, and normalized embeddings.
  struct Encoded {
    torch::Tensor picture_tokens;  // [references or more, tokens, dim]
    torch::Tensor text_tokens;     // [v, longest, dim]
    torch::Tensor pictures;        // [u, dim]
    torch::Tensor texts;           // [v, dim]
  };
  // Return the trained towers' tokens: [n, tokens, dim], with gradients in micro-batches.
  [[nodiscard]] torch::Tensor image_tokens(const torch::Tensor& pixels) const;
  [[nodiscard]] torch::Tensor text_tokens(const torch::Tensor& ids) const;
  [[nodiscard]] Encoded encode(const ComposedBatch& batch) const;
  // Returns the queries' normalized embeddings: [n, dim].
  [[nodiscard]] torch::Tensor compose(const ComposedBatch& batch, const Encoded& encoded,
                                      MatchedTokens* matched) const;
  Status write_encoder(const std::filesystem::path& folder) const;

  torch::Device device_;
  std::optional<TrainedClip> model_;
  TorchMap tower_parameters_;  // all of the model's
  std::unique_ptr<TrainedComposer> composer_;
  TorchMap composer_parameters_;
  std::vector<int64_t> ends_;  // index of each text's token that stands for the whole
};

}  // namespace saccade::lab

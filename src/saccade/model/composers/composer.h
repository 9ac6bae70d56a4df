// Composer: a small trained checkpoint that computes one query embedding from a reference image and a
// modification text.
//
// Its folder:
//   config.json        {"model_type": "composer", "kind", "dim", "options": the kind's own,
//                       "encoder": {"name", "family", "fingerprint"},
//                       "texts": the same of encoder/, if that encodes the texts}
//   frozen.json        {"path"}: location of that encoder's checkpoint, absolute or relative to this folder;
//                      "encoder" if the encoder was trained with the composer and is in the folder. Not
//                      covered by the fingerprint
//   model.safetensors  the kind's parameters, and logit_scale
//   encoder/           that encoder, if it was trained with the composer; or, with "texts", an encoder whose
//                      text tower was, and which does not encode images
//
// Searched embeddings must come from exactly the encoder that the composer names. If a composer's encoder/
// encodes images, collections for it are indexed with that encoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/named_encoder.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/workspace.h"

namespace saccade {

struct ComposerConfig {
  std::string kind;  // a name that find_composer_kind() knows
  int64_t dim = 0;   // width of the shared space
  Json options = Json::object();
  EncoderId encoder;
  std::optional<EncoderId> texts = std::nullopt;  // encoder of the texts; the encoder itself if absent
};
Json composer_config_json(const ComposerConfig& config);  // without the path

// Inputs that a kind requires.
struct ComposerNeeds {
  bool picture_rows = false;  // the image's embedding, of length 1
  bool text_rows = false;     // the text's
  bool tokens = false;        // both token rows (token_states.h)
  bool words = false;         // the words themselves: it runs the text tower on its own
  bool word_place = false;    // a text tower that reads a vector in place of a word (WordInserter)
  bool prompts = false;       // the image's states, and a text tower that reads a prompt (PromptReader)
};

// Batch of queries; entry i of each member belongs to query i. Inputs that a kind does not need are empty.
struct ComposerInput {
  Matrix<float> picture_rows;  // [n, dim], of length 1
  Matrix<float> text_rows;     // [n, dim], of length 1
  RowSets picture_tokens;
  RowSets text_tokens;
  RowSets picture_states;  // FrozenFeatures' ImageState::kVision, of n images or of one for all
  std::vector<std::string> words;
};

// Pair of an image token and a text token that a composer merged.
struct MergedPair {
  int32_t picture = 0;  // 0: the whole; i: patch i - 1, row by row from the top left
  int32_t text = 0;     // its place in the text's ids
  float cosine = 0;
};

struct Composed {
  Matrix<float> rows;                            // [n, dim], each of length 1
  std::vector<std::vector<MergedPair>> matches;  // [n]; empty for kinds that match no tokens
};

// Loaded parameters of a kind. Called by one thread at a time.
class ComposerModel {
 public:
  virtual ~ComposerModel() = default;
  // Composes embeddings of any length. `encoder` is for kinds that need the texts.
  [[nodiscard]] virtual Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input,
                                                 nn::Workspace* workspace) = 0;
};

// Kind of composer: one value in its own file (composers/), and one line in kinds.h and kinds.cc.
struct ComposerKind {
  std::string_view name;
  ComposerNeeds needs;
  // Loads all parameters from `source`. kBadData names an impossible option.
  Result<std::unique_ptr<ComposerModel>> (*load)(const ComposerConfig& config, nn::ParameterSource& source);
  // True if its embedding is compared with all rows of an image of late interaction: the score is the largest
  // dot product (MaxSim). Other kinds are for encoders with one embedding per image.
  bool late = false;
};
// Returns the kind of that name; kUnsupported lists the known ones.
Result<const ComposerKind*> find_composer_kind(std::string_view name);

// Returns kUnsupported if the encoder cannot provide the inputs of a kind.
Status check_composer_needs(EncoderBackend& encoder, const ComposerKind& kind);
// Computes the inputs of a kind. `pixels`: [n, 3 * height * width], or one image for all, encoded by
// `pictures`; `words`: [n], cut at the context of `texts`. If both embeddings and token states are needed,
// the embeddings are taken from the token states, so that everything is encoded once. Returns the encoders'
// errors.
Result<ComposerInput> composer_input(EncoderBackend& pictures, EncoderBackend& texts,
                                     const ComposerNeeds& needs, MatrixView<const float> pixels,
                                     std::span<const std::string> words);

// Opened composer. Thread-safe: concurrent calls run one after the other.
class Composer {
 public:
  // Opens a composer. Returns kUnsupported for another kind of checkpoint or an unknown kind of composer, and
  // kBadData or kMismatch for damaged files. The encoder is not opened, except the composer's own text
  // encoder. `changed`: overrides of the kind's options, such as {"tau": 0.5}; the fingerprint stays the
  // checkpoint's.
  static Result<std::unique_ptr<Composer>> open(const std::filesystem::path& folder,
                                                const BackendOptions& options = {},
                                                const Json& changed = Json::object());

  [[nodiscard]] const ComposerConfig& config() const { return config_; }
  [[nodiscard]] const ComposerKind& kind() const { return *kind_; }
  // Returns a display name: the folder's, or its run's if the folder is the "model" written by a training.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] int64_t parameters() const { return parameters_; }
  // Returns the folder of its encoder's checkpoint, with the search and errors of open_named_encoder.
  [[nodiscard]] Result<std::filesystem::path> encoder_folder() const;
  // Returns kMismatch, naming both, for an encoder other than the one it was trained on.
  [[nodiscard]] Status check_encoder(const EncoderBackend& encoder) const;

  // Returns the encoder of the texts: the composer's own, which lives as long as the composer, or the given
  // one.
  [[nodiscard]] EncoderBackend& texts(EncoderBackend& encoder) const { return texts_ ? *texts_ : encoder; }

  // Computes query embeddings [n, dim] of length 1. Returns kBadData for a row that is not finite or has no
  // length. Cost, for ATF on CLIP: at most a few percent of encoding the images and the texts.
  [[nodiscard]] Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input);
  // Computes query embeddings from texts and from images as written by `preprocess`.
  [[nodiscard]] Result<Composed> compose(EncoderBackend& encoder, MatrixView<const float> pixels,
                                         std::span<const std::string> words);

 private:
  ComposerConfig config_;
  const ComposerKind* kind_ = nullptr;
  std::filesystem::path folder_;
  FingerprintMemory memory_;
  std::unique_ptr<EncoderBackend> texts_;
  std::string fingerprint_;
  int64_t parameters_ = 0;
  std::unique_ptr<nn::Workspace> workspace_;
  Weights weights_;
  std::unique_ptr<ComposerModel> model_;
  std::mutex mutex_;
};

}  // namespace saccade

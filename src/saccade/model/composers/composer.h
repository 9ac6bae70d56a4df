// A composer: a small trained checkpoint that makes one row of a reference picture and a change in words.
//
// Its folder:
//   config.json        {"model_type": "composer", "kind", "dim", "options": the kind's own,
//                       "encoder": {"name", "family", "fingerprint"},
//                       "texts": the same of encoder/, where that reads the words}
//   frozen.json        {"path"}: where that encoder's checkpoint is, absolute or relative to this folder;
//                      "encoder" where the encoder was trained with the composer and lies in it. Not
//                      covered by the fingerprint
//   model.safetensors  the kind's parameters, and logit_scale
//   encoder/           that encoder, where it was trained with the composer; or, with "texts", one whose text
//                      tower was, and which pictures are not encoded with
//
// Rows that are searched must come from the very encoder the composer names: a collection for a composer
// whose encoder/ encodes pictures is indexed with that.
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
#include "saccade/model/encoder.h"
#include "saccade/model/named_encoder.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/workspace.h"

namespace saccade {

struct ComposerConfig {
  std::string kind;  // a name of composer_kinds()
  int64_t dim = 0;   // width of the shared space
  Json options = Json::object();
  EncoderId encoder;
  std::optional<EncoderId> texts = std::nullopt;  // what reads the words; absent: the encoder
};
// kBadData names the field.
Result<ComposerConfig> composer_config_from_json(const Json& json);
Json composer_config_json(const ComposerConfig& config);  // without the path

// What a kind makes a row of.
struct ComposerNeeds {
  bool picture_rows = false;  // the picture's row, of length 1
  bool text_rows = false;     // the text's
  bool tokens = false;        // both token rows (token_states.h)
  bool words = false;         // the words themselves: it runs the text tower on its own
};

// A batch of queries: reference i and words i are one. What a kind does not need is empty.
struct ComposerInput {
  Matrix<float> picture_rows;  // [n, dim], of length 1
  Matrix<float> text_rows;     // [n, dim], of length 1
  RowSets picture_tokens;
  RowSets text_tokens;
  std::vector<std::string> words;
};

// A picture's token and a text's that a composer made one.
struct MergedPair {
  int32_t picture = 0;  // 0: the whole; i: patch i - 1, row by row from the top left
  int32_t text = 0;     // its place in the text's ids
  float cosine = 0;
};

struct Composed {
  Matrix<float> rows;                            // [n, dim], each of length 1
  std::vector<std::vector<MergedPair>> matches;  // [n]; empty for kinds that match no tokens
};

// A kind's loaded parameters. Called by one thread at a time.
class ComposerModel {
 public:
  virtual ~ComposerModel() = default;
  // Rows of any length in the result. `encoder` is for kinds that need words.
  [[nodiscard]] virtual Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input,
                                                 nn::Workspace* workspace) = 0;
};

// A kind of composer: one value in its own file (composers/), and one line in composer.cc.
struct ComposerKind {
  std::string_view name;
  std::string_view what;  // in words
  ComposerNeeds needs;
  // Takes all its parameters from `source`. kBadData names the option that cannot be.
  Result<std::unique_ptr<ComposerModel>> (*load)(const ComposerConfig& config, nn::ParameterSource& source);
};
std::span<const ComposerKind* const> composer_kinds();
// kUnsupported for a kind that is not known, naming those that are.
Result<const ComposerKind*> find_composer_kind(std::string_view name);

// kUnsupported where the encoder cannot give what a kind needs.
Status check_composer_needs(EncoderBackend& encoder, const ComposerKind& kind);
// What a kind needs of pictures [n, 3 * height * width], or of one for all, which `pictures` encodes, and
// words [n], which are cut at the context of `texts`. Rows come from token rows where both are needed, so
// that everything is encoded once. Errors: the encoders'.
Result<ComposerInput> composer_input(EncoderBackend& pictures, EncoderBackend& texts, const ComposerNeeds& needs,
                                     MatrixView<const float> pixels, std::span<const std::string> words);

// Thread-safe: calls from several threads are run one after the other.
class Composer {
 public:
  // kUnsupported for a checkpoint that is no composer or of an unknown kind; kBadData, kMismatch for damaged
  // ones. The encoder is not opened, but one of its own for the words is. `changed`: options of the kind in
  // place of the checkpoint's own, such as {"tau": 0.5}; the fingerprint stays the checkpoint's.
  static Result<std::unique_ptr<Composer>> open(const std::filesystem::path& folder,
                                                const BackendOptions& options = {},
                                                const Json& changed = Json::object());

  [[nodiscard]] const ComposerConfig& config() const { return config_; }
  [[nodiscard]] const ComposerKind& kind() const { return *kind_; }
  // For people: the folder's, or of the "model" that a training writes its run's.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }
  [[nodiscard]] int64_t parameters() const { return parameters_; }
  // The folder of its encoder's checkpoint, found as open_named_encoder finds it; errors as there.
  [[nodiscard]] Result<std::filesystem::path> encoder_folder() const;
  // kMismatch for an encoder other than the one it was trained on, naming both.
  [[nodiscard]] Status check_encoder(const EncoderBackend& encoder) const;

  // What reads its words: its own encoder, or the given one. Its own goes with the composer.
  [[nodiscard]] EncoderBackend& texts(EncoderBackend& encoder) const { return texts_ ? *texts_ : encoder; }

  // Rows [n, dim] of length 1. kBadData for a row that is no number or has no length. Cost, of ATF on CLIP:
  // at most a few percent of encoding the pictures and the words.
  [[nodiscard]] Result<Composed> compose(EncoderBackend& encoder, const ComposerInput& input);
  // The same of pictures as `preprocess` writes them, and words.
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

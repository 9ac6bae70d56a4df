// Encoder: a loaded model that turns images and texts into embeddings of one space.
//
//   auto encoder = saccade::Encoder::load("openai/clip-vit-base-patch32");
//   auto images = encoder->encode_images({"a.jpg", "b.png"});
//   auto texts = encoder->encode_texts({"two birds", "a red door"});
//   float cosine = saccade::dot(images->row(0), texts->row(1));
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "saccade/embeddings.h"
#include "saccade/encoder_info.h"
#include "saccade/image.h"
#include "saccade/late_interaction.h"
#include "saccade/matrix.h"
#include "saccade/precision.h"
#include "saccade/preprocessing.h"
#include "saccade/progress.h"
#include "saccade/result.h"
#include "saccade/tokenizer.h"

#pragma GCC visibility push(default)
namespace saccade {

class EncoderBackend;  // private

// Options of Encoder::load.
struct EncoderOptions {
  Precision precision =
      Precision::kFp32;  // exact; kAuto is up to seven times as fast and loads the model twice
  int threads = 0;       // 0: one for each processor of the process; at most 1,024
  // Device: "cpu", "cuda", or "cuda:1" for the second GPU. A GPU encodes with models of the CLIP family, in kFp32 and kBf16, by
  // libsaccade-torch.so of saccade-lab; kUnsupported where that, the GPU or the model's family is missing.
  std::string device = "cpu";
};

// Handling of inputs that cannot be read.
enum class OnError {
  kFail,  // the first input that cannot be read is the error of the call; its message names the input's index
  kSkip,  // inputs that cannot be read are left out and listed (Embeddings::skipped)
};

// Options of encoding.
struct EncodeOptions {
  int batch_size = 32;  // inputs a pass of the model, at least 1; more take more memory and are hardly faster
  OnError errors = OnError::kFail;    // handling of inputs that cannot be read
  ProgressCallback on_progress = {};  // called on the caller's thread after each batch
  std::stop_token stop = {};          // ends the call within a second of a request, with kCancelled
};

// An image to encode: a file, the bytes of a file, or decoded pixels. A value; owns what it holds.
class ImageInput {
 public:
  // Makes an input of a file, which is read when it is encoded.
  ImageInput(std::filesystem::path file)
      : content_(std::move(file)) {}  // NOLINT(google-explicit-constructor)
  // As above.
  ImageInput(const char* file)
      : content_(std::filesystem::path(file)) {}  // NOLINT(google-explicit-constructor)
  // As above.
  ImageInput(std::string file)
      : content_(std::filesystem::path(std::move(file))) {}  // NOLINT(google-explicit-constructor)
  // Makes an input of decoded pixels.
  ImageInput(Image pixels) : content_(std::move(pixels)) {}  // NOLINT(google-explicit-constructor)
  // Makes an input of a file's bytes: JPEG, PNG, WebP and whatever else can be decoded.
  static ImageInput bytes(std::string bytes) { return ImageInput(Bytes{std::move(bytes)}); }

  // Content of an image file.
  struct Bytes {
    std::string bytes = {};  // the whole file
  };
  // A file's path, its bytes, or decoded pixels.
  using Content = std::variant<std::filesystem::path, Bytes, Image>;
  // Returns the content as it was given. Valid as long as this input.
  [[nodiscard]] const Content& content() const { return content_; }

 private:
  explicit ImageInput(Bytes bytes) : content_(std::move(bytes)) {}
  Content content_;
};

// Tokens of a text, without start, end and padding.
struct TokenUse {
  int64_t used = 0;     // read by the model
  int64_t dropped = 0;  // cut off behind them, as the text is longer than the model reads
};

// Effective text length of a model on one dataset, texts to images, as `saccade-lab eval length` measured it: tokens
// beyond it hardly change what is found. Counts a text's own tokens, without start and end.
struct EffectiveLength {
  std::string dataset = {};          // name of the dataset
  std::string domain = {};           // of the dataset's texts, in a word; may be empty
  std::string precision = {};        // "fp32", "bf16"
  int64_t tokens = 0;                // with which R@1 first reaches `share` of its largest value
  std::optional<int64_t> low = {};   // interval of `tokens`
  std::optional<int64_t> high = {};  // its upper end
  double confidence = 0.95;          // of the interval
  double share = 0.95;               // of the largest R@1, 0 to 1
  double r1 = 0;                     // the largest R@1
  int64_t longest = 0;               // tokens of the longest text
  double longer_texts = 0;           // share of the texts that have more than `tokens`
  bool at_end = false;               // the texts ended before the effect did
  int64_t images = 0;                // of the dataset
  int64_t texts = 0;                 // of the dataset
};

// Relevance map: contribution of each image region to the image's score for a text.
struct RelevanceMap {
  int rows = 0;     // of patches, from the top
  int columns = 0;  // of patches, from the left
  std::vector<float>
      values;  // [rows * columns], row by row from the top left; 0 or more, comparable within one map
};

// A loaded model. Copies share it. Thread-safe: calls from several threads are run one after the other; decoding and
// preprocessing of one call run on all its threads.
class Encoder {
 public:
  // Loads a checkpoint: a folder, OWNER/NAME[@REVISION] of the hub's cache, "starter", or an alias. Nothing is
  // downloaded. Errors name the file, tensor or field at fault; kNotFound says how to get what is not there. kUsage for an
  // option out of range, kUnsupported for a device that is not there.
  // Cost: weights are mapped; milliseconds to a second, with kAuto some seconds.
  static Result<Encoder> load(std::string_view checkpoint, const EncoderOptions& options = {});

  // Facts about the model.
  [[nodiscard]] const EncoderInfo& info() const;
  // Display name: OWNER/NAME, the run folder's name for the result of a training, else the folder's own.
  [[nodiscard]] const std::string& name() const;
  // Folder that it was loaded from.
  [[nodiscard]] const std::filesystem::path& folder() const;
  // Preprocessing of images for the model.
  [[nodiscard]] const Preprocessing& preprocessing() const;
  // Tokenizer of the model; `nullptr` if the checkpoint has none. Lives as long as a copy of this encoder.
  [[nodiscard]] const Tokenizer* tokenizer() const;
  // Notes for people that loading gave rise to, such as a guessed preprocessing.
  [[nodiscard]] const std::vector<std::string>& notes() const;

  // Encodes images, [n, dim]. All calls that encode have kUsage for a batch size below 1, and kCancelled after a stop
  // request. Images are decoded under the default limits (256 MiB, 200 megapixels, 30 seconds each). If saccade-decode is
  // installed, they are decoded in separate processes. kUnsupported if the model reads no images; with OnError::kFail the
  // errors of reading one. Memory: one batch.
  [[nodiscard]] Result<Embeddings> encode_images(std::span<const ImageInput> images,
                                                 const EncodeOptions& options = {}) const;
  // As above, for a list in braces.
  [[nodiscard]] Result<Embeddings> encode_images(std::initializer_list<ImageInput> images,
                                                 const EncodeOptions& options = {}) const;
  // Gives images one after the other, then `nullopt`. Called on the caller's thread.
  using ImageSource = std::function<Result<std::optional<ImageInput>>()>;
  // Encodes the images of a source, [n, dim], holding one batch of them at a time. An error of the source is the error of
  // the call.
  [[nodiscard]] Result<Embeddings> encode_images(const ImageSource& next,
                                                 const EncodeOptions& options = {}) const;

  // Encodes texts, [n, dim]. A text longer than the model reads is cut; tokens() tells which are. kUnsupported if the
  // checkpoint has no tokenizer.
  [[nodiscard]] Result<Embeddings> encode_texts(std::span<const std::string> texts,
                                                const EncodeOptions& options = {}) const;
  // As above, for a list in braces.
  [[nodiscard]] Result<Embeddings> encode_texts(std::initializer_list<std::string> texts,
                                                const EncodeOptions& options = {}) const;

  // Encodes input that the caller has preprocessed: pixels [n, 3 * image_height * image_width], planar RGB, as
  // preprocess() writes them. kUsage for another width.
  [[nodiscard]] Result<Embeddings> encode_pixels(MatrixView<const float> pixels,
                                                 const EncodeOptions& options = {}) const;

  // Encodes texts that the caller has tokenized, [n, dim]: ids with start and end tokens, without padding, as Tokenizer
  // gives them. kUsage for no ids or more than info().context, kMismatch for ids outside the vocabulary.
  [[nodiscard]] Result<Embeddings> encode_tokens(std::span<const TokenizedText> texts,
                                                 const EncodeOptions& options = {}) const;

  // Counts the tokens of each text. kUnsupported if the checkpoint has no tokenizer.
  [[nodiscard]] Result<std::vector<TokenUse>> tokens(std::span<const std::string> texts) const;

  // Returns what `saccade-lab eval length` measured and kept beside the weights, one entry a dataset; empty if it has not.
  // kBadData for a broken saccade.json.
  [[nodiscard]] Result<std::vector<EffectiveLength>> effective_lengths() const;

  // True if the model gives several vectors an item (late interaction).
  [[nodiscard]] bool has_late_interaction() const;
  // Encodes images as several vectors each, [vectors, dim] an image. kUnsupported without late interaction, kUsage with
  // OnError::kSkip; else the errors of encode_images().
  [[nodiscard]] Result<MultiEmbeddings> encode_images_multi(std::span<const ImageInput> images,
                                                            const EncodeOptions& options = {}) const;
  // As above, for texts. kUnsupported without a tokenizer too.
  [[nodiscard]] Result<MultiEmbeddings> encode_texts_multi(std::span<const std::string> texts,
                                                           const EncodeOptions& options = {}) const;

  // True if the model has a matching head, which scores an image and a text together.
  [[nodiscard]] bool has_pair_scorer() const;
  // Scores image i with text i, [n]; higher is a better match. Slower and more accurate than the cosine of embeddings, so
  // it serves to rerank the best hits. Scores of one text are comparable. kUnsupported without a pair scorer, kUsage if
  // there are more of one than of the other and with OnError::kSkip; the errors of reading an image.
  [[nodiscard]] Result<std::vector<float>> score_pairs(std::span<const ImageInput> images,
                                                       std::span<const std::string> texts,
                                                       const EncodeOptions& options = {}) const;

  // True if relevance_map() can be computed.
  [[nodiscard]] bool has_relevance_maps() const;
  // Maps where in the image its score for the text comes from, by LeGrad (arXiv 2404.03214). kUnsupported if the image
  // tower is no transformer; the errors of reading the image. Cost: one to two times encoding the image.
  [[nodiscard]] Result<RelevanceMap> relevance_map(const ImageInput& image, const std::string& text) const;

  // True if the model was trained to tell visual texts from others (TIP-CLIP).
  [[nodiscard]] bool has_visualness() const;
  // Scores how visual each text is, in [0, 2]; higher is more visual (Verma et al., EMNLP 2023). The score is
  // 1 - the cosine with the embedding of the NULL image. kUnsupported if the model was not trained for it.
  [[nodiscard]] Result<std::vector<double>> visualness(std::span<const std::string> texts) const;
  // As above, with options of encoding.
  [[nodiscard]] Result<std::vector<double>> visualness(std::span<const std::string> texts,
                                                       const EncodeOptions& options) const;

 private:
  friend class Calibration;
  friend class Engine;
  struct State;
  explicit Encoder(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace saccade
#pragma GCC visibility pop

// Visualness of texts, by an encoder trained for it (TIP-CLIP: Verma et al. 2023, "Learning the Visualness of
// Text Using Large Vision-Language Models"). Non-visual texts lie at the embedding of one NULL image, so a
// text's visualness is S = 1 - <I_null, T> (equation 2).
//
// Such a checkpoint stores "visualness" in saccade.json:
//
//   {"fingerprint": HEX, "null_image": {"kind": "random", "seed": 0}, "null_row": [FLOAT, ...],
//    "threshold": 0.79, "measured": {...}}
//
// It is valid only for the encoder with that fingerprint; with other weights the embedding has no meaning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// NULL image. The paper compares random pixels, random pixels of another seed and a photograph (its figure
// 6), and finds no difference. Uniform grey is the mean of random pixels.
struct NullPicture {
  enum class Kind { kRandom, kGrey, kBlack, kWhite, kFile };
  Kind kind = Kind::kRandom;
  uint64_t seed = 0;           // seed of random pixels
  std::filesystem::path file;  // file of kFile
};
std::span<const EnumName<NullPicture::Kind>> enum_names(NullPicture::Kind);  // "random", "grey", ..., "file"

// Parses "random", "random:SEED", "grey", "black", "white", or the path of an image. Returns kUsage for an
// invalid SEED.
Result<NullPicture> parse_null_picture(std::string_view text);
// Describes an image as {"kind", "seed" or "file_sha256"}; equal images have equal descriptions. Reads the
// file, if any.
Result<Json> describe_null_picture(const NullPicture& picture);
// Draws an RGB image of width x height; a file's image has its own size. Returns the errors of
// decode_image_file.
Result<Image> draw_null_picture(const NullPicture& picture, int width, int height,
                                const DecodeOptions& decode = {});
// Returns the encoder's input, [3 * height * width]. Transparent areas get the preprocessing's background,
// which is white by default.
Result<std::vector<float>> null_picture_pixels(const NullPicture& picture,
                                               const Preprocessing& preprocessing);
// Returns the image's embedding, [dim], of length 1. kUnsupported for text models.
Result<std::vector<float>> null_picture_row(EncoderBackend& encoder, const NullPicture& picture);

// Returns S of each text, from its embedding of length 1: 0 (at the NULL image) to 2.
std::vector<double> visualness_scores(std::span<const float> null_row, MatrixView<const float> texts);

// Returns the classifier's probability of the visual class for each text (softmax): the class named "visual",
// or the second of two. Returns kUsage for other classes. A text is visual above kVisualProbability.
Result<std::vector<double>> visual_probabilities(TextClassifier& classifier,
                                                 std::span<const TokenizedText> texts);
inline constexpr double kVisualProbability = 0.5;

struct KeptVisualness {
  Json null_picture;            // as describe_null_picture
  std::vector<float> null_row;  // [dim], of length 1
  double threshold = 0;         // texts above it are visual
  Json measured;                // method of choosing the threshold, with its results
};

// Reads the data stored for the encoder of `fingerprint`. Returns nullopt if it was not trained for this, or
// if its weights have changed since. Returns kBadData, with the file, for data in another form.
Result<std::optional<KeptVisualness>> read_kept_visualness(const std::filesystem::path& checkpoint,
                                                           std::string_view fingerprint);
// Writes to saccade.json and keeps its other contents.
Status write_kept_visualness(const std::filesystem::path& checkpoint, std::string_view fingerprint,
                             const KeptVisualness& kept);

}  // namespace saccade

// Whether a text pictures anything, as an encoder that was trained for it tells (TIP-CLIP: Verma et al. 2023,
// "Learning the Visualness of Text Using Large Vision-Language Models"): texts that picture nothing lie at
// the row of one NULL picture, so a text's visualness is S = 1 - <I_null, T> (equation 2).
//
// What such a checkpoint keeps beside its weights is "visualness" in saccade.json:
//
//   {"fingerprint": HEX, "null_picture": {"kind": "random", "seed": 0}, "null_row": [FLOAT, ...],
//    "threshold": 0.79, "measured": {...}}
//
// It counts for the encoder of that fingerprint alone: with other weights the row means nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/enum_names.h"
#include "saccade/image/image.h"
#include "saccade/model/encoder.h"

namespace saccade {

// The study compares random pixels, random pixels of another seed and a photograph (its figure 6), and finds
// no difference. Even grey is what the mean of random pixels is.
struct NullPicture {
  enum class Kind { kRandom, kGrey, kBlack, kWhite, kFile };
  Kind kind = Kind::kRandom;
  uint64_t seed = 0;           // of random pixels
  std::filesystem::path file;  // of kFile
};
std::span<const EnumName<NullPicture::Kind>> enum_names(NullPicture::Kind);  // "random", "grey", ..., "file"

// "random", "random:SEED", "grey", "black", "white", or else the path of a picture.
// kUsage for a SEED that is none.
Result<NullPicture> parse_null_picture(std::string_view text);
// {"kind", "seed" or "file_sha256"}: the same picture has the same description. Reads the file of one.
Result<Json> describe_null_picture(const NullPicture& picture);
// width x height, RGB; a file's has its own size. Errors of decode_image_file.
Result<Image> draw_null_picture(const NullPicture& picture, int width, int height,
                                const DecodeOptions& decode = {});
// [3 * height * width] as the encoder takes it; what is transparent lies on the preprocessing's background,
// which is white where the checkpoint says nothing else.
Result<std::vector<float>> null_picture_pixels(const NullPicture& picture,
                                               const Preprocessing& preprocessing);
// [dim], of length 1. kUnsupported from text models.
Result<std::vector<float>> null_picture_row(EncoderBackend& encoder, const NullPicture& picture);

// S of each text, by its row of length 1: 0 (at the NULL picture) to 2.
std::vector<double> visualness_scores(std::span<const float> null_row, MatrixView<const float> texts);

// The probability of its visual class that a classifier gives each text (softmax): the class called "visual",
// or the second of two. kUsage for other classes. A text is called visual above kVisualProbability.
Result<std::vector<double>> visual_probabilities(TextClassifier& classifier,
                                                 std::span<const TokenizedText> texts);
inline constexpr double kVisualProbability = 0.5;

struct KeptVisualness {
  Json null_picture;            // as describe_null_picture
  std::vector<float> null_row;  // [dim], of length 1
  double threshold = 0;         // texts above it are visual
  Json measured;                // how the threshold was chosen, and the figures there
};

// What the checkpoint's folder keeps for the encoder of `fingerprint`; nothing where it was not trained for
// this, or has other weights since. kBadData, with the file, for what is kept in another form.
Result<std::optional<KeptVisualness>> read_kept_visualness(const std::filesystem::path& checkpoint,
                                                           std::string_view fingerprint);
// Into saccade.json, what else is in it kept.
Status write_kept_visualness(const std::filesystem::path& checkpoint, std::string_view fingerprint,
                             const KeptVisualness& kept);

}  // namespace saccade

// An encoder: a loaded checkpoint that turns pictures and texts into rows of one shared space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/image/preprocess.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

enum class Precision { kFp32, kBf16 };

struct EncoderOptions {
  Precision precision = Precision::kFp32;
  // Threads a forward pass may use; 0: all processors of the process. Process-wide: libtorch has one setting.
  int threads = 0;
};

struct EncoderInfo {
  std::string family;       // "clip"
  std::string layout;       // "hugging_face", "open_clip", "long_clip"
  std::string fingerprint;  // SHA-256 over weights, config, tokenizer and preprocessing
  int64_t dim = 0;          // width of the shared space
  int64_t context = 0;      // text positions, start and end included
  int64_t parameters = 0;
  int image_height = 0;
  int image_width = 0;
  float logit_scale = 0;  // exp of the learned log inverse temperature
};

// Thread-safe: calls from several threads are run one after the other.
class Encoder {
 public:
  virtual ~Encoder() = default;

  [[nodiscard]] virtual const EncoderInfo& info() const = 0;
  [[nodiscard]] virtual const Preprocessing& preprocessing() const = 0;
  // nullptr where the checkpoint's folder has no tokenizer files (then only images and ids can be encoded).
  [[nodiscard]] virtual const Tokenizer* tokenizer() const = 0;

  // pixels: [n, 3 * height * width] as `preprocess` writes them. Rows [n, dim], each of length 1.
  [[nodiscard]] virtual Result<Matrix<float>> encode_images(MatrixView<const float> pixels) = 0;
  // Rows [n, dim], each of length 1. Texts of any length up to `context` ids; padding is the encoder's
  // business.
  [[nodiscard]] virtual Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) = 0;
};

// Opens a checkpoint folder of a known family and layout. Errors name the file, tensor or field at fault.
Result<std::unique_ptr<Encoder>> load_encoder(const std::filesystem::path& checkpoint,
                                              const EncoderOptions& options = {});

// The fingerprint alone, without loading weights into a model. Reads every file it covers once.
Result<std::string> checkpoint_fingerprint(const std::filesystem::path& checkpoint);

}  // namespace saccade

// Reads image files as encoder input: decodes and preprocesses on many threads, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"
#include "saccade/image/preprocess.h"
#include "saccade/matrix.h"

namespace saccade {

// Pixels decoded at the same time, all threads together, where nothing else is said.
inline constexpr int64_t kPixelsInFlight = 100'000'000;

// Returns true if such a failure is a property of the file's bytes, so that another try would fail too. Other
// failures may go away: permission, a failing disk, memory, and the time limit among kLimit.
bool is_of_the_bytes(ErrorCode code);

// Decodes one image at a time per calling thread. Memory: pixels_in_flight x 4 bytes, including the bytes of
// the current files (a larger image is decoded alone), and for each thread a file's bytes of up to 16 MiB.
class PictureReader {
 public:
  // `threads`: how many will call read() at a time, about.
  PictureReader(const DecodeOptions& options, int64_t pixels_in_flight, int threads);
  ~PictureReader();
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;

  // Callback that returns the bytes of a file, or `nullopt` to skip its decoding. May be called twice for one
  // file.
  using ReadBytes = std::function<Result<std::optional<std::string>>()>;
  // Callback for the decoded image, called while its memory is accounted for.
  using Use = UsePicture;
  struct Outcome {
    std::optional<Error> error;  // of `bytes`, decode_for or `use`; kIo where memory ran out
    bool of_the_bytes = false;   // the error is a property of the file's bytes
  };
  // file_bytes: how large the file is, as far as that is known.
  Outcome read(const ReadBytes& bytes, int64_t file_bytes, const Use& use);

  [[nodiscard]] const DecodeOptions& options() const { return options_; }
  // Seconds of work until now, all threads together.
  struct Seconds {
    double decode = 0;
    double use = 0;
  };
  [[nodiscard]] Seconds seconds() const;

 private:
  struct State;
  Outcome read_within(const ReadBytes& bytes, int64_t file_bytes, const Use& use);
  std::optional<Outcome> decode(std::string_view bytes, int64_t max_pixels, const Use& use);

  const DecodeOptions options_;
  const int64_t pixels_in_flight_;
  const int64_t first_share_;
  std::unique_ptr<State> state_;
};

// Options of reading images as an encoder's input.
struct PixelOptions {
  DecodeOptions decode;
  Preprocessing preprocessing;
  int64_t pixels_in_flight = kPixelsInFlight;
  // True to stop at the first image that cannot be read. PixelBatch::failed then holds that one alone, and
  // the rows are undefined. Images that are being decoded are cancelled. If several fail, it is the one that
  // fails first.
  bool all_or_none = false;
};
// Returns options whose decoding fits the preprocessing: vector images are drawn large enough.
PixelOptions pixel_options(const Preprocessing& preprocessing, DecodeOptions decode = {});

// Pictures as an encoder takes them.
struct PixelBatch {
  Matrix<float> pixels;        // its first rows() are those of the pictures that could be read, in order
  std::vector<int64_t> which;  // of each row, the picture's number; rising
  std::vector<std::pair<int64_t, Error>> failed;  // the other pictures, by number
  PictureReader::Seconds seconds;                 // of work, all threads together; use: preprocessing

  [[nodiscard]] MatrixView<const float> rows() const {
    return pixels.view().slice(0, static_cast<int64_t>(which.size()));
  }
};

// Reads pictures 0 to count - 1 on the pool, the caller working along, and preprocesses them. `bytes`
// gives a file's bytes, from several threads, and may be called twice for one. A picture that cannot
// be read is no error of the batch. Memory: the batch itself, and that of PictureReader. The same for
// any number of threads.
PixelBatch read_pixels(int64_t count, const std::function<Result<std::string>(int64_t number)>& bytes,
                       const PixelOptions& options, ThreadPool& pool);

}  // namespace saccade

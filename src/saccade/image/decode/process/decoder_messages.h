// Messages between a program and its decoder processes, over a socket that preserves message boundaries.
//
// Bytes and pixels do not pass through the socket: they lie in two files in memory that both sides map. The
// program writes one, and the decoder writes the other. The image's metadata lie before its pixels in the
// latter. The socket has one message each way, the request and its number, so each side is woken once an
// image. Both sides are of one build (kDecoderProtocol, in the hello), so messages are structures as they are
// in memory. Still nothing that a decoder sends is trusted: an image may have taken it over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/image/decode_need.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/metadata/facts.h"

namespace saccade {

inline constexpr uint32_t kDecoderProtocol = 5;

// The descriptors that a decoder begins with.
inline constexpr int kDecoderSocket = 0;
inline constexpr int kDecoderInput = 1;     // file in memory: a picture's bytes
inline constexpr int kDecoderOutput = 3;    // file in memory: a DecodeAnswer and the picture's pixels
inline constexpr int kDecoderLifeline = 4;  // a pipe that closes with the program

// The first message of a decoder.
struct DecoderHello {
  uint32_t protocol = kDecoderProtocol;
  uint32_t landlock = 0;        // version of the kernel's interface in use; 0: files are not closed off
  uint32_t seccomp = 0;         // 1: system calls are filtered
  uint32_t memory_limited = 0;  // 1: the kernel enforces the limit
  int64_t data_bytes = 0;       // memory of its own before the first image, as RLIMIT_DATA counts it
};

struct DecodeRequest {
  uint64_t number = 0;  // counted from 1: what the answer says it is to
  uint64_t bytes = 0;   // of input
  int64_t max_pixels = 0;
  int64_t max_bytes = 0;
  int64_t size_only_above = 0;
  double max_seconds = 0;
  DecodeNeed granted;  // memory that the image may take
  int32_t vector_side = 0;
  int32_t shrink_to_side = 0;
  uint32_t apply_orientation = 0;
  uint32_t facts = 0;  // of a picture that is decoded, what its file says of itself
  uint32_t convert_to_srgb = 0;
  uint32_t unused = 0;
};

inline constexpr size_t kDecodeMessageBytes = 512;

struct DecodeReply {
  int32_t error = -1;  // an ErrorCode; -1: decoded
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;
  int32_t mode = 0;  // a PixelMode
  int32_t original_width = 0;
  int32_t original_height = 0;
  uint32_t has_pixels = 0;
  ShrunkFrom shrunk = {};
  std::array<char, 16> format = {};                    // padded with zeros
  std::array<char, kDecodeMessageBytes> message = {};  // of an error, likewise
};

// Embedded metadata of the file.
struct FactsMessage {
  int64_t taken = 0;
  double latitude = 0;
  double longitude = 0;
  int32_t zone_minutes = 0;
  int32_t rating = 0;
  uint8_t has_taken = 0;
  uint8_t has_zone = 0;
  uint8_t has_place = 0;
  uint8_t has_rating = 0;
  uint32_t unused = 0;
  // Padded with zeros. Keywords end in a line end each.
  std::array<char, kMaxFactName + 1> camera = {};
  std::array<char, kMaxFactName + 1> lens = {};
  std::array<char, kMaxFactTitle + 1> title = {};
  std::array<char, kMaxFactText + 1> description = {};
  std::array<char, kMaxFactText + 1> keywords = {};
};
// Header of the output file. The decoder writes the reply, then the number that marks it complete, then reads
// the metadata. If it dies of these, the image has already been decoded.
struct DecodeAnswer {
  uint64_t number = 0;  // of the request that `reply` is to
  uint32_t has_facts = 0;
  uint32_t unused = 0;
  // All that the image needs, if that is more than was granted; `reply` then is an error that describes it.
  DecodeNeed lacking;
  DecodeReply reply;
  FactsMessage facts;
};
inline constexpr size_t kDecoderPixels = 8192;  // where the pixels begin, behind it
static_assert(sizeof(DecodeAnswer) <= kDecoderPixels);

FactsMessage message_of(const PictureFacts& facts);
// Converts a message to metadata. Impossible values are dropped.
PictureFacts facts_of(const FactsMessage& message);

DecodeRequest request_of(uint64_t number, size_t bytes, const DecodeOptions& options,
                         const DecodeNeed& granted);
DecodeOptions options_of(const DecodeRequest& request);
DecodeReply reply_of(const Result<DecodedImage>& decoded, bool has_pixels);

// Returns true if metadata are read: they were requested, and the image's pixels were returned.
inline bool asks_for_facts(const DecodeOptions& options, const DecodeReply& reply) {
  return options.facts && reply.error == -1 && reply.has_pixels != 0;
}

// Image without its pixels, which are a buffer of `pixels` bytes still to be filled, or the error that the
// decoder sent. kInternal for a reply that no decoder of ours sends, or that breaks the limits of `options`.
struct ReadReply {
  DecodedImage picture;
  size_t pixels = 0;  // bytes of output
};
Result<ReadReply> read_reply(const DecodeReply& reply, const DecodeOptions& options);

// A file in memory, mapped. It grows and never shrinks, so that no page of a mapping can go away.
class SharedBytes {
 public:
  static Result<SharedBytes> make(const char* name);
  explicit SharedBytes(Descriptor file, bool writable) : file_(std::move(file)), writable_(writable) {}
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes& operator=(SharedBytes&& other) = delete;
  ~SharedBytes();

  [[nodiscard]] int descriptor() const { return file_.get(); }
  static constexpr size_t kStep = size_t{1} << 20;
  // Maps the first `size` bytes; with `grow`, the file is extended if necessary. kIo if it is shorter, or if
  // there is no memory. Earlier addresses become invalid.
  Result<std::byte*> map(size_t size, bool grow);
  // Returns the bytes of the mapping, whole mebibytes for a file that map() has lengthened.
  [[nodiscard]] size_t size() const { return size_; }

 private:
  Descriptor file_;
  bool writable_ = true;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace saccade

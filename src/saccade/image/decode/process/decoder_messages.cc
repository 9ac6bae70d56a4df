#include "saccade/image/decode/process/decoder_messages.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "saccade/image/decode/raw.h"

namespace saccade {
namespace {

template <size_t kSize>
void put(std::array<char, kSize>& field, std::string_view text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), kSize - 1));
}

template <size_t kSize>
std::string_view text_of(const std::array<char, kSize>& field) {
  return {field.data(), ::strnlen(field.data(), kSize)};
}

tl::unexpected<Error> nonsense(std::string_view what) {
  return fail(ErrorCode::kInternal, "its decoder's answer makes no sense: {}", what);
}

}  // namespace

DecodeRequest request_of(uint64_t number, size_t bytes, const DecodeOptions& options,
                         const DecodeNeed& granted) {
  DecodeRequest request;
  request.number = number;
  request.bytes = bytes;
  request.max_pixels = options.max_pixels;
  request.max_bytes = options.max_bytes;
  request.size_only_above = options.size_only_above;
  request.max_seconds = options.max_seconds;
  request.vector_side = options.vector_side;
  request.shrink_to_side = options.shrink_to_side;
  request.apply_orientation = options.apply_orientation ? 1 : 0;
  request.facts = options.facts ? 1 : 0;
  request.convert_to_srgb = options.convert_to_srgb ? 1 : 0;
  request.granted = granted;
  return request;
}

DecodeOptions options_of(const DecodeRequest& request) {
  DecodeOptions options;
  options.apply_orientation = request.apply_orientation != 0;
  options.max_pixels = request.max_pixels;
  options.max_bytes = request.max_bytes;
  options.max_seconds = request.max_seconds;
  options.vector_side = request.vector_side;
  options.shrink_to_side = request.shrink_to_side;
  options.size_only_above = request.size_only_above;
  options.facts = request.facts != 0;
  options.convert_to_srgb = request.convert_to_srgb != 0;
  return options;
}

DecodeReply reply_of(const Result<DecodedImage>& decoded, bool has_pixels) {
  DecodeReply reply;
  if (!decoded) {
    reply.error = static_cast<int32_t>(decoded.error().code);
    put(reply.message, decoded.error().message);
    return reply;
  }
  reply.width = decoded->image.width;
  reply.height = decoded->image.height;
  reply.channels = decoded->image.channels;
  reply.mode = static_cast<int32_t>(decoded->image.mode);
  reply.original_width = decoded->original_width;
  reply.original_height = decoded->original_height;
  reply.has_pixels = has_pixels ? 1 : 0;
  reply.shrunk = decoded->shrunk;
  put(reply.format, decoded->format);
  return reply;
}

// Returns true if the place of the whole image may be what a decoder of ours says.
bool is_plausible(const DecodeReply& reply) {
  const ShrunkFrom& shrunk = reply.shrunk;
  const auto within_a_pixel = [](double value, double expected) {
    return std::abs(value - expected) <= 1;  // false for NaN
  };
  if (!shrunk) return shrunk.width == 0;
  // A RAW file's preview has a size of its own, which is shrunk by no more than 8 as any JPEG is.
  const auto within_an_eighth = [](int whole, int shrunk_to) {
    return whole >= shrunk_to && (whole - 1) / 8 < shrunk_to;
  };
  const bool of_size =
      text_of(reply.format) == kRawFormat
          ? within_an_eighth(shrunk.width, reply.width) && within_an_eighth(shrunk.height, reply.height)
          : shrunk.width == reply.original_width && shrunk.height == reply.original_height;
  return of_size && within_a_pixel(shrunk.left, 0) && within_a_pixel(shrunk.top, 0) &&
         within_a_pixel(shrunk.across, reply.width) && within_a_pixel(shrunk.down, reply.height) &&
         shrunk.across > 0 && shrunk.down > 0;
}

Result<ReadReply> read_reply(const DecodeReply& reply, const DecodeOptions& options) {
  if (reply.error != -1) {
    if (reply.error < 0 || reply.error > static_cast<int32_t>(ErrorCode::kInternal)) {
      return nonsense(fmt::format("error {}", reply.error));
    }
    std::string text(text_of(reply.message));
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
    }
    if (text.empty()) return nonsense("an error without a word");
    return fail(Error{static_cast<ErrorCode>(reply.error), std::move(text)});
  }
  if (reply.width < 1 || reply.height < 1 || reply.channels < 1 || reply.channels > 4 ||
      reply.original_width < 1 || reply.original_height < 1 || reply.mode < 0 ||
      reply.mode > static_cast<int32_t>(PixelMode::kBilevel)) {
    return nonsense("its sizes");
  }
  if (!is_plausible(reply)) return nonsense("what it was shrunk from");
  if (reply.height > options.max_pixels / reply.width) return nonsense("more pixels than asked for");
  const std::string_view format = text_of(reply.format);
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (format.empty() || !std::ranges::all_of(format, plain)) return nonsense("its format");
  const int64_t count = int64_t{reply.width} * reply.height;
  const bool size_only = options.size_only_above > 0 && count > options.size_only_above;
  if (size_only == (reply.has_pixels != 0)) return nonsense("pixels where none were asked for, or none");
  ReadReply result;
  result.picture = {Image{reply.width, reply.height, reply.channels, static_cast<PixelMode>(reply.mode), {}},
                    std::string(format), reply.original_width, reply.original_height, reply.shrunk};
  if (!size_only) result.pixels = static_cast<size_t>(count) * static_cast<size_t>(reply.channels);
  return result;
}

FactsMessage message_of(const PictureFacts& facts) {
  FactsMessage message;
  message.has_taken = facts.taken ? 1 : 0;
  message.taken = facts.taken.value_or(0);
  message.has_zone = facts.zone_minutes ? 1 : 0;
  message.zone_minutes = facts.zone_minutes.value_or(0);
  message.has_place = facts.latitude && facts.longitude ? 1 : 0;
  message.latitude = facts.latitude.value_or(0);
  message.longitude = facts.longitude.value_or(0);
  message.has_rating = facts.rating ? 1 : 0;
  message.rating = facts.rating.value_or(0);
  put(message.camera, facts.camera);
  put(message.lens, facts.lens);
  put(message.title, facts.title);
  put(message.description, facts.description);
  std::string keywords;
  for (const std::string& keyword : facts.keywords) {
    if (keywords.size() + keyword.size() + 1 <= kMaxFactText) keywords += keyword + "\n";
  }
  put(message.keywords, keywords);
  return message;
}

PictureFacts facts_of(const FactsMessage& message) {
  PictureFacts facts;
  if (message.has_taken != 0) facts.taken = message.taken;
  if (message.has_zone != 0) facts.zone_minutes = message.zone_minutes;
  if (message.has_place != 0) {
    facts.latitude = message.latitude;
    facts.longitude = message.longitude;
  }
  if (message.has_rating != 0) facts.rating = message.rating;
  facts.camera = text_of(message.camera);
  facts.lens = text_of(message.lens);
  facts.title = text_of(message.title);
  facts.description = text_of(message.description);
  std::string_view keywords = text_of(message.keywords);
  for (size_t end = keywords.find('\n'); end != std::string_view::npos; end = keywords.find('\n')) {
    facts.keywords.emplace_back(keywords.substr(0, end));
    keywords.remove_prefix(end + 1);
  }
  return plausible(std::move(facts));
}

Result<SharedBytes> SharedBytes::make(const char* name) {
  const int made = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return fail_errno(errno, "make a file in memory");
  Descriptor file(made);
  if (::fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail_errno(errno, "seal a file in memory");
  }
  return SharedBytes(std::move(file), true);
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : file_(std::move(other.file_)),
      writable_(other.writable_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedBytes::~SharedBytes() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<std::byte*> SharedBytes::map(size_t size, bool grow) {
  if (size <= size_) return data_;
  // Sizes that repeat themselves from picture to picture need few mappings.
  size_t wanted = (size + kStep - 1) / kStep * kStep;
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return fail_errno(errno, "look at a file in memory");
  const auto now = static_cast<size_t>(info.st_size);
  if (now < wanted) {
    if (!grow) {
      if (now < size) return fail(ErrorCode::kIo, "a file in memory has {} bytes, {} announced", now, size);
      wanted = now;
    } else if (::ftruncate(file_.get(), static_cast<off_t>(wanted)) != 0) {
      return fail_errno(errno, fmt::format("lengthen a file in memory to {} bytes", wanted));
    }
  }
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
  void* mapped =
      ::mmap(nullptr, wanted, writable_ ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, fmt::format("map {} bytes", wanted));
  data_ = static_cast<std::byte*>(mapped);
  size_ = wanted;
  return data_;
}

}  // namespace saccade

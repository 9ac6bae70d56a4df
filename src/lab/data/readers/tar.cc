#include "lab/data/readers/tar.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace saccade::lab::data {
namespace {

constexpr size_t kBlock = 512;
constexpr int64_t kHeader = kBlock;
constexpr int64_t kMaxExtension = 1 << 20;  // a pax header or a long name

// Returns a field up to its first zero byte.
std::string_view text_field(std::string_view header, size_t offset, size_t length) {
  const std::string_view field = header.substr(offset, length);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Parses octal digits between spaces and zero bytes, or base 256 if the highest bit is set (GNU).
std::optional<int64_t> number_field(std::string_view header, size_t offset, size_t length) {
  const std::string_view field = header.substr(offset, length);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    for (size_t i = 0; i < field.size(); ++i) {
      const int64_t byte = static_cast<unsigned char>(field[i]) & (i == 0 ? 0x7f : 0xff);
      if (value > (kMax - byte) / 256) return std::nullopt;
      value = value * 256 + byte;
    }
    return value;
  }
  size_t at = 0;
  while (at < field.size() && field[at] == ' ') ++at;
  const size_t digits = at;
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at)
    value = value * 8 + (field[at] - '0');
  if (at == digits && at < field.size() && field[at] != '\0') return std::nullopt;
  if (at < field.size() && field[at] != ' ' && field[at] != '\0') return std::nullopt;
  return value;
}

bool checksum_holds(std::string_view header) {
  const auto stated = number_field(header, 148, 8);
  if (!stated) return false;
  int64_t plain = 0;
  int64_t with_signs = 0;  // sum that some old programs wrote
  for (size_t i = 0; i < kBlock; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : header[i];
    plain += static_cast<unsigned char>(c);
    with_signs += static_cast<signed char>(c);
  }
  return *stated == plain || *stated == with_signs;
}

// Values of extension headers for the member after them.
struct Extension {
  std::optional<std::string> name;
  std::optional<int64_t> size;
};

std::optional<int64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Reads records of "LENGTH KEY=VALUE\n"; the length counts the whole record.
Status read_pax(std::string_view text, Extension& extension) {
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const auto length = decimal(text.substr(0, std::min(space, text.size())));
    if (space == std::string_view::npos || !length || *length < static_cast<int64_t>(space) + 3 ||
        *length > static_cast<int64_t>(text.size())) {
      return fail(ErrorCode::kBadData, "a pax record that is not one");
    }
    std::string_view record = text.substr(space + 1, static_cast<size_t>(*length) - space - 1);
    text.remove_prefix(static_cast<size_t>(*length));
    const size_t equals = record.find('=');
    if (!record.ends_with('\n') || equals == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "a pax record that is not one");
    }
    record.remove_suffix(1);
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") extension.name = value;
    if (key.starts_with("GNU.sparse")) return fail(ErrorCode::kUnsupported, "a sparse file");
    if (key != "size") continue;
    extension.size = decimal(value);
    if (!extension.size) return fail(ErrorCode::kBadData, "a pax size of \"{}\"", value.substr(0, 30));
  }
  return {};
}

std::string header_name(std::string_view header) {
  std::string name(text_field(header, 0, 100));
  if (header.substr(257, 6) == std::string_view("ustar\0", 6)) {
    const std::string_view prefix = text_field(header, 345, 155);
    if (!prefix.empty()) name = std::string(prefix) + "/" + name;
  }
  return name;
}

class Walker {
 public:
  Walker(int64_t size, const ReadArchive& read, const std::function<Status(const TarMember&)>& member)
      : size_(size), read_(read), member_(member) {}

  Status run() {
    std::array<char, 8> first{};
    const std::span used = std::span(first).first(static_cast<size_t>(std::min<int64_t>(size_, 8)));
    SACCADE_TRY(read_(0, used));
    const std::string_view begin(used.data(), used.size());
    if (begin.starts_with("\x1f\x8b") || begin.starts_with("BZh") ||
        begin.starts_with("\xfd"
                          "7zXZ") ||
        begin.starts_with("\x28\xb5\x2f\xfd")) {
      return fail(ErrorCode::kUnsupported,
                  "a compressed archive; members of plain .tar files are read in place");
    }
    while (!ended_) {
      const int64_t at = at_;
      SACCADE_TRY(step().in(fmt::format("tar, byte {}", at)));
    }
    return {};
  }

 private:
  Status step() {
    if (size_ - at_ < kHeader) {
      return fail(ErrorCode::kBadData, "the archive ends without its end mark: it was cut short");
    }
    SACCADE_TRY(read_(at_, block_));
    const std::string_view header(block_.data(), block_.size());
    if (header.find_first_not_of('\0') == std::string_view::npos) {
      ended_ = true;
      if (extended_) return fail(ErrorCode::kBadData, "an extension header without its member");
      return {};
    }
    if (!checksum_holds(header)) return fail(ErrorCode::kBadData, "no tar header: its checksum is wrong");
    const char type = header[156];
    auto size = number_field(header, 124, 12);
    const bool extends = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    if (!extends && extension_.size) size = extension_.size;
    if (!size) return fail(ErrorCode::kBadData, "a size that is no number");
    const int64_t left = size_ - at_ - kHeader;
    if (*size > left) {
      return fail(ErrorCode::kBadData, "member \"{}\" has {} bytes, the archive ends after {}",
                  header_name(header).substr(0, 200), *size, left);
    }
    const int64_t offset = at_ + kHeader;
    // `left` bounds the sum. Careless writers may cut off the padding of the last member.
    at_ = std::min(offset + (*size + kHeader - 1) / kHeader * kHeader, size_);
    if (extends) return extend(type, offset, *size);
    const Extension extension = std::exchange(extension_, {});
    extended_ = false;
    if (type == 'S') return fail(ErrorCode::kUnsupported, "a sparse file");
    if (type != '0' && type != '\0' && type != '7') return {};
    TarMember member{
        .name = extension.name ? *extension.name : header_name(header), .offset = offset, .size = *size};
    if (member.name.empty()) return fail(ErrorCode::kBadData, "a member without a name");
    if (member.name.find('\0') != std::string::npos) {
      return fail(ErrorCode::kBadData, "a member with a zero byte in its name");
    }
    if (type != '7' && member.name.ends_with('/')) return {};  // a folder, as the oldest archives have them
    return member_(member);
  }

  Status extend(char type, int64_t offset, int64_t size) {
    if (size > kMaxExtension) {
      return fail(ErrorCode::kLimit, "an extension header of {} bytes, limit {}", size, kMaxExtension);
    }
    std::vector<char> read(static_cast<size_t>(size));
    SACCADE_TRY(read_(offset, read));
    const std::string_view content(read.data(), read.size());
    extended_ = type != 'g';
    if (type == 'L') extension_.name = content.substr(0, std::min(content.find('\0'), content.size()));
    if (type == 'x') return read_pax(content, extension_);
    return {};  // 'K' names a link's target; 'g' holds comments in practice
  }

  int64_t size_;
  const ReadArchive& read_;
  const std::function<Status(const TarMember&)>& member_;
  int64_t at_ = 0;
  std::array<char, kBlock> block_{};  // the header at hand
  bool ended_ = false;
  bool extended_ = false;
  Extension extension_;
};

}  // namespace

Status for_each_tar_member(int64_t size, const ReadArchive& read,
                           const std::function<Status(const TarMember&)>& member) {
  return Walker(size, read, member).run();
}

Status for_each_tar_member(std::span<const std::byte> archive,
                           const std::function<Status(const TarMember&)>& member) {
  const auto read = [&](int64_t offset, std::span<char> out) -> Status {
    std::ranges::copy(archive.subspan(static_cast<size_t>(offset), out.size()),
                      std::as_writable_bytes(out).begin());
    return {};
  };
  return for_each_tar_member(static_cast<int64_t>(archive.size()), read, member);
}

}  // namespace saccade::lab::data

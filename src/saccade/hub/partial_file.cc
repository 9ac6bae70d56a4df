#include "saccade/hub/partial_file.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "saccade/core/files/files.h"

namespace saccade::hub {
namespace {

constexpr size_t kBlock = 1 << 20;

// Hashes all bytes from the descriptor's position on; returns their number.
Result<int64_t> hash_rest(int descriptor, ContentHash& hash, const std::filesystem::path& path) {
  std::vector<std::byte> block(kBlock);
  int64_t total = 0;
  for (;;) {
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, path.string() + ": read");
    if (got == 0) return total;
    hash.update(std::span(block).first(static_cast<size_t>(got)));
    total += got;
  }
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path path, HashKind kind, std::string expected, int64_t size)
    : path_(std::move(path)), kind_(kind), expected_(std::move(expected)), size_(size), hash_(kind, size) {}

Result<PartialFile> PartialFile::open(const std::filesystem::path& path, HashKind kind, std::string expected,
                                      int64_t size) {
  PartialFile file(path, kind, std::move(expected), size);
  file.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file.descriptor_ < 0) return fail_errno(errno, path.string() + ": create");
  SACCADE_TRY(file.take_up());
  return file;
}

Status PartialFile::take_up() {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) return fail_errno(errno, path_.string());
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kBadData, "{}: not a regular file", path_.string());
  if (info.st_size > size_) return restart();
  SACCADE_ASSIGN(filled_, hash_rest(descriptor_, hash_, path_));
  found_ = filled_;
  return {};
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::move(other.path_)),
      kind_(other.kind_),
      expected_(std::move(other.expected_)),
      size_(other.size_),
      filled_(other.filled_),
      found_(other.found_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      hash_(std::move(other.hash_)) {}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status PartialFile::append(std::span<const std::byte> bytes) {
  if (static_cast<int64_t>(bytes.size()) > size_ - filled_) {
    return fail(ErrorCode::kMismatch, "more than the {} bytes that the hub says it has", size_);
  }
  SACCADE_TRY(write_all(descriptor_, bytes, path_.string()));
  hash_.update(bytes);
  filled_ += static_cast<int64_t>(bytes.size());
  return {};
}

Status PartialFile::restart() {
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0) {
    return fail_errno(errno, path_.string() + ": start again");
  }
  filled_ = found_ = 0;
  hash_ = ContentHash(kind_, size_);
  return {};
}

Status PartialFile::finish(const std::filesystem::path& destination) {
  if (filled_ != size_) {
    return fail(ErrorCode::kMismatch, "{} bytes came, the hub says it has {}", filled_, size_);
  }
  if (const std::string got = hash_.hex(); got != expected_) {
    return fail(ErrorCode::kMismatch, "what came has the hash {}, the hub says {}", got, expected_);
  }
  if (::fsync(descriptor_) != 0) return fail_errno(errno, path_.string() + ": flush");
  if (::rename(path_.c_str(), destination.c_str()) != 0)
    return fail_errno(errno, destination.string() + ": rename");
  return {};
}

void PartialFile::discard() {
  ::unlink(path_.c_str());
}

Result<bool> has_content(const std::filesystem::path& path, HashKind kind, const std::string& expected,
                         int64_t size) {
  std::error_code error;
  const auto there = std::filesystem::file_size(path, error);
  if (error) return fail_errno(error.value(), path.string());
  if (there != static_cast<uintmax_t>(size)) return false;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail_errno(errno, path.string());
  ContentHash hash(kind, size);
  const Result<int64_t> read = hash_rest(descriptor, hash, path);
  ::close(descriptor);
  if (!read) return fail(read.error());
  return hash.hex() == expected;
}

}  // namespace saccade::hub

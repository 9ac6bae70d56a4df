#include "saccade/serve/files/indexed_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <span>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/file_state.h"
#include "saccade/core/files/read_up_to_end.h"
#include "saccade/core/hash.h"
#include "saccade/image/frame_name.h"

namespace saccade::serve {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
constexpr size_t kMostCompared = 4096;
constexpr size_t kDigits = 64;  // of a hash; a frame's has its time behind them

// Opens a path in which nothing is a link; errno is ELOOP if something is. A kernel before 5.6, or a container
// that does not know the call, looks at the last part of the path alone.
int open_without_links(const std::string& path) {
  open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const auto opened = static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return opened;
  return ::open(path.c_str(), kFlags | O_NOFOLLOW);
}

// Calls `use` with each block of the file's first `size` bytes.
template <typename Use>
Status for_each_block(int descriptor, int64_t size, const Use& use) {
  std::array<char, 1 << 16> block;  // NOLINT(*-member-init): filled by pread
  for (int64_t offset = 0; offset < size;) {
    const auto wanted = std::min<size_t>(block.size(), static_cast<size_t>(size - offset));
    const int64_t got =
        read_up_to_end(descriptor, std::as_writable_bytes(std::span(block.data(), wanted)), offset);
    if (got < 0) return fail_errno(errno, "read");
    if (got == 0) break;
    use(std::string_view(block.data(), static_cast<size_t>(got)));
    offset += got;
  }
  return {};
}

}  // namespace

Result<OpenFile> IndexedFiles::open(const Item& item) {
  const std::string path = file_of(item.path);
  SACCADE_TRY(check_file_here(item).in(path));
  auto file = std::make_shared<const Descriptor>(open_without_links(path));
  const bool linked = file->get() < 0 && errno == ELOOP;
  if (linked) file = std::make_shared<const Descriptor>(::open(path.c_str(), kFlags));
  if (file->get() < 0) return fail_errno(errno, path);
  struct stat status = {};
  if (::fstat(file->get(), &status) != 0) return fail_errno(errno, path);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kNotFound, "{}: no regular file any more", path);
  if (linked) {
    const FileStamp stamp{.size = status.st_size,
                          .mtime_ns = nanoseconds_of(status.st_mtim),
                          .ctime_ns = nanoseconds_of(status.st_ctim),
                          .inode = status.st_ino,
                          .device = status.st_dev};
    SACCADE_ASSIGN(const bool same, has_indexed_content(item, file->get(), stamp).in(path));
    if (!same) {
      return fail(ErrorCode::kNotFound,
                  "{}: leads through a link to other content than was indexed; index it again", path);
    }
  }
  return OpenFile{
      std::move(file), status.st_size,
      fmt::format("{:x}-{:x}.{:x}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec)};
}

Result<bool> IndexedFiles::has_indexed_content(const Item& item, int descriptor, const FileStamp& stamp) {
  if (stamp.size != item.size) return false;
  const std::string indexed = item.hash.substr(0, kDigits);
  const std::string key = stamp.text();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = compared_.find(key); found != compared_.end()) return found->second == indexed;
  }
  Sha256 hash;
  SACCADE_TRY(for_each_block(descriptor, stamp.size, [&](std::string_view block) { hash.update(block); }));
  const std::string content = hash.hex();
  // A change in the same moment might not show in the stamp: such a file is read again the next time.
  if (is_settled(stamp)) {
    const std::lock_guard lock(mutex_);
    if (compared_.size() >= kMostCompared) compared_.clear();
    compared_.emplace(key, content);
  }
  return content == indexed;
}

Result<std::string> read_open_file(const OpenFile& file, int64_t max_bytes) {
  std::string bytes;
  if (file.bytes > max_bytes)
    return fail(ErrorCode::kLimit, "a file of {} bytes, limit {}", file.bytes, max_bytes);
  bytes.reserve(static_cast<size_t>(file.bytes));
  SACCADE_TRY(for_each_block(file.file->get(), file.bytes, [&](std::string_view block) { bytes += block; }));
  return bytes;
}

}  // namespace saccade::serve

#include "saccade/core/files/files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "saccade/core/files/links.h"
#include "saccade/core/files/sync_folder.h"
#include "saccade/core/files/temporary_files.h"

namespace saccade {
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

namespace {

// Opens a regular file for reading and returns its size.
Result<int> open_regular(const std::filesystem::path& path, int64_t& size) {
  // O_NONBLOCK: a FIFO must not hang the open; it has no effect on regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return fail_errno(errno, path.string());
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    const int error_number = errno;
    ::close(descriptor);
    return fail_errno(error_number, path.string());
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return fail(ErrorCode::kBadData, "{}: {}, not a file", path.string(),
                S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
  }
  size = info.st_size;
  return descriptor;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

int own_descriptor(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(path.parent_path(), error);
  if (error || folder != std::filesystem::canonical("/proc/self/fd", error) || error) return -1;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  return problem == std::errc() && end == name.data() + name.size() ? number : -1;
}

// Returns the final target of a write to `path`. Follows links one by one, up to a path that is not a link or
// does not exist. Links to the process's own open files are not followed, because they may lead to files
// without a name.
Result<std::filesystem::path> end_of_links(std::filesystem::path path) {
  constexpr int kMaxLinks = 40;  // the kernel's own limit
  for (int links = 0; links <= kMaxLinks; ++links) {
    struct stat info {};
    if (own_descriptor(path) >= 0 || ::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
    // Manual resolution must not reach a file that the kernel would refuse, such as others' links in a shared
    // /tmp.
    if (::stat(path.c_str(), &info) != 0 && errno != ENOENT) return fail_errno(errno, path.string());
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return fail_errno(error.value(), path.string());
    path = path.parent_path() / target;  // an absolute target stands alone
  }
  return fail_errno(ELOOP, path.string());
}

std::optional<std::string_view> temporary_of(std::string_view name) {
  constexpr std::string_view kMark = ".tmp-";
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const std::string_view numbers = name.substr(mark + kMark.size());
  const size_t dash = numbers.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  if (!is_number(numbers.substr(0, dash)) || !is_number(numbers.substr(dash + 1))) return std::nullopt;
  return name.substr(0, mark);
}

void remove_temporaries(const std::filesystem::path& file) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator entry(file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (temporary_of(name) == file.filename().string()) found.push_back(entry->path());
  }
  for (const auto& path : found) std::filesystem::remove(path, error);
}

Status make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::kIo, "{}: make folder: {}", folder.string(), error.message());
  return {};
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  int64_t size = 0;
  SACCADE_ASSIGN(const int raw, open_regular(path, size));
  const Descriptor descriptor(raw);
  MappedFile file;
  if (size == 0) return file;
  void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) return fail_errno(errno, path.string() + ": map");
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = static_cast<size_t>(size);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes) {
  int64_t size = 0;
  SACCADE_ASSIGN(const int raw, open_regular(path, size));
  const Descriptor descriptor(raw);
  if (size > max_bytes) {
    return fail(ErrorCode::kLimit, "{}: {} bytes, limit {}", path.string(), size, max_bytes);
  }
  // A file in /proc reports 0 bytes, and a file being written may grow, so it is read to the end.
  std::string content;
  content.resize(static_cast<size_t>(size) + 1);
  size_t filled = 0;
  for (;;) {
    if (filled == content.size()) content.resize(content.size() * 2);
    const ssize_t got = ::read(descriptor.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, path.string() + ": read");
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    if (static_cast<int64_t>(filled) > max_bytes) {
      return fail(ErrorCode::kLimit, "{}: more than {} bytes", path.string(), max_bytes);
    }
  }
  content.resize(filled);
  return content;
}

Status write_all(int descriptor, std::span<const std::byte> bytes, std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return fail_errno(errno, fmt::format("{}: write", name));
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  AtomicFile file;
  SACCADE_ASSIGN(file.path_, end_of_links(path));
  if (const int own = own_descriptor(file.path_); own >= 0) {
    // Opening it by name would write from its beginning.
    file.descriptor_ = ::fcntl(own, F_DUPFD_CLOEXEC, 0);
    if (file.descriptor_ < 0) return fail_errno(errno, path.string());
    return file;
  }
  struct stat info {};
  if (::stat(file.path_.c_str(), &info) != 0 || S_ISREG(info.st_mode)) {
    SACCADE_TRY(file.open_beside());
    return file;
  }
  if (S_ISDIR(info.st_mode)) return fail(ErrorCode::kBadData, "{}: a folder, not a file", path.string());
  file.descriptor_ = ::open(file.path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (file.descriptor_ < 0) return fail_errno(errno, path.string() + ": open");
  return file;
}

Status AtomicFile::open_beside() {
  // mkstemp is not used, because its files are readable only by their owner. Reading the umask would set it
  // briefly for all threads; open() applies it itself.
  static std::atomic<uint64_t> serial = 0;
  constexpr int kTries = 1000;  // names left behind by killed processes of the same number
  for (int tries = 0; descriptor_ < 0; ++tries) {
    std::string name = fmt::format("{}.tmp-{}-{}", path_.string(), ::getpid(), serial++);
    descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = std::move(name);
    } else if (errno != EEXIST || tries == kTries) {
      return fail_errno(errno, path_.string() + ": create");
    }
  }
  return {};
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {
  other.temporary_.clear();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  return write_all(descriptor_, bytes, path_.string());
}

Status AtomicFile::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(descriptor_, -1)) != 0) return fail_errno(errno, path_.string() + ": close");
    return {};
  }
  if (::fsync(descriptor_) != 0) return fail_errno(errno, path_.string() + ": flush");
  if (::close(std::exchange(descriptor_, -1)) != 0) return fail_errno(errno, path_.string() + ": close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_errno(errno, path_.string() + ": rename");
  temporary_.clear();
  sync_folder(path_.parent_path());
  return {};
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  SACCADE_TRY(file.write(content));
  return file.commit();
}

}  // namespace saccade

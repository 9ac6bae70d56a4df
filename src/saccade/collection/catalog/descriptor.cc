#include "saccade/collection/catalog/descriptor.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/read_up_to_end.h"

namespace saccade::store {

Status write_at(int descriptor, std::span<const std::byte> bytes, int64_t offset, const std::string& name) {
  if (::lseek(descriptor, offset, SEEK_SET) < 0) return fail_errno(errno, name + ": seek");
  return write_all(descriptor, bytes, name);
}

Status read_at(int descriptor, std::span<std::byte> bytes, int64_t offset, const std::string& name) {
  const int64_t got = read_up_to_end(descriptor, bytes, offset);
  if (got < 0) return fail_errno(errno, name + ": read");
  if (got < std::ssize(bytes)) return fail(ErrorCode::kBadData, "{}: ends at byte {}", name, offset + got);
  return {};
}

Result<Descriptor> open_grown(const std::filesystem::path& path, int64_t bytes, std::string_view what) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return fail_errno(errno, path.string());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return fail_errno(errno, path.string());
  if (info.st_size < bytes) {
    return fail(ErrorCode::kBadData, "{}: {} bytes, but the catalog's {} are {}", path.string(), info.st_size,
                what, bytes);
  }
  if (info.st_size > bytes && ::ftruncate(file.get(), bytes) != 0) {
    return fail_errno(errno, path.string() + ": truncate");
  }
  return file;
}

}  // namespace saccade::store

#include "lab/data/readers/piece_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

#include "saccade/core/files/read_up_to_end.h"

namespace saccade::lab::data {

Result<PieceFile> PieceFile::open(const std::filesystem::path& path) {
  PieceFile file;
  file.path_ = path.string();
  // O_NONBLOCK keeps the open of a FIFO from hanging; it has no effect on files.
  file.file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.file_.get() < 0) return fail_errno(errno, file.path_);
  struct stat info {};
  if (::fstat(file.file_.get(), &info) != 0) return fail_errno(errno, file.path_);
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kBadData, "{}: not a file", file.path_);
  file.size_ = info.st_size;
  return file;
}

Status PieceFile::read(int64_t offset, std::span<char> out) const {
  const int64_t got = read_up_to_end(file_.get(), std::as_writable_bytes(out), offset);
  if (got < 0) return fail_errno(errno, path_ + ": read");
  if (got < std::ssize(out)) {
    return fail(ErrorCode::kIo, "{}: ends at byte {}, it had {} bytes: another program has shortened it",
                path_, offset + got, size_);
  }
  return {};
}

}  // namespace saccade::lab::data

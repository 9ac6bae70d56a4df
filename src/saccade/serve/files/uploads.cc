#include "saccade/serve/files/uploads.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>

#include <fmt/format.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/hash.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;

std::string mark_ending(const Uploads::Owner& owner) {
  return ".pending-" + sha256_hex(catalog_path(owner.folder)).substr(0, 16);
}

fs::path mark_of(const Uploads::Owner& owner, const fs::path& file) {
  return file.parent_path() / (file.filename().string() + mark_ending(owner));
}

// Flushed to the disk with the file, which comes after it.
Status make_mark(const fs::path& mark) {
  const Descriptor made(::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (made.get() < 0) return fail_errno(errno, mark.string());
  return {};
}

}  // namespace

Result<bool> Uploads::put(const Owner& owner, const fs::path& file, std::string_view bytes) {
  std::error_code error;
  SACCADE_TRY(make_folders(file.parent_path()));
  if (fs::exists(file, error)) return false;
  SACCADE_TRY(take_room(std::ssize(bytes)));
  Status written = make_mark(mark_of(owner, file));
  if (written) written = write_file_atomic(file, bytes);
  if (written) return true;
  if (!fs::exists(file, error)) give_room(std::ssize(bytes));
  (void)settle(owner, file, false);
  return fail(std::move(written).error());
}

bool Uploads::contains(const Owner& owner, const fs::path& path) const {
  return path.parent_path() == fs::path(catalog_path(folder_ / owner.name));
}

Status Uploads::remove(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  const bool known = !error;
  if (fs::remove(file, error) && known) give_room(static_cast<int64_t>(size));
  if (error) return fail(ErrorCode::kIo, "{}: {}", file.string(), error.message());
  return {};
}

void Uploads::mark(const Owner& owner, const fs::path& file) const {
  (void)make_mark(mark_of(owner, file));
}

Status Uploads::settle(const Owner& owner, const fs::path& file, bool kept) {
  if (!kept) SACCADE_TRY(remove(file));
  return remove(mark_of(owner, file));
}

std::vector<fs::path> Uploads::unfinished(const Owner& owner) const {
  const std::string ending = mark_ending(owner);
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder_ / owner.name, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.ends_with(ending)) continue;
    files.push_back(entry->path().parent_path() / name.substr(0, name.size() - ending.size()));
  }
  return files;
}

void Uploads::remove_pieces(const fs::path& file) {
  std::vector<fs::path> pieces;
  std::error_code error;
  for (fs::directory_iterator entry(file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (temporary_of(entry->path().filename().string()) == file.filename().string())
      pieces.push_back(entry->path());
  }
  for (const fs::path& piece : pieces) (void)remove(piece);
}

Status Uploads::take_room(int64_t bytes) {
  if (most_ == 0) return {};
  const std::lock_guard lock(mutex_);
  if (!taken_) {
    taken_ = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator file(folder_, error), end; !error && file != end;
         file.increment(error)) {
      std::error_code gone;
      const auto size = file->is_regular_file(gone) ? file->file_size(gone) : 0;
      if (!gone) *taken_ += static_cast<int64_t>(size);
    }
  }
  if (*taken_ + bytes > most_) {
    return fail(ErrorCode::kLimit, "no room for an image of {} bytes: {} of {} are taken", bytes, *taken_,
                most_);
  }
  *taken_ += bytes;
  return {};
}

void Uploads::give_room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (taken_) *taken_ = std::max(int64_t{0}, *taken_ - bytes);
}

}  // namespace saccade::serve

#include "saccade/serve/files/thumbnails.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "saccade/core/files/files.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = int64_t{16} << 20;

struct Kind {
  std::string_view ending;
  std::string_view type;
};
constexpr std::array<Kind, 3> kKinds = {
    {{".webp", "image/webp"}, {".jpg", "image/jpeg"}, {".png", "image/png"}}};

struct Kept {
  fs::file_time_type used;
  fs::path path;
  int64_t bytes = 0;
};

// The files that are there: two digits a folder, the other digits and an ending that we write a file.
std::vector<Kept> kept_in(const fs::path& folder) {
  std::vector<Kept> kept;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code gone;
    const bool ours = std::ranges::any_of(
        kKinds, [&](const Kind& kind) { return at->path().extension().string() == kind.ending; });
    if (!ours || !at->is_regular_file(gone) || gone) continue;
    const auto bytes = static_cast<int64_t>(at->file_size(gone));
    const auto used = at->last_write_time(gone);
    if (!gone) kept.push_back({used, at->path(), bytes});
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<Thumbnails>> Thumbnails::open(const fs::path& folder, int64_t bytes) {
  SACCADE_TRY(make_folders(folder));
  std::unique_ptr<Thumbnails> thumbnails(new Thumbnails(folder, bytes));
  for (const Kept& kept : kept_in(folder)) thumbnails->bytes_ += kept.bytes;
  return thumbnails;
}

fs::path Thumbnails::path_of(std::string_view key, std::string_view ending) const {
  return folder_ / key.substr(0, 2) / (std::string(key.substr(2)) + std::string(ending));
}

std::optional<SmallPicture> Thumbnails::find(std::string_view key) {
  for (const Kind& kind : kKinds) {
    const fs::path path = path_of(key, kind.ending);
    auto bytes = read_file(path, kLargest);
    if (!bytes || bytes->empty()) continue;
    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // when it was asked for
    return SmallPicture{*std::move(bytes), std::string(kind.type), ""};
  }
  return std::nullopt;
}

void Thumbnails::keep(std::string_view key, const SmallPicture& picture) {
  const auto kind = std::ranges::find(kKinds, picture.type, &Kind::type);
  if (kind == kKinds.end() || std::ssize(picture.bytes) > std::min(kLargest, most_ / 10)) return;
  const fs::path path = path_of(key, kind->ending);
  if (!make_folders(path.parent_path()) || !write_file_atomic(path, picture.bytes)) return;
  const std::lock_guard lock(mutex_);
  bytes_ += std::ssize(picture.bytes);
  if (bytes_ > most_) make_room();
}

void Thumbnails::make_room() {
  std::vector<Kept> kept = kept_in(folder_);
  std::ranges::sort(kept, {}, &Kept::used);
  bytes_ = 0;
  for (const Kept& one : kept) bytes_ += one.bytes;
  for (const Kept& one : kept) {
    if (bytes_ <= most_ / 10 * 9) return;
    std::error_code error;
    if (fs::remove(one.path, error)) bytes_ -= one.bytes;
  }
}

int64_t Thumbnails::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace saccade::serve

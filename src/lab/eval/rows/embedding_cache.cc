#include "lab/eval/rows/embedding_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytes = 32;
// Bytes of pending rows before they are written: few enough to lose in a kill, and enough to need few files.
constexpr size_t kPendingBytes = size_t{64} << 20;
constexpr std::chrono::hours kOldTemporary{24};
constexpr size_t kNameDigits = 32;  // in names of spaces and of their files
constexpr std::string_view kFileEnd = ".safetensors";

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return hex;
}

// Returns true for the names of spaces, and of their files without the extension. Files with other names do
// not belong to the cache: if --cache names a folder of checkpoints, they are kept.
bool is_hash_name(std::string_view name) {
  return name.size() == kNameDigits &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}
bool is_file_name(std::string_view name) {
  return name.ends_with(kFileEnd) && is_hash_name(name.substr(0, name.size() - kFileEnd.size()));
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string check_of(std::string_view key, std::span<const std::byte> rows) {
  Sha256 hash;
  hash.update(key);
  hash.update(rows);
  return hash.hex();
}

bool has_shape(const TensorView* tensor, DType dtype, std::initializer_list<int64_t> shape) {
  return tensor != nullptr && tensor->dtype == dtype && std::ranges::equal(tensor->shape, shape);
}

}  // namespace

Result<EmbeddingCache> EmbeddingCache::open(const fs::path& folder, std::string_view space, int64_t dim,
                                            int64_t max_bytes) {
  EmbeddingCache cache;
  cache.folder_ = folder;
  cache.space_ = space;
  cache.dim_ = dim;
  cache.max_bytes_ = max_bytes;
  cache.space_folder_ = folder / sha256_hex(space).substr(0, kNameDigits);
  // The cache's own folder first: what is wrong with it is one error for all spaces.
  SACCADE_TRY(make_folders(folder).in("cache of embeddings"));
  SACCADE_TRY(make_folders(cache.space_folder_).in("cache of embeddings"));
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator entry(cache.space_folder_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_file_name(entry->path().filename().native())) paths.push_back(entry->path());
  }
  if (error) return fail(ErrorCode::kIo, "cache of embeddings {}: {}", folder.string(), error.message());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) cache.open_segment(path);
  return cache;
}

void EmbeddingCache::open_segment(const fs::path& path) {
  std::error_code ignored;
  auto file = SafeTensors::open(path);
  if (!file) {
    // kNotFound means that another process deleted it to stay within the limit. Other errors mean a broken
    // file.
    if (file.error().code == ErrorCode::kNotFound) return;
    ++counts_.broken;
    fs::remove(path, ignored);
    return;
  }
  const TensorView* keys = file->find("keys");
  const TensorView* begin = file->find("begin");
  const TensorView* rows = file->find("rows");
  const auto space = file->metadata().find("space");
  const int64_t items = keys != nullptr && keys->shape.size() == 2 ? keys->shape[0] : -1;
  const int64_t row_count = rows != nullptr && rows->shape.size() == 2 ? rows->shape[0] : -1;
  bool sound = space != file->metadata().end() && space->second == space_ && items >= 0 &&
               has_shape(keys, DType::kU8, {items, kKeyBytes}) &&
               has_shape(file->find("check"), DType::kU8, {items, kKeyBytes}) &&
               has_shape(begin, DType::kI64, {items + 1}) && has_shape(rows, DType::kF32, {row_count, dim_});
  std::vector<int64_t> bounds;
  if (sound) {
    bounds = begin->to_int64s().value_or(std::vector<int64_t>());
    sound = !bounds.empty() && bounds.front() == 0 && bounds.back() == row_count &&
            std::ranges::adjacent_find(bounds, std::ranges::greater_equal()) == bounds.end();
  }
  if (!sound) {
    ++counts_.broken;
    fs::remove(path, ignored);
    return;
  }
  for (int64_t i = 0; i < items; ++i) {
    const auto key = keys->bytes.subspan(static_cast<size_t>(i) * kKeyBytes, kKeyBytes);
    places_.emplace(as_text(key), Place{segments_.size(), i});
  }
  segments_.push_back({.path = path, .file = *std::move(file), .begin = std::move(bounds), .used = false});
}

bool EmbeddingCache::is_sound(size_t segment, int64_t item) const {
  const Segment& in = segments_[segment];
  const auto at = static_cast<size_t>(item) * kKeyBytes;
  const auto key = in.file.find("keys")->bytes.subspan(at, kKeyBytes);
  return check_of(as_text(key), rows_of(segment, item)) ==
         to_hex(in.file.find("check")->bytes.subspan(at, kKeyBytes));
}

std::span<const std::byte> EmbeddingCache::rows_of(size_t segment, int64_t item) const {
  const Segment& in = segments_[segment];
  const size_t row_bytes = static_cast<size_t>(dim_) * sizeof(float);
  const auto first = static_cast<size_t>(in.begin[static_cast<size_t>(item)]) * row_bytes;
  const auto end = static_cast<size_t>(in.begin[static_cast<size_t>(item) + 1]) * row_bytes;
  return in.file.find("rows")->bytes.subspan(first, end - first);
}

// Deletes the segment's file. Its valid rows are written again with the new ones.
void EmbeddingCache::replace_segment(size_t segment) {
  std::error_code ignored;
  fs::remove(segments_[segment].path, ignored);
  segments_[segment].used = true;
  std::erase_if(places_, [&](const auto& entry) {
    const auto& [key, place] = entry;
    if (place.segment != segment) return false;
    if (!is_sound(segment, place.item)) return true;
    const auto data = rows_of(segment, place.item);
    const size_t at = new_rows_.size();
    new_rows_.resize(at + data.size() / sizeof(float));
    std::memcpy(new_rows_.data() + at, data.data(), data.size());
    new_keys_.push_back(key);
    new_begin_.push_back(static_cast<int64_t>(new_rows_.size()) / dim_);
    return false;
  });
}

bool EmbeddingCache::has(const std::string& key) const {
  return places_.contains(bytes_of_hex(key));
}

int64_t EmbeddingCache::find(const std::string& key, std::vector<float>& rows) {
  const std::string bytes = bytes_of_hex(key);
  const auto found = places_.find(bytes);
  if (found == places_.end()) return 0;
  const Place place = found->second;
  if (!is_sound(place.segment, place.item)) {
    ++counts_.broken;
    replace_segment(place.segment);
    return 0;
  }
  const auto data = rows_of(place.segment, place.item);
  Segment& segment = segments_[place.segment];
  if (!segment.used) {  // the most recently used is deleted last
    segment.used = true;
    std::error_code ignored;
    fs::last_write_time(segment.path, fs::file_time_type::clock::now(), ignored);
  }
  const size_t at = rows.size();
  rows.resize(at + data.size() / sizeof(float));
  std::memcpy(rows.data() + at, data.data(), data.size());
  ++counts_.found;
  return static_cast<int64_t>(data.size() / sizeof(float)) / dim_;
}

Status EmbeddingCache::add(const std::string& key, MatrixView<const float> rows) {
  new_keys_.push_back(bytes_of_hex(key));
  new_begin_.push_back(new_begin_.back() + rows.rows());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    new_rows_.insert(new_rows_.end(), rows.row(r).begin(), rows.row(r).end());
  }
  ++counts_.added;
  return new_rows_.size() * sizeof(float) < kPendingBytes ? Status() : flush();
}

Status EmbeddingCache::flush() {
  if (new_keys_.empty()) return {};
  std::string keys;
  std::string checks;
  const auto all = std::as_bytes(std::span(new_rows_));
  const size_t row_bytes = static_cast<size_t>(dim_) * sizeof(float);
  for (size_t i = 0; i < new_keys_.size(); ++i) {
    keys += new_keys_[i];
    const auto first = static_cast<size_t>(new_begin_[i]) * row_bytes;
    const auto end = static_cast<size_t>(new_begin_[i + 1]) * row_bytes;
    checks += bytes_of_hex(check_of(new_keys_[i], all.subspan(first, end - first)));
  }
  const auto items = static_cast<int64_t>(new_keys_.size());
  const std::vector<NamedTensor> tensors = {
      {"keys", {DType::kU8, {items, kKeyBytes}, std::as_bytes(std::span(keys))}},
      {"begin", {DType::kI64, {items + 1}, std::as_bytes(std::span(new_begin_))}},
      {"rows", {DType::kF32, {new_begin_.back(), dim_}, all}},
      {"check", {DType::kU8, {items, kKeyBytes}, std::as_bytes(std::span(checks))}}};
  // Two processes that computed the same rows write the same file.
  const fs::path path = space_folder_ / (sha256_hex(keys).substr(0, kNameDigits) + std::string(kFileEnd));
  if (const Status written = write_safetensors(path, tensors, {{"space", space_}}); !written) {
    return fail(written.error().code, "cache of embeddings: {}", written.error().message);
  }
  // The file system's own timestamp has the resolution of its tick, within which many files are written.
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  new_keys_.clear();
  new_begin_ = {0};
  new_rows_.clear();
  return prune();
}

Status EmbeddingCache::prune() {
  struct File {
    fs::file_time_type used;
    fs::path path;
    int64_t bytes = 0;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  std::vector<fs::path> spaces;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (is_hash_name(entry->path().filename().native())) spaces.push_back(entry->path());
  }
  for (const fs::path& space : spaces) {
    error.clear();
    for (fs::directory_iterator entry(space, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      const auto used = fs::last_write_time(entry->path(), gone);
      if (gone || !entry->is_regular_file(gone)) continue;
      const std::string name = entry->path().filename().string();
      if (is_file_name(name)) {
        const auto bytes = static_cast<int64_t>(entry->file_size(gone));
        if (gone) continue;
        files.push_back({used, entry->path(), bytes});
        total += bytes;
      } else if (const auto becomes = temporary_of(name);
                 becomes && is_file_name(*becomes) &&
                 fs::file_time_type::clock::now() - used > kOldTemporary) {
        fs::remove(entry->path(), gone);  // left by a process that was killed
      }
    }
  }
  if (total <= max_bytes_) return {};
  std::ranges::sort(files, [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= max_bytes_) break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    total -= file.bytes;
  }
  return {};
}

}  // namespace saccade::lab

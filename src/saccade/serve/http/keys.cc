#include "saccade/serve/http/keys.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <sys/stat.h>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/serve/http/http.h"

namespace saccade::serve {
namespace {

constexpr size_t kShortestKey = 16;
constexpr int64_t kLargestFile = int64_t{1} << 20;
constexpr std::string_view kKeyBlanks = " \t\r";

using Digest = std::array<std::byte, 32>;

Digest key_digest(std::string_view key) {
  Digest digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

struct Known {
  Digest digest{};  // SHA-256 of the key
  Right right = Right::kNone;
  std::vector<std::string> collections;  // empty: all
  bool operator==(const Known&) const = default;
};

// The words are not repeated in errors: any of them may be a key.
Result<Known> known_of(const std::vector<std::string_view>& words) {
  Known known;
  known.right = words.front() == "write" ? Right::kWrite : Right::kRead;
  if (words.size() > 1 && words.front() != "read" && words.front() != "write") {
    return fail(
        ErrorCode::kUsage,
        "several words that do not begin with read or write; expected read KEY [COLLECTION...], or write KEY "
        "[COLLECTION...]");
  }
  const std::string_view key = words[words.size() > 1 ? 1 : 0];
  if (key.size() < kShortestKey) {
    return fail(ErrorCode::kUsage, "a key of {} characters, {} or more are needed", key.size(), kShortestKey);
  }
  known.digest = key_digest(key);
  for (size_t i = 2; i < words.size(); ++i) {
    auto name = decode_path(words[i]);
    if (!name || name->empty()) {
      return fail(ErrorCode::kUsage, "the name of a collection with a % that begins no escape such as %20");
    }
    known.collections.push_back(*std::move(name));
  }
  return known;
}

Result<std::vector<Known>> read_keys(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return fail_errno(errno, file.string());
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(ErrorCode::kUsage, "{}: others than its owner may read it (mode {:o}): chmod 600 it",
                file.string(), status.st_mode & 0777U);
  }
  SACCADE_ASSIGN(const std::string text, read_file(file, kLargestFile));
  std::vector<Known> keys;
  int64_t number = 0;
  for (const std::string_view line : Lines(text)) {
    const std::vector<std::string_view> words = split_ascii(line, kKeyBlanks);
    ++number;
    if (words.empty() || words.front().starts_with('#')) continue;
    SACCADE_ASSIGN(Known known, known_of(words).in(fmt::format("{}: line {}", file.string(), number)));
    keys.push_back(std::move(known));
  }
  if (keys.empty()) return fail(ErrorCode::kUsage, "{}: holds no key", file.string());
  return keys;
}

// Returns a string that changes with the file; "" while a further change might leave it as it is.
std::string key_file_state(const std::filesystem::path& file) {
  const auto stamp = file_stamp(file);
  if (!stamp) return "none";
  return is_settled(*stamp) ? stamp->text() : "";
}

}  // namespace

void Access::add(Right right, const std::vector<std::string>& collections) {
  if (collections.empty()) everywhere_ = std::max(everywhere_, right);
  for (const std::string& collection : collections) {
    Right& here = in_[collection];
    here = std::max(here, right);
  }
}

void Access::add(const Access& other) {
  add(other.everywhere_, {});
  for (const auto& [collection, right] : other.in_) add(right, {collection});
}

Right Access::in(std::string_view collection) const {
  const auto found = in_.find(collection);
  return found == in_.end() ? everywhere_ : std::max(everywhere_, found->second);
}

Right Access::anywhere() const {
  Right most = everywhere_;
  for (const auto& [collection, right] : in_) most = std::max(most, right);
  return most;
}

struct Keys::File {
  std::filesystem::path path;
  std::mutex mutex;
  std::vector<Known> known;  // guarded by mutex, like
  std::string state;         // of the file when it was read
};

Result<Keys> Keys::read(const std::filesystem::path& file) {
  Keys keys;
  auto opened = std::make_shared<File>();
  opened->path = file;
  opened->state = key_file_state(file);
  SACCADE_ASSIGN(opened->known, read_keys(file));
  keys.file_ = std::move(opened);
  return keys;
}

Access Keys::access_of(std::string_view key) const {
  if (!asked_for()) return Access(Right::kWrite);
  const Digest digest = key_digest(key);
  Access access;
  const std::lock_guard lock(file_->mutex);
  for (const Known& known : file_->known) {
    const bool same = ::CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0;
    if (same) access.add(known.right, known.collections);
  }
  return access;
}

std::vector<std::string> Keys::collections() const {
  std::vector<std::string> names;
  if (!asked_for()) return names;
  const std::lock_guard lock(file_->mutex);
  for (const Known& known : file_->known)
    names.insert(names.end(), known.collections.begin(), known.collections.end());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<bool> Keys::follow(bool anyway) const {
  if (!asked_for()) return false;
  std::string state = key_file_state(file_->path);
  {
    const std::lock_guard lock(file_->mutex);
    if (!anyway && !state.empty() && state == file_->state) return false;
    file_->state = std::move(state);  // a broken file is reported once
  }
  SACCADE_ASSIGN(std::vector<Known> known, read_keys(file_->path));
  const std::lock_guard lock(file_->mutex);
  const bool other = known != file_->known;
  file_->known = std::move(known);
  return other;
}

}  // namespace saccade::serve

#include "saccade/serve/http/keys.h"

#include <algorithm>
#include <string>
#include <sys/stat.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "saccade/core/files/files.h"

namespace saccade::serve {
namespace {

constexpr size_t kShortestKey = 16;
constexpr std::string_view kWriting = "write ";
constexpr int64_t kLargestFile = int64_t{1} << 20;

std::array<std::byte, 32> digest_of(std::string_view key) {
  std::array<std::byte, 32> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace

Result<Keys> Keys::read(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return fail_errno(errno, file.string());
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(ErrorCode::kUsage, "{}: others than its owner may read it (mode {:o}): chmod 600 it",
                file.string(), status.st_mode & 0777U);
  }
  SACCADE_ASSIGN(const std::string text, read_file(file, kLargestFile));
  Keys keys;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const bool writes = line.starts_with(kWriting);
    if (writes) line.remove_prefix(kWriting.size());
    if (line.size() < kShortestKey) {
      return fail(ErrorCode::kUsage, "{}: line {}: a key of {} characters, {} or more are needed",
                  file.string(), number, line.size(), kShortestKey);
    }
    keys.known_.push_back({digest_of(line), writes ? Right::kWrite : Right::kRead});
  }
  if (keys.known_.empty()) return fail(ErrorCode::kUsage, "{}: holds no key", file.string());
  return keys;
}

Right Keys::right_of(std::string_view key) const {
  if (!asked_for()) return Right::kWrite;
  const auto digest = digest_of(key);
  Right right = Right::kNone;
  for (const Known& known : known_) {
    const bool same = ::CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0;
    right = same ? known.right : right;
  }
  return right;
}

}  // namespace saccade::serve

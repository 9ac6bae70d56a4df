#include "saccade/hub/content_hash.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace saccade::hub {

Result<HashKind> hash_kind(std::string_view text) {
  const bool hexadecimal = std::all_of(
      text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hexadecimal && text.size() == 64) return HashKind::kSha256;
  if (hexadecimal && text.size() == 40) return HashKind::kGit;
  return fail(ErrorCode::kUnsupported,
              "its ETag \"{}\" is neither a SHA-256 nor git's SHA-1, so its content cannot be checked",
              text.substr(0, 80));
}

struct ContentHash::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

ContentHash::ContentHash(HashKind kind, int64_t size) : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, kind == HashKind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr);
  if (kind == HashKind::kGit) {
    const std::string head = fmt::format("blob {}", size);
    EVP_DigestUpdate(state_->context, head.c_str(), head.size() + 1);  // with its NUL
  }
}
ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;

void ContentHash::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string ContentHash::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

}  // namespace saccade::hub

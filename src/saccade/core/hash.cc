#include "saccade/core/hash.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "saccade/core/files.h"
#include "saccade/core/mapped_pages.h"

namespace saccade {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  assert(size == digest.size());
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  constexpr size_t kBlock = size_t{16} << 20;
  SACCADE_ASSIGN(const MappedFile file, MappedFile::open(path));
  Sha256 hash;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    const auto block = rest.first(std::min(kBlock, rest.size()));
    hash.update(block);
    release_mapped_pages(block);
    rest = rest.subspan(block.size());
  }
  return hash.hex();
}

}  // namespace saccade

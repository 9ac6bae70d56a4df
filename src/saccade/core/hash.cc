#include "saccade/core/hash.h"

#include <cassert>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

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

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(hex_digit(hex[i]) * 16 + hex_digit(hex[i + 1]));
  }
  return bytes;
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  constexpr size_t kBlock = size_t{1} << 20;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail_errno(errno, path.string());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return fail_errno(errno, path.string());
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kBadData, "{}: {}, not a file", path.string(),
                S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
  }
  Sha256 hash;
  // The file is read, not mapped: if it shrinks meanwhile, the hash differs, but the process does not crash.
  std::vector<std::byte> block(kBlock);
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, path.string() + ": read");
    if (got == 0) return hash.hex();
    hash.update(std::span(block).first(static_cast<size_t>(got)));
  }
}

}  // namespace saccade

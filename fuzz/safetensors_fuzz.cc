// safetensors: what is accepted lies within the file and reads to its last byte.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "saccade/core/files/safetensors.h"

#include "fuzz.h"
#include "mutators.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = SafeTensors::parse(bytes);
  if (!file) {
    FUZZ_CHECK(!file.error().message.empty());
    return 0;
  }
  size_t total = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    FUZZ_CHECK(file->find(name) == &tensor);
    FUZZ_CHECK(tensor.elements() * dtype_size(tensor.dtype) == static_cast<int64_t>(tensor.bytes.size()));
    if (!tensor.bytes.empty()) {
      FUZZ_CHECK(tensor.bytes.data() >= bytes.data() &&
                 tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
    }
    total += tensor.bytes.size();
    const auto floats = tensor.to_floats();
    const auto integers = tensor.to_int64s();
    FUZZ_CHECK(!(floats && integers));
  }
  FUZZ_CHECK(total <= size);
  return 0;
}

namespace {

constexpr std::array<std::string_view, 16> kWords = {
    "dtype", "shape", "data_offsets", "F32", "F16", "BF16",    "I64",    "U8",
    "BOOL",  "F64",   "__metadata__", "a",   "I32", "F8_E4M3", "format", "pt"};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  // The header is changed as JSON, and its length, in the first eight bytes, mostly fits again.
  uint64_t length = 0;
  if (input.size() < sizeof length) return std::string(sizeof length, '\0') + "{}";
  std::memcpy(&length, input.data(), sizeof length);
  length = std::min<uint64_t>(length, input.size() - sizeof length);
  const std::string header =
      mutate_json(std::string_view(input).substr(sizeof length, length), kWords, random);
  std::string body = input.substr(sizeof length + length);
  if (random.below(4) == 0) body.resize(random.below(64));
  length = random.below(8) == 0 ? random.next() >> random.below(64) : header.size();
  std::string whole(sizeof length, '\0');
  std::memcpy(whole.data(), &length, sizeof length);
  return whole + header + body;
}

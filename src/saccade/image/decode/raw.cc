#include "saccade/image/decode/raw.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/ascii.h"

namespace saccade {
namespace {

struct Signature {
  size_t offset;
  std::string_view bytes;
};
// https://libopenraw.freedesktop.org/formats/ describes them.
constexpr std::array<Signature, 10> kSignatures = {{
    {8, {"CR\x02\0", 4}},    // Canon's CR2, a TIFF file otherwise
    {4, "ftypcrx "},         // Canon's CR3
    {6, "HEAPCCDR"},         // Canon's CRW
    {0, "FUJIFILMCCD-RAW"},  // RAF
    {0, "IIRO"},             // Olympus' ORF, in its kinds
    {0, "IIRS"},
    {0, "MMOR"},
    {0, {"IIU\0", 4}},  // Panasonic's RW2
    {0, {"\0MRM", 4}},  // Minolta's MRW
    {0, "FOVb"},        // Sigma's X3F
}};

// Minimal reader of TIFF 6.0 that identifies the kind of a directory.
class TiffDirectories {
 public:
  explicit TiffDirectories(std::string_view file) : file_(file) {}

  // Returns true if one of the first directories, or of those below them, has tags that only sensor data
  // have.
  bool speak_of_a_sensor() {
    if (file_.starts_with(std::string_view("II*\0", 4))) {
      little_ = true;
    } else if (!file_.starts_with(std::string_view("MM\0*", 4))) {
      return false;
    }
    look_at(number(4, 4));
    for (size_t i = 0; i < todo_.size(); ++i) {
      if (directory(todo_[i])) return true;
    }
    return false;
  }

 private:
  // A directory that is to be looked at; of many, no more than these.
  void look_at(std::optional<uint32_t> at) {
    constexpr size_t kMost = 16;
    if (at && *at != 0 && todo_.size() < kMost) todo_.push_back(*at);
  }

  [[nodiscard]] std::optional<uint32_t> number(size_t at, size_t size) const {
    if (at > file_.size() || size > file_.size() - at) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t from = at + (little_ ? size - 1 - i : i);
      value = value << 8 | static_cast<unsigned char>(file_[from]);
    }
    return value;
  }

  bool directory(size_t at) {
    constexpr size_t kEntry = 12;
    constexpr uint32_t kMostBelow = 8;
    const auto count = number(at, 2);
    if (!count) return false;
    for (size_t i = 0; i < *count; ++i) {
      const size_t entry = at + 2 + i * kEntry;
      const auto tag = number(entry, 2);
      const auto type = number(entry + 2, 2);
      const auto values = number(entry + 4, 4);
      if (!tag || !type || !values) return false;
      constexpr uint32_t kShort = 3;
      const auto value = number(entry + 8, *type == kShort ? 2 : 4);
      if (!value) return false;
      constexpr uint32_t kPhotometric = 262;
      constexpr uint32_t kSubDirectories = 330;
      constexpr uint32_t kDngVersion = 50706;
      constexpr uint32_t kColourFilters = 32803;
      constexpr uint32_t kLinearRaw = 34892;
      if (*tag == kDngVersion) return true;
      if (*tag == kPhotometric && (*value == kColourFilters || *value == kLinearRaw)) return true;
      if (*tag == kSubDirectories && *values == 1) look_at(value);
      if (*tag == kSubDirectories && *values > 1) {
        for (uint32_t k = 0; k < std::min(*values, kMostBelow); ++k) {
          look_at(number(size_t{*value} + size_t{4} * k, 4));
        }
      }
    }
    look_at(number(at + 2 + *count * kEntry, 4));
    return false;
  }

  std::string_view file_;
  bool little_ = false;
  std::vector<size_t> todo_;
};

}  // namespace

bool is_raw(std::span<const std::byte> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool known = std::ranges::any_of(kSignatures, [&](const Signature& signature) {
    return file.size() >= signature.offset && file.substr(signature.offset).starts_with(signature.bytes);
  });
  return known || TiffDirectories(file).speak_of_a_sensor();
}

bool has_raw_extension(const std::filesystem::path& path) {
  static constexpr std::array<std::string_view, 25> kEndings = {
      ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos",
      ".mrw", ".nef", ".nrw", ".orf", ".pef", ".raf", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"};
  const std::string ending = lower_ascii(path.extension().string());
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

bool reads_raw_files() {
#ifdef SACCADE_HAS_RAW
  return true;
#else
  return false;
#endif
}

Result<DecodedImage> decode_raw(std::span<const std::byte> bytes, const DecodeOptions& options,
                                const DecodeHere& here) {
  if (!here.in_own_process) {
    return fail(ErrorCode::kIo, "a RAW photograph, which is decoded by saccade-decode alone");
  }
  if (here.raw == nullptr) {
    return fail(ErrorCode::kUnsupported, "a RAW photograph, which this build cannot read: it has no LibRaw");
  }
  // LibRaw's own tables, and copies of the preview; one that has to be developed takes more, on a second try.
  constexpr int64_t kTables = int64_t{64} << 20;
  const int64_t own = kTables + 2 * static_cast<int64_t>(bytes.size());
  SACCADE_TRY(claim_memory(here, {own, 0}, fmt::format("a RAW file of {} bytes", bytes.size())));
  DecodeHere within = here;
  within.claim = [&](const DecodeNeed& need, const std::string& what) {
    return claim_memory(here, {need.working + own, need.output}, what);
  };
  SACCADE_ASSIGN(RawPicture raw, here.raw(bytes, options));
  DecodedImage picture;
  if (!raw.jpeg.empty()) {
    if (is_raw(std::as_bytes(std::span(raw.jpeg)))) {
      return fail(ErrorCode::kBadData, "raw: its preview is a RAW file");
    }
    auto preview = decode_here(std::as_bytes(std::span(raw.jpeg)), options, within);
    if (!preview) return fail(preview.error().in("raw: its preview"));
    picture = *std::move(preview);
  } else {
    picture.image = std::move(raw.image);
    SACCADE_TRY(hand_over(picture.image, options, here));
  }
  picture.format = kRawFormat;
  picture.original_width = raw.width;
  picture.original_height = raw.height;
  return picture;
}

}  // namespace saccade

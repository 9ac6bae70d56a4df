#include "saccade/image/decode/process/decoder_versions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "saccade/image/decode/vips_support.h"

namespace saccade {
namespace {

// Libraries behind libvips' loaders (decode.cc) and librsvg's drawing.
constexpr std::array<std::string_view, 24> kDecoders = {
    "libvips",       "libjpeg",  "libpng",      "libspng",       "libwebp",     "libtiff",
    "libheif",       "libde265", "libaom",      "libdav1d",      "librsvg-2",   "libcairo",
    "libpango",      "libxml2",  "libfreetype", "libfontconfig", "libharfbuzz", "libpixman-1",
    "libgdk_pixbuf", "liblcms2", "libexif",     "libz",          "libnsgif",    "libgobject"};

// The end of a note's part: notes are aligned to 4 bytes.
size_t padded(size_t size) {
  return (size + 3) & ~size_t{3};
}

// Returns the GNU build id in a segment of notes, in hexadecimal; empty if there is none.
std::string build_id(std::span<const std::byte> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header{};
    std::memcpy(&header, notes.data(), sizeof(header));
    const size_t name = sizeof(header);
    const size_t content = name + padded(header.n_namesz);
    const size_t end = content + padded(header.n_descsz);
    if (end > notes.size() || end < content) return {};
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      std::string hex;
      for (const std::byte byte : notes.subspan(content, header.n_descsz)) {
        hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
      }
      return hex;
    }
    notes = notes.subspan(end);
  }
  return {};
}

int note_library(dl_phdr_info* info, size_t, void* into) {
  const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string file = path.substr(path.rfind('/') + 1);
  // "libpng16.so.16": the name up to its number.
  const std::string name = file.substr(0, file.find(".so"));
  const bool decodes = std::ranges::any_of(kDecoders, [&](std::string_view decoder) {
    return name.starts_with(decoder) &&
           name.find_first_not_of("0123456789.-", decoder.size()) == std::string::npos;
  });
  if (!decodes) return 0;
  std::string id;
  for (size_t i = 0; i < info->dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    id = build_id({reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz});
  }
  (*static_cast<std::map<std::string, std::string>*>(into))[file] = id.empty() ? path : id;
  return 0;
}

}  // namespace

std::map<std::string, std::string> decoder_versions() {
  start_vips();  // which loads its modules
  std::map<std::string, std::string> versions;
  dl_iterate_phdr(note_library, &versions);
  return versions;
}

}  // namespace saccade

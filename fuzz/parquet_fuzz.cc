// Parquet files: footer, every column's levels and values, the columns' roles, and an image in place. An input that begins with
// another byte than 'P' is a page instead: a codec, a width of runs, then bytes.
#include <algorithm>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/parquet_pages.h"
#include "saccade/core/files/files.h"

#include "fuzz.h"

using namespace saccade;
using namespace saccade::lab;
using namespace saccade::lab::data;

namespace {

void try_page(std::string_view input) {
  if (input.size() < 3) return;
  const auto codec = static_cast<ParquetCodec>(static_cast<uint8_t>(input[0]) % 8);
  const int width = static_cast<uint8_t>(input[1]) % 34;
  const int64_t size = int64_t{static_cast<uint8_t>(input[2])} * 16;
  const auto unpacked = unpack_page(codec, input.substr(3), size);
  FUZZ_CHECK(!unpacked || std::ssize(*unpacked) == size);
  const auto runs = read_runs(input.substr(3), width, size);
  FUZZ_CHECK(!runs || std::ssize(*runs) == size);
}

void try_file(const std::string& path, const PieceFile& file) {
  const auto footer = read_parquet_footer(file);
  if (!footer) return;
  for (size_t group = 0; group < std::min<size_t>(footer->groups.size(), 4); ++group) {
    for (const ParquetField& leaf : footer->leaves) {
      const auto texts = read_parquet_texts(file, *footer, group, leaf.leaf);
      if (!texts) {
        FUZZ_CHECK(!texts.error().message.empty());
        continue;
      }
      FUZZ_CHECK(std::ssize(texts->begin) == footer->groups[group].rows + 1);
      FUZZ_CHECK(std::ranges::is_sorted(texts->begin) && texts->begin.back() == std::ssize(texts->values));
      FUZZ_CHECK(texts->listed || texts->begin.back() == footer->groups[group].rows);
    }
  }
  const auto columns = choose_parquet_columns(*footer, {});
  if (!columns || columns->picture.bytes_leaf < 0) return;
  for (const int64_t row : {0, 3}) {
    const auto image = read_parquet_image(parquet_picture(path, columns->picture.name, row), 1 << 20);
    FUZZ_CHECK(image || !image.error().message.empty());
  }
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (!input.starts_with('P')) {
    try_page(input);
    return 0;
  }
  const Descriptor memory(::memfd_create("parquet", MFD_CLOEXEC));
  FUZZ_CHECK(::write(memory.get(), data, size) == static_cast<ssize_t>(size));
  const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
  const auto file = PieceFile::open(path);
  FUZZ_CHECK(file.has_value());
  try_file(path, *file);
  return 0;
}

// Changes bytes of the footer more often than those of pages: a page's bytes are mostly values.
std::string fuzz_mutate(std::string input, SplitMix& random) {
  if (input.empty()) return "PAR1";
  const bool footer = input.starts_with('P') && input.size() > 200 && random.below(4) != 0;
  const size_t begin = footer ? input.size() - input.size() / 3 : 0;
  for (uint64_t i = 0; i <= random.below(4); ++i) {
    const size_t at = begin + random.below(static_cast<uint32_t>(input.size() - begin));
    switch (random.below(4)) {
      case 0:
        input[at] = static_cast<char>(random.next());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ static_cast<char>(1U << random.below(8)));
        break;
      case 2:
        input[at] = static_cast<char>(input[at] + (random.below(2) == 0 ? 1 : -1));
        break;
      default:
        input[at] = static_cast<char>(random.below(2) == 0 ? 0xff : 0x00);
    }
  }
  return input;
}

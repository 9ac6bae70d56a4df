// Pages of a Parquet column: unpacking, levels and values. Internal to the module.
//
// Codecs: none, Snappy, gzip, Zstandard. Encodings: plain, dictionary, and runs (RLE and bit packing) for levels and places in
// dictionaries. Others, which writers of datasets do not choose by default, are kUnsupported by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/readers/parquet_format.h"
#include "lab/data/readers/piece_file.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

// Maximum bytes of a page, unpacked, and maximum number of values of one.
inline constexpr int64_t kMaxPageBytes = int64_t{2} << 30;
inline constexpr int64_t kMaxPageValues = int64_t{1} << 24;

// Unpacks `bytes`, which must give exactly `size` bytes. kBadData if they do not, kUnsupported for other codecs.
Result<std::string> unpack_page(ParquetCodec codec, std::string_view bytes, int64_t size);
// Unpacks a block of Snappy's raw format: github.com/google/snappy/blob/main/format_description.txt.
Result<std::string> unpack_snappy(std::string_view bytes, int64_t size);

// Reads `count` numbers of `width` bits (up to 32) from runs, and returns them. kBadData if the bytes end before.
Result<std::vector<uint32_t>> read_runs(std::string_view bytes, int width, int64_t count);

// A page's levels, and which values it has.
struct ParquetPage {
  std::vector<uint32_t> definition;  // empty: the column has no levels of this kind, all are 0
  std::vector<uint32_t> repetition;
  int64_t entries = 0;  // nulls among them
  // Values of bytes, in order, without nulls; they refer to the page's own memory. Other values are in `numbers` instead:
  // whole numbers, 0 or 1 of a boolean, and the bits of a floating-point number in the lowest 32 or all 64.
  std::vector<std::string_view> texts;
  std::vector<int64_t> numbers;

  // On the heap, so that the texts stay valid when the page is moved.
  std::unique_ptr<const std::string> memory;
};

// The data pages of one column in one row group, one after the other. It must not outlive its arguments.
class ParquetPages {
 public:
  ParquetPages(const PieceFile& file, const ParquetField& leaf, const ParquetChunk& chunk)
      : file_(file), leaf_(leaf), chunk_(chunk), at_(chunk.begin) {}

  // Reads the header of the next data page, and the dictionary before it. Returns false behind the last page. Pages that are
  // not read cost their header.
  Result<bool> next();
  // Number of entries of the current page.
  [[nodiscard]] int64_t entries() const { return header_.values; }
  // Reads the current page. `values`: false reads the levels alone.
  Result<ParquetPage> read(bool values);

 private:
  Result<ParquetPageHeader> read_header();
  Result<std::string> read_bytes(const ParquetPageHeader& header);
  Status read_dictionary(const ParquetPageHeader& header);
  Status read_plain(std::string_view bytes, int64_t count, std::vector<std::string_view>& texts,
                    std::vector<int64_t>& numbers) const;
  Status read_values(std::string_view bytes, int64_t count, ParquetPage& page) const;

  const PieceFile& file_;
  const ParquetField& leaf_;
  const ParquetChunk& chunk_;
  int64_t at_ = 0;    // the next page's header
  int64_t here_ = 0;  // the current page's bytes
  int64_t seen_ = 0;  // entries of the pages so far
  ParquetPageHeader header_;
  std::string dictionary_memory_;
  std::vector<std::string_view> dictionary_;
  std::vector<int64_t> dictionary_numbers_;
};

}  // namespace saccade::lab::data

// The format of Parquet files: footer, schema and page headers, in Thrift's compact protocol. Internal to the module.
//
//   "PAR1"  column chunks: pages, each behind its header  footer  footer's length (4 bytes, little-endian)  "PAR1"
//
// Only what datasets of images and texts need is kept. https://parquet.apache.org/docs/file-format/ describes the format; numbers
// of fields and enums here are those of its parquet.thrift.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/readers/piece_file.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

enum class ParquetType : int32_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kBytes = 6,
  kFixedBytes = 7
};
enum class ParquetCodec : int32_t {
  kNone = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,
  kBrotli = 4,
  kLz4 = 5,
  kZstd = 6,
  kLz4Raw = 7
};

// A field of the schema, with those below it.
struct ParquetField {
  std::string name;
  bool repeated = false;
  bool text = false;                // bytes that are declared to be UTF-8
  bool whole_number = false;        // 32 or 64 bits, no date, time or decimal
  bool is_unsigned = false;         // of whole numbers
  bool truth = false;               // true or false
  bool real = false;                // floating point of 32 or 64 bits
  std::string_view meaning = {};    // such as "timestamp" or "null", where the type alone would mislead
  bool list = false;                // a group that is declared to be a list
  std::optional<ParquetType> type;  // nullopt: a group
  int leaf = -1;                    // its number among the leaves
  int max_definition = 0;           // optional and repeated fields from the root to here
  int max_repetition = 0;           // repeated ones
  int repeated_definition = 0;      // definition level of the innermost repeated field up to here; 0: none
  std::vector<ParquetField> children;

  [[nodiscard]] bool is_leaf() const { return type.has_value(); }
  [[nodiscard]] bool is_bytes() const { return type == ParquetType::kBytes && !text; }
};

// A column in a row group.
struct ParquetChunk {
  ParquetCodec codec = ParquetCodec::kNone;
  int64_t values = 0;
  int64_t begin = 0;  // of its pages in the file
  int64_t bytes = 0;
  std::optional<int64_t> nulls;
  bool encrypted = false;
};

struct ParquetGroup {
  int64_t rows = 0;
  std::vector<ParquetChunk> columns;  // by leaf
};

struct ParquetFooter {
  ParquetField root;
  std::vector<ParquetField> leaves;  // copies without children
  std::vector<ParquetGroup> groups;
  std::string features;  // Hugging Face's description of the columns, JSON; may be empty
};

// Reads the footer. kBadData says what is wrong; kUnsupported for an encrypted file; kLimit for a footer above 256 MiB.
Result<ParquetFooter> read_parquet_footer(const PieceFile& file);

struct ParquetPageHeader {
  enum class Kind { kData, kIndex, kDictionary, kDataV2 };
  Kind kind = Kind::kData;
  int64_t bytes = 0;  // behind the header, packed
  int64_t unpacked_bytes = 0;
  int64_t values = 0;  // nulls among them
  int32_t encoding = 0;
  int32_t definition_encoding = 3;  // of version 1
  int32_t repetition_encoding = 3;
  int64_t definition_bytes = 0;  // of version 2
  int64_t repetition_bytes = 0;
  bool packed = true;
  int64_t header_bytes = 0;  // of the header itself
};
// Parses a page's header from the bytes at its beginning. Returns nullopt if they end too early, kBadData if they are none.
Result<std::optional<ParquetPageHeader>> parse_page_header(std::string_view bytes);

// Returns the type of a field as people write it: "string", "list<string>", "struct<x: double>", "timestamp".
std::string parquet_type_name(const ParquetField& field);

}  // namespace saccade::lab::data

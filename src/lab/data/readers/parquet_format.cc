#include "lab/data/readers/parquet_format.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "saccade/text/utf8.h"

namespace saccade::lab::data {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr int64_t kMaxFooter = int64_t{256} << 20;
constexpr int kMaxDepth = 64;           // of the schema, and of values that are passed over
constexpr size_t kMaxFields = 1 << 16;  // of the schema

// Types of Thrift's compact protocol.
enum : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12
};

// Reads values of the compact protocol. After the first error every value is 0, and failed() is true.
class ThriftReader {
 public:
  explicit ThriftReader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool ended() const { return ended_; }  // failed because the bytes end
  [[nodiscard]] size_t at() const { return at_; }
  void fail_here() { failed_ = true; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = next();
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) return failed_ ? 0 : value;
    }
    failed_ = true;
    return 0;
  }
  int64_t integer() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  int32_t small_integer() {
    const int64_t value = integer();
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
      failed_ = true;
    return failed_ ? 0 : static_cast<int32_t>(value);
  }
  std::string_view binary() {
    const uint64_t size = varint();
    if (failed_ || size > bytes_.size() - at_) {
      ended_ = ended_ || !failed_;
      failed_ = true;
      return {};
    }
    const std::string_view value = bytes_.substr(at_, size);
    at_ += size;
    return value;
  }

  // Calls field(id, type) for each field of a struct. It must read the value or call skip(type).
  template <typename Field>
  void fields(const Field& field) {
    int64_t id = 0;
    while (!failed_) {
      const uint8_t head = next();
      const auto type = static_cast<uint8_t>(head & 0x0fU);
      if (failed_ || type == kStop) return;
      id = (head >> 4) != 0 ? id + (head >> 4) : integer();
      if (type > kStruct || id < 0 || id > 0x7fff) failed_ = true;
      if (!failed_) field(static_cast<int>(id), type);
    }
  }
  // Calls element(type) for each element of a list.
  template <typename Element>
  void list(const Element& element) {
    const uint8_t head = next();
    const uint64_t size = (head >> 4) == 15 ? varint() : head >> 4;
    const auto type = static_cast<uint8_t>(head & 0x0fU);
    // Each element takes a byte at least.
    if (!failed_ && size > bytes_.size() - at_) ended_ = failed_ = true;
    for (uint64_t i = 0; i < size && !failed_; ++i) element(type);
  }
  void skip(uint8_t type, int depth = 0) {
    if (depth > kMaxDepth) failed_ = true;
    if (failed_) return;
    switch (type) {
      case kTrue:
      case kFalse:
        return;  // in a struct the type is the value
      case kByte:
        next();
        return;
      case kI16:
      case kI32:
      case kI64:
        varint();
        return;
      case kDouble:
        for (int i = 0; i < 8; ++i) next();
        return;
      case kBinary:
        binary();
        return;
      case kList:
      case kSet:
        list([&](uint8_t element) { skip_element(element, depth + 1); });
        return;
      case kMap: {
        const uint64_t size = varint();
        const uint8_t types = size == 0 ? 0 : next();
        if (!failed_ && size > bytes_.size() - at_) ended_ = failed_ = true;
        for (uint64_t i = 0; i < size && !failed_; ++i) {
          skip_element(types >> 4, depth + 1);
          skip_element(types & 0x0fU, depth + 1);
        }
        return;
      }
      case kStruct:
        fields([&](int, uint8_t field) { skip(field, depth + 1); });
        return;
      default:
        failed_ = true;
    }
  }

 private:
  // Skips an element of a list, a set or a map, in which a bool is one byte.
  void skip_element(uint8_t type, int depth) {
    skip(type == kTrue || type == kFalse ? uint8_t{kByte} : type, depth);
  }
  uint8_t next() {
    if (failed_ || at_ >= bytes_.size()) {
      ended_ = ended_ || !failed_;
      failed_ = true;
      return 0;
    }
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool failed_ = false;
  bool ended_ = false;
};

// A field of the schema as it is stored: in a list, each in front of those below it.
struct SchemaElement {
  std::string name;
  std::optional<int32_t> type;
  int32_t repetition = 0;  // required, optional, repeated
  int64_t children = 0;
  std::optional<int32_t> converted;
  int logical = 0;  // which member of the union; 0: none
  bool logical_unsigned = false;
};

void read_logical_type(ThriftReader& in, SchemaElement& element) {
  constexpr int kInteger = 10;
  in.fields([&](int id, uint8_t type) {
    element.logical = id;
    if (id != kInteger || type != kStruct) {
      in.skip(type);
      return;
    }
    in.fields([&](int inner, uint8_t inner_type) {
      if (inner == 2) element.logical_unsigned = inner_type == kFalse;
      in.skip(inner_type);
    });
  });
}

SchemaElement read_schema_element(ThriftReader& in) {
  SchemaElement element;
  in.fields([&](int id, uint8_t type) {
    if (id == 1)
      element.type = in.small_integer();
    else if (id == 3)
      element.repetition = in.small_integer();
    else if (id == 4)
      element.name = std::string(in.binary());
    else if (id == 5)
      element.children = in.integer();
    else if (id == 6)
      element.converted = in.small_integer();
    else if (id == 10 && type == kStruct)
      read_logical_type(in, element);
    else
      in.skip(type);
  });
  return element;
}

// Makes the tree of the schema from its elements.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(const std::vector<SchemaElement>& elements) : elements_(elements) {}

  Result<ParquetField> build() {
    if (elements_.empty()) return fail(ErrorCode::kBadData, "a schema without fields");
    SACCADE_ASSIGN(ParquetField root, take({}, 0));
    if (next_ != elements_.size()) {
      return fail(ErrorCode::kBadData, "a schema of {} fields, {} of them in no group", elements_.size(),
                  elements_.size() - next_);
    }
    return root;
  }

 private:
  Result<ParquetField> take(const ParquetField& parent, int depth) {
    if (next_ >= elements_.size() || depth > kMaxDepth) {
      return fail(ErrorCode::kBadData, "a schema that ends inside of a group, or is nested too deeply");
    }
    const SchemaElement& from = elements_[next_++];
    ParquetField field;
    field.name = to_valid_utf8(from.name);
    field.max_definition = parent.max_definition;
    field.max_repetition = parent.max_repetition;
    field.repeated_definition = parent.repeated_definition;
    if (depth > 0) {
      field.repeated = from.repetition == 2;
      field.max_definition += from.repetition != 0 ? 1 : 0;
      field.max_repetition += field.repeated ? 1 : 0;
      if (field.repeated) field.repeated_definition = field.max_definition;
    }
    describe(from, field);
    if (from.children > 0) {
      for (int64_t i = 0; i < from.children; ++i) {
        SACCADE_ASSIGN(field.children.emplace_back(), take(field, depth + 1));
      }
      return field;
    }
    if (!from.type || *from.type < 0 || *from.type > 7) {
      if (depth == 0) return field;  // no columns
      return fail(ErrorCode::kBadData, "field \"{}\" has no type", field.name);
    }
    field.type = static_cast<ParquetType>(*from.type);
    field.leaf = leaves_++;
    return field;
  }

  static void describe(const SchemaElement& from, ParquetField& field) {
    // Numbers of ConvertedType, and of members of LogicalType.
    const int32_t converted = from.converted.value_or(-1);
    field.text = from.logical == 1 || from.logical == 4 || from.logical == 12 || converted == 0 ||
                 converted == 4 || converted == 19;
    field.list = from.logical == 3 || converted == 3;
    const bool number = from.type == 1 || from.type == 2;
    field.is_unsigned = number && (from.logical_unsigned || (converted >= 11 && converted <= 14));
    field.whole_number = number && (from.logical == 0 || from.logical == 10) &&
                         (converted == -1 || (converted >= 11 && converted <= 18));
    const bool plain = from.logical == 0 && converted == -1;
    field.truth = plain && from.type == 0;
    field.real = plain && (from.type == 4 || from.type == 5);
    if (from.logical == 5 || converted == 5) field.meaning = "decimal";
    if (from.logical == 6 || converted == 6) field.meaning = "date";
    if (from.logical == 7 || converted == 7 || converted == 8) field.meaning = "time";
    if (from.logical == 8 || converted == 9 || converted == 10) field.meaning = "timestamp";
    if (from.logical == 11) field.meaning = "null";  // of a column without any value
    if (from.logical == 14) field.meaning = "uuid";
    if (from.logical == 15) field.meaning = "half float";
  }

  const std::vector<SchemaElement>& elements_;
  size_t next_ = 0;
  int leaves_ = 0;
};

void collect_leaves(const ParquetField& field, std::vector<ParquetField>& leaves) {
  if (field.is_leaf()) leaves.push_back(field);
  for (const ParquetField& child : field.children) collect_leaves(child, leaves);
}

void read_column_metadata(ThriftReader& in, ParquetChunk& chunk) {
  int64_t data = -1;
  int64_t dictionary = -1;
  in.fields([&](int id, uint8_t type) {
    if (id == 4)
      chunk.codec = static_cast<ParquetCodec>(in.small_integer());
    else if (id == 5)
      chunk.values = in.integer();
    else if (id == 7)
      chunk.bytes = in.integer();
    else if (id == 9)
      data = in.integer();
    else if (id == 11)
      dictionary = in.integer();
    else if (id == 12 && type == kStruct) {
      in.fields([&](int inner, uint8_t inner_type) {
        if (inner == 3 && inner_type == kI64)
          chunk.nulls = in.integer();
        else
          in.skip(inner_type);
      });
    } else
      in.skip(type);
  });
  chunk.begin = dictionary > 0 && dictionary < data ? dictionary : data;
}

ParquetChunk read_column_chunk(ThriftReader& in, bool& elsewhere) {
  ParquetChunk chunk;
  in.fields([&](int id, uint8_t type) {
    if (id == 1)
      elsewhere = elsewhere || !in.binary().empty();
    else if (id == 3 && type == kStruct)
      read_column_metadata(in, chunk);
    else {
      chunk.encrypted = chunk.encrypted || id == 8 || id == 9;
      in.skip(type);
    }
  });
  return chunk;
}

Status check_groups(const ParquetFooter& footer, int64_t file_bytes) {
  int64_t rows = 0;
  for (size_t g = 0; g < footer.groups.size(); ++g) {
    const ParquetGroup& group = footer.groups[g];
    if (group.rows < 0 || group.rows > std::numeric_limits<int64_t>::max() - rows) {
      return fail(ErrorCode::kBadData, "row group {} of {} rows", g, group.rows);
    }
    rows += group.rows;
    if (group.columns.size() != footer.leaves.size()) {
      return fail(ErrorCode::kBadData, "row group {} has {} columns, the schema {}", g, group.columns.size(),
                  footer.leaves.size());
    }
    for (const ParquetChunk& chunk : group.columns) {
      if (chunk.begin < 0 || chunk.bytes < 0 || chunk.begin > file_bytes ||
          chunk.bytes > file_bytes - chunk.begin) {
        return fail(ErrorCode::kBadData, "row group {}: a column of {} bytes from byte {} of {}", g,
                    chunk.bytes, chunk.begin, file_bytes);
      }
    }
  }
  return {};
}

Result<ParquetFooter> parse_footer(std::string_view bytes, int64_t file_bytes) {
  ThriftReader in(bytes);
  ParquetFooter footer;
  std::vector<SchemaElement> elements;
  bool elsewhere = false;
  in.fields([&](int id, uint8_t type) {
    if (id == 2 && type == kList) {
      in.list([&](uint8_t element) {
        if (element != kStruct || elements.size() >= kMaxFields)
          in.fail_here();
        else
          elements.push_back(read_schema_element(in));
      });
    } else if (id == 4 && type == kList) {
      in.list([&](uint8_t) {
        ParquetGroup& group = footer.groups.emplace_back();
        in.fields([&](int inner, uint8_t inner_type) {
          if (inner == 1 && inner_type == kList) {
            in.list([&](uint8_t) { group.columns.push_back(read_column_chunk(in, elsewhere)); });
          } else if (inner == 3)
            group.rows = in.integer();
          else
            in.skip(inner_type);
        });
      });
    } else if (id == 5 && type == kList) {
      in.list([&](uint8_t) {
        std::string_view key;
        std::string_view value;
        in.fields([&](int inner, uint8_t inner_type) {
          if (inner == 1)
            key = in.binary();
          else if (inner == 2)
            value = in.binary();
          else
            in.skip(inner_type);
        });
        if (key == "huggingface") footer.features = std::string(value);
      });
    } else
      in.skip(type);
  });
  if (in.failed()) return fail(ErrorCode::kBadData, "the footer is damaged at its byte {}", in.at());
  if (elsewhere) return fail(ErrorCode::kUnsupported, "columns in other files");
  SACCADE_ASSIGN(footer.root, SchemaBuilder(elements).build());
  collect_leaves(footer.root, footer.leaves);
  for (ParquetField& leaf : footer.leaves) leaf.children.clear();
  SACCADE_TRY(check_groups(footer, file_bytes));
  return footer;
}

}  // namespace

Result<ParquetFooter> read_parquet_footer(const PieceFile& file) {
  constexpr int64_t kTail = 8;  // length and magic
  if (file.size() < kTail + 4) return fail(ErrorCode::kBadData, "{} bytes, no Parquet file", file.size());
  std::array<char, kTail> tail{};
  SACCADE_TRY(file.read(file.size() - kTail, tail));
  const std::string_view magic(tail.data() + 4, 4);
  if (magic == kEncryptedMagic) return fail(ErrorCode::kUnsupported, "an encrypted Parquet file");
  if (magic != kMagic) return fail(ErrorCode::kBadData, "it does not end as Parquet files do, with \"PAR1\"");
  uint32_t length = 0;
  for (int i = 3; i >= 0; --i) length = (length << 8) | static_cast<uint8_t>(tail[static_cast<size_t>(i)]);
  if (length > kMaxFooter)
    return fail(ErrorCode::kLimit, "a footer of {} bytes, limit {}", length, kMaxFooter);
  if (length > file.size() - kTail - 4) {
    return fail(ErrorCode::kBadData, "a footer of {} bytes in a file of {}", length, file.size());
  }
  std::string footer(length, '\0');
  SACCADE_TRY(file.read(file.size() - kTail - length, footer));
  return parse_footer(footer, file.size());
}

Result<std::optional<ParquetPageHeader>> parse_page_header(std::string_view bytes) {
  ThriftReader in(bytes);
  ParquetPageHeader page;
  int32_t kind = -1;
  bool described = false;
  in.fields([&](int id, uint8_t type) {
    if (id == 1)
      kind = in.small_integer();
    else if (id == 2)
      page.unpacked_bytes = in.small_integer();
    else if (id == 3)
      page.bytes = in.small_integer();
    else if ((id == 5 || id == 7) && type == kStruct) {
      described = true;
      in.fields([&](int inner, uint8_t inner_type) {
        if (inner == 1)
          page.values = in.small_integer();
        else if (inner == 2)
          page.encoding = in.small_integer();
        else if (inner == 3 && id == 5)
          page.definition_encoding = in.small_integer();
        else if (inner == 4 && id == 5)
          page.repetition_encoding = in.small_integer();
        else
          in.skip(inner_type);
      });
    } else if (id == 8 && type == kStruct) {
      described = true;
      in.fields([&](int inner, uint8_t inner_type) {
        if (inner == 1)
          page.values = in.small_integer();
        else if (inner == 4)
          page.encoding = in.small_integer();
        else if (inner == 5)
          page.definition_bytes = in.small_integer();
        else if (inner == 6)
          page.repetition_bytes = in.small_integer();
        else {
          if (inner == 7) page.packed = inner_type == kTrue;
          in.skip(inner_type);
        }
      });
    } else
      in.skip(type);
  });
  if (in.ended()) return std::optional<ParquetPageHeader>();
  if (in.failed() || kind < 0 || kind > 3 || (kind != 1 && !described) || page.bytes < 0 ||
      page.unpacked_bytes < 0 || page.values < 0 || page.definition_bytes < 0 || page.repetition_bytes < 0) {
    return fail(ErrorCode::kBadData, "a page's header is damaged");
  }
  page.kind = static_cast<ParquetPageHeader::Kind>(kind);
  page.header_bytes = static_cast<int64_t>(in.at());
  return std::optional(page);
}

std::string parquet_type_name(const ParquetField& field) {
  if (field.is_leaf()) {
    static constexpr std::array<std::string_view, 8> kNames = {
        "bool", "int32", "int64", "int96", "float", "double", "binary", "fixed-size binary"};
    std::string name(field.text               ? "string"
                     : !field.meaning.empty() ? field.meaning
                                              : kNames[static_cast<size_t>(*field.type)]);
    return field.repeated ? "list<" + name + ">" : name;
  }
  std::string inside;
  for (const ParquetField& child : field.children) {
    if (inside.size() > 200) return "struct<" + inside.substr(0, 200) + "...>";
    inside += fmt::format("{}{}: {}", inside.empty() ? "" : ", ", child.name, parquet_type_name(child));
  }
  return (field.list ? "list<" : "struct<") + inside + ">";
}

}  // namespace saccade::lab::data

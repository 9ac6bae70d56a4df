#include "saccade/core/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include <fmt/ranges.h>

#include "saccade/core/files/files.h"
#include "saccade/core/half.h"
#include "saccade/core/json.h"

namespace saccade {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read in place");

// The format's own limit; a header of a real checkpoint is well under 1 MB.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t size;
};

constexpr std::array<DTypeInfo, 13> kDTypes = {{
    {DType::kBool, "BOOL", 1},
    {DType::kU8, "U8", 1},
    {DType::kI8, "I8", 1},
    {DType::kU16, "U16", 2},
    {DType::kI16, "I16", 2},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kU32, "U32", 4},
    {DType::kI32, "I32", 4},
    {DType::kF32, "F32", 4},
    {DType::kU64, "U64", 8},
    {DType::kI64, "I64", 8},
    {DType::kF64, "F64", 8},
}};

// Returns the size of a tensor in bytes, or an error if the product overflows or a dimension is negative.
Result<int64_t> byte_count(std::span<const int64_t> shape, int64_t element_size) {
  int64_t count = element_size;
  for (const int64_t side : shape) {
    if (side < 0) return fail(ErrorCode::kBadData, "shape {} has a negative side", shape_text(shape));
    if (__builtin_mul_overflow(count, side, &count)) {
      return fail(ErrorCode::kBadData, "shape {} overflows", shape_text(shape));
    }
  }
  return count;
}

struct Entry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t begin;
  int64_t end;
};

Result<Entry> parse_entry(const std::string& name, const Json& json) {
  Entry entry{.name = name, .dtype = DType::kF32, .shape = {}, .begin = 0, .end = 0};
  SACCADE_ASSIGN(const std::string dtype, json_field<std::string>(json, "dtype"));
  const auto* info =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& d) { return d.name == dtype; });
  if (info == kDTypes.end()) return fail(ErrorCode::kUnsupported, "dtype \"{}\" is not known", dtype);
  entry.dtype = info->dtype;

  for (const char* key : {"shape", "data_offsets"}) {
    if (!json.contains(key) || !json[key].is_array())
      return fail(ErrorCode::kBadData, "\"{}\" is not an array", key);
  }
  if (json["shape"].size() > 16)
    return fail(ErrorCode::kBadData, "{} dimensions, limit 16", json["shape"].size());
  for (const Json& side : json["shape"]) {
    SACCADE_ASSIGN(const int64_t value, detail::json_as<int64_t>("shape", side));
    entry.shape.push_back(value);
  }
  const Json& offsets = json["data_offsets"];
  if (offsets.size() != 2)
    return fail(ErrorCode::kBadData, "\"data_offsets\" has {} numbers, not 2", offsets.size());
  SACCADE_ASSIGN(entry.begin, detail::json_as<int64_t>("data_offsets", offsets[0]));
  SACCADE_ASSIGN(entry.end, detail::json_as<int64_t>("data_offsets", offsets[1]));
  if (entry.begin < 0 || entry.end < entry.begin) {
    return fail(ErrorCode::kBadData, "data_offsets [{}, {}] run backwards", entry.begin, entry.end);
  }
  SACCADE_ASSIGN(const int64_t bytes, byte_count(entry.shape, info->size));
  if (bytes != entry.end - entry.begin) {
    return fail(ErrorCode::kBadData, "{} of shape {} takes {} bytes, data_offsets [{}, {}] give {}", dtype,
                shape_text(entry.shape), bytes, entry.begin, entry.end, entry.end - entry.begin);
  }
  return entry;
}

template <typename From, typename To, typename Convert>
std::vector<To> convert_all(std::span<const std::byte> bytes, Convert convert) {
  std::vector<To> values(bytes.size() / sizeof(From));
  for (size_t i = 0; i < values.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(convert(value));
  }
  return values;
}

template <typename From>
std::vector<int64_t> widen(std::span<const std::byte> bytes) {
  return convert_all<From, int64_t>(bytes, [](From value) { return value; });
}

}  // namespace

int64_t dtype_size(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].size;
}
std::string_view dtype_name(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}

int64_t TensorView::elements() const {
  return static_cast<int64_t>(bytes.size()) / dtype_size(dtype);
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::vector<float>> TensorView::to_floats() const {
  switch (dtype) {
    case DType::kF32:
      return convert_all<float, float>(bytes, [](float v) { return v; });
    case DType::kF64:
      return convert_all<double, float>(bytes, [](double v) { return v; });
    case DType::kF16:
      return convert_all<uint16_t, float>(bytes, fp16_to_float);
    case DType::kBF16:
      return convert_all<uint16_t, float>(bytes, bf16_to_float);
    default:
      return fail(ErrorCode::kBadData, "dtype {} where floating point is expected", dtype_name(dtype));
  }
}

Result<std::vector<int64_t>> TensorView::to_int64s() const {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return widen<uint8_t>(bytes);
    case DType::kI8:
      return widen<int8_t>(bytes);
    case DType::kU16:
      return widen<uint16_t>(bytes);
    case DType::kI16:
      return widen<int16_t>(bytes);
    case DType::kU32:
      return widen<uint32_t>(bytes);
    case DType::kI32:
      return widen<int32_t>(bytes);
    case DType::kI64:
      return widen<int64_t>(bytes);
    default:
      return fail(ErrorCode::kBadData, "dtype {} where integers are expected", dtype_name(dtype));
  }
}

Result<SafeTensors> SafeTensors::open(const std::filesystem::path& path) {
  SACCADE_ASSIGN(MappedFile file, MappedFile::open(path));
  SACCADE_ASSIGN(SafeTensors result, parse(file.bytes()).in(path.string()));
  result.file_ = std::move(file);
  return result;
}

Result<SafeTensors> SafeTensors::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) {
    return fail(ErrorCode::kBadData, "{} bytes, a safetensors file begins with 8 of header length",
                bytes.size());
  }
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > kMaxHeaderBytes) {
    return fail(ErrorCode::kBadData, "header of {} bytes, limit {}: not a safetensors file", header_size,
                kMaxHeaderBytes);
  }
  if (header_size > bytes.size() - 8) {
    return fail(ErrorCode::kBadData, "header of {} bytes in a file of {}", header_size, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);
  SACCADE_ASSIGN(const Json header, parse_json(text).in("header"));
  if (!header.is_object()) return fail(ErrorCode::kBadData, "header is {}, not an object", json_kind(header));

  SafeTensors result;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      if (!json.is_object())
        return fail(ErrorCode::kBadData, "__metadata__ is {}, not an object", json_kind(json));
      for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) return fail(ErrorCode::kBadData, "__metadata__ \"{}\" is not a string", key);
        result.metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    SACCADE_ASSIGN(Entry entry, parse_entry(name, json).in(fmt::format("tensor {}", name)));
    entries.push_back(std::move(entry));
  }

  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  int64_t filled = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != filled) {
      return fail(ErrorCode::kBadData, "tensor {} begins at byte {} of the data, {} byte {}", entry.name,
                  entry.begin,
                  entry.begin < filled ? "overlapping the one that ends at" : "leaving a gap after", filled);
    }
    if (entry.end > static_cast<int64_t>(data.size())) {
      return fail(ErrorCode::kBadData, "tensor {} ends at byte {} of the data, which has {}", entry.name,
                  entry.end, data.size());
    }
    filled = entry.end;
    TensorView view{
        entry.dtype, entry.shape,
        data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin))};
    result.tensors_.emplace(entry.name, std::move(view));
  }
  if (filled != static_cast<int64_t>(data.size())) {
    return fail(ErrorCode::kBadData, "{} bytes after the last tensor",
                static_cast<int64_t>(data.size()) - filled);
  }
  return result;
}

const TensorView* SafeTensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

// Parts of a file: all before the tensors' bytes, and the tensors in the order of their bytes.
struct FileParts {
  std::string head;
  std::vector<const NamedTensor*> order;
};

Result<FileParts> file_parts(std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata) {
  // Widest elements first keeps every tensor aligned to its element size; then by name.
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return std::pair(-dtype_size(a->tensor.dtype), std::string_view(a->name)) <
           std::pair(-dtype_size(b->tensor.dtype), std::string_view(b->name));
  });

  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const NamedTensor* tensor : order) {
    SACCADE_ASSIGN(const int64_t bytes, byte_count(tensor->tensor.shape, dtype_size(tensor->tensor.dtype)));
    if (bytes != static_cast<int64_t>(tensor->tensor.bytes.size())) {
      return fail(ErrorCode::kInternal, "tensor {} of shape {} has {} bytes, not {}", tensor->name,
                  shape_text(tensor->tensor.shape), tensor->tensor.bytes.size(), bytes);
    }
    if (tensor->name == "__metadata__") return fail(ErrorCode::kUsage, "no tensor may be named __metadata__");
    if (header.contains(tensor->name)) return fail(ErrorCode::kUsage, "two tensors named {}", tensor->name);
    header[tensor->name] = {{"dtype", dtype_name(tensor->tensor.dtype)},
                            {"shape", tensor->tensor.shape},
                            {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = dump_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_size = text.size();
  text.insert(0, reinterpret_cast<const char*>(&header_size), sizeof(header_size));
  return FileParts{std::move(text), std::move(order)};
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
  SACCADE_ASSIGN(const FileParts parts, file_parts(tensors, metadata));
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  SACCADE_TRY(file.write(parts.head));
  for (const NamedTensor* tensor : parts.order) SACCADE_TRY(file.write(tensor->tensor.bytes));
  return file.commit();
}

Result<std::string> safetensors_bytes(std::span<const NamedTensor> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  SACCADE_ASSIGN(FileParts parts, file_parts(tensors, metadata));
  std::string bytes = std::move(parts.head);
  for (const NamedTensor* tensor : parts.order) {
    const std::span<const std::byte> values = tensor->tensor.bytes;
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size());
  }
  return bytes;
}

Result<std::vector<std::string>> shard_names(const std::filesystem::path& index) {
  SACCADE_ASSIGN(const Json json, read_json(index));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return fail(ErrorCode::kBadData, "{}: \"weight_map\" is not an object", index.string());
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      return fail(ErrorCode::kBadData, "{}: shard of {} is not a string", index.string(), tensor);
    const auto name = file.get<std::string>();
    if (!is_plain_file_name(name)) {
      return fail(ErrorCode::kBadData, "{}: shard \"{}\" is not a file name", index.string(), name);
    }
    names.insert(name);
  }
  if (names.empty()) return fail(ErrorCode::kBadData, "{}: names no shards", index.string());
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace saccade

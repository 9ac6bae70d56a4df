#include "lab/data/readers/parquet_pages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <zlib.h>
#include <zstd.h>

#include <fmt/format.h>

namespace saccade::lab::data {
namespace {

constexpr int64_t kFirstHeader = 1 << 10;  // bytes that are read for a page's header at first
constexpr int64_t kMaxHeader = int64_t{64}
                               << 20;       // with the smallest and largest values, which may be images
constexpr size_t kPiece = size_t{1} << 18;  // unpacked at a time

// Numbers of Encoding in parquet.thrift.
constexpr int32_t kPlain = 0;
constexpr int32_t kPlainDictionary = 2;
constexpr int32_t kRuns = 3;
constexpr int32_t kRunsDictionary = 8;

std::string_view encoding_name(int32_t encoding) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
      "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
      "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  return encoding >= 0 && encoding < std::ssize(kNames) ? kNames[static_cast<size_t>(encoding)]
                                                        : "an unknown encoding";
}

std::string_view codec_name(ParquetCodec codec) {
  static constexpr std::array<std::string_view, 8> kNames = {"none",   "Snappy", "gzip",      "LZO",
                                                             "Brotli", "LZ4",    "Zstandard", "LZ4"};
  const auto number = static_cast<int32_t>(codec);
  return number >= 0 && number < std::ssize(kNames) ? kNames[static_cast<size_t>(number)] : "unknown";
}

tl::unexpected<Error> wrong_size(int64_t size) {
  return fail(ErrorCode::kBadData, "a page that does not unpack to its {} bytes", size);
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = (value << 8) | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

// Memory grows with what is unpacked, not with what a damaged header promises. Both ask for one byte more than they should
// get, which is how a page that is longer shows.
Result<std::string> unpack_zstd(std::string_view bytes, int64_t size) {
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          ZSTD_freeDStream);
  if (!stream) return fail(ErrorCode::kLimit, "more than memory holds");
  std::string out;
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  const auto most = static_cast<size_t>(size);
  size_t left = 1;  // 0 at the end of a frame; several may follow each other
  const auto ended = [&] { return left == 0 && input.pos == input.size; };
  while (!ended() && out.size() <= most) {
    const size_t begin = out.size();
    out.resize(begin + std::min(kPiece, most + 1 - begin));
    ZSTD_outBuffer output{out.data(), out.size(), begin};
    while (!ended() && output.pos < output.size) {
      const size_t before_in = input.pos;
      const size_t before_out = output.pos;
      left = ZSTD_decompressStream(stream.get(), &output, &input);
      if (ZSTD_isError(left) != 0) return wrong_size(size);
      if (left != 0 && input.pos == before_in && output.pos == before_out) return wrong_size(size);
    }
    out.resize(output.pos);
  }
  if (out.size() != most) return wrong_size(size);
  return out;
}

Result<std::string> unpack_gzip(std::string_view bytes, int64_t size) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return fail(ErrorCode::kLimit, "more than memory holds");
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT: it is not written to
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  const auto most = static_cast<size_t>(size);
  int state = Z_OK;
  while (state == Z_OK && out.size() <= most) {
    const size_t begin = out.size();
    const size_t piece = std::min(kPiece, most + 1 - begin);
    out.resize(begin + piece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + begin);
    stream.avail_out = static_cast<uInt>(piece);
    while (state == Z_OK && stream.avail_out > 0) state = inflate(&stream, Z_NO_FLUSH);
    out.erase(begin + (piece - stream.avail_out));
  }
  if (state != Z_STREAM_END || stream.avail_in != 0 || out.size() != most) return wrong_size(size);
  return out;
}

}  // namespace

Result<std::string> unpack_snappy(std::string_view bytes, int64_t size) {
  constexpr int64_t kMaxRatio = 64;  // a copy of up to 64 bytes takes at least 2
  size_t at = 0;
  uint64_t length = 0;
  for (int shift = 0;; shift += 7) {
    if (at >= bytes.size() || shift > 28) return wrong_size(size);
    const auto byte = static_cast<uint8_t>(bytes[at++]);
    length |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) break;
  }
  if (static_cast<int64_t>(length) != size || size > kMaxRatio * std::ssize(bytes)) return wrong_size(size);
  std::string out;
  out.reserve(static_cast<size_t>(size));
  while (at < bytes.size()) {
    const auto tag = static_cast<uint8_t>(bytes[at++]);
    size_t count = 0;
    size_t offset = 0;
    // Number of bytes behind the tag, and the length in it.
    size_t more = 0;
    switch (tag & 3U) {
      case 0:
        count = (tag >> 2) + 1U;
        more = count > 60 ? count - 60 : 0;
        if (bytes.size() - at < more) return wrong_size(size);
        if (more > 0) count = little_endian(bytes.substr(at, more)) + 1;
        at += more;
        if (bytes.size() - at < count || static_cast<size_t>(size) - out.size() < count)
          return wrong_size(size);
        out.append(bytes.substr(at, count));
        at += count;
        continue;
      case 1:
        if (bytes.size() - at < 1) return wrong_size(size);
        count = ((tag >> 2) & 7U) + 4U;
        offset = (static_cast<size_t>(tag >> 5) << 8) | static_cast<uint8_t>(bytes[at]);
        at += 1;
        break;
      default:
        more = (tag & 3U) == 2 ? 2 : 4;
        if (bytes.size() - at < more) return wrong_size(size);
        count = (tag >> 2) + 1U;
        offset = little_endian(bytes.substr(at, more));
        at += more;
    }
    if (offset == 0 || offset > out.size() || static_cast<size_t>(size) - out.size() < count)
      return wrong_size(size);
    // A copy may reach into what it writes, so it goes byte by byte.
    for (size_t from = out.size() - offset; count > 0; --count, ++from) out.push_back(out[from]);
  }
  if (std::ssize(out) != size) return wrong_size(size);
  return out;
}

Result<std::string> unpack_page(ParquetCodec codec, std::string_view bytes, int64_t size) {
  if (size == 0 && bytes.empty()) return std::string();
  switch (codec) {
    case ParquetCodec::kNone:
      if (std::ssize(bytes) != size) return wrong_size(size);
      return std::string(bytes);
    case ParquetCodec::kSnappy:
      return unpack_snappy(bytes, size);
    case ParquetCodec::kGzip:
      return unpack_gzip(bytes, size);
    case ParquetCodec::kZstd:
      return unpack_zstd(bytes, size);
    default:
      return fail(
          ErrorCode::kUnsupported,
          "packed with {}; none, Snappy, gzip and Zstandard are read: write the file again with one of them",
          codec_name(codec));
  }
}

Result<std::vector<uint32_t>> read_runs(std::string_view bytes, int width, int64_t count) {
  if (width < 0 || width > 32) return fail(ErrorCode::kBadData, "numbers of {} bits", width);
  std::vector<uint32_t> values;
  size_t at = 0;
  const auto ends = [] { return fail(ErrorCode::kBadData, "a page ends inside of its runs"); };
  const size_t value_bytes = static_cast<size_t>(width + 7) / 8;
  while (std::ssize(values) < count) {
    uint64_t head = 0;
    for (int shift = 0;; shift += 7) {
      if (at >= bytes.size() || shift > 28) return ends();
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      head |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) break;
    }
    const auto left = static_cast<uint64_t>(count - std::ssize(values));
    if ((head & 1) == 0) {  // one value, repeated
      if (bytes.size() - at < value_bytes || head == 0) return ends();
      const auto value = static_cast<uint32_t>(little_endian(bytes.substr(at, value_bytes)));
      at += value_bytes;
      values.insert(values.end(), std::min(head >> 1, left), value);
      continue;
    }
    // Groups of 8 values; the last group may be cut where the page ends.
    const uint64_t groups = head >> 1;
    const uint64_t take = std::min(groups * 8, left);
    const uint64_t needed = (take * static_cast<uint64_t>(width) + 7) / 8;
    if (groups == 0 || bytes.size() - at < needed) return ends();
    uint64_t bits = 0;
    int have = 0;
    size_t from = at;
    for (uint64_t i = 0; i < take; ++i) {
      while (have < width) {
        bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[from++])) << have;
        have += 8;
      }
      values.push_back(static_cast<uint32_t>(bits & ((uint64_t{1} << width) - 1)));
      bits >>= width;
      have -= width;
    }
    at += std::min(groups * static_cast<uint64_t>(width), static_cast<uint64_t>(bytes.size() - at));
  }
  return values;
}

Result<ParquetPageHeader> ParquetPages::read_header() {
  const int64_t end = chunk_.begin + chunk_.bytes;
  // Some old writers left the dictionary's header out of the sum (PARQUET-816).
  const int64_t last = std::min(end + 100, file_.size());
  for (int64_t bytes = kFirstHeader;; bytes = std::min(8 * bytes, kMaxHeader)) {
    std::string window(static_cast<size_t>(std::clamp<int64_t>(last - at_, 0, bytes)), '\0');
    SACCADE_TRY(file_.read(at_, window));
    SACCADE_ASSIGN(const std::optional<ParquetPageHeader> header, parse_page_header(window));
    if (!header && std::ssize(window) < bytes) {
      return fail(ErrorCode::kBadData, "its pages end after {} of {} values", seen_, chunk_.values);
    }
    if (!header && bytes == kMaxHeader)
      return fail(ErrorCode::kLimit, "a page's header of more than {} bytes", kMaxHeader);
    if (!header) continue;
    here_ = at_ + header->header_bytes;
    if (header->bytes > last - here_)
      return fail(ErrorCode::kBadData, "a page of {} bytes where {} are left", header->bytes, last - here_);
    if (header->unpacked_bytes > kMaxPageBytes)
      return fail(ErrorCode::kLimit, "a page of {} bytes, limit {}", header->unpacked_bytes, kMaxPageBytes);
    if (header->values > kMaxPageValues)
      return fail(ErrorCode::kLimit, "a page of {} values, limit {}", header->values, kMaxPageValues);
    at_ = here_ + header->bytes;
    return *header;
  }
}

Result<bool> ParquetPages::next() {
  if (chunk_.encrypted) return fail(ErrorCode::kUnsupported, "an encrypted column");
  while (seen_ < chunk_.values) {
    SACCADE_ASSIGN(header_, read_header());
    if (header_.kind == ParquetPageHeader::Kind::kDictionary) {
      SACCADE_TRY(read_dictionary(header_));
    } else if (header_.kind != ParquetPageHeader::Kind::kIndex) {
      seen_ += header_.values;
      if (seen_ > chunk_.values) {
        return fail(ErrorCode::kBadData, "its pages have {} values or more, the column {}", seen_,
                    chunk_.values);
      }
      if (header_.values > 0) return true;
    }
  }
  return false;
}

Result<std::string> ParquetPages::read_bytes(const ParquetPageHeader& header) {
  std::string bytes(static_cast<size_t>(header.bytes), '\0');
  SACCADE_TRY(file_.read(here_, bytes));
  return bytes;
}

Status ParquetPages::read_plain(std::string_view bytes, int64_t count, std::vector<std::string_view>& texts,
                                std::vector<int64_t>& numbers) const {
  const auto ends = [&] { return fail(ErrorCode::kBadData, "a page ends before its {} values", count); };
  if (leaf_.type == ParquetType::kBytes) {
    constexpr size_t kLength = 4;
    if (static_cast<uint64_t>(count) > bytes.size() / kLength) return ends();
    texts.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      if (bytes.size() < kLength) return ends();
      const uint64_t length = little_endian(bytes.substr(0, kLength));
      if (length > bytes.size() - kLength) return ends();
      texts.push_back(bytes.substr(kLength, length));
      bytes.remove_prefix(kLength + length);
    }
    return {};
  }
  if (leaf_.type == ParquetType::kBoolean) {  // a bit each, the lowest first
    if (static_cast<uint64_t>(count) > 8 * static_cast<uint64_t>(bytes.size())) return ends();
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<uint8_t>(bytes[static_cast<size_t>(i / 8)]) >> (i % 8) & 1);
    return {};
  }
  const bool narrow = leaf_.type == ParquetType::kInt32 || leaf_.type == ParquetType::kFloat;
  if (!narrow && leaf_.type != ParquetType::kInt64 && leaf_.type != ParquetType::kDouble) {
    return fail(ErrorCode::kUnsupported, "values of type {}", parquet_type_name(leaf_));
  }
  const size_t width = narrow ? 4 : 8;
  if (static_cast<uint64_t>(count) > bytes.size() / width) return ends();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t value = little_endian(bytes.substr(static_cast<size_t>(i) * width, width));
    const bool sign = leaf_.type == ParquetType::kInt32 && !leaf_.is_unsigned;
    numbers.push_back(sign ? static_cast<int32_t>(static_cast<uint32_t>(value))
                           : static_cast<int64_t>(value));
  }
  return {};
}

Status ParquetPages::read_dictionary(const ParquetPageHeader& header) {
  if (header.encoding != kPlain && header.encoding != kPlainDictionary) {
    return fail(ErrorCode::kUnsupported, "a dictionary in the encoding {}", encoding_name(header.encoding));
  }
  SACCADE_ASSIGN(const std::string bytes, read_bytes(header));
  SACCADE_ASSIGN(dictionary_memory_, unpack_page(chunk_.codec, bytes, header.unpacked_bytes));
  dictionary_.clear();
  dictionary_numbers_.clear();
  return read_plain(dictionary_memory_, header.values, dictionary_, dictionary_numbers_);
}

Status ParquetPages::read_values(std::string_view bytes, int64_t count, ParquetPage& page) const {
  if (count == 0) return {};  // nulls alone: no bytes are needed
  if (header_.encoding == kPlain) return read_plain(bytes, count, page.texts, page.numbers);
  if (header_.encoding == kRuns && leaf_.type == ParquetType::kBoolean) {
    constexpr size_t kLength = 4;  // in front of the runs
    const uint64_t length = bytes.size() < kLength ? 0 : little_endian(bytes.substr(0, kLength));
    if (bytes.size() < kLength || length > bytes.size() - kLength)
      return fail(ErrorCode::kBadData, "a page ends inside of its runs");
    SACCADE_ASSIGN(const std::vector<uint32_t> values, read_runs(bytes.substr(kLength, length), 1, count));
    page.numbers.assign(values.begin(), values.end());
    return {};
  }
  if (header_.encoding != kPlainDictionary && header_.encoding != kRunsDictionary) {
    return fail(ErrorCode::kUnsupported, "the encoding {}; PLAIN and dictionaries are read",
                encoding_name(header_.encoding));
  }
  if (bytes.empty()) return fail(ErrorCode::kBadData, "a page ends before its {} values", count);
  SACCADE_ASSIGN(const std::vector<uint32_t> places,
                 read_runs(bytes.substr(1), static_cast<uint8_t>(bytes.front()), count));
  const bool texts = leaf_.type == ParquetType::kBytes;
  const size_t size = texts ? dictionary_.size() : dictionary_numbers_.size();
  for (const uint32_t place : places) {
    if (place >= size) return fail(ErrorCode::kBadData, "value {} of a dictionary of {}", place, size);
    if (texts)
      page.texts.push_back(dictionary_[place]);
    else
      page.numbers.push_back(dictionary_numbers_[place]);
  }
  return {};
}

Result<ParquetPage> ParquetPages::read(bool values) {
  ParquetPage page;
  page.entries = header_.values;
  const int definition_bits = std::bit_width(static_cast<unsigned>(leaf_.max_definition));
  const int repetition_bits = std::bit_width(static_cast<unsigned>(leaf_.max_repetition));
  SACCADE_ASSIGN(std::string bytes, read_bytes(header_));
  std::string_view rest;
  if (header_.kind == ParquetPageHeader::Kind::kDataV2) {
    // Levels are in front and never packed.
    const int64_t levels = header_.repetition_bytes + header_.definition_bytes;
    if (levels > std::ssize(bytes) || levels > header_.unpacked_bytes)
      return fail(ErrorCode::kBadData, "levels of {} bytes in a page of {}", levels, bytes.size());
    const std::string_view all = bytes;
    const auto repetition_bytes = static_cast<size_t>(header_.repetition_bytes);
    if (repetition_bits > 0) {
      SACCADE_ASSIGN(page.repetition,
                     read_runs(all.substr(0, repetition_bytes), repetition_bits, page.entries));
    }
    if (definition_bits > 0) {
      SACCADE_ASSIGN(page.definition,
                     read_runs(all.substr(repetition_bytes, static_cast<size_t>(header_.definition_bytes)),
                               definition_bits, page.entries));
    }
    if (!values) return page;
    const std::string_view packed = all.substr(static_cast<size_t>(levels));
    const int64_t size = header_.unpacked_bytes - levels;
    SACCADE_ASSIGN(
        std::string unpacked,
        unpack_page(header_.packed && size > 0 ? chunk_.codec : ParquetCodec::kNone, packed, size));
    page.memory = std::make_unique<const std::string>(std::move(unpacked));
    rest = *page.memory;
  } else {
    SACCADE_ASSIGN(std::string unpacked, unpack_page(chunk_.codec, bytes, header_.unpacked_bytes));
    page.memory = std::make_unique<const std::string>(std::move(unpacked));
    rest = *page.memory;
    const auto levels = [&](int bits, int32_t encoding, std::vector<uint32_t>& into) -> Status {
      if (bits == 0) return {};
      if (encoding != kRuns)
        return fail(ErrorCode::kUnsupported, "levels in the encoding {}", encoding_name(encoding));
      const uint64_t length = rest.size() < 4 ? rest.size() : little_endian(rest.substr(0, 4));
      if (rest.size() < 4 || length > rest.size() - 4)
        return fail(ErrorCode::kBadData, "a page ends inside of its levels");
      SACCADE_ASSIGN(into, read_runs(rest.substr(4, length), bits, page.entries));
      rest.remove_prefix(4 + length);
      return {};
    };
    SACCADE_TRY(levels(repetition_bits, header_.repetition_encoding, page.repetition));
    SACCADE_TRY(levels(definition_bits, header_.definition_encoding, page.definition));
    if (!values) return page;
  }
  int64_t count = page.entries;
  if (definition_bits > 0) {
    const auto most = static_cast<uint32_t>(leaf_.max_definition);
    if (std::ranges::any_of(page.definition, [&](uint32_t level) { return level > most; })) {
      return fail(ErrorCode::kBadData, "a definition level above {}", most);
    }
    count = std::ranges::count(page.definition, most);
  }
  SACCADE_TRY(read_values(rest, count, page));
  return page;
}

}  // namespace saccade::lab::data

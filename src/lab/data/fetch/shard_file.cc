#include "lab/data/fetch/shard_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "lab/data/readers/tar.h"

namespace saccade::lab::data {
namespace {

constexpr std::string_view kShardMark = "fetched shard";
constexpr int64_t kTarBlock = 512;

int64_t padded(int64_t size) {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

// Returns a ustar header of a regular file, without a time and an owner.
std::string ustar_header(std::string_view name, int64_t size) {
  std::array<char, kTarBlock> header{};
  const auto put = [&](size_t at, std::string_view text) {
    text.copy(header.data() + at, std::min(text.size(), header.size() - at));
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  int64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  put(154, std::string_view("\0 ", 2));
  return {header.data(), header.size()};
}

}  // namespace

Json fetch_failure_json(const FetchFailure& failure) {
  Json json = {{"row", failure.row}, {"url", failure.url}, {"kind", failure.kind}};
  json["status"] = failure.status == 0 ? Json() : Json(failure.status);
  json["reason"] = failure.reason;
  return json;
}

Json shard_record_json(const ShardRecord& record) {
  Json json = {{"saccade", kShardMark},    {"version", 1},
               {"shard", record.shard},    {"first_row", record.first_row},
               {"rows", record.rows},      {"images", record.images},
               {"bytes", record.bytes},    {"sha256", record.sha256},
               {"failures", Json::array()}};
  for (const FetchFailure& failure : record.failures) json["failures"].push_back(fetch_failure_json(failure));
  return json;
}

Result<ShardRecord> parse_shard_record(const Json& json) {
  SACCADE_ASSIGN(const std::string mark, json_field<std::string>(json, "saccade"));
  if (mark != kShardMark) return fail(ErrorCode::kBadData, "\"{}\", expected \"{}\"", mark, kShardMark);
  ShardRecord record;
  SACCADE_ASSIGN(record.shard, json_field<int64_t>(json, "shard"));
  SACCADE_ASSIGN(record.first_row, json_field<int64_t>(json, "first_row"));
  SACCADE_ASSIGN(record.rows, json_field<int64_t>(json, "rows"));
  SACCADE_ASSIGN(record.images, json_field<int64_t>(json, "images"));
  SACCADE_ASSIGN(record.bytes, json_field<int64_t>(json, "bytes"));
  SACCADE_ASSIGN(record.sha256, json_field<std::string>(json, "sha256"));
  const auto failures = json.find("failures");
  if (failures == json.end() || !failures->is_array()) {
    return fail(ErrorCode::kBadData, "\"failures\" is no array");
  }
  for (const Json& each : *failures) {
    FetchFailure failure;
    SACCADE_ASSIGN(failure.row, json_field<int64_t>(each, "row"));
    SACCADE_ASSIGN(failure.url, json_field<std::string>(each, "url"));
    SACCADE_ASSIGN(failure.kind, json_field<std::string>(each, "kind"));
    SACCADE_ASSIGN(failure.status, json_field_or<int>(each, "status", 0));
    SACCADE_ASSIGN(failure.reason, json_field<std::string>(each, "reason"));
    record.failures.push_back(std::move(failure));
  }
  return record;
}

std::string image_ending(std::string_view format) {
  return std::string(format == "jpeg"   ? "jpg"
                     : format == "tiff" ? "tif"
                     : format == "heif" ? "heic"
                     : format == "raw"  ? "dng"
                                        : format);
}

std::string sample_key(int64_t row) {
  return fmt::format("{:09}", row);
}

Result<TarWriter> TarWriter::create(const std::filesystem::path& path) {
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  return TarWriter(std::move(file));
}

Status TarWriter::write(std::string_view text) {
  hash_.update(text);
  bytes_ += static_cast<int64_t>(text.size());
  return file_.write(text);
}

Status TarWriter::add(std::string_view name, std::string_view content) {
  const auto size = static_cast<int64_t>(content.size());
  SACCADE_TRY(write(ustar_header(name, size)));
  SACCADE_TRY(write(content));
  return write(std::string(static_cast<size_t>(padded(size) - size), '\0'));
}

Status TarWriter::add_members(std::string_view bytes) {
  return write(bytes);
}

Status TarWriter::commit() {
  SACCADE_TRY(write(std::string(static_cast<size_t>(2 * kTarBlock), '\0')));
  return file_.commit();
}

Result<std::map<std::string, SampleRange>> shard_samples(const PieceFile& file) {
  std::map<std::string, SampleRange> samples;
  SACCADE_TRY(for_each_tar_member(
      file.size(), [&](int64_t offset, std::span<char> out) { return file.read(offset, out); },
      [&](const TarMember& member) -> Status {
        const std::string key = member.name.substr(0, member.name.find('.'));
        const int64_t begin = member.offset - kTarBlock;
        const auto [place, fresh] = samples.emplace(key, SampleRange{begin, begin});
        if (place->second.end != begin) return fail(ErrorCode::kBadData, "sample {} is in two places", key);
        place->second.end = member.offset + padded(member.size);
        return {};
      }));
  return samples;
}

}  // namespace saccade::lab::data

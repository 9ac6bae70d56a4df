#include "saccade/model/conform/conform_record.h"

#include <algorithm>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/core/hash.h"
#include "saccade/model/options/precision_names.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxStamps = 8;  // places a checkpoint was last seen in
constexpr int64_t kMaxRecord = 1 << 20;

Result<fs::path> records_folder() {
  SACCADE_ASSIGN(const fs::path state, user_state_folder().in("no folder for what is remembered"));
  return state / "conformance";
}

Result<ConformanceRecord> read_record(const fs::path& path) {
  SACCADE_ASSIGN(const Json json, read_json(path, kMaxRecord));
  ConformanceRecord record;
  SACCADE_ASSIGN(record.fingerprint, json_field<std::string>(json, "fingerprint"));
  for (const Json& stamp : json.value("stamps", Json::array())) {
    if (stamp.is_string()) record.stamps.push_back(stamp.get<std::string>());
  }
  for (const Json& entry : json.value("results", Json::array())) {
    ConformanceResult result;
    SACCADE_ASSIGN(result.precision, json_field<std::string>(entry, "precision"));
    SACCADE_ASSIGN(result.reference, json_field<std::string>(entry, "reference"));
    SACCADE_ASSIGN(result.answers, json_field<int64_t>(entry, "answers"));
    SACCADE_ASSIGN(result.max_abs, json_field<double>(entry, "max_abs"));
    SACCADE_ASSIGN(result.program, json_field<std::string>(entry, "program"));
    record.results.push_back(std::move(result));
  }
  return record;
}

Status write_record(const fs::path& folder, const ConformanceRecord& record) {
  SACCADE_TRY(make_folders(folder));
  const Json json = {
      {"fingerprint", record.fingerprint}, {"stamps", record.stamps}, {"results", conformance_json(record)}};
  return write_file_atomic(folder / (record.fingerprint + ".json"), dump_json(json, 2) + "\n");
}

}  // namespace

Json conformance_json(const ConformanceRecord& record) {
  Json results = Json::array();
  for (const ConformanceResult& result : record.results) {
    results.push_back({{"precision", result.precision},
                       {"reference", result.reference},
                       {"answers", result.answers},
                       {"max_abs", result.max_abs},
                       {"program", result.program}});
  }
  return results;
}

std::string files_stamp(std::span<const fs::path> files) {
  Sha256 all;
  for (const fs::path& file : files) {
    struct stat info {};
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    if (error || ::stat(real.c_str(), &info) != 0) return {};
    all.update(fmt::format("{}\n{}\n{} {}.{:09}\n", file.filename().string(), real.string(), info.st_size,
                           info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  }
  return all.hex();
}

ConformanceRecord conformance_of(const std::string& fingerprint) {
  const auto folder = records_folder();
  if (!folder || !is_sha256_text(fingerprint)) return {};
  return read_record(*folder / (fingerprint + ".json")).value_or(ConformanceRecord{});
}

std::map<std::string, ConformanceRecord> conformance_by_stamp() {
  std::map<std::string, ConformanceRecord> records;
  const auto folder = records_folder();
  if (!folder) return records;
  std::error_code error;
  for (fs::directory_iterator entry(*folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_sha256_text(entry->path().stem().string()) || entry->path().extension() != ".json") continue;
    const auto record = read_record(entry->path());
    if (!record) continue;
    for (const std::string& stamp : record->stamps) records[stamp] = *record;
  }
  return records;
}

Status remember_conformance(const ConformReport& report, std::span<const fs::path> files,
                            const fs::path& reference, std::string_view program) {
  SACCADE_ASSIGN(const fs::path folder, records_folder());
  ConformanceRecord record = conformance_of(report.fingerprint);
  const bool fresh = record.fingerprint.empty();
  record.fingerprint = report.fingerprint;

  ConformanceResult result;
  result.precision = enum_name(report.precision);
  SACCADE_ASSIGN(result.reference, sha256_file(reference));
  std::erase_if(record.results, [&](const ConformanceResult& other) {
    return other.precision == result.precision && other.reference == result.reference;
  });
  if (report.ok) {
    result.answers = static_cast<int64_t>(report.answers.size());
    for (const AnswerCheck& answer : report.answers) {
      result.max_abs = std::max(result.max_abs, answer.max_abs);
    }
    result.program = program;
    record.results.push_back(std::move(result));
  } else if (fresh) {
    return {};
  }
  const std::string stamp = files_stamp(files);
  std::erase(record.stamps, stamp);
  if (!stamp.empty()) record.stamps.push_back(stamp);
  if (record.stamps.size() > kMaxStamps) record.stamps.erase(record.stamps.begin());
  return write_record(folder, record);
}

}  // namespace saccade

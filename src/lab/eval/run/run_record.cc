#include "lab/eval/run/run_record.h"

#include <thread>
#include <unistd.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/process/processor_name.h"

namespace saccade::lab {

RunMachine this_machine(int threads) {
  const auto pages = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  return {.processor = processor_name(), .threads = threads, .memory_bytes = pages > 0 ? pages * page : 0};
}

Json run_json(const RunInfo& info) {
  return record_json(info);
}

Result<RunInfo> parse_run_info(const Json& json) {
  if (json.is_object() && !json.contains("format")) {
    return fail(ErrorCode::kBadData, "\"format\" is missing: not a run of `saccade eval`");
  }
  SACCADE_ASSIGN(const int64_t format, json_field<int64_t>(json, "format"));
  if (format != kRunFormat) {
    return fail(ErrorCode::kUnsupported, "format {}, this program reads {}", format, kRunFormat);
  }
  SACCADE_ASSIGN(RunInfo info, read_record<RunInfo>(json));
  use_current_keys(info.protocol);
  if (info.protocol.is_object()) use_current_key(info.protocol, kProtocolDescription);
  SACCADE_TRY(json_field<std::string>(info.protocol, "description").in("\"protocol\""));
  return info;
}

std::vector<std::string> run_differences(const RunInfo& there, const RunInfo& asked) {
  std::vector<std::string> lines;
  const auto compare = [&](std::string_view what, const auto& a, const auto& b) {
    if (a != b) lines.push_back(fmt::format("{}: there {}, asked for {}", what, a, b));
  };
  compare("kind", there.kind, asked.kind);
  for (const auto& [key, value] : asked.protocol.items()) {
    if (key == "description") continue;
    const auto found = there.protocol.find(key);
    compare(key, found == there.protocol.end() ? "null" : dump_json(*found), dump_json(value));
  }
  for (const auto& [key, value] : there.protocol.items()) {
    if (key != "description" && !asked.protocol.contains(key))
      compare(key, dump_json(value), std::string("null"));
  }
  // The protocol of speed has it already.
  if (!asked.protocol.contains("device")) compare("device", there.machine.device, asked.machine.device);
  compare("seed", there.seed, asked.seed);
  compare("resamples", there.resamples, asked.resamples);
  compare("confidence", there.confidence, asked.confidence);
  compare("number of datasets", there.datasets.size(), asked.datasets.size());
  for (size_t i = 0; i < std::min(there.datasets.size(), asked.datasets.size()); ++i) {
    const RunDataset& a = there.datasets[i];
    const RunDataset& b = asked.datasets[i];
    if (a.sha256 != b.sha256) {
      lines.push_back(fmt::format("dataset: there {} ({}), asked for {} ({})", a.name, a.sha256.substr(0, 12),
                                  b.name, b.sha256.substr(0, 12)));
    } else if (!a.images_sha256.empty() && !b.images_sha256.empty() && a.images_sha256 != b.images_sha256) {
      lines.push_back(fmt::format("images of dataset {} have changed: there {}, now {}", b.name,
                                  a.images_sha256.substr(0, 12), b.images_sha256.substr(0, 12)));
    }
  }
  compare("number of checkpoints", there.checkpoints.size(), asked.checkpoints.size());
  for (size_t i = 0; i < std::min(there.checkpoints.size(), asked.checkpoints.size()); ++i) {
    const RunCheckpoint& a = there.checkpoints[i];
    const RunCheckpoint& b = asked.checkpoints[i];
    if (a.fingerprint != b.fingerprint) {
      lines.push_back(fmt::format("checkpoint: there {} ({}), asked for {} ({})", a.name,
                                  a.fingerprint.substr(0, 12), b.name, b.fingerprint.substr(0, 12)));
    } else if (a.precision != b.precision) {
      compare("precision of " + b.name, a.precision, b.precision);
    }
  }
  return lines;
}

}  // namespace saccade::lab

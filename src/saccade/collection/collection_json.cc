#include "saccade/collection/collection_json.h"

#include <utility>
#include <vector>

#include "saccade/collection/starter_warning.h"
#include "saccade/model/options/precision_names.h"

namespace saccade {
namespace {

Json failures_json(const std::vector<Failure>& failures) {
  Json list = Json::array();
  for (const Failure& failure : failures) list.push_back(failure_json(failure));
  return list;
}

Json not_looked_at_json(const NotLookedAt& passed) {
  Json endings = Json::object();
  for (const auto& [ending, count] : passed.endings) endings[ending] = count;
  return {{"endings", std::move(endings)},       {"hidden", passed.hidden},
          {"folder_links", passed.folder_links}, {"broken_links", passed.broken_links},
          {"excluded", passed.excluded},         {"collections", passed.collections}};
}

Json settings_json(const IngestSettings& settings) {
  Json json = {
      {"background", enum_name(settings.background)}, {"apply_orientation", settings.apply_orientation},
      {"convert_to_srgb", settings.convert_to_srgb},  {"fast_decode", settings.fast_decode},
      {"int8_rows", enum_name(settings.int8_rows)},   {"precision", enum_name(settings.precision)}};
  if (const auto& late = settings.late) {
    json["late"] = {{"precision", enum_name(late->precision)},
                    {"pool", late->pool},
                    {"grid_rows", late->grid.rows},
                    {"grid_columns", late->grid.columns}};
  }
  return json;
}

}  // namespace

Json collection_json(const CollectionInfo& info, const CollectionSummary& summary) {
  Json formats = Json::object();
  for (const auto& [format, count] : summary.formats) formats[format] = count;
  Json warnings = Json::array();
  if (const std::string text = starter_warning(info, summary.looked_at, summary.photographs); !text.empty())
    warnings.push_back(text);
  return {{"format_version", info.format_version},
          {"created", info.created},
          {"checkpoint",
           {{"name", info.checkpoint.name},
            {"path", info.checkpoint.path},
            {"fingerprint", info.checkpoint.fingerprint},
            {"dim", info.checkpoint.dim}}},
          {"settings", settings_json(info.settings)},
          {"items", summary.items},
          {"distinct_contents",
           summary.distinct_contents == kUnknownState ? Json() : Json(summary.distinct_contents)},
          {"captions", summary.captions},
          {"looked_at", summary.looked_at},
          {"photographs", summary.photographs},
          {"removed", summary.removed},
          {"without_files", summary.without_files},
          {"formats", std::move(formats)},
          {"file_bytes", summary.file_bytes},
          {"rows", summary.rows},
          {"dead_rows", summary.dead_rows},
          {"row_bytes", summary.row_bytes},
          {"int8_rows", summary.int8_rows},
          {"int8_bytes", summary.int8_bytes},
          {"late_rows", summary.late_rows},
          {"late_bytes", summary.late_bytes},
          {"catalog_bytes", summary.catalog_bytes},
          {"failures", summary.failures},
          {"warnings", std::move(warnings)}};
}

Json failure_json(const Failure& failure) {
  return {{"path", failure.path}, {"code", name(failure.code)}, {"reason", failure.reason}};
}

Json ingest_json(const IngestReport& report) {
  const IngestReport::Seconds& seconds = report.seconds;
  return {{"seen", report.seen},
          {"added", report.added},
          {"updated", report.updated},
          {"moved", report.moved},
          {"unchanged", report.unchanged},
          {"removed", report.removed},
          {"missing", report.missing},
          {"duplicates", report.duplicates},
          {"skipped_failed", report.skipped_failed},
          {"stayed_out", report.stayed_out},
          {"videos", report.videos},
          {"metadata_read", report.facts_read},
          {"given_captions", report.given_captions},
          {"encoder_used", report.encoder_used},
          {"not_looked_at", not_looked_at_json(report.not_looked_at)},
          {"cancelled", report.cancelled},
          {"bytes_read", report.bytes_read},
          {"seconds",
           {{"total", seconds.total},
            {"walk", seconds.walk},
            {"read", seconds.read},
            {"decode", seconds.decode},
            {"preprocess", seconds.preprocess},
            {"encode", seconds.encode},
            {"write", seconds.write},
            {"waiting", seconds.waiting}}},
          {"unread_captions", failures_json(report.unread_captions)},
          {"failed", failures_json(report.failed)}};
}

Json verify_json(const VerifyReport& report) {
  Json problems = Json::array();
  for (const VerifyReport::Problem& problem : report.problems) {
    problems.push_back(
        {{"subject", problem.subject}, {"message", problem.message}, {"fatal", problem.fatal}});
  }
  return {{"items", report.items},
          {"rows", report.rows},
          {"files_hashed", report.files_hashed},
          {"without_files", report.without_files},
          {"ok", report.ok()},
          {"problem_count", report.problem_count},
          {"fatal_count", report.fatal_count},
          {"problems", std::move(problems)}};
}

}  // namespace saccade

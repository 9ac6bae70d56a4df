#include "lab/data/generated.h"

#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "generated edits";
constexpr int kVersion = 1;

Json edit_json(const GeneratedEdit& edit) {
  Json line{
      {"query", edit.query}, {"gallery", edit.gallery}, {"reference", edit.reference}, {"text", edit.text}};
  if (edit.file.empty()) {
    line["error"] = edit.error;
  } else {
    line["file"] = edit.file.string();
    line["width"] = edit.width;
    line["height"] = edit.height;
  }
  return line;
}

// Returns true for a path that stays in its folder.
bool stays_inside(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return !plain.empty() && plain.is_relative() && *plain.begin() != ".." && plain.has_filename();
}

Result<GeneratedEdit> parse_edit(const Json& line) {
  GeneratedEdit edit;
  SACCADE_ASSIGN(edit.query, json_field<std::string>(line, "query"));
  SACCADE_ASSIGN(edit.gallery, json_field_or<std::string>(line, "gallery", ""));
  SACCADE_ASSIGN(edit.reference, json_field<std::string>(line, "reference"));
  SACCADE_ASSIGN(edit.text, json_field<std::string>(line, "text"));
  SACCADE_ASSIGN(const std::string file, json_field_or<std::string>(line, "file", ""));
  if (file.empty()) {
    SACCADE_ASSIGN(edit.error, json_field_or<std::string>(line, "error", ""));
    return edit;
  }
  edit.file = file;
  if (!stays_inside(edit.file)) {
    return fail(ErrorCode::kBadData, "\"file\" is \"{}\", expected a path below the list's folder", file);
  }
  SACCADE_ASSIGN(edit.width, json_field_or<int>(line, "width", 0));
  SACCADE_ASSIGN(edit.height, json_field_or<int>(line, "height", 0));
  return edit;
}

Status parse_head(const Json& line, GeneratedEdits& generated) {
  SACCADE_ASSIGN(const std::string format, json_field_or<std::string>(line, "saccade", ""));
  if (format != kFormat) {
    return fail(ErrorCode::kBadData, "not a list of generated edits: \"saccade\" is \"{}\", expected \"{}\"",
                format, kFormat);
  }
  SACCADE_ASSIGN(const int version, json_field<int>(line, "version"));
  if (version != kVersion) {
    return fail(ErrorCode::kUnsupported, "version {}, this program reads {}", version, kVersion);
  }
  const auto engine = line.find("engine");
  const auto dataset = line.find("dataset");
  if (engine == line.end() || dataset == line.end()) {
    return fail(ErrorCode::kBadData, "\"engine\" or \"dataset\" is missing");
  }
  SACCADE_TRY(json_field<std::string>(*engine, "name"));
  generated.engine = *engine;
  SACCADE_ASSIGN(generated.dataset, json_field<std::string>(*dataset, "name"));
  SACCADE_ASSIGN(generated.dataset_hash, json_field<std::string>(*dataset, "hash"));
  return {};
}

Result<fs::path> list_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  if (fs::is_regular_file(path / kGeneratedFile, error)) return path / kGeneratedFile;
  return fail(ErrorCode::kNotFound, "{}: no {} in it: `saccade generate edits -o {}` writes one",
              path.string(), kGeneratedFile, path.string());
}

Status for_each_object(std::string_view text, const std::function<Status(int64_t, const Json&)>& use) {
  return data::for_each_line(text, [&](int64_t number, std::string_view line) -> Status {
    const std::string at = fmt::format("line {}", number);
    SACCADE_ASSIGN(const Json json, parse_json(line).in(at));
    if (!json.is_object()) return fail(ErrorCode::kBadData, "{}: {}, not an object", at, json_kind(json));
    return use(number, json).in(at);
  });
}

}  // namespace

std::string edit_text(std::span<const std::string> texts) {
  std::string said;
  for (const std::string& text : texts) {
    const std::string_view plain = trim_ascii(text);
    if (plain.empty()) continue;
    if (!said.empty()) said += ", and ";
    said += plain;
  }
  return said;
}

Result<std::string> format_generated_edits(const GeneratedEdits& generated) {
  Json head{{"saccade", kFormat},
            {"version", kVersion},
            {"dataset", {{"name", generated.dataset}, {"hash", generated.dataset_hash}}},
            {"engine", generated.engine}};
  std::string text = dump_json(head) + "\n";
  for (const GeneratedEdit& edit : generated.edits) {
    for (const std::string* name : {&edit.query, &edit.gallery, &edit.reference, &edit.text}) {
      SACCADE_TRY(data::check_utf8(*name, "an edit query's name or text"));
    }
    text += dump_json(edit_json(edit)) + "\n";
  }
  return text;
}

Result<GeneratedEdits> read_generated_edits(const fs::path& path) {
  SACCADE_ASSIGN(const fs::path list, list_of(path));
  SACCADE_ASSIGN(const std::string text, read_file(list));
  GeneratedEdits generated;
  std::set<std::string, std::less<>> seen;
  bool first = true;
  const Status read = for_each_object(text, [&](int64_t, const Json& line) -> Status {
    if (std::exchange(first, false)) return parse_head(line, generated);
    SACCADE_ASSIGN(GeneratedEdit edit, parse_edit(line));
    if (!seen.insert(edit.query).second) {
      return fail(ErrorCode::kBadData, "the query \"{}\" is there twice", edit.query);
    }
    generated.edits.push_back(std::move(edit));
    return {};
  });
  if (!read) return fail(read.error().in(list.string()));
  if (first) return fail(ErrorCode::kBadData, "{}: empty", list.string());
  return generated;
}

Status write_generated_quality(const fs::path& folder,
                               const std::map<std::string, GeneratedQuality>& quality) {
  std::string text;
  for (const auto& [query, of] : quality) {
    text += dump_json({{"query", query}, {"cosine", of.cosine}, {"rank", of.rank}}) + "\n";
  }
  return write_file_atomic(folder / kQualityFile, text);
}

Result<std::map<std::string, GeneratedQuality>> read_generated_quality(const fs::path& folder) {
  const fs::path path = folder / kQualityFile;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return fail(ErrorCode::kNotFound,
                "{}: not there: `saccade eval edits --note` writes how like its target each image is",
                path.string());
  }
  SACCADE_ASSIGN(const std::string text, read_file(path));
  std::map<std::string, GeneratedQuality> quality;
  const Status read = for_each_object(text, [&](int64_t, const Json& line) -> Status {
    SACCADE_ASSIGN(const std::string query, json_field<std::string>(line, "query"));
    GeneratedQuality of;
    SACCADE_ASSIGN(of.cosine, json_field<double>(line, "cosine"));
    SACCADE_ASSIGN(of.rank, json_field<double>(line, "rank"));
    quality[query] = of;
    return {};
  });
  if (!read) return fail(read.error().in(path.string()));
  return quality;
}

Result<PseudoTargets> read_pseudo_targets(const fs::path& path, const Dataset& dataset,
                                          const PseudoTargetOptions& options) {
  SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
  SACCADE_ASSIGN(const fs::path list, list_of(path));
  SACCADE_ASSIGN(const GeneratedEdits generated, read_generated_edits(list));
  std::unordered_map<std::string_view, const GeneratedEdit*> by_query;
  for (const GeneratedEdit& edit : generated.edits) by_query.emplace(edit.query, &edit);
  std::map<std::string, GeneratedQuality> quality;
  if (options.min_cosine) {
    SACCADE_ASSIGN(quality, read_generated_quality(list.parent_path()));
  }
  PseudoTargets targets;
  targets.pictures.resize(edits->items.size());
  for (size_t i = 0; i < edits->items.size(); ++i) {
    const EditQuery& query = edits->items[i];
    const auto found = by_query.find(query.id);
    if (found == by_query.end()) {
      ++targets.absent;
      continue;
    }
    const GeneratedEdit& edit = *found->second;
    if (edit.reference != query.reference || edit.gallery != query.gallery) {
      return fail(
          ErrorCode::kMismatch,
          "{}: the query \"{}\" has the reference \"{}\" of \"{}\" there, and \"{}\" of \"{}\" in the "
          "dataset: it was generated for another one",
          list.string(), query.id, edit.reference, edit.gallery, query.reference, query.gallery);
    }
    if (edit.file.empty()) {
      ++targets.failed;
      continue;
    }
    if (options.min_cosine) {
      const auto of = quality.find(query.id);
      if (of == quality.end() || !(of->second.cosine >= *options.min_cosine)) {
        ++targets.below;
        continue;
      }
    }
    ImageRef& picture = targets.pictures[i].emplace();
    picture.path = list.parent_path() / edit.file;
    ++targets.there;
  }
  if (targets.there == 0) {
    return fail(
        ErrorCode::kUsage,
        "{}: no image for any of the {} queries of {} ({} without an answer, {} not in the list, {} not "
        "like enough)",
        list.string(), edits->items.size(), dataset.name, targets.failed, targets.absent, targets.below);
  }
  return targets;
}

}  // namespace saccade::lab

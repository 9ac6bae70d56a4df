#include "saccade/data/manifest.h"

#include <set>

#include "saccade/core/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"

namespace saccade {
namespace {

Result<DatasetItem> parse_item(std::string_view line, const std::filesystem::path& folder) {
  SACCADE_ASSIGN(const Json json, parse_json(line));
  if (!json.is_object()) return fail(ErrorCode::kBadData, "{}, not an object", json_kind(json));
  DatasetItem item;
  SACCADE_ASSIGN(const auto image, json_field<std::string>(json, "image"));
  if (image.empty()) return fail(ErrorCode::kBadData, "\"image\" is empty");
  if (image.find('\0') != std::string::npos)
    return fail(ErrorCode::kBadData, "\"image\" has a zero byte in it");
  item.image = folder / image;  // an absolute path replaces the folder
  SACCADE_ASSIGN(item.id, json_field_or<std::string>(json, "id", image));
  SACCADE_ASSIGN(item.source, json_field_or<std::string>(json, "source", ""));
  SACCADE_ASSIGN(item.licence, json_field_or<std::string>(json, "licence", ""));
  SACCADE_ASSIGN(item.group, json_field_or<std::string>(json, "group", ""));
  SACCADE_ASSIGN(item.split, json_field_or<std::string>(json, "split", ""));
  if (const auto captions = json.find("captions"); captions != json.end() && !captions->is_null()) {
    const Json list = captions->is_string() ? Json::array({*captions}) : *captions;
    if (!list.is_array()) {
      return fail(ErrorCode::kBadData, "\"captions\" is {}, expected an array of strings", json_kind(list));
    }
    for (const Json& caption : list) {
      SACCADE_ASSIGN(item.captions.emplace_back(), detail::json_as<std::string>("captions", caption));
    }
  }
  return item;
}

}  // namespace

Result<Dataset> parse_manifest(std::string_view text, const std::filesystem::path& folder) {
  Dataset dataset;
  dataset.hash = sha256_hex(text);
  std::set<std::string> ids;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    SACCADE_ASSIGN(DatasetItem item, parse_item(line, folder).in(fmt::format("line {}", number)));
    if (!ids.insert(item.id).second) {
      return fail(ErrorCode::kBadData, "line {}: a second item with id \"{}\"", number, item.id);
    }
    dataset.items.push_back(std::move(item));
  }
  return dataset;
}

Result<Dataset> read_manifest(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const std::string text, read_file(path, int64_t{4} << 30));
  SACCADE_ASSIGN(Dataset dataset, parse_manifest(text, path.parent_path()).in(path.string()));
  dataset.name = path.stem().string();
  return dataset;
}

}  // namespace saccade

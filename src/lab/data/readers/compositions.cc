// Tests of composition: Winoground (two images and two captions per item) and SugarCrepe (an image, its
// caption and a wrong one).
#include <algorithm>

#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

bool is_winoground(const Candidate& candidate) {
  if (!candidate.outline) return false;
  const std::string_view first =
      candidate.outline->array ? candidate.outline->first : candidate.outline->value;
  return has_keys(first, {"caption_0", "caption_1", "image_0", "image_1"});
}

Status add_winoground(const Json& record, Dataset& dataset) {
  CompositionItem item;
  SACCADE_ASSIGN(const auto id, json_field<int64_t>(record, "id"));
  item.id = std::to_string(id);
  for (const char* number : {"0", "1"}) {
    SACCADE_ASSIGN(item.captions.emplace_back(),
                   json_field<std::string>(record, std::string("caption_") + number));
    SACCADE_ASSIGN(const auto image, json_field<std::string>(record, std::string("image_") + number));
    if (image.empty()) return fail(ErrorCode::kBadData, "\"image_{}\" is empty", number);
    item.images.emplace_back().path = image;
  }
  SACCADE_ASSIGN(item.kind, json_field_or<std::string>(record, "collapsed_tag", ""));
  dataset.as<CompositionTests>().items.push_back(std::move(item));
  return {};
}

Result<Dataset> read_winoground(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = CompositionTests()};
  note_file(candidate, dataset);
  if (candidate.outline && candidate.outline->array) {
    const auto each = [&](int64_t, const Json& record) { return add_winoground(record, dataset); };
    SACCADE_TRY(for_each_record(candidate.text, each));
  } else {
    const auto each = [&](int64_t number, std::string_view line) -> Status {
      const auto json = parse_json(line);
      if (!json) return fail(json.error().in(fmt::format("line {}", number)));
      return add_winoground(*json, dataset).in(fmt::format("line {}", number));
    };
    SACCADE_TRY(for_each_line(candidate.text, each));
  }
  SACCADE_TRY(place_images(dataset, candidate.path.parent_path(), {}, options));
  return dataset;
}

bool is_sugar_crepe_file(const Candidate& candidate) {
  const auto& outline = candidate.outline;
  return outline && !outline->array && !outline->more && !outline->members.empty() &&
         has_keys(outline->members.front().second, {"negative_caption"});
}

// A folder is in this layout if all its JSON files are.
std::vector<fs::path> sugar_crepe_files(const Candidate& folder) {
  std::vector<fs::path> files;
  for (const std::string& name : folder.names) {
    const fs::path path = folder.path / name;
    if (path.extension() != ".json") continue;
    const auto file = look_at(path);
    if (!file || !is_sugar_crepe_file(*file)) return {};
    files.push_back(path);
  }
  return files;
}

bool is_sugar_crepe(const Candidate& candidate) {
  return candidate.folder ? !sugar_crepe_files(candidate).empty() : is_sugar_crepe_file(candidate);
}

Status add_sugar_crepe(const std::string& kind, const std::string& key, std::string_view text,
                       Dataset& dataset) {
  SACCADE_ASSIGN(const Json record, parse_json(text));
  CompositionItem item;
  item.id = kind + "/" + key;
  item.kind = kind;
  SACCADE_ASSIGN(const auto image, json_field<std::string>(record, "filename"));
  if (image.empty()) return fail(ErrorCode::kBadData, "\"filename\" is empty");
  item.images.emplace_back().path = image;
  for (const char* field : {"caption", "negative_caption"}) {
    SACCADE_ASSIGN(item.captions.emplace_back(), json_field<std::string>(record, field));
  }
  dataset.as<CompositionTests>().items.push_back(std::move(item));
  return {};
}

Result<Dataset> read_sugar_crepe(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = CompositionTests()};
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = sugar_crepe_files(candidate);
  for (const fs::path& path : files) {
    SACCADE_ASSIGN(const Candidate file, look_at(path));
    note_file(file, dataset);
    const std::string kind = path.stem().string();
    const auto each = [&](const std::string& key, std::string_view value) -> Status {
      return add_sugar_crepe(kind, key, value, dataset).in(fmt::format("\"{}\"", key));
    };
    SACCADE_TRY(for_each_member(file.text, each).in(path.filename().string()));
  }
  const fs::path folder = candidate.folder ? candidate.path : candidate.path.parent_path();
  const std::string hints[] = {"../val2017", "../images/val2017", "../images", "../../val2017"};
  SACCADE_TRY(place_images(dataset, folder, hints, options));
  return dataset;
}

}  // namespace

const Reader kWinoground = {"winoground", is_winoground, read_winoground};
const Reader kSugarCrepe = {"sugar_crepe", is_sugar_crepe, read_sugar_crepe};

}  // namespace saccade::lab::data

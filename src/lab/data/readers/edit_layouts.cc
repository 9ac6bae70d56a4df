// Published layouts of edit queries: Fashion-IQ, CIRR (rc2), CIRCO, and JSON Lines of pairs.
//
//   Fashion-IQ   captions/cap.CATEGORY.SPLIT.json       [{"candidate", "target", "captions": [two]}]
//                image_splits/split.CATEGORY.SPLIT.json [picture]
//   CIRR         captions/cap.rc2.SPLIT.json            [{"pairid", "reference", "caption", "target_hard",
//                                                         "img_set": {"members": [six]}}]
//                image_splits/split.rc2.SPLIT.json      {picture: "./dev/picture.png"}
//   CIRCO        annotations/SPLIT.json                 [{"id", "reference_img_id", "relative_caption",
//                                                         "shared_concept", "target_img_id", "gt_img_ids"}]
//                COCO2017_unlabeled/annotations/image_info_unlabeled2017.json   {"images": [{"id",
//                                                                               "file_name"}]}
//   pairs        {"q_img", "q_text", "positive", "hn_image": []}, a line each
//
// Test splits with withheld answers (Fashion-IQ's and CIRCO's test, CIRR's test1) have no targets.
#include <algorithm>
#include <array>

#include "lab/data/edit_queries.h"
#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

// Returns true if the first record of a file with an array of records has these keys.
bool first_record_has(const Candidate& candidate, std::initializer_list<std::string_view> keys) {
  return candidate.outline && candidate.outline->array && has_keys(candidate.outline->first, keys);
}

bool is_fashion_iq_file(const Candidate& candidate) {
  return first_record_has(candidate, {"candidate", "captions"});
}
bool is_cirr_file(const Candidate& candidate) {
  return first_record_has(candidate, {"pairid", "reference", "caption"});
}
bool is_circo_file(const Candidate& candidate) {
  return first_record_has(candidate, {"reference_img_id", "relative_caption"});
}

// Returns the JSON files in `below` of a dataset's folder that have the name and that `fits` recognizes.
std::vector<fs::path> files_below(const Candidate& folder, const char* below,
                                  std::initializer_list<std::string_view> begins,
                                  bool (*fits)(const Candidate&)) {
  std::vector<fs::path> files;
  if (!folder.has(below)) return files;
  const auto inside = look_at(folder.path / below);
  if (!inside || !inside->folder) return files;
  for (const std::string& name : inside->names) {
    const bool called_so = std::ranges::any_of(begins, [&](auto begin) { return name.starts_with(begin); });
    if (!called_so || fs::path(name).extension() != ".json") continue;
    const auto file = look_at(inside->path / name);
    if (file && fits(*file)) files.push_back(inside->path / name);
  }
  return files;
}

// Returns the path of `name`: in `folder`, or in a sibling folder called `beside`. kNotFound names both.
Result<fs::path> find_beside(const fs::path& folder, const char* beside, const std::string& name) {
  std::error_code error;
  const fs::path places[] = {folder / ".." / beside / name, folder / name};
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, error)) return place.lexically_normal();
  }
  return fail(ErrorCode::kNotFound, "{} belongs to it, and is neither there nor at {}",
              places[0].lexically_normal().string(), places[1].string());
}

// Splits "a.b.c.json" into {"a", "b", "c"}.
std::vector<std::string> name_parts(const fs::path& file) {
  std::vector<std::string> parts;
  const std::string stem = file.stem().string();
  for (size_t begin = 0; begin <= stem.size();) {
    const size_t end = std::min(stem.find('.', begin), stem.size());
    parts.push_back(stem.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Returns an id, which publishers write as a number or as a string.
Result<std::string> id_field(const Json& record, const char* field) {
  const auto found = record.find(field);
  if (found != record.end() && found->is_number_integer()) return std::to_string(found->get<int64_t>());
  return json_field<std::string>(record, field);
}

// Returns an array of ids, or a single one; empty if it is missing or null.
Result<std::vector<std::string>> id_list(const Json& record, const char* field) {
  std::vector<std::string> ids;
  const auto found = record.find(field);
  if (found == record.end() || found->is_null()) return ids;
  if (!found->is_array()) {
    SACCADE_ASSIGN(ids.emplace_back(), id_field(record, field));
    return ids;
  }
  for (const Json& each : *found) {
    SACCADE_ASSIGN(ids.emplace_back(), id_field(Json{{field, each}}, field));
  }
  return ids;
}

void add_picture(std::string id, fs::path path, const std::string& gallery, Dataset& dataset) {
  GalleryPicture& picture = dataset.as<EditQueries>().gallery.emplace_back();
  picture.id = std::move(id);
  picture.image.path = std::move(path);
  picture.gallery = gallery;
}

// Reads the queries of a captions file. `add` converts a record to a query.
Status read_queries(const fs::path& path, const std::function<Status(int64_t, const Json&, EditQuery&)>& add,
                    Dataset& dataset) {
  SACCADE_ASSIGN(const Candidate file, look_at(path));
  note_file(file, dataset);
  auto& edits = dataset.as<EditQueries>();
  const GalleryIndex pictures(edits);
  return for_each_record(file.text,
                         [&](int64_t number, const Json& record) -> Status {
                           EditQuery query;
                           SACCADE_TRY(add(number, record, query));
                           SACCADE_TRY(check_edit(query, pictures));
                           edits.items.push_back(std::move(query));
                           return {};
                         })
      .in(path.filename().string());
}

bool is_fashion_iq(const Candidate& candidate) {
  if (!candidate.folder) return is_fashion_iq_file(candidate);
  return !files_below(candidate, "captions", {"cap."}, is_fashion_iq_file).empty();
}

Status read_fashion_iq_file(const fs::path& path, Dataset& dataset) {
  const std::vector<std::string> parts = name_parts(path);
  if (parts.size() != 3 || parts[0] != "cap") {
    return fail(ErrorCode::kBadData,
                "{}: Fashion-IQ's files are called cap.CATEGORY.SPLIT.json: category and split "
                "are nowhere else",
                path.filename().string());
  }
  const std::string gallery = fmt::format("{}.{}", parts[1], parts[2]);
  SACCADE_ASSIGN(const fs::path split,
                 find_beside(path.parent_path(), "image_splits", fmt::format("split.{}.json", gallery))
                     .in(path.filename().string()));
  SACCADE_ASSIGN(const Candidate pictures, look_at(split));
  note_file(pictures, dataset);
  const auto add_name = [&](int64_t, std::string_view element) -> Status {
    SACCADE_ASSIGN(const Json name, parse_json(element));
    SACCADE_ASSIGN(std::string id, detail::json_as<std::string>("an image's name", name));
    add_picture(id, id, gallery, dataset);
    return {};
  };
  SACCADE_TRY(for_each_element(pictures.text, add_name).in(split.filename().string()));
  return read_queries(
      path,
      [&](int64_t number, const Json& record, EditQuery& query) -> Status {
        query.id = fmt::format("{}.{}", gallery, number - 1);
        query.gallery = gallery;
        query.kind = parts[1];
        query.split = parts[2];
        SACCADE_ASSIGN(query.reference, json_field<std::string>(record, "candidate"));
        SACCADE_ASSIGN(query.texts, id_list(record, "captions"));
        SACCADE_ASSIGN(query.targets, id_list(record, "target"));
        return {};
      },
      dataset);
}

Result<Dataset> read_fashion_iq(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = EditQueries()};
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = files_below(candidate, "captions", {"cap."}, is_fashion_iq_file);
  for (const fs::path& file : files) SACCADE_TRY(read_fashion_iq_file(file, dataset));
  const fs::path folder = candidate.folder ? candidate.path : candidate.path.parent_path();
  const std::string hints[] = {"resized_image", "../images", "../resized_image", "../image"};
  SACCADE_TRY(place_images(dataset, folder, hints, options));
  return dataset;
}

bool is_cirr(const Candidate& candidate) {
  if (!candidate.folder) return is_cirr_file(candidate);
  return !files_below(candidate, "captions", {"cap."}, is_cirr_file).empty();
}

Status add_cirr_query(const Json& record, const std::string& split, EditQuery& query) {
  query.gallery = split;
  query.split = split;
  SACCADE_ASSIGN(query.id, id_field(record, "pairid"));
  SACCADE_ASSIGN(query.reference, json_field<std::string>(record, "reference"));
  SACCADE_ASSIGN(query.texts.emplace_back(), json_field<std::string>(record, "caption"));
  // target_soft grades further images in some records; no published figure counts them.
  SACCADE_ASSIGN(query.targets, id_list(record, "target_hard"));
  if (const auto set = record.find("img_set"); set != record.end()) {
    SACCADE_ASSIGN(query.subset, id_list(*set, "members"));
  }
  return {};
}

Status read_cirr_file(const fs::path& path, Dataset& dataset) {
  const std::vector<std::string> parts = name_parts(path);
  if (parts.size() != 3 || parts[0] != "cap") {
    return fail(ErrorCode::kBadData,
                "{}: CIRR's files are called cap.rc2.SPLIT.json: the split is nowhere else",
                path.filename().string());
  }
  const std::string& split = parts[2];
  SACCADE_ASSIGN(const fs::path list, find_beside(path.parent_path(), "image_splits",
                                                  fmt::format("split.{}.{}.json", parts[1], split))
                                          .in(path.filename().string()));
  SACCADE_ASSIGN(const Candidate pictures, look_at(list));
  note_file(pictures, dataset);
  const auto add_name = [&](const std::string& id, std::string_view value) -> Status {
    SACCADE_ASSIGN(const Json name, parse_json(value));
    SACCADE_ASSIGN(const std::string file, detail::json_as<std::string>(id, name));
    add_picture(id, fs::path(file).lexically_normal(), split, dataset);
    return {};
  };
  SACCADE_TRY(for_each_member(pictures.text, add_name).in(list.filename().string()));
  return read_queries(
      path,
      [&](int64_t, const Json& record, EditQuery& query) { return add_cirr_query(record, split, query); },
      dataset);
}

Result<Dataset> read_cirr(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = EditQueries()};
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = files_below(candidate, "captions", {"cap."}, is_cirr_file);
  for (const fs::path& file : files) SACCADE_TRY(read_cirr_file(file, dataset));
  const fs::path folder = candidate.folder ? candidate.path : candidate.path.parent_path();
  const std::string hints[] = {"img_raw", "..", "../..", "../img_raw", "../images"};
  SACCADE_TRY(place_images(dataset, folder, hints, options));
  return dataset;
}

bool is_circo(const Candidate& candidate) {
  if (!candidate.folder) return is_circo_file(candidate);
  return !files_below(candidate, "annotations", {"val.", "test."}, is_circo_file).empty();
}

constexpr const char* kCircoGallery = "unlabeled2017";

Status read_circo_pictures(const fs::path& path, Dataset& dataset) {
  SACCADE_ASSIGN(const Candidate file, look_at(path));
  note_file(file, dataset);
  const auto add_record = [&](int64_t, const Json& record) -> Status {
    SACCADE_ASSIGN(std::string id, id_field(record, "id"));
    SACCADE_ASSIGN(const std::string name, json_field<std::string>(record, "file_name"));
    add_picture(std::move(id), name, kCircoGallery, dataset);
    return {};
  };
  const auto member = [&](const std::string& key, std::string_view value) -> Status {
    return key == "images" ? for_each_record(value, add_record).in("\"images\"") : Status();
  };
  return for_each_member(file.text, member).in(path.filename().string());
}

Status add_circo_query(const Json& record, const std::string& split, EditQuery& query) {
  query.gallery = kCircoGallery;
  query.split = split;
  SACCADE_ASSIGN(const std::string id, id_field(record, "id"));
  query.id = fmt::format("{}.{}", split, id);  // both splits count from 0
  SACCADE_ASSIGN(query.reference, id_field(record, "reference_img_id"));
  SACCADE_ASSIGN(query.texts.emplace_back(), json_field<std::string>(record, "relative_caption"));
  SACCADE_ASSIGN(query.shared_concept, json_field_or<std::string>(record, "shared_concept", ""));
  SACCADE_ASSIGN(query.targets, id_list(record, "target_img_id"));
  SACCADE_ASSIGN(const std::vector<std::string> all, id_list(record, "gt_img_ids"));
  for (const std::string& target : all) {
    if (std::ranges::find(query.targets, target) == query.targets.end()) query.targets.push_back(target);
  }
  return {};
}

Result<Dataset> read_circo(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = EditQueries()};
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = files_below(candidate, "annotations", {"val.", "test."}, is_circo_file);
  const fs::path folder =
      candidate.folder ? candidate.path : (candidate.path.parent_path() / "..").lexically_normal();
  const fs::path pictures = folder / "COCO2017_unlabeled" / "annotations" / "image_info_unlabeled2017.json";
  SACCADE_TRY(read_circo_pictures(pictures, dataset).in("the images of CIRCO are a list of COCO's"));
  for (const fs::path& file : files) {
    const std::string split = file.stem().string();
    SACCADE_TRY(read_queries(
        file,
        [&](int64_t, const Json& record, EditQuery& query) { return add_circo_query(record, split, query); },
        dataset));
  }
  const std::string hints[] = {"COCO2017_unlabeled/unlabeled2017", "unlabeled2017"};
  SACCADE_TRY(place_images(dataset, folder, hints, options));
  return dataset;
}

bool is_edit_pairs(const Candidate& candidate) {
  return candidate.outline && !candidate.outline->array &&
         has_keys(candidate.outline->value, {"q_img", "q_text"});
}

Status add_pair(const Json& record, int64_t number, Dataset& dataset) {
  EditQuery query;
  query.id = fmt::format("line {}", number);
  SACCADE_ASSIGN(query.reference, json_field<std::string>(record, "q_img"));
  SACCADE_ASSIGN(std::vector<std::string> texts, id_list(record, "q_text"));
  if (texts.empty()) return fail(ErrorCode::kBadData, "\"q_text\" is empty");
  query.texts = {texts.front()};
  query.paraphrases.assign(texts.begin() + 1, texts.end());
  SACCADE_ASSIGN(query.targets, id_list(record, record.contains("positive") ? "positive" : "positive_key"));
  SACCADE_ASSIGN(query.negatives, id_list(record, "hn_image"));
  for (const auto* list : {&query.targets, &query.negatives}) {
    if (std::ranges::any_of(*list, &std::string::empty)) {
      return fail(ErrorCode::kBadData, "an image without a name");
    }
  }
  if (query.reference.empty()) return fail(ErrorCode::kBadData, "\"q_img\" is empty");
  dataset.as<EditQueries>().items.push_back(std::move(query));
  return {};
}

Result<Dataset> read_edit_pairs(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset{.content = EditQueries()};
  note_file(candidate, dataset);
  const auto each = [&](int64_t number, std::string_view line) -> Status {
    const std::string at = fmt::format("line {}", number);
    const auto json = parse_json(line);
    if (!json) return fail(json.error().in(at));
    if (!json->is_object()) return fail(ErrorCode::kBadData, "{}: {}, not an object", at, json_kind(*json));
    return add_pair(*json, number, dataset).in(at);
  };
  SACCADE_TRY(for_each_line(candidate.text, each));
  gather_galleries(dataset.as<EditQueries>());
  SACCADE_TRY(place_images(dataset, candidate.path.parent_path(), {}, options));
  return dataset;
}

}  // namespace

const Reader kFashionIq = {"fashion_iq", is_fashion_iq, read_fashion_iq};
const Reader kCirr = {"cirr", is_cirr, read_cirr};
const Reader kCirco = {"circo", is_circo, read_circo};
const Reader kEditPairs = {"edit_pairs", is_edit_pairs, read_edit_pairs};

}  // namespace saccade::lab::data

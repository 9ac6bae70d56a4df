#include "lab/data/readers/manifest.h"

#include <algorithm>
#include <limits>
#include <set>

#include "lab/data/edit_queries.h"
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/json.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

Status check_path(std::string_view text, std::string_view field) {
  if (text.empty()) return fail(ErrorCode::kBadData, "\"{}\" is empty", field);
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::kBadData, "\"{}\" has a zero byte in it", field);
  return {};
}

// Parses a path, a member of an archive, or a row of a Parquet file. `name` replaces a missing id.
Result<ImageRef> parse_image(const Json& json, std::string_view field, const fs::path& folder,
                             std::string& name) {
  ImageRef image;
  if (!json.is_object()) {
    SACCADE_ASSIGN(name, detail::json_as<std::string>(field, json));
    SACCADE_TRY(check_path(name, field));
    image.path = folder / name;  // an absolute path replaces the folder
    return image;
  }
  SACCADE_ASSIGN(const auto path, json_field<std::string>(json, "path"));
  SACCADE_TRY(check_path(path, "path"));
  if (json.contains("column")) {
    SACCADE_ASSIGN(const auto column, json_field<std::string>(json, "column"));
    SACCADE_TRY(check_path(column, "column"));
    SACCADE_ASSIGN(const auto row, json_field<int64_t>(json, "row"));
    if (row < 0) return fail(ErrorCode::kBadData, "\"row\" is {}, rows count from 0", row);
    image = data::parquet_picture(folder / path, column, row);
    name = fmt::format("{}: {}", path, image.member);
    return image;
  }
  SACCADE_ASSIGN(image.member, json_field<std::string>(json, "member"));
  SACCADE_TRY(check_path(image.member, "member"));
  SACCADE_ASSIGN(image.offset, json_field<int64_t>(json, "offset"));
  SACCADE_ASSIGN(image.size, json_field<int64_t>(json, "size"));
  if (image.offset < 0 || image.size < 0 || image.offset > std::numeric_limits<int64_t>::max() - image.size) {
    return fail(ErrorCode::kBadData, "\"{}\": {} bytes from byte {} are no part of a file", field, image.size,
                image.offset);
  }
  image.path = folder / path;
  name = image.member;
  return image;
}

// Returns an array of strings, or one string; empty if it is missing or null.
Result<std::vector<std::string>> parse_strings(const Json& json, const char* field) {
  std::vector<std::string> strings;
  const auto found = json.find(field);
  if (found == json.end() || found->is_null()) return strings;
  const Json list = found->is_string() ? Json::array({*found}) : *found;
  if (!list.is_array()) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, expected an array of strings", field, json_kind(list));
  }
  for (const Json& each : list) {
    SACCADE_ASSIGN(strings.emplace_back(), detail::json_as<std::string>(field, each));
  }
  return strings;
}

Result<std::vector<std::string>> parse_captions(const Json& json) {
  return parse_strings(json, "captions");
}

Result<CompositionItem> parse_composition(const Json& json, const fs::path& folder) {
  CompositionItem item;
  if (json.contains("image")) return fail(ErrorCode::kBadData, "both \"image\" and \"images\"");
  const Json& images = json["images"];
  if (!images.is_array() || images.empty() || images.size() > 2) {
    return fail(ErrorCode::kBadData, "\"images\" must be an array of one or two images");
  }
  std::string name;
  for (const Json& image : images) {
    std::string each;
    SACCADE_ASSIGN(item.images.emplace_back(), parse_image(image, "images", folder, each));
    name += (name.empty() ? "" : "+") + each;
  }
  SACCADE_ASSIGN(item.captions, parse_captions(json));
  if (item.captions.size() != 2) {
    return fail(ErrorCode::kBadData, "{} captions, an item with \"images\" has two", item.captions.size());
  }
  SACCADE_ASSIGN(item.id, json_field_or<std::string>(json, "id", name));
  SACCADE_ASSIGN(item.kind, json_field_or<std::string>(json, "kind", ""));
  SACCADE_ASSIGN(item.split, json_field_or<std::string>(json, "split", ""));
  return item;
}

Result<DatasetItem> parse_item(const Json& json, const fs::path& folder) {
  DatasetItem item;
  const auto image = json.find("image");
  if (image == json.end()) return fail(ErrorCode::kBadData, "\"image\" is missing");
  std::string name;
  SACCADE_ASSIGN(item.image, parse_image(*image, "image", folder, name));
  SACCADE_ASSIGN(item.id, json_field_or<std::string>(json, "id", name));
  SACCADE_ASSIGN(item.source, json_field_or<std::string>(json, "source", ""));
  SACCADE_ASSIGN(item.licence, json_field_or<std::string>(json, "licence", ""));
  SACCADE_ASSIGN(item.group, json_field_or<std::string>(json, "group", ""));
  SACCADE_ASSIGN(item.split, json_field_or<std::string>(json, "split", ""));
  SACCADE_ASSIGN(item.captions, parse_captions(json));
  return item;
}

// Scale of the raters' judgements (Verma et al. 2023, section 3.2).
constexpr double kLowestRating = 1;
constexpr double kHighestRating = 7;
constexpr size_t kMostRatings = 1000;
constexpr size_t kLongestText = size_t{64} << 10;  // bytes: a sentence, not a book

// Returns true for a line with a text and either a "visual" field or people's ratings.
bool is_rated_text(const Json& json) {
  return json.contains("text") && (json.contains("visual") || json.contains("ratings"));
}

Status parse_ratings(const Json& json, std::vector<double>& ratings) {
  const auto found = json.find("ratings");
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_array()) {
    return fail(ErrorCode::kBadData, "\"ratings\" is {}, expected an array of numbers", json_kind(*found));
  }
  if (found->size() > kMostRatings) {
    return fail(ErrorCode::kLimit, "{} ratings, at most {}", found->size(), kMostRatings);
  }
  for (const Json& each : *found) {
    SACCADE_ASSIGN(const double rating, detail::json_as<double>("ratings", each));
    if (!(rating >= kLowestRating && rating <= kHighestRating)) {
      return fail(ErrorCode::kBadData, "a rating of {}, expected {} to {}", rating, kLowestRating,
                  kHighestRating);
    }
    ratings.push_back(rating);
  }
  return {};
}

Result<RatedText> parse_rated(const Json& json, const fs::path& folder, std::string_view number) {
  RatedText item;
  SACCADE_ASSIGN(item.text, json_field<std::string>(json, "text"));
  if (data::trim(item.text).empty()) return fail(ErrorCode::kBadData, "\"text\" is empty");
  if (item.text.size() > kLongestText) {
    return fail(ErrorCode::kLimit, "\"text\" has {} bytes, at most {}: a text is a sentence or a few",
                item.text.size(), kLongestText);
  }
  const auto visual = json.find("visual");
  if (visual == json.end()) {
    return fail(ErrorCode::kBadData, "\"visual\" is missing: true, false, or null for an ambiguous text");
  }
  if (!visual->is_null()) {
    if (!visual->is_boolean()) {
      return fail(ErrorCode::kBadData, "\"visual\" is {}, expected true, false or null", json_kind(*visual));
    }
    item.visual = visual->get<bool>();
  }
  SACCADE_TRY(parse_ratings(json, item.ratings));
  if (const auto image = json.find("image"); image != json.end() && !image->is_null()) {
    std::string name;
    SACCADE_ASSIGN(item.image, parse_image(*image, "image", folder, name));
  }
  SACCADE_ASSIGN(item.id, json_field_or<std::string>(json, "id", fmt::format("line {}", number)));
  SACCADE_ASSIGN(item.source, json_field_or<std::string>(json, "source", ""));
  SACCADE_ASSIGN(item.licence, json_field_or<std::string>(json, "licence", ""));
  SACCADE_ASSIGN(item.group, json_field_or<std::string>(json, "group", ""));
  SACCADE_ASSIGN(item.split, json_field_or<std::string>(json, "split", ""));
  return item;
}

Result<GalleryPicture> parse_gallery_picture(const Json& json, const fs::path& folder) {
  GalleryPicture picture;
  std::string name;
  SACCADE_ASSIGN(picture.image, parse_image(json["picture"], "picture", folder, name));
  SACCADE_ASSIGN(picture.id, json_field_or<std::string>(json, "id", name));
  SACCADE_ASSIGN(picture.gallery, json_field_or<std::string>(json, "gallery", ""));
  return picture;
}

Result<EditQuery> parse_edit(const Json& json, std::string_view number) {
  EditQuery query;
  SACCADE_ASSIGN(query.reference, json_field<std::string>(json, "reference"));
  SACCADE_TRY(check_path(query.reference, "reference"));
  SACCADE_ASSIGN(query.texts, parse_strings(json, "texts"));
  if (query.texts.empty())
    return fail(ErrorCode::kBadData, "\"texts\" is empty: an edit query has one or more");
  SACCADE_ASSIGN(query.paraphrases, parse_strings(json, "paraphrases"));
  SACCADE_ASSIGN(query.targets, parse_strings(json, "targets"));
  SACCADE_ASSIGN(query.subset, parse_strings(json, "subset"));
  SACCADE_ASSIGN(query.negatives, parse_strings(json, "negatives"));
  for (const auto* list : {&query.texts, &query.paraphrases}) {
    for (const std::string& text : *list) {
      if (text.size() > kLongestText) {
        return fail(ErrorCode::kLimit, "a text of {} bytes, at most {}", text.size(), kLongestText);
      }
    }
  }
  SACCADE_ASSIGN(query.shared_concept, json_field_or<std::string>(json, "shared_concept", ""));
  SACCADE_ASSIGN(query.kind, json_field_or<std::string>(json, "kind", ""));
  SACCADE_ASSIGN(query.gallery, json_field_or<std::string>(json, "gallery", ""));
  SACCADE_ASSIGN(query.id, json_field_or<std::string>(json, "id", fmt::format("line {}", number)));
  SACCADE_ASSIGN(query.group, json_field_or<std::string>(json, "group", ""));
  SACCADE_ASSIGN(query.split, json_field_or<std::string>(json, "split", ""));
  return query;
}

// Converts images of galleries without images of their own to paths, then looks up every name.
Status settle_galleries(const fs::path& folder, const std::vector<int64_t>& lines, Dataset& dataset) {
  const size_t given = dataset.gallery.size();
  gather_galleries(dataset);
  for (size_t i = given; i < dataset.gallery.size(); ++i) {
    SACCADE_TRY(check_path(dataset.gallery[i].id, "a picture's name"));
    dataset.gallery[i].image.path = folder / dataset.gallery[i].id;
  }
  const GalleryIndex pictures(dataset);
  for (size_t q = 0; q < dataset.edits.size(); ++q) {
    SACCADE_TRY(check_edit(dataset.edits[q], pictures).in(fmt::format("line {}", lines[q])));
  }
  return {};
}

// Returns the id of the item that the last line added.
const std::string* last_id(const Dataset& dataset) {
  if (!dataset.edits.empty()) return &dataset.edits.back().id;
  if (!dataset.rated.empty()) return &dataset.rated.back().id;
  if (!dataset.items.empty()) return &dataset.items.back().id;
  return dataset.compositions.empty() ? nullptr : &dataset.compositions.back().id;
}

// Adds the item of a line. `number` is the line's.
Status add_line(std::string_view line, const fs::path& folder, std::string_view number, Dataset& dataset) {
  SACCADE_ASSIGN(const Json json, parse_json(line));
  if (!json.is_object()) return fail(ErrorCode::kBadData, "{}, not an object", json_kind(json));
  if (is_rated_text(json)) {
    SACCADE_ASSIGN(dataset.rated.emplace_back(), parse_rated(json, folder, number));
  } else if (json.contains("reference")) {
    SACCADE_ASSIGN(dataset.edits.emplace_back(), parse_edit(json, number));
  } else if (json.contains("picture")) {
    SACCADE_ASSIGN(dataset.gallery.emplace_back(), parse_gallery_picture(json, folder));
  } else if (json.contains("images")) {
    SACCADE_ASSIGN(dataset.compositions.emplace_back(), parse_composition(json, folder));
  } else {
    SACCADE_ASSIGN(dataset.items.emplace_back(), parse_item(json, folder));
  }
  const auto sorts = static_cast<int>(!dataset.items.empty()) +
                     static_cast<int>(!dataset.compositions.empty()) +
                     static_cast<int>(!dataset.rated.empty()) +
                     static_cast<int>(!dataset.edits.empty() || !dataset.gallery.empty());
  if (sorts > 1) {
    return fail(ErrorCode::kBadData,
                "\"image\", \"images\", \"visual\" and \"reference\" belong to different sorts of lines: a "
                "manifest has one sort (lines with \"picture\" go with \"reference\")");
  }
  return {};
}

// Returns an absolute path without "..". Symbolic links are kept if possible: ".." after a link does not lead
// to the parent that the name suggests.
Result<fs::path> plain_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path.empty() ? "." : path, error);
  if (!error) {
    if (std::find(whole.begin(), whole.end(), "..") == whole.end()) return whole.lexically_normal();
    fs::path plain = fs::weakly_canonical(whole, error);
    if (!error) return plain;
  }
  return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
}

// Returns the path by which a manifest in `folder` names a file; both are plain.
std::string path_in(const fs::path& folder, const fs::path& file) {
  const fs::path relative = file.lexically_relative(folder);
  const bool below = !relative.empty() && *relative.begin() != "..";
  return (below ? relative : file).string();
}

Result<Json> image_json(const ImageRef& image, const fs::path& folder) {
  SACCADE_ASSIGN(const fs::path path, plain_path(image.path));
  const std::string name = path_in(folder, path);
  if (!image.in_archive()) return Json(name);
  if (!image.column.empty()) {
    return Json{{"path", name}, {"column", image.column}, {"row", image.offset}};
  }
  return Json{{"path", name}, {"member", image.member}, {"offset", image.offset}, {"size", image.size}};
}

void put(Json& line, const char* key, const std::string& value) {
  if (!value.empty()) line[key] = value;
}

}  // namespace

Result<Dataset> parse_manifest(std::string_view text, const fs::path& folder) {
  Dataset dataset;
  std::set<std::string> ids;
  std::set<std::pair<std::string, std::string>> pictures;
  std::vector<int64_t> edit_lines;
  const Status read = data::for_each_line(text, [&](int64_t number, std::string_view line) -> Status {
    const std::string at = std::to_string(number);
    SACCADE_TRY(add_line(line, folder, at, dataset).in("line " + at));
    if (dataset.gallery.size() > pictures.size()) {
      const GalleryPicture& picture = dataset.gallery.back();
      if (!pictures.emplace(picture.gallery, picture.id).second) {
        return fail(ErrorCode::kBadData, "line {}: a second picture with id \"{}\" in its gallery", number,
                    picture.id);
      }
      return {};
    }
    if (dataset.edits.size() > edit_lines.size()) edit_lines.push_back(number);
    const std::string* id = last_id(dataset);
    if (id != nullptr && !ids.insert(*id).second) {
      return fail(ErrorCode::kBadData, "line {}: a second item with id \"{}\"", number, *id);
    }
    return {};
  });
  if (!read) return fail(read.error());
  SACCADE_TRY(settle_galleries(folder, edit_lines, dataset));
  return dataset;
}

Result<std::string> format_manifest(const Dataset& dataset, const fs::path& folder,
                                    std::span<const Json> more) {
  SACCADE_ASSIGN(fs::path base, plain_path(folder));
  if (!base.has_filename()) base = base.parent_path();  // "a/" is "a"
  std::string text;
  size_t number = 0;
  const auto add = [&](const std::string& id, Json& line) -> Status {
    if (!more.empty()) line.update(more[number++]);
    try {
      text += line.dump() + "\n";
    } catch (const nlohmann::json::exception&) {
      return fail(ErrorCode::kBadData, "item \"{}\": a name or caption that is not UTF-8", id);
    }
    return {};
  };
  for (const DatasetItem& item : dataset.items) {
    SACCADE_ASSIGN(Json image, image_json(item.image, base));
    Json line = {{"id", item.id}, {"image", std::move(image)}, {"captions", item.captions}};
    put(line, "split", item.split);
    put(line, "group", item.group);
    put(line, "source", item.source);
    put(line, "licence", item.licence);
    SACCADE_TRY(add(item.id, line));
  }
  for (const CompositionItem& item : dataset.compositions) {
    Json images = Json::array();
    for (const ImageRef& image : item.images) {
      SACCADE_ASSIGN(images.emplace_back(), image_json(image, base));
    }
    Json line = {{"id", item.id}, {"images", std::move(images)}, {"captions", item.captions}};
    put(line, "kind", item.kind);
    put(line, "split", item.split);
    SACCADE_TRY(add(item.id, line));
  }
  for (const RatedText& item : dataset.rated) {
    Json line = {{"id", item.id}, {"text", item.text}, {"visual", item.visual ? Json(*item.visual) : Json()}};
    if (!item.ratings.empty()) line["ratings"] = item.ratings;
    if (item.image) {
      SACCADE_ASSIGN(line["image"], image_json(*item.image, base));
    }
    put(line, "split", item.split);
    put(line, "group", item.group);
    put(line, "source", item.source);
    put(line, "licence", item.licence);
    SACCADE_TRY(add(item.id, line));
  }
  for (const GalleryPicture& picture : dataset.gallery) {
    SACCADE_ASSIGN(Json image, image_json(picture.image, base));
    Json line = {{"picture", std::move(image)}, {"id", picture.id}};
    put(line, "gallery", picture.gallery);
    SACCADE_TRY(add(picture.id, line));
  }
  for (const EditQuery& query : dataset.edits) {
    Json line = {{"id", query.id}, {"reference", query.reference}, {"texts", query.texts}};
    for (const auto& [key, list] :
         {std::pair("paraphrases", &query.paraphrases), std::pair("targets", &query.targets),
          std::pair("subset", &query.subset), std::pair("negatives", &query.negatives)}) {
      if (!list->empty()) line[key] = *list;
    }
    put(line, "shared_concept", query.shared_concept);
    put(line, "kind", query.kind);
    put(line, "gallery", query.gallery);
    put(line, "group", query.group);
    put(line, "split", query.split);
    SACCADE_TRY(add(query.id, line));
  }
  return text;
}

}  // namespace saccade::lab

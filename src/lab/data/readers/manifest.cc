#include "lab/data/readers/manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "lab/data/edit_queries.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
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

// "caption" is what many lists call it.
Result<std::vector<std::string>> parse_captions(const Json& json) {
  return parse_strings(json, json.contains("captions") ? "captions" : "caption");
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

Result<RatedText> parse_rated(const Json& json, const fs::path& folder, int64_t number) {
  RatedText item;
  SACCADE_ASSIGN(item.text, json_field<std::string>(json, "text"));
  if (trim_ascii(item.text).empty()) return fail(ErrorCode::kBadData, "\"text\" is empty");
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

constexpr const char* kGalleryImage = "gallery_image";
constexpr const char* kEarlierGalleryImage = "picture";  // its name in manifests from before

Result<GalleryPicture> parse_gallery_picture(const Json& json, const fs::path& folder) {
  GalleryPicture picture;
  const char* key = json.contains(kGalleryImage) ? kGalleryImage : kEarlierGalleryImage;
  std::string name;
  SACCADE_ASSIGN(picture.image, parse_image(json[key], key, folder, name));
  SACCADE_ASSIGN(picture.id, json_field_or<std::string>(json, "id", name));
  SACCADE_ASSIGN(picture.gallery, json_field_or<std::string>(json, "gallery", ""));
  return picture;
}

Result<EditQuery> parse_edit(const Json& json, int64_t number) {
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
Status settle_galleries(const fs::path& folder, const std::vector<int64_t>& lines, EditQueries& edits) {
  const size_t given = edits.gallery.size();
  gather_galleries(edits);
  for (size_t i = given; i < edits.gallery.size(); ++i) {
    SACCADE_TRY(check_path(edits.gallery[i].id, "an image's name"));
    edits.gallery[i].image.path = folder / edits.gallery[i].id;
  }
  const GalleryIndex pictures(edits);
  for (size_t q = 0; q < edits.items.size(); ++q) {
    SACCADE_TRY(check_edit(edits.items[q], pictures).in(fmt::format("line {}", lines[q])));
  }
  return {};
}

// The dataset of a manifest, line by line.
class ManifestLines {
 public:
  explicit ManifestLines(const fs::path& folder) : folder_(folder) {}

  // Adds the item of a line.
  Status add(int64_t number, std::string_view line) {
    SACCADE_ASSIGN(const std::string* id, add_item(line, number).in(fmt::format("line {}", number)));
    if (id != nullptr && !ids_.insert(*id).second) {
      return fail(ErrorCode::kBadData, "line {}: a second item with id \"{}\"", number, *id);
    }
    return {};
  }

  Result<Dataset> finish() {
    if (auto* edits = std::get_if<EditQueries>(&dataset_.content)) {
      SACCADE_TRY(settle_galleries(folder_, edit_lines_, *edits));
    }
    return std::move(dataset_);
  }

 private:
  // Returns the content, of the kind that the first line has decided.
  template <typename Kind>
  Result<Kind*> content() {
    if (dataset_.size() == 0 && pictures_.empty()) dataset_.content.emplace<Kind>();
    if (auto* kind = std::get_if<Kind>(&dataset_.content)) return kind;
    return fail(ErrorCode::kBadData,
                "\"image\", \"images\", \"visual\" and \"reference\" belong to different sorts of lines: a "
                "manifest has one sort (lines with \"gallery_image\" go with \"reference\")");
  }

  // Returns the item's id; null for an image of a gallery.
  Result<const std::string*> add_item(std::string_view line, int64_t number) {
    SACCADE_ASSIGN(const Json json, parse_json(line));
    if (!json.is_object()) return fail(ErrorCode::kBadData, "{}, not an object", json_kind(json));
    if (is_rated_text(json)) return added<RatedTexts>(parse_rated(json, folder_, number));
    if (json.contains("reference")) {
      edit_lines_.push_back(number);
      return added<EditQueries>(parse_edit(json, number));
    }
    if (json.contains(kGalleryImage) || json.contains(kEarlierGalleryImage)) {
      SACCADE_TRY(add_picture(json));
      return nullptr;
    }
    if (json.contains("images")) return added<CompositionTests>(parse_composition(json, folder_));
    return added<CaptionedImages>(without_blank_captions(parse_item(json, folder_)));
  }

  Result<DatasetItem> without_blank_captions(Result<DatasetItem> item) {
    if (!item) return item;
    for (std::string& caption : std::exchange(item->captions, {})) {
      data::add_caption(dataset_, *item, std::move(caption));
    }
    return item;
  }

  template <typename Kind, typename Item>
  Result<const std::string*> added(Result<Item> item) {
    if (!item) return fail(std::move(item).error());
    SACCADE_ASSIGN(Kind * kind, content<Kind>());
    return &kind->items.emplace_back(*std::move(item)).id;
  }

  Status add_picture(const Json& json) {
    SACCADE_ASSIGN(GalleryPicture picture, parse_gallery_picture(json, folder_));
    SACCADE_ASSIGN(EditQueries * edits, content<EditQueries>());
    if (!pictures_.emplace(picture.gallery, picture.id).second) {
      return fail(ErrorCode::kBadData, "a second image with id \"{}\" in its gallery", picture.id);
    }
    edits->gallery.push_back(std::move(picture));
    return {};
  }

  const fs::path& folder_;
  Dataset dataset_;
  std::set<std::string> ids_;
  std::set<std::pair<std::string, std::string>> pictures_;
  std::vector<int64_t> edit_lines_;  // [items of EditQueries]
};

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

// Formats items as lines of a manifest.
class ManifestText {
 public:
  ManifestText(fs::path base, std::span<const Json> more) : base_(std::move(base)), more_(more) {}

  Status operator()(const CaptionedImages& images) {
    for (const DatasetItem& item : images.items) {
      SACCADE_ASSIGN(Json image, image_json(item.image, base_));
      Json line = {{"id", item.id}, {"image", std::move(image)}, {"captions", item.captions}};
      put(line, "split", item.split);
      put(line, "group", item.group);
      put(line, "source", item.source);
      put(line, "licence", item.licence);
      SACCADE_TRY(add(item.id, line));
    }
    return {};
  }
  Status operator()(const CompositionTests& tests) {
    for (const CompositionItem& item : tests.items) {
      Json images = Json::array();
      for (const ImageRef& image : item.images) {
        SACCADE_ASSIGN(images.emplace_back(), image_json(image, base_));
      }
      Json line = {{"id", item.id}, {"images", std::move(images)}, {"captions", item.captions}};
      put(line, "kind", item.kind);
      put(line, "split", item.split);
      SACCADE_TRY(add(item.id, line));
    }
    return {};
  }
  Status operator()(const RatedTexts& texts) {
    for (const RatedText& item : texts.items) {
      Json line = {
          {"id", item.id}, {"text", item.text}, {"visual", item.visual ? Json(*item.visual) : Json()}};
      if (!item.ratings.empty()) line["ratings"] = item.ratings;
      if (item.image) {
        SACCADE_ASSIGN(line["image"], image_json(*item.image, base_));
      }
      put(line, "split", item.split);
      put(line, "group", item.group);
      put(line, "source", item.source);
      put(line, "licence", item.licence);
      SACCADE_TRY(add(item.id, line));
    }
    return {};
  }
  Status operator()(const EditQueries& edits) {
    for (const GalleryPicture& picture : edits.gallery) {
      SACCADE_ASSIGN(Json image, image_json(picture.image, base_));
      Json line = {{kGalleryImage, std::move(image)}, {"id", picture.id}};
      put(line, "gallery", picture.gallery);
      SACCADE_TRY(add(picture.id, line));
    }
    for (const EditQuery& query : edits.items) {
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
    return {};
  }
  std::string take() { return std::move(text_); }

 private:
  Status add(const std::string& id, Json& line) {
    if (!more_.empty()) line.update(more_[number_++]);
    try {
      text_ += line.dump() + "\n";
    } catch (const nlohmann::json::exception&) {
      return fail(ErrorCode::kBadData, "item \"{}\": a name or caption that is not UTF-8", id);
    }
    return {};
  }

  fs::path base_;
  std::span<const Json> more_;
  size_t number_ = 0;
  std::string text_;
};

bool is_manifest(const data::Candidate& candidate) {
  if (candidate.folder) return false;
  const std::string extension = candidate.extension();
  if (extension == ".jsonl" || extension == ".ndjson") return true;
  if (!candidate.outline || candidate.outline->array) return false;
  const auto has = [&](const char* key) { return !candidate.outline->member(key).empty(); };
  return has("image") || has("images") || (has("text") && has("visual")) ||
         (has("reference") && has("texts")) || has(kGalleryImage) ||
         (has(kEarlierGalleryImage) && has("gallery"));
}

Result<Dataset> read_manifest(const data::Candidate& candidate, const DatasetOptions& options) {
  SACCADE_ASSIGN(
      Dataset dataset,
      parse_manifest(candidate.text, options.images.empty() ? candidate.path.parent_path() : options.images));
  data::note_file(candidate, dataset);
  return dataset;
}

}  // namespace

Result<Dataset> parse_manifest(std::string_view text, const fs::path& folder) {
  ManifestLines lines(folder);
  SACCADE_TRY(data::for_each_line(
      text, [&](int64_t number, std::string_view line) { return lines.add(number, line); }));
  return lines.finish();
}

Result<std::string> format_manifest(const Dataset& dataset, const fs::path& folder,
                                    std::span<const Json> more) {
  SACCADE_ASSIGN(fs::path base, plain_path(folder));
  if (!base.has_filename()) base = base.parent_path();  // "a/" is "a"
  ManifestText text(std::move(base), more);
  SACCADE_TRY(std::visit([&](const auto& kind) { return text(kind); }, dataset.content));
  return text.take();
}

namespace data {

const Reader kManifest = {"manifest", is_manifest, read_manifest};

}  // namespace data
}  // namespace saccade::lab

#include "lab/data/readers/parquet_columns.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/data/readers/parquet_pages.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/json.h"
#include "saccade/text/nearest.h"

namespace saccade::lab::data {
namespace {

// Column names in published datasets, the most likely first.
constexpr std::string_view kBytesNames[] = {"image", "img",  "picture",    "jpg",  "jpeg",
                                            "png",   "webp", "imagebytes", "bytes"};
constexpr std::string_view kFileNames[] = {"image",    "imagepath", "filename", "imagefile", "imagename",
                                           "filepath", "path",      "file",     "img",       "imgpath",
                                           "imgname",  "imageid",   "imageurl", "url"};
constexpr std::string_view kCaptionNames[] = {"caption", "captions", "sentences", "sentence",    "raw",
                                              "text",    "texts",    "title",     "description", "comment"};
constexpr std::string_view kTextFields[] = {"raw", "caption", "text", "sentence", "value"};

// True for a leaf with one value a row.
bool is_single(const ParquetField& field) {
  return field.is_leaf() && field.max_repetition == 0;
}

std::string type_name(const ParquetField& field) {
  std::string name = parquet_type_name(field);
  if (name.size() > 200) name = name.substr(0, 200) + "...";
  return name;
}

tl::unexpected<Error> unfit(const ParquetField& field, std::string_view expected) {
  return fail(ErrorCode::kBadData, "column \"{}\" is {}, expected {}", field.name, type_name(field),
              expected);
}

// Returns the text leaf of a caption column; `nullopt` if there is none, or if it is ambiguous. A list is a group with one
// repeated field, which is the element itself or a group around it.
std::optional<int> caption_leaf(const ParquetField& field) {
  if (field.is_leaf()) return field.text || field.is_bytes() ? std::optional(field.leaf) : std::nullopt;
  if (field.children.empty()) return std::nullopt;
  if (field.children.size() == 1) return caption_leaf(field.children[0]);
  for (const std::string_view name : kTextFields) {
    for (const ParquetField& child : field.children) {
      if (child.name == name) return caption_leaf(child);
    }
  }
  return std::nullopt;
}

// Returns the columns that Hugging Face's description of the features declares as images.
std::set<std::string> image_features(const std::string& features) {
  std::set<std::string> names;
  const auto json = parse_json(features);
  if (!json || !json->is_object()) return names;
  const Json* at = &*json;
  for (const char* key : {"info", "features"}) {
    const auto found = at->find(key);
    if (found == at->end() || !found->is_object()) return names;
    at = &*found;
  }
  for (const auto& [name, feature] : at->items()) {
    if (!feature.is_object()) continue;
    const auto type = feature.find("_type");
    if (type != feature.end() && *type == "Image") names.insert(name);
  }
  return names;
}

class Chooser {
 public:
  Chooser(const ParquetFooter& footer, const DatasetOptions& options)
      : fields_(footer.root.children), features_(footer.features), options_(options) {}

  Result<ParquetColumns> choose() {
    ParquetColumns columns;
    SACCADE_ASSIGN(const int picture_at, picture_field());
    const ParquetField& picture = at(picture_at);
    const auto column = picture_column(picture);
    if (!column) return unfit(picture, "struct<bytes: binary, path: string>, binary, or names of files");
    columns.picture = *column;
    SACCADE_ASSIGN(columns.captions, captions());
    SACCADE_ASSIGN(columns.id, text_column("id"));
    SACCADE_ASSIGN(columns.split, text_column("split"));
    SACCADE_ASSIGN(columns.group, text_column("group"));
    if (columns.split.leaf < 0) {
      // A column of that name is used unless it holds something else, such as a class number.
      const int field = find_exactly("split");
      if (field >= 0 && is_single(at(field)) && at(field).text) {
        columns.split = {"split", at(field).leaf};
      }
    }
    return columns;
  }

 private:
  [[nodiscard]] const ParquetField& at(int field) const { return fields_[static_cast<size_t>(field)]; }

  [[nodiscard]] int find_exactly(std::string_view name) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  [[nodiscard]] std::vector<std::string> all_names() const {
    std::vector<std::string> names;
    for (const ParquetField& field : fields_) names.push_back(field.name);
    return names;
  }

  // Returns the column that an option names for a role; -1 if none does.
  Result<int> named(const std::string& role) const {
    const auto name = options_.columns.find(role);
    if (name == options_.columns.end()) return -1;
    const int field = find_exactly(name->second);
    if (field < 0) {
      const std::vector<std::string> names = all_names();
      return fail(ErrorCode::kUsage, "no column \"{}\"; there are {}{}", name->second, fmt::join(names, ", "),
                  did_you_mean(name->second, names));
    }
    return field;
  }

  tl::unexpected<Error> unknown(std::string_view role) const {
    return fail(ErrorCode::kUsage, "no {} column is known among {}; name it with {}-column=NAME", role,
                fmt::join(all_names(), ", "), role);
  }

  // Returns the first column of these names that fits.
  template <typename Names, typename Fits>
  int usual(const Names& names, Fits fits) const {
    for (const std::string_view name : names) {
      for (size_t i = 0; i < fields_.size(); ++i) {
        if (plain_name(fields_[i].name) == name && fits(fields_[i])) return static_cast<int>(i);
      }
    }
    return -1;
  }

  Result<int> picture_field() const {
    SACCADE_ASSIGN(int field, named("image"));
    if (field >= 0) return field;
    const std::set<std::string> features = image_features(features_);
    std::vector<int> pictures;
    for (size_t i = 0; i < fields_.size(); ++i) {
      const auto column = picture_column(fields_[i]);
      const bool stated = features.contains(fields_[i].name);
      if (column && column->bytes_leaf >= 0 && (stated || !fields_[i].is_leaf())) {
        pictures.push_back(static_cast<int>(i));
      }
    }
    if (pictures.size() == 1) return pictures[0];
    if (pictures.size() > 1) {
      const int image = find_exactly("image");
      if (std::find(pictures.begin(), pictures.end(), image) != pictures.end()) return image;
      std::string names;
      for (const int each : pictures) names += (names.empty() ? "" : ", ") + at(each).name;
      return fail(ErrorCode::kUsage, "several columns of images ({}): name one with image-column=NAME",
                  names);
    }
    const auto bytes = [](const ParquetField& each) { return is_single(each) && each.is_bytes(); };
    field = usual(kBytesNames, bytes);
    if (field >= 0) return field;
    const auto files = [](const ParquetField& each) { return is_single(each) && each.text; };
    field = usual(kFileNames, files);
    if (field >= 0) return field;
    const int unfit_one = find_exactly("image");
    if (unfit_one >= 0) return unfit_one;  // choose() reports it
    return unknown("image");
  }

  Result<std::vector<TextColumn>> captions() const {
    const auto column = [&](int field) -> TextColumn {
      return {at(field).name, caption_leaf(at(field)).value_or(-1)};
    };
    constexpr std::string_view kExpected =
        "a string, a list of strings, or a list of structs with one of the fields raw, caption, text, "
        "sentence, value";
    SACCADE_ASSIGN(const int field, named("caption"));
    if (field >= 0) {
      if (!caption_leaf(at(field))) return unfit(at(field), kExpected);
      return std::vector{column(field)};
    }
    const auto fits = [](const ParquetField& each) { return caption_leaf(each).has_value(); };
    const int known = usual(kCaptionNames, fits);
    if (known >= 0) return std::vector{column(known)};
    // Columns caption_0, caption_1, ... hold one caption each.
    std::vector<TextColumn> several;
    int next = find_exactly("caption_0") >= 0 ? 0 : 1;
    for (int each = 0; (each = find_exactly(fmt::format("caption_{}", next))) >= 0; ++next) {
      if (!fits(at(each))) return unfit(at(each), kExpected);
      several.push_back(column(each));
    }
    if (!several.empty()) return several;
    const int any = usual(kCaptionNames, [](const ParquetField&) { return true; });
    if (any >= 0) return unfit(at(any), kExpected);
    return unknown("caption");
  }

  Result<TextColumn> text_column(const std::string& role) const {
    SACCADE_ASSIGN(const int field, named(role));
    if (field < 0) return TextColumn{};
    const ParquetField& found = at(field);
    if (!is_single(found) || !(found.text || found.is_bytes() || found.whole_number)) {
      return unfit(found, "a string or an integer");
    }
    return TextColumn{found.name, found.leaf};
  }

  const std::vector<ParquetField>& fields_;
  const std::string& features_;
  const DatasetOptions& options_;
};

// Returns the shortest decimal of a number, with a point or an exponent if it is finite. A float is written as the
// double of its value, as Arrow does.
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Returns the text of a value in ParquetPage::numbers.
std::string number_text(const ParquetField& leaf, int64_t number) {
  switch (leaf.type.value_or(ParquetType::kInt64)) {
    case ParquetType::kBoolean:
      return number != 0 ? "true" : "false";
    case ParquetType::kFloat:
      return real_text(std::bit_cast<float>(static_cast<uint32_t>(number)));
    case ParquetType::kDouble:
      return real_text(std::bit_cast<double>(number));
    default:
      return leaf.is_unsigned ? fmt::format("{}", static_cast<uint64_t>(number)) : fmt::format("{}", number);
  }
}

// Adds the entries of a page to the texts of its rows.
Status add_page(const ParquetField& leaf, const ParquetPage& page, int64_t rows, int64_t most_bytes,
                ParquetTexts& texts) {
  const auto most = static_cast<uint32_t>(leaf.max_definition);
  const auto element = static_cast<uint32_t>(leaf.repeated_definition);
  size_t next = 0;
  for (int64_t i = 0; i < page.entries; ++i) {
    const auto at = static_cast<size_t>(i);
    const uint32_t level = page.definition.empty() ? most : page.definition[at];
    const bool begins = page.repetition.empty() || page.repetition[at] == 0;
    if (begins) texts.begin.push_back(texts.begin.back());
    if (std::ssize(texts.begin) - 1 > rows) {
      return fail(ErrorCode::kBadData, "{} rows by its footer, more are in its pages", rows);
    }
    if (texts.begin.size() == 1) return fail(ErrorCode::kBadData, "a column that begins inside of a row");
    if (level < element) continue;  // an empty list, or none
    ++texts.begin.back();
    std::optional<std::string>& value = texts.values.emplace_back();
    if (level == most) {
      if (leaf.type == ParquetType::kBytes)
        value = std::string(page.texts[next]);
      else
        value = number_text(leaf, page.numbers[next]);
      ++next;
    }
    texts.bytes += static_cast<int64_t>(sizeof(value)) + (value ? std::ssize(*value) : 0);
    if (texts.bytes > most_bytes) {
      return fail(ErrorCode::kLimit, "its texts take more than {} bytes of memory in one row group",
                  most_bytes);
    }
  }
  return {};
}

}  // namespace

std::optional<PictureColumn> picture_column(const ParquetField& field) {
  PictureColumn column{.name = field.name};
  if (field.is_leaf()) {
    if (!is_single(field)) return std::nullopt;
    if (field.is_bytes()) column.bytes_leaf = field.leaf;
    if (field.text) column.path_leaf = field.leaf;
    if (column.bytes_leaf < 0 && column.path_leaf < 0) return std::nullopt;
    return column;
  }
  if (field.list || field.repeated) return std::nullopt;
  for (const ParquetField& child : field.children) {
    if (!is_single(child)) continue;
    if (child.name == "bytes" && child.is_bytes()) column.bytes_leaf = child.leaf;
    if (child.name == "path" && child.text) column.path_leaf = child.leaf;
  }
  if (column.bytes_leaf < 0) return std::nullopt;
  return column;
}

Result<ParquetColumns> choose_parquet_columns(const ParquetFooter& footer, const DatasetOptions& options) {
  return Chooser(footer, options).choose();
}

Result<std::vector<bool>> rows_without_bytes(const PieceFile& file, const ParquetFooter& footer, size_t group,
                                             int leaf) {
  const ParquetField& column = footer.leaves[static_cast<size_t>(leaf)];
  const ParquetChunk& chunk = footer.groups[group].columns[static_cast<size_t>(leaf)];
  if (chunk.values != footer.groups[group].rows) {
    return fail(ErrorCode::kBadData, "column {}: {} values, {} rows", column.name, chunk.values,
                footer.groups[group].rows);
  }
  if (column.max_definition == 0 || chunk.nulls == 0) return std::vector<bool>();
  std::vector<bool> missing;
  ParquetPages pages(file, column, chunk);
  while (true) {
    SACCADE_ASSIGN(const bool more, pages.next());
    if (!more) return missing;
    SACCADE_ASSIGN(const ParquetPage page, pages.read(false));
    for (const uint32_t level : page.definition)
      missing.push_back(level < static_cast<uint32_t>(column.max_definition));
  }
}

Result<ParquetTexts> read_parquet_texts(const PieceFile& file, const ParquetFooter& footer, size_t group,
                                        int leaf, int64_t most_bytes) {
  const auto column = static_cast<size_t>(leaf);
  ParquetTexts texts;
  texts.listed = footer.leaves[column].max_repetition > 0;
  ParquetPages pages(file, footer.leaves[column], footer.groups[group].columns[column]);
  while (true) {
    SACCADE_ASSIGN(const bool more, pages.next());
    if (!more) break;
    SACCADE_ASSIGN(const ParquetPage page, pages.read(true));
    SACCADE_TRY(add_page(footer.leaves[column], page, footer.groups[group].rows, most_bytes, texts));
  }
  if (std::ssize(texts.begin) - 1 != footer.groups[group].rows) {
    return fail(ErrorCode::kBadData, "{} rows by its footer, {} read", footer.groups[group].rows,
                texts.begin.size() - 1);
  }
  return texts;
}

}  // namespace saccade::lab::data

#include "lab/data/readers/parquet_columns.h"

#include <algorithm>
#include <arrow/type.h>
#include <initializer_list>
#include <set>
#include <string_view>

#include "lab/data/readers/reader.h"
#include "saccade/core/json.h"

namespace saccade::lab::data {
namespace {

using parquet::arrow::SchemaField;

// Column names in published datasets, the most likely first.
constexpr std::string_view kBytesNames[] = {"image", "img",  "picture",    "jpg",  "jpeg",
                                            "png",   "webp", "imagebytes", "bytes"};
constexpr std::string_view kFileNames[] = {"image",    "imagepath", "filename", "imagefile", "imagename",
                                           "filepath", "path",      "file",     "img",       "imgpath",
                                           "imgname",  "imageid",   "imageurl", "url"};
constexpr std::string_view kCaptionNames[] = {"caption", "captions", "sentences", "sentence",    "raw",
                                              "text",    "texts",    "title",     "description", "comment"};
constexpr std::string_view kTextFields[] = {"raw", "caption", "text", "sentence", "value"};

bool is_bytes_type(const arrow::DataType& type) {
  return type.id() == arrow::Type::BINARY || type.id() == arrow::Type::LARGE_BINARY ||
         type.id() == arrow::Type::BINARY_VIEW;
}

bool is_text_type(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return is_text_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

bool is_list_type(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
         type.id() == arrow::Type::FIXED_SIZE_LIST;
}

std::string type_name(const SchemaField& field) {
  std::string name = field.field->type()->ToString();
  if (name.size() > 200) name = name.substr(0, 200) + "...";
  return name;
}

tl::unexpected<Error> unfit(const SchemaField& field, std::string_view expected) {
  return fail(ErrorCode::kBadData, "column \"{}\" is {}, expected {}", field.field->name(), type_name(field),
              expected);
}

// Returns the text leaf of a caption column; `nullopt` if there is none, or if it is ambiguous.
std::optional<int> caption_leaf(const SchemaField& field) {
  const arrow::DataType& type = *field.field->type();
  if (field.is_leaf())
    return is_text_type(type) || is_bytes_type(type) ? std::optional(field.column_index) : std::nullopt;
  if (field.children.empty()) return std::nullopt;
  if (is_list_type(type)) return caption_leaf(field.children[0]);
  if (type.id() != arrow::Type::STRUCT) return std::nullopt;
  if (field.children.size() == 1) return caption_leaf(field.children[0]);
  for (const std::string_view name : kTextFields) {
    for (const SchemaField& child : field.children) {
      if (child.field->name() == name) return caption_leaf(child);
    }
  }
  return std::nullopt;
}

// Returns a column as an image column: struct{bytes, path}, bytes, or file names.
std::optional<PictureColumn> picture_column(const SchemaField& field) {
  PictureColumn column{.name = field.field->name()};
  if (field.is_leaf()) {
    if (is_bytes_type(*field.field->type())) column.bytes_leaf = field.column_index;
    if (is_text_type(*field.field->type())) column.path_leaf = field.column_index;
    if (column.bytes_leaf < 0 && column.path_leaf < 0) return std::nullopt;
    return column;
  }
  if (field.field->type()->id() != arrow::Type::STRUCT) return std::nullopt;
  for (const SchemaField& child : field.children) {
    if (!child.is_leaf()) continue;
    if (child.field->name() == "bytes" && is_bytes_type(*child.field->type()))
      column.bytes_leaf = child.column_index;
    if (child.field->name() == "path" && is_text_type(*child.field->type()))
      column.path_leaf = child.column_index;
  }
  if (column.bytes_leaf < 0) return std::nullopt;
  return column;
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
  Chooser(const parquet::arrow::SchemaManifest& schema, const std::string& features,
          const DatasetOptions& options)
      : fields_(schema.schema_fields), features_(features), options_(options) {}

  Result<ParquetColumns> choose() {
    ParquetColumns columns;
    SACCADE_ASSIGN(columns.picture_field, picture_field());
    const SchemaField& picture = fields_[static_cast<size_t>(columns.picture_field)];
    const auto column = picture_column(picture);
    if (!column) return unfit(picture, "struct<bytes: binary, path: string>, binary, or names of files");
    columns.picture = *column;
    SACCADE_ASSIGN(columns.captions, captions());
    SACCADE_ASSIGN(columns.id, text_column("id"));
    SACCADE_ASSIGN(columns.split, text_column("split"));
    SACCADE_ASSIGN(columns.group, text_column("group"));
    if (columns.split.field < 0) {
      // A column of that name is used unless it holds something else, such as a class number.
      const int field = find_exactly("split");
      if (field >= 0 && at(field).is_leaf() && is_text_type(*at(field).field->type())) {
        columns.split = {"split", field, at(field).column_index};
      }
    }
    return columns;
  }

 private:
  [[nodiscard]] const SchemaField& at(int field) const { return fields_[static_cast<size_t>(field)]; }

  [[nodiscard]] int find_exactly(std::string_view name) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].field->name() == name) return static_cast<int>(i);
    }
    return -1;
  }

  [[nodiscard]] std::string all_names() const {
    std::string names;
    for (const SchemaField& field : fields_) names += (names.empty() ? "" : ", ") + field.field->name();
    return names;
  }

  // Returns the column that an option names for a role; -1 if none does.
  Result<int> named(const std::string& role) const {
    const auto name = options_.columns.find(role);
    if (name == options_.columns.end()) return -1;
    const int field = find_exactly(name->second);
    if (field < 0) {
      return fail(ErrorCode::kUsage, "no column \"{}\"; there are {}", name->second, all_names());
    }
    return field;
  }

  tl::unexpected<Error> unknown(std::string_view role) const {
    return fail(ErrorCode::kUsage, "no {} column is known among {}; name it with {}-column=NAME", role,
                all_names(), role);
  }

  // Returns the first column of these names that fits.
  template <typename Names, typename Fits>
  int usual(const Names& names, Fits fits) const {
    for (const std::string_view name : names) {
      for (size_t i = 0; i < fields_.size(); ++i) {
        if (plain_name(fields_[i].field->name()) == name && fits(fields_[i])) return static_cast<int>(i);
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
      const bool stated = features.contains(fields_[i].field->name());
      if (column && column->bytes_leaf >= 0 && (stated || !fields_[i].is_leaf())) {
        pictures.push_back(static_cast<int>(i));
      }
    }
    if (pictures.size() == 1) return pictures[0];
    if (pictures.size() > 1) {
      const int image = find_exactly("image");
      if (std::find(pictures.begin(), pictures.end(), image) != pictures.end()) return image;
      std::string names;
      for (const int each : pictures) names += (names.empty() ? "" : ", ") + at(each).field->name();
      return fail(ErrorCode::kUsage, "several columns of pictures ({}): name one with image-column=NAME",
                  names);
    }
    const auto bytes = [](const SchemaField& each) {
      return each.is_leaf() && is_bytes_type(*each.field->type());
    };
    field = usual(kBytesNames, bytes);
    if (field >= 0) return field;
    const auto files = [](const SchemaField& each) {
      return each.is_leaf() && is_text_type(*each.field->type());
    };
    field = usual(kFileNames, files);
    if (field >= 0) return field;
    const int unfit_one = find_exactly("image");
    if (unfit_one >= 0) return unfit_one;  // choose() reports it
    return unknown("image");
  }

  Result<std::vector<TextColumn>> captions() const {
    const auto column = [&](int field) -> TextColumn {
      return {at(field).field->name(), field, caption_leaf(at(field)).value_or(-1)};
    };
    constexpr std::string_view kExpected =
        "a string, a list of strings, or a list of structs with one of the fields raw, caption, text, "
        "sentence, value";
    SACCADE_ASSIGN(const int field, named("caption"));
    if (field >= 0) {
      if (!caption_leaf(at(field))) return unfit(at(field), kExpected);
      return std::vector{column(field)};
    }
    const auto fits = [](const SchemaField& each) { return caption_leaf(each).has_value(); };
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
    const int any = usual(kCaptionNames, [](const SchemaField&) { return true; });
    if (any >= 0) return unfit(at(any), kExpected);
    return unknown("caption");
  }

  Result<TextColumn> text_column(const std::string& role) const {
    SACCADE_ASSIGN(const int field, named(role));
    if (field < 0) return TextColumn{};
    const arrow::DataType& type = *at(field).field->type();
    if (!at(field).is_leaf() ||
        !(is_text_type(type) || is_bytes_type(type) || arrow::is_integer(type.id()))) {
      return unfit(at(field), "a string or an integer");
    }
    return TextColumn{at(field).field->name(), field, at(field).column_index};
  }

  const std::vector<SchemaField>& fields_;
  const std::string& features_;
  const DatasetOptions& options_;
};

template <typename Array>
std::string view_of(const arrow::Array& column, int64_t index) {
  return std::string(static_cast<const Array&>(column).GetView(index));
}

template <typename Array>
std::string number_of(const arrow::Array& column, int64_t index) {
  return fmt::format("{}", static_cast<const Array&>(column).Value(index));
}

template <typename List>
Status each_of_list(const arrow::Array& column, int64_t index,
                    const std::function<Status(std::string, bool)>& caption) {
  const auto& list = static_cast<const List&>(column);
  const auto begin = static_cast<int64_t>(list.value_offset(index));
  const auto end = begin + static_cast<int64_t>(list.value_length(index));
  const arrow::Array& values = *list.values();
  if (begin < 0 || end > values.length()) return fail(ErrorCode::kBadData, "a list beyond its values");
  for (int64_t i = begin; i < end; ++i) {
    if (values.IsNull(i)) {
      SACCADE_TRY(caption("", true));
    } else {
      SACCADE_TRY(for_each_caption(values, i, caption, true));
    }
  }
  return {};
}

}  // namespace

Result<ParquetColumns> choose_parquet_columns(const parquet::arrow::SchemaManifest& schema,
                                              const std::string& features, const DatasetOptions& options) {
  return Chooser(schema, features, options).choose();
}

Result<std::optional<std::string>> text_of_cell(const arrow::Array& column, int64_t index) {
  if (column.IsNull(index)) return std::optional<std::string>();
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return view_of<arrow::BinaryArray>(column, index);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return view_of<arrow::LargeBinaryArray>(column, index);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return view_of<arrow::BinaryViewArray>(column, index);
    case arrow::Type::INT8:
      return number_of<arrow::Int8Array>(column, index);
    case arrow::Type::UINT8:
      return number_of<arrow::UInt8Array>(column, index);
    case arrow::Type::INT16:
      return number_of<arrow::Int16Array>(column, index);
    case arrow::Type::UINT16:
      return number_of<arrow::UInt16Array>(column, index);
    case arrow::Type::INT32:
      return number_of<arrow::Int32Array>(column, index);
    case arrow::Type::UINT32:
      return number_of<arrow::UInt32Array>(column, index);
    case arrow::Type::INT64:
      return number_of<arrow::Int64Array>(column, index);
    case arrow::Type::UINT64:
      return number_of<arrow::UInt64Array>(column, index);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(column);
      const int64_t value = dictionary.GetValueIndex(index);
      if (value < 0 || value >= dictionary.dictionary()->length()) {
        return fail(ErrorCode::kBadData, "value {} of a dictionary of {}", value,
                    dictionary.dictionary()->length());
      }
      return text_of_cell(*dictionary.dictionary(), value);
    }
    default:
      return fail(ErrorCode::kBadData, "{}, no text", column.type()->ToString());
  }
}

Status for_each_caption(const arrow::Array& column, int64_t index,
                        const std::function<Status(std::string text, bool listed)>& caption, bool listed) {
  if (column.IsNull(index)) return {};
  switch (column.type_id()) {
    case arrow::Type::LIST:
      return each_of_list<arrow::ListArray>(column, index, caption);
    case arrow::Type::LARGE_LIST:
      return each_of_list<arrow::LargeListArray>(column, index, caption);
    case arrow::Type::FIXED_SIZE_LIST:
      return each_of_list<arrow::FixedSizeListArray>(column, index, caption);
    case arrow::Type::STRUCT: {
      const auto& fields = static_cast<const arrow::StructArray&>(column);
      if (fields.num_fields() != 1) return fail(ErrorCode::kInternal, "{} fields read", fields.num_fields());
      return for_each_caption(*fields.field(0), index, caption, listed);
    }
    default: {
      SACCADE_ASSIGN(std::optional<std::string> text, text_of_cell(column, index));
      if (!text) return {};
      return caption(*std::move(text), listed);
    }
  }
}

}  // namespace saccade::lab::data

#include "lab/data/fetch/url_table.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_format.h"
#include "lab/data/readers/piece_file.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/csv.h"
#include "saccade/text/nearest.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUrlNames[] = {"url",       "imageurl", "imgurl", "cocourl",       "flickrurl",
                                          "imagelink", "link",     "image",  "documentimage", "claimimage"};
constexpr std::string_view kUrlCaptionNames[] = {"caption", "captions", "text",        "topcaption",
                                                 "title",   "alt",      "description", "sentence"};
// Fields of a sample's JSON that fetching writes itself.
constexpr std::string_view kOwnFields[] = {"key", "row", "url", "caption", "captions", "id", "sha256"};

// Chosen columns as positions among a table's names; -1: none.
struct Chosen {
  int url = -1;
  int caption = -1;
  int id = -1;
  std::vector<int> kept;
};

int position_of(std::span<const std::string> names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

int usual_position(std::span<const std::string> names, std::span<const std::string_view> usual) {
  for (const std::string_view each : usual) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (plain_name(names[i]) == each) return static_cast<int>(i);
    }
  }
  return -1;
}

// Returns the column NAME for a column of images NAME_image, as `claim` for `claim_image`; -1: none.
int paired_position(std::span<const std::string> names, const std::string& images) {
  constexpr std::string_view kEnding = "image";
  const std::string plain = plain_name(images);
  if (!plain.ends_with(kEnding) || plain.size() == kEnding.size()) return -1;
  const std::string_view texts = std::string_view(plain).substr(0, plain.size() - kEnding.size());
  return usual_position(names, {&texts, 1});
}

// Finds the columns by name. A column of `names` that appears twice is ambiguous, so naming it is an error.
Result<Chosen> choose(std::span<const std::string> names, const UrlColumns& columns) {
  const auto named = [&](const std::string& name) -> Result<int> {
    const int at = position_of(names, name);
    if (at < 0) {
      return fail(ErrorCode::kUsage, "no column \"{}\"; there are {}{}", name, fmt::join(names, ", "),
                  did_you_mean(name, names));
    }
    if (std::count(names.begin(), names.end(), name) > 1) {
      return fail(ErrorCode::kUsage, "two columns are called \"{}\"", name);
    }
    return at;
  };
  Chosen chosen;
  if (!columns.url.empty()) {
    SACCADE_ASSIGN(chosen.url, named(columns.url));
  } else {
    chosen.url = usual_position(names, kUrlNames);
    if (chosen.url < 0) {
      return fail(ErrorCode::kUsage, "no column of URLs is known among {}; name it with --url-column",
                  fmt::join(names, ", "));
    }
  }
  if (!columns.caption.empty()) {
    SACCADE_ASSIGN(chosen.caption, named(columns.caption));
  } else {
    chosen.caption = paired_position(names, names[static_cast<size_t>(chosen.url)]);
    if (chosen.caption < 0) chosen.caption = usual_position(names, kUrlCaptionNames);
    if (chosen.caption == chosen.url) chosen.caption = -1;
  }
  if (!columns.id.empty()) {
    SACCADE_ASSIGN(chosen.id, named(columns.id));
  }
  std::set<std::string> seen;
  for (const std::string& name : columns.kept) {
    if (!seen.insert(name).second) return fail(ErrorCode::kUsage, "column \"{}\" is kept twice", name);
    if (std::find(std::begin(kOwnFields), std::end(kOwnFields), name) != std::end(kOwnFields)) {
      return fail(ErrorCode::kUsage,
                  "column \"{}\" cannot be kept: every sample's JSON has a field of that name ({})", name,
                  fmt::join(kOwnFields, ", "));
    }
    SACCADE_ASSIGN(const int at, named(name));
    chosen.kept.push_back(at);
  }
  return chosen;
}

void set_problem(UrlRow& row, std::string problem) {
  if (row.problem.empty()) row.problem = std::move(problem);
}

// Returns the text, or nothing and a problem of the row if it is not UTF-8.
std::string valid(std::string_view text, std::string_view column, UrlRow& row) {
  if (const Status status = check_utf8(text, fmt::format("column \"{}\"", column)); !status) {
    set_problem(row, status.error().message);
    return {};
  }
  return std::string(text);
}

void set_url(std::string_view text, std::string_view column, UrlRow& row) {
  row.url = valid(trim_ascii(text), column, row);
  if (row.url.empty()) set_problem(row, fmt::format("column \"{}\" is empty", column));
}

// Adds a cell's caption, or several if it is a JSON array of strings.
void add_captions(std::string_view text, std::string_view column, UrlRow& row) {
  const std::string cell = valid(trim_ascii(text), column, row);
  if (cell.empty()) return;
  if (cell.starts_with('[')) {
    const auto list = parse_json(cell);
    if (list && list->is_array() &&
        std::all_of(list->begin(), list->end(), [](const Json& each) { return each.is_string(); })) {
      for (const Json& each : *list) {
        std::string caption(trim_ascii(each.get_ref<const std::string&>()));
        if (!caption.empty()) row.captions.push_back(std::move(caption));
      }
      return;
    }
  }
  row.captions.push_back(cell);
}

class CsvUrls final : public UrlTable {
 public:
  CsvUrls(Candidate file, char separator)
      : file_(std::move(file)), reader_(file_.text, separator, separator != '|') {}

  Status open(const UrlColumns& columns) {
    names_ = columns.header;
    if (names_.empty()) {
      SACCADE_ASSIGN(const bool any, reader_.next(names_));
      if (!any) return fail(ErrorCode::kBadData, "an empty table");
      for (std::string& name : names_) {
        name = std::string(trim_ascii(name));
        SACCADE_TRY(check_utf8(name, "the header"));
      }
    }
    SACCADE_ASSIGN(chosen_, choose(names_, columns));
    return {};
  }

  Result<bool> next(UrlRow& row) override {
    SACCADE_ASSIGN(const bool more, reader_.next(fields_));
    if (!more) return false;
    if (fields_.size() != names_.size()) {
      return fail(ErrorCode::kBadData, "line {}: {} fields, the header has {}", reader_.line(),
                  fields_.size(), names_.size());
    }
    row = {};
    set_url(field(chosen_.url), name(chosen_.url), row);
    if (chosen_.caption >= 0) add_captions(field(chosen_.caption), name(chosen_.caption), row);
    if (chosen_.id >= 0) row.id = valid(trim_ascii(field(chosen_.id)), name(chosen_.id), row);
    for (const int kept : chosen_.kept) row.kept[name(kept)] = valid(field(kept), name(kept), row);
    return true;
  }

 private:
  [[nodiscard]] const std::string& field(int at) const { return fields_[static_cast<size_t>(at)]; }
  [[nodiscard]] const std::string& name(int at) const { return names_[static_cast<size_t>(at)]; }

  Candidate file_;
  CsvReader reader_;
  std::vector<std::string> names_;
  std::vector<std::string> fields_;
  Chosen chosen_;
};

class JsonUrls final : public UrlTable {
 public:
  explicit JsonUrls(Candidate file) : file_(std::move(file)), rest_(file_.text) {}

  // The first object's fields are the columns, so that a wrong name is told before anything is fetched.
  Status open(const UrlColumns& columns) {
    const std::string_view whole = rest_;
    SACCADE_ASSIGN(const auto first, next_object());
    if (!first) return fail(ErrorCode::kBadData, "an empty table");
    std::vector<std::string> names;
    for (const auto& [name, value] : first->items()) names.push_back(name);
    SACCADE_ASSIGN(const Chosen chosen, choose(names, columns));
    const auto name = [&](int at) { return at < 0 ? std::string() : names[static_cast<size_t>(at)]; };
    url_ = name(chosen.url);
    caption_ = name(chosen.caption);
    id_ = name(chosen.id);
    kept_ = columns.kept;
    rest_ = whole;
    line_ = 0;
    return {};
  }

  Result<bool> next(UrlRow& row) override {
    SACCADE_ASSIGN(const auto object, next_object());
    if (!object) return false;
    row = {};
    const auto found = [&](const std::string& key) {
      const auto at = object->find(key);
      return at == object->end() || at->is_null() ? nullptr : &*at;
    };
    const Json* url = found(url_);
    if (url != nullptr && !url->is_string()) {
      set_problem(row, fmt::format("field \"{}\" is {}, not a string", url_, json_kind(*url)));
    } else {
      set_url(url == nullptr ? "" : url->get_ref<const std::string&>(), url_, row);
    }
    if (const Json* caption = caption_.empty() ? nullptr : found(caption_)) {
      if (caption->is_string()) {
        add_captions(caption->get_ref<const std::string&>(), caption_, row);
      } else {
        add_captions(dump_json(*caption), caption_, row);
      }
    }
    if (const Json* id = id_.empty() ? nullptr : found(id_)) {
      row.id = id->is_string() ? id->get<std::string>() : dump_json(*id);
    }
    for (const std::string& name : kept_) {
      const Json* value = found(name);
      row.kept[name] = value == nullptr ? Json() : *value;
    }
    return true;
  }

 private:
  // Parses the next line that is not blank; nullopt at the end.
  Result<std::optional<Json>> next_object() {
    while (!rest_.empty()) {
      ++line_;
      const size_t end = rest_.find('\n');
      const std::string_view text = trim_ascii(rest_.substr(0, end));
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      if (text.empty()) continue;
      SACCADE_ASSIGN(Json json, parse_json(text).in(fmt::format("line {}", line_)));
      if (!json.is_object()) {
        return fail(ErrorCode::kBadData, "line {}: {}, not an object", line_, json_kind(json));
      }
      return std::optional<Json>(std::move(json));
    }
    return std::optional<Json>();
  }

  Candidate file_;
  std::string_view rest_;
  int64_t line_ = 0;
  std::string url_;
  std::string caption_;
  std::string id_;
  std::vector<std::string> kept_;
};

// Returns the leaf of a column of texts or whole numbers, of a list if `listed`; -1 if it is none.
int text_leaf(const ParquetField& field, bool listed) {
  if (field.is_leaf()) {
    const bool fits = field.text || field.is_bytes() || field.whole_number;
    return fits && (listed || field.max_repetition == 0) ? field.leaf : -1;
  }
  return listed && field.children.size() == 1 ? text_leaf(field.children[0], true) : -1;
}

class ParquetUrls final : public UrlTable {
 public:
  explicit ParquetUrls(PieceFile file) : file_(std::move(file)) {}

  Status open(const UrlColumns& columns) {
    SACCADE_ASSIGN(footer_, read_parquet_footer(file_));
    const std::vector<ParquetField>& fields = footer_.root.children;
    std::vector<std::string> names;
    for (const ParquetField& field : fields) names.push_back(field.name);
    SACCADE_ASSIGN(const Chosen chosen, choose(names, columns));
    const auto take = [&](int at, bool listed, Column& column) -> Status {
      const ParquetField& field = fields[static_cast<size_t>(at)];
      column = {field.name, text_leaf(field, listed)};
      if (column.leaf >= 0) return {};
      return fail(ErrorCode::kBadData, "column \"{}\" is {}, expected strings{} or integers", field.name,
                  parquet_type_name(field), listed ? ", lists of strings" : "");
    };
    const auto keep = [&](int at) -> Status {
      const ParquetField& field = fields[static_cast<size_t>(at)];
      const bool literal = field.whole_number || field.real || field.truth;
      const bool fits = literal || field.text || field.is_bytes();
      if (!field.is_leaf() || !fits || field.max_repetition > 0) {
        return fail(
            ErrorCode::kBadData,
            "column \"{}\" is {}, kept columns are strings, integers, floating-point numbers or booleans",
            field.name, parquet_type_name(field));
      }
      kept_.push_back({field.name, field.leaf, literal});
      return {};
    };
    SACCADE_TRY(take(chosen.url, false, url_));
    if (chosen.caption >= 0) SACCADE_TRY(take(chosen.caption, true, caption_));
    if (chosen.id >= 0) SACCADE_TRY(take(chosen.id, false, id_));
    for (const int kept : chosen.kept) SACCADE_TRY(keep(kept));
    return {};
  }

  Result<bool> next(UrlRow& row) override {
    while (row_ == rows_) {
      if (group_ == footer_.groups.size()) return false;
      SACCADE_TRY(read_group().in(fmt::format("row group {}", group_)));
      ++group_;
    }
    row = {};
    const auto url = cell(url_.leaf);
    set_url(url.value_or(""), url_.name, row);
    if (caption_.leaf >= 0) {
      const ParquetTexts& texts = texts_[caption_.leaf];
      const auto at = static_cast<size_t>(row_);
      for (int64_t v = texts.begin[at]; v < texts.begin[at + 1]; ++v) {
        const auto& value = texts.values[static_cast<size_t>(v)];
        if (value) add_captions(*value, caption_.name, row);
      }
    }
    if (id_.leaf >= 0) row.id = valid(cell(id_.leaf).value_or(""), id_.name, row);
    for (const Column& column : kept_) {
      const auto value = cell(column.leaf);
      Json& out = row.kept[column.name];
      if (!value) continue;
      if (column.literal) {
        // NaN and infinity have no JSON: null.
        if (Json literal = Json::parse(*value, nullptr, false); !literal.is_discarded())
          out = std::move(literal);
      } else {
        out = valid(*value, column.name, row);
      }
    }
    ++row_;
    return true;
  }

 private:
  struct Column {
    std::string name;
    int leaf = -1;
    bool literal = false;  // its texts are JSON: numbers, booleans
  };

  Status read_group() {
    texts_.clear();
    const auto read = [&](const Column& column) -> Status {
      if (column.leaf < 0 || texts_.contains(column.leaf)) return {};
      SACCADE_ASSIGN(texts_[column.leaf], read_parquet_texts(file_, footer_, group_, column.leaf)
                                              .in(fmt::format("column \"{}\"", column.name)));
      return {};
    };
    SACCADE_TRY(read(url_));
    SACCADE_TRY(read(caption_));
    SACCADE_TRY(read(id_));
    for (const Column& column : kept_) SACCADE_TRY(read(column));
    row_ = 0;
    rows_ = footer_.groups[group_].rows;
    return {};
  }

  // Returns the value of a column without lists in the current row; nullopt for a null.
  [[nodiscard]] std::optional<std::string> cell(int leaf) const {
    const ParquetTexts& texts = texts_.at(leaf);
    const auto at = static_cast<size_t>(row_);
    if (texts.begin[at] == texts.begin[at + 1]) return std::nullopt;
    return texts.values[static_cast<size_t>(texts.begin[at])];
  }

  PieceFile file_;
  ParquetFooter footer_;
  Column url_;
  Column caption_;
  Column id_;
  std::vector<Column> kept_;
  size_t group_ = 0;
  int64_t row_ = 0;
  int64_t rows_ = 0;
  std::map<int, ParquetTexts> texts_;  // of the row group, by leaf
};

template <typename Table>
Result<std::unique_ptr<UrlTable>> opened(std::unique_ptr<Table> table, const UrlColumns& columns) {
  SACCADE_TRY(table->open(columns));
  return std::unique_ptr<UrlTable>(std::move(table));
}

}  // namespace

Result<std::unique_ptr<UrlTable>> open_url_table(const fs::path& path, const UrlColumns& columns) {
  SACCADE_ASSIGN(Candidate file, look_at(path));
  if (file.folder) {
    return fail(ErrorCode::kUsage, "a folder; name its tables: .csv, .tsv, .jsonl or .parquet files");
  }
  const std::string extension = file.extension();
  const bool headerless = !columns.header.empty();
  if (headerless && (extension == ".parquet" || extension == ".jsonl" || extension == ".ndjson")) {
    return fail(ErrorCode::kUsage,
                "--columns is for CSV and TSV files without a header; this file has names");
  }
  if (extension == ".parquet") {
    SACCADE_ASSIGN(PieceFile pieces, PieceFile::open(path));
    return opened(std::make_unique<ParquetUrls>(std::move(pieces)), columns);
  }
  if (extension == ".jsonl" || extension == ".ndjson") {
    return opened(std::make_unique<JsonUrls>(std::move(file)), columns);
  }
  if (file.archive || file.outline) {
    return fail(ErrorCode::kUnsupported,
                "not a table: CSV, TSV, JSON Lines (.jsonl) and Parquet (.parquet) are read");
  }
  const std::string_view line = file.text.substr(0, file.text.find('\n'));
  const bool comma = line.find(',') != std::string_view::npos;
  const bool tabs = extension == ".tsv" || (!comma && line.find('\t') != std::string_view::npos);
  return opened(std::make_unique<CsvUrls>(std::move(file), tabs ? '\t' : ','), columns);
}

}  // namespace saccade::lab::data

// Tables with named columns: CSV, TSV and '|'-separated, with the rows of one image grouped. Two published
// ones, mirrors of ROCO and Factify, have columns and folders of their own.
#include <algorithm>
#include <initializer_list>

#include <fmt/ranges.h>

#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/csv.h"
#include "saccade/text/nearest.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNone = static_cast<size_t>(-1);

char separator_of(const Candidate& candidate) {
  if (candidate.extension() == ".tsv") return '\t';
  const std::string_view line = first_line(candidate.text);
  if (line.find(',') != std::string_view::npos) return ',';
  if (line.find('\t') != std::string_view::npos) return '\t';
  return line.find('|') != std::string_view::npos ? '|' : ',';
}

CsvReader open_table(const Candidate& candidate) {
  const char separator = separator_of(candidate);
  return CsvReader(candidate.text, separator, separator != '|');
}

std::vector<std::string> header_of(const Candidate& candidate) {
  std::vector<std::string> header;
  if (candidate.folder || candidate.text.empty()) return header;
  CsvReader table = open_table(candidate);
  const auto read = table.next(header);
  if (!read || !*read) header.clear();
  for (std::string& name : header) name = std::string(trim_ascii(name));
  return header;
}

size_t find_column(const std::vector<std::string>& header, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (size_t i = 0; i < header.size(); ++i) {
      if (plain_name(header[i]) == name) return i;
    }
  }
  return kNone;
}

// Column indices by role.
struct Columns {
  size_t image = kNone;
  size_t caption = kNone;
  size_t id = kNone;
  size_t split = kNone;
  size_t group = kNone;
};

// Returns the columns with names common in published tables, the most likely first.
Columns usual_columns(const std::vector<std::string>& header) {
  Columns columns;
  columns.image =
      find_column(header, {"image", "imagepath", "filepath", "path", "filename", "imagename", "imagefile",
                           "file", "img", "imgpath", "imgname", "imageid", "name", "id"});
  columns.caption = find_column(
      header, {"caption", "captions", "raw", "title", "text", "description", "comment", "sentence"});
  columns.split = find_column(header, {"split"});
  return columns;
}

bool is_table(const Candidate& candidate) {
  const std::vector<std::string> header = header_of(candidate);
  if (header.size() < 2 || candidate.outline) return false;
  const Columns columns = usual_columns(header);
  const std::string extension = candidate.extension();
  return (columns.image != kNone && columns.caption != kNone) || extension == ".csv" || extension == ".tsv";
}

Status choose_columns(const std::vector<std::string>& header, const DatasetOptions& options,
                      Columns& columns) {
  const std::pair<const char*, size_t*> kRoles[] = {{"image", &columns.image},
                                                    {"caption", &columns.caption},
                                                    {"id", &columns.id},
                                                    {"split", &columns.split},
                                                    {"group", &columns.group}};
  for (const auto& [role, column] : kRoles) {
    const auto named = options.columns.find(role);
    if (named == options.columns.end()) continue;
    const auto found = std::ranges::find(header, named->second);
    if (found == header.end()) {
      return fail(ErrorCode::kUsage, "no column \"{}\"; there are {}{}", named->second,
                  fmt::join(header, ", "), did_you_mean(named->second, header));
    }
    *column = static_cast<size_t>(found - header.begin());
  }
  for (const auto& [role, column] : kRoles) {
    if (*column == kNone || std::ranges::count(header, header[*column]) == 1) continue;
    return fail(ErrorCode::kBadData, "several columns are called \"{}\", and one of them is the {} column",
                header[*column], role);
  }
  if (columns.image == kNone || columns.caption == kNone) {
    return fail(ErrorCode::kUsage, "no {} column is known among {}; name it with {}-column=NAME",
                columns.image == kNone ? "image" : "caption", fmt::join(header, ", "),
                columns.image == kNone ? "image" : "caption");
  }
  return {};
}

Status add_row(const std::vector<std::string>& fields, const Columns& columns, std::string split,
               RowCollector& rows, Dataset& dataset) {
  const std::string image(trim_ascii(fields[columns.image]));
  SACCADE_TRY(check_utf8(image, "the image's name"));
  if (is_web_address(image)) {
    dataset.exclude(kWebAddresses, image);
    return {};
  }
  if (columns.split != kNone) split = std::string(trim_ascii(fields[columns.split]));
  const std::string id = columns.id == kNone ? image : std::string(trim_ascii(fields[columns.id]));
  SACCADE_ASSIGN(DatasetItem * item, rows.item(id, image, split));
  if (columns.group != kNone) SACCADE_TRY(set_group(*item, std::string(trim_ascii(fields[columns.group]))));
  return add_caption_field(dataset, *item, trim_ascii(fields[columns.caption]));
}

// Reads the rows of one file; `columns` are the layout's roles for its header.
Status read_rows(const Candidate& candidate, Columns columns, const std::string& split,
                 const DatasetOptions& options, RowCollector& rows, Dataset& dataset) {
  note_file(candidate, dataset);
  const std::vector<std::string> header = header_of(candidate);
  SACCADE_TRY(choose_columns(header, options, columns));
  CsvReader table = open_table(candidate);
  std::vector<std::string> fields;
  SACCADE_ASSIGN(bool more, table.next(fields));  // the header
  for (;;) {
    SACCADE_ASSIGN(more, table.next(fields));
    if (!more) return {};
    if (fields.size() != header.size()) {
      // Flickr30k's table of this kind has a line without its second bar.
      if (separator_of(candidate) == '|') {
        dataset.exclude("rows with a field too few or too many", fmt::format("line {}", table.line()));
        continue;
      }
      return fail(ErrorCode::kBadData, "line {}: {} fields, the header has {}", table.line(), fields.size(),
                  header.size());
    }
    SACCADE_TRY(add_row(fields, columns, split, rows, dataset).in(fmt::format("line {}", table.line())));
  }
}

Result<Dataset> finish(Dataset dataset, const fs::path& folder, std::span<const std::string> hints,
                       const DatasetOptions& options) {
  drop_uncaptioned(dataset);
  SACCADE_TRY(place_images(dataset, folder, hints, options));
  return dataset;
}

Result<Dataset> read_table(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  RowCollector rows(dataset);
  SACCADE_TRY(read_rows(candidate, usual_columns(header_of(candidate)), "", options, rows, dataset));
  return finish(std::move(dataset), candidate.path.parent_path(), {}, options);
}

// Mirrors of ROCO have id, name and caption; <split>/radiologytraindata.csv has its images in
// <split>/radiology/images.

Columns roco_csv_columns(const std::vector<std::string>& header) {
  Columns columns;
  if (header.size() != 3) return columns;
  columns.id = find_column(header, {"id"});
  columns.image = find_column(header, {"name"});
  columns.caption = find_column(header, {"caption"});
  return columns;
}

bool is_roco_csv_file(const Candidate& candidate) {
  const Columns columns = roco_csv_columns(header_of(candidate));
  return columns.id != kNone && columns.image != kNone && columns.caption != kNone;
}

std::vector<Candidate> roco_csv_files(const Candidate& folder) {
  std::vector<Candidate> files;
  for (const std::string_view split : kRocoSplits) {
    if (!folder.has(split)) continue;
    const auto inside = look_at(folder.path / split);
    if (!inside) continue;
    for (const std::string& name : inside->names) {
      if (!name.starts_with("radiology") || !name.ends_with("data.csv")) continue;
      auto file = look_at(inside->path / name);
      if (file && is_roco_csv_file(*file)) files.push_back(*std::move(file));
    }
  }
  return files;
}

bool is_roco_csv(const Candidate& candidate) {
  return candidate.folder ? !roco_csv_files(candidate).empty() : is_roco_csv_file(candidate);
}

Result<Dataset> read_roco_csv(const Candidate& candidate, const DatasetOptions& options) {
  std::vector<Candidate> files = {candidate};
  if (candidate.folder) files = roco_csv_files(candidate);
  Dataset dataset;
  for (const Candidate& file : files) {
    // Each file has its own images, which are placed before the next file is read.
    Dataset part;
    RowCollector rows(part);
    const std::string name = file.path.filename().string();
    SACCADE_TRY(read_rows(file, roco_csv_columns(header_of(file)), roco_split(file.path.parent_path()),
                          options, rows, part)
                    .in(name));
    const bool other = name.starts_with("non");
    const std::string hints[] = {other ? "non-radiology/images" : "radiology/images"};
    SACCADE_ASSIGN(part, finish(std::move(part), file.path.parent_path(), hints, options));
    add_part(std::move(part), dataset);
  }
  return dataset;
}

// Factify has a claim and the document it is checked against, each with an image. The document's side is
// read, which has the long texts; options may name the other side's columns.

Columns factify_columns(const std::vector<std::string>& header) {
  Columns columns;
  columns.image = find_column(header, {"documentimage"});
  columns.caption = find_column(header, {"document"});
  return columns;
}

bool is_factify(const Candidate& candidate) {
  const std::vector<std::string> header = header_of(candidate);
  const Columns columns = factify_columns(header);
  return columns.image != kNone && columns.caption != kNone && find_column(header, {"claim"}) != kNone;
}

Result<Dataset> read_factify(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  RowCollector rows(dataset);
  SACCADE_TRY(read_rows(candidate, factify_columns(header_of(candidate)), "", options, rows, dataset));
  return finish(std::move(dataset), candidate.path.parent_path(), {}, options);
}

}  // namespace

const Reader kTable = {"table", is_table, read_table};
const Reader kRocoCsv = {"roco_csv", is_roco_csv, read_roco_csv};
const Reader kFactify = {"factify", is_factify, read_factify};

}  // namespace saccade::lab::data

// ROCO in the form of its repository, github.com/razorx89/roco-dataset:
//
//   data/SPLIT/radiology/captions.txt  lines of an id (ROCO_00020), a tab and a caption
//   data/SPLIT/radiology/licences.txt  CSV: ROCO_ID, PMC_ID (PMC3970251_NAME.jpg), CC
//   data/SPLIT/radiology/images/       ROCO_00020.jpg, written by scripts/fetch.py. Earlier versions of the
//                                      script named images by their PMC_ID.
//
// SPLIT is train, validation or test. Each split has a folder non-radiology too, which is read only if it is
// named.
#include <algorithm>

#include "lab/data/readers/reader.h"
#include "saccade/core/files/csv.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSplits[] = {"train", "validation", "test"};
constexpr const char* kCaptions = "captions.txt";
constexpr const char* kLicences = "licences.txt";

struct Line {
  std::string_view id;
  std::string_view caption;
};

// Parses ROCO_NUMBER<tab>CAPTION; `nullopt` for any other line.
std::optional<Line> parse_line(std::string_view line) {
  constexpr std::string_view kPrefix = "ROCO_";
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || !line.starts_with(kPrefix) || tab == kPrefix.size()) {
    return std::nullopt;
  }
  const std::string_view id = line.substr(0, tab);
  if (id.find_first_not_of("0123456789", kPrefix.size()) != std::string_view::npos) return std::nullopt;
  return Line{.id = id, .caption = line.substr(tab + 1)};
}

// Returns the captions files of a folder: its own, that of a split, or those of all splits.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& file : {folder / kCaptions, folder / "radiology" / kCaptions}) {
    if (fs::is_regular_file(file, error)) return {file};
  }
  std::vector<fs::path> files;
  for (const fs::path& data : {folder, folder / "data"}) {
    for (const std::string_view split : kSplits) {
      fs::path file = data / split / "radiology" / kCaptions;
      if (fs::is_regular_file(file, error)) files.push_back(std::move(file));
    }
  }
  return files;
}

// The repository's keywords.txt and others have lines of the same form, so the name counts too.
bool is_captions_file(const Candidate& candidate) {
  return candidate.path.filename() == kCaptions &&
         parse_line(candidate.text.substr(0, candidate.text.find('\n'))).has_value();
}

bool recognizes(const Candidate& candidate) {
  if (!candidate.folder) return is_captions_file(candidate);
  return std::ranges::any_of(files_of(candidate.path), [](const fs::path& path) {
    const auto file = look_at(path);
    return file && is_captions_file(*file);
  });
}

std::string split_of(const fs::path& captions) {
  const std::string name = fs::absolute(captions).parent_path().parent_path().filename().string();
  return std::ranges::find(kSplits, name) == std::end(kSplits) ? "" : name;
}

struct Origin {
  std::string image;  // name of the image file that earlier versions of fetch.py wrote
  std::string licence;
};

// Reads licences.txt, if it is there: origins by id.
Status read_origins(const fs::path& folder, std::unordered_map<std::string, Origin>& origins,
                    Dataset& dataset) {
  std::error_code error;
  if (!fs::is_regular_file(folder / kLicences, error)) return {};
  SACCADE_ASSIGN(const Candidate file, look_at(folder / kLicences));
  note_file(file, dataset);
  CsvReader table(file.text);
  std::vector<std::string> fields;
  SACCADE_ASSIGN(bool more, table.next(fields));  // the header
  for (;;) {
    SACCADE_ASSIGN(more, table.next(fields));
    if (!more) return {};
    if (fields.size() != 3) {
      return fail(ErrorCode::kBadData, "line {}: {} fields, expected ROCO_ID,PMC_ID,CC", table.line(),
                  fields.size());
    }
    for (const std::string& field : fields) {
      SACCADE_TRY(check_utf8(field, "it").in(fmt::format("line {}", table.line())));
    }
    if (fields[1].find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      return fail(ErrorCode::kBadData, "line {}: its PMC_ID is no file name", table.line());
    }
    origins.insert_or_assign(fields[0], Origin{.image = fields[1], .licence = fields[2]});
  }
}

// Reads one captions file.
Status read_captions(const fs::path& path, const DatasetOptions& options, Dataset& dataset) {
  const fs::path folder = path.parent_path();
  const fs::path images = options.images.empty() ? folder / "images" : options.images;
  const std::string split = split_of(path);
  SACCADE_ASSIGN(const Candidate file, look_at(path));
  note_file(file, dataset);
  std::unordered_map<std::string, Origin> origins;
  SACCADE_TRY(read_origins(folder, origins, dataset).in(kLicences));
  const auto each = [&](int64_t number, std::string_view text) -> Status {
    const std::optional<Line> line = parse_line(text);
    if (!line) return fail(ErrorCode::kBadData, "line {}: not ROCO_NUMBER, a tab and a caption", number);
    SACCADE_TRY(check_utf8(line->caption, "the caption").in(fmt::format("line {}", number)));
    DatasetItem item;
    item.id = line->id;
    item.split = split;
    item.image.path = images / (item.id + ".jpg");
    if (const auto origin = origins.find(item.id); origin != origins.end()) {
      const fs::path earlier = images / origin->second.image;
      std::error_code error;
      if (!fs::exists(item.image.path, error) && fs::is_regular_file(earlier, error)) {
        item.image.path = earlier;
      }
      item.licence = origin->second.licence;
    }
    add_caption(dataset, item, std::string(trim(line->caption)));
    dataset.as<CaptionedImages>().items.push_back(std::move(item));
    return {};
  };
  return for_each_line(file.text, each).in(kCaptions);
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& options) {
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = files_of(candidate.path);
  Dataset dataset;
  for (const fs::path& file : files) {
    Status part = read_captions(file, options, dataset);
    SACCADE_TRY(files.size() > 1 ? std::move(part).in(split_of(file)) : std::move(part));
  }
  drop_uncaptioned(dataset);
  return dataset;
}

}  // namespace

const Reader kRoco = {"roco", "ROCO's repository with fetched images: all, a split's folder or captions.txt",
                      recognizes, read};

}  // namespace saccade::lab::data

// Text files with a caption a line, behind the name of its image and a tab: the token files of Flickr8k and
// Flickr30k, and ROCO's repository.
#include <algorithm>

#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/csv.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

// Flickr's lines are NAME#NUMBER, a tab and a caption. Flickr8k's lists of names beside the file
// (Flickr_8k.trainImages.txt and the like) are its splits.

struct Token {
  std::string_view image;
  std::string_view caption;
};

// Parses NAME#NUMBER<tab>CAPTION; `nullopt` for any other line.
std::optional<Token> parse_token(std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(0, tab);
  const size_t mark = name.rfind('#');
  if (mark == std::string_view::npos || mark == 0 || mark + 1 == name.size()) return std::nullopt;
  if (name.substr(mark + 1).find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return Token{.image = name.substr(0, mark), .caption = line.substr(tab + 1)};
}

bool is_token_file(const Candidate& candidate) {
  return !candidate.folder && parse_token(first_line(candidate.text)).has_value();
}

// Reads the lists beside the file: names -> their splits.
Status read_token_splits(const fs::path& folder, std::unordered_map<std::string, std::string>& splits,
                         Dataset& dataset) {
  const std::pair<const char*, const char*> kLists[] = {{"Flickr_8k.trainImages.txt", "train"},
                                                        {"Flickr_8k.devImages.txt", "dev"},
                                                        {"Flickr_8k.testImages.txt", "test"}};
  for (const auto& [name, split] : kLists) {
    std::error_code error;
    if (!fs::is_regular_file(folder / name, error)) continue;
    SACCADE_ASSIGN(const Candidate list, look_at(folder / name));
    note_file(list, dataset);
    const std::string of = split;
    const auto each = [&](int64_t number, std::string_view line) -> Status {
      const auto [place, fresh] = splits.emplace(std::string(trim_ascii(line)), of);
      if (fresh) return {};
      return fail(ErrorCode::kBadData, "line {}: {} was in split \"{}\" already", number, place->first,
                  place->second);
    };
    SACCADE_TRY(for_each_line(list.text, each).in(name));
  }
  return {};
}

Result<Dataset> read_tokens(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  note_file(candidate, dataset);
  const fs::path folder = candidate.path.parent_path();
  std::unordered_map<std::string, std::string> splits;
  SACCADE_TRY(read_token_splits(folder, splits, dataset));
  RowCollector rows(dataset);
  const auto each = [&](int64_t number, std::string_view text) -> Status {
    const std::optional<Token> line = parse_token(text);
    if (!line) return fail(ErrorCode::kBadData, "line {}: not NAME#NUMBER, a tab and a caption", number);
    if (const Status valid = check_utf8(text, "it"); !valid) {
      return fail(valid.error().in(fmt::format("line {}", number)));
    }
    const std::string image(line->image);
    const auto split = splits.find(image);
    const auto item = rows.item(image, image, split == splits.end() ? "" : split->second);
    if (!item) return fail(item.error().in(fmt::format("line {}", number)));
    add_caption(dataset, **item, std::string(line->caption));
    return {};
  };
  SACCADE_TRY(for_each_line(candidate.text, each));
  std::unordered_map<std::string_view, bool> captioned;
  for (const DatasetItem& item : dataset.as<CaptionedImages>().items) captioned.emplace(item.id, true);
  for (const auto& [image, split] : splits) {
    if (!captioned.contains(image)) dataset.exclude("images of a split's list without captions", image);
  }
  drop_uncaptioned(dataset);
  SACCADE_TRY(place_images(dataset, folder, {}, options));
  return dataset;
}

// ROCO in the form of its repository, github.com/razorx89/roco-dataset:
//
//   data/SPLIT/radiology/captions.txt  lines of an id (ROCO_00020), a tab and a caption
//   data/SPLIT/radiology/licences.txt  CSV: ROCO_ID, PMC_ID (PMC3970251_NAME.jpg), CC
//   data/SPLIT/radiology/images/       ROCO_00020.jpg, written by scripts/fetch.py. Earlier versions of the
//                                      script named images by their PMC_ID.
//
// SPLIT is train, validation or test. Each split has a folder non-radiology too, which is read only if it is
// named.

constexpr const char* kRocoCaptions = "captions.txt";
constexpr const char* kRocoLicences = "licences.txt";

struct RocoLine {
  std::string_view id;
  std::string_view caption;
};

// Parses ROCO_NUMBER<tab>CAPTION; `nullopt` for any other line.
std::optional<RocoLine> parse_roco(std::string_view line) {
  constexpr std::string_view kPrefix = "ROCO_";
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || !line.starts_with(kPrefix) || tab == kPrefix.size()) {
    return std::nullopt;
  }
  const std::string_view id = line.substr(0, tab);
  if (id.find_first_not_of("0123456789", kPrefix.size()) != std::string_view::npos) return std::nullopt;
  return RocoLine{.id = id, .caption = line.substr(tab + 1)};
}

// Returns the captions files of a folder: its own, that of a split, or those of all splits.
std::vector<fs::path> roco_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& file : {folder / kRocoCaptions, folder / "radiology" / kRocoCaptions}) {
    if (fs::is_regular_file(file, error)) return {file};
  }
  std::vector<fs::path> files;
  for (const fs::path& data : {folder, folder / "data"}) {
    for (const std::string_view split : kRocoSplits) {
      fs::path file = data / split / "radiology" / kRocoCaptions;
      if (fs::is_regular_file(file, error)) files.push_back(std::move(file));
    }
  }
  return files;
}

// The repository's keywords.txt and others have lines of the same form, so the name counts too.
bool is_roco_file(const Candidate& candidate) {
  return candidate.path.filename() == kRocoCaptions && parse_roco(first_line(candidate.text)).has_value();
}

bool is_roco(const Candidate& candidate) {
  if (!candidate.folder) return is_roco_file(candidate);
  return std::ranges::any_of(roco_files(candidate.path), [](const fs::path& path) {
    const auto file = look_at(path);
    return file && is_roco_file(*file);
  });
}

// Returns the split of a captions file, by the folder above its own.
std::string split_above(const fs::path& captions) {
  return roco_split(captions.parent_path() / "..");
}

struct RocoOrigin {
  std::string image;  // name of the image file that earlier versions of fetch.py wrote
  std::string licence;
};

// Reads licences.txt, if it is there: origins by id.
Status read_roco_origins(const fs::path& folder, std::unordered_map<std::string, RocoOrigin>& origins,
                         Dataset& dataset) {
  std::error_code error;
  if (!fs::is_regular_file(folder / kRocoLicences, error)) return {};
  SACCADE_ASSIGN(const Candidate file, look_at(folder / kRocoLicences));
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
    origins.insert_or_assign(fields[0], RocoOrigin{.image = fields[1], .licence = fields[2]});
  }
}

// Reads one captions file.
Status read_roco_file(const fs::path& path, const DatasetOptions& options, Dataset& dataset) {
  const fs::path folder = path.parent_path();
  const fs::path images = options.images.empty() ? folder / "images" : options.images;
  const std::string split = split_above(path);
  SACCADE_ASSIGN(const Candidate file, look_at(path));
  note_file(file, dataset);
  std::unordered_map<std::string, RocoOrigin> origins;
  SACCADE_TRY(read_roco_origins(folder, origins, dataset).in(kRocoLicences));
  const auto each = [&](int64_t number, std::string_view text) -> Status {
    const std::optional<RocoLine> line = parse_roco(text);
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
    add_caption(dataset, item, std::string(trim_ascii(line->caption)));
    dataset.as<CaptionedImages>().items.push_back(std::move(item));
    return {};
  };
  return for_each_line(file.text, each).in(kRocoCaptions);
}

Result<Dataset> read_roco(const Candidate& candidate, const DatasetOptions& options) {
  std::vector<fs::path> files = {candidate.path};
  if (candidate.folder) files = roco_files(candidate.path);
  Dataset dataset;
  for (const fs::path& file : files) {
    Status part = read_roco_file(file, options, dataset);
    SACCADE_TRY(files.size() > 1 ? std::move(part).in(split_above(file)) : std::move(part));
  }
  drop_uncaptioned(dataset);
  return dataset;
}

}  // namespace

std::string roco_split(const fs::path& folder) {
  const std::string name = fs::absolute(folder / ".").lexically_normal().parent_path().filename().string();
  return std::ranges::find(kRocoSplits, name) == std::end(kRocoSplits) ? "" : name;
}

const Reader kFlickrToken = {"flickr_token", is_token_file, read_tokens};
const Reader kRoco = {"roco", is_roco, read_roco};

}  // namespace saccade::lab::data

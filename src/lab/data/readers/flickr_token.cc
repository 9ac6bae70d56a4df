// Flickr8k's and Flickr30k's token files: lines of NAME#NUMBER, a tab and a caption. Flickr8k's lists of
// names beside it (Flickr_8k.trainImages.txt and the like) are its splits.
#include <cstdlib>

#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

struct Line {
  std::string_view image;
  std::string_view caption;
};

// Parses NAME#NUMBER<tab>CAPTION; `nullopt` for any other line.
std::optional<Line> parse_line(std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  const std::string_view name = line.substr(0, tab);
  const size_t mark = name.rfind('#');
  if (mark == std::string_view::npos || mark == 0 || mark + 1 == name.size()) return std::nullopt;
  if (name.substr(mark + 1).find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return Line{.image = name.substr(0, mark), .caption = line.substr(tab + 1)};
}

bool recognizes(const Candidate& candidate) {
  return !candidate.folder && parse_line(candidate.text.substr(0, candidate.text.find('\n'))).has_value();
}

// Reads the lists beside the file: names -> their splits.
Status read_splits(const fs::path& folder, std::unordered_map<std::string, std::string>& splits,
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
      const auto [place, fresh] = splits.emplace(std::string(trim(line)), of);
      if (fresh) return {};
      return fail(ErrorCode::kBadData, "line {}: {} was in split \"{}\" already", number, place->first,
                  place->second);
    };
    SACCADE_TRY(for_each_line(list.text, each).in(name));
  }
  return {};
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  note_file(candidate, dataset);
  const fs::path folder = candidate.path.parent_path();
  std::unordered_map<std::string, std::string> splits;
  SACCADE_TRY(read_splits(folder, splits, dataset));
  RowCollector rows(dataset);
  const auto each = [&](int64_t number, std::string_view text) -> Status {
    const std::optional<Line> line = parse_line(text);
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

}  // namespace

const Reader kFlickrToken = {
    "flickr_token", "Flickr8k's and Flickr30k's token files: NAME#NUMBER, tab, caption", recognizes, read};

}  // namespace saccade::lab::data

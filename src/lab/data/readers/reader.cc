#include "lab/data/readers/reader.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "lab/data/readers/piece_file.h"
#include "saccade/core/ascii.h"
#include "saccade/core/hash.h"
#include "saccade/image/image_codec.h"
#include "saccade/text/utf8.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTried = 64;  // names looked for to find the folder of the images

// Returns the images that are files.
std::vector<ImageRef*> images_of(CaptionedImages& images) {
  std::vector<ImageRef*> files;
  for (DatasetItem& item : images.items) {
    if (!item.image.in_archive()) files.push_back(&item.image);
  }
  return files;
}
std::vector<ImageRef*> images_of(CompositionTests& tests) {
  std::vector<ImageRef*> files;
  for (CompositionItem& item : tests.items) {
    for (ImageRef& image : item.images) files.push_back(&image);
  }
  return files;
}
std::vector<ImageRef*> images_of(RatedTexts& texts) {
  std::vector<ImageRef*> files;
  for (RatedText& item : texts.items) {
    if (item.image && !item.image->in_archive()) files.push_back(&*item.image);
  }
  return files;
}
std::vector<ImageRef*> images_of(EditQueries& edits) {
  std::vector<ImageRef*> files;
  for (GalleryPicture& picture : edits.gallery) {
    if (!picture.image.in_archive()) files.push_back(&picture.image);
  }
  return files;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::span<const Reader* const> readers() {
  static constexpr std::array<const Reader*, 20> kReaders = {
      &kKarpathy, &kCoco,  &kShareGpt4v, &kRecords,  &kWinoground,  &kSugarCrepe, &kFashionIq,
      &kCirr,     &kCirco, &kEditPairs,  &kManifest, &kFlickrToken, &kRoco,       &kRocoCsv,
      &kFactify,  &kTable, &kWebDataset, &kParquet,  &kUrban1k,     &kFolder};
  return kReaders;
}

std::string Candidate::extension() const {
  return lower_ascii(path.extension().string());
}

bool Candidate::has(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Candidate> look_at(const fs::path& path) {
  Candidate candidate;
  candidate.path = path;
  std::error_code error;
  candidate.folder = fs::is_directory(path, error);
  if (candidate.folder) {
    for (const auto& entry : fs::directory_iterator(path, error)) {
      candidate.names.push_back(entry.path().filename().string());
    }
    if (error) return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
    std::sort(candidate.names.begin(), candidate.names.end(), by_number);
    return candidate;
  }
  const std::string ending = candidate.extension();
  candidate.archive = ending == ".tar" || ending == ".parquet";
  if (candidate.archive) {
    SACCADE_ASSIGN(const PieceFile file, PieceFile::open(path));
    std::string begin(static_cast<size_t>(std::min<int64_t>(file.size(), 4096)), '\0');
    SACCADE_TRY(file.read(0, begin));
    candidate.copy = std::make_shared<std::string>(std::move(begin));
    candidate.text = *candidate.copy;
    return candidate;
  }
  auto copy = read_file(path, int64_t{1} << 30);
  if (copy) {
    candidate.copy = std::make_shared<std::string>(*std::move(copy));
    candidate.text = *candidate.copy;
  } else if (copy.error().code == ErrorCode::kLimit) {
    SACCADE_ASSIGN(MappedFile file, MappedFile::open(path));
    candidate.mapped = std::make_shared<MappedFile>(std::move(file));
    const auto bytes = candidate.mapped->bytes();
    candidate.text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } else {
    return fail(std::move(copy).error());
  }
  candidate.outline = outline_json(candidate.text);
  return candidate;
}

Result<std::optional<Candidate>> find_records(const Candidate& folder) {
  constexpr std::string_view kEndings[] = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".token", ".txt"};
  std::optional<Candidate> found;
  std::string there;
  for (const char* below : {"", "data", "annotations"}) {
    const fs::path place = folder.path / below;
    std::error_code error;
    if (!fs::is_directory(place, error)) continue;
    SACCADE_ASSIGN(Candidate inside, look_at(place));
    const auto holds = [&](const Reader* reader) { return reader != &kFolder && reader->recognizes(inside); };
    if (place != folder.path / "" && std::any_of(readers().begin(), readers().end(), holds)) return inside;
    for (const std::string& name : inside.names) {
      const fs::path path = place / name;
      const bool known =
          std::find(std::begin(kEndings), std::end(kEndings), path.extension()) != std::end(kEndings);
      if (!known || !fs::is_regular_file(path, error)) continue;
      SACCADE_ASSIGN(Candidate file, look_at(path));
      const auto fits = [&](const Reader* reader) { return reader->recognizes(file); };
      if (std::none_of(readers().begin(), readers().end(), fits)) continue;
      there += (there.empty() ? "" : ", ") + name;
      if (found)
        return fail(ErrorCode::kBadData, "several files of records in this folder, name one: {}", there);
      found = std::move(file);
    }
    if (found) break;
  }
  return found;
}

void add_part(Dataset part, Dataset& dataset) {
  std::ranges::move(part.as<CaptionedImages>().items,
                    std::back_inserter(dataset.as<CaptionedImages>().items));
  std::ranges::move(part.files, std::back_inserter(dataset.files));
  for (const Exclusion& exclusion : part.excluded) dataset.exclude(exclusion);
}

void note_file(const Candidate& file, Dataset& dataset) {
  dataset.files.push_back(
      {file.path.string(), static_cast<int64_t>(file.text.size()), sha256_hex(file.text)});
}

std::string_view first_line(std::string_view text) {
  text = without_byte_order_mark(text);
  return text.substr(0, text.find('\n'));
}

Status for_each_line(std::string_view text, const std::function<Status(int64_t, std::string_view)>& line) {
  text = without_byte_order_mark(text);
  int64_t number = 0;
  for (std::string_view each : Lines(text)) {
    ++number;
    if (each.ends_with('\r')) each.remove_suffix(1);
    if (each.find_first_not_of(" \t") == std::string_view::npos) continue;
    SACCADE_TRY(line(number, each));
  }
  return {};
}

bool by_number(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto number = [](std::string_view text, size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view left = number(a, i);
    const std::string_view right = number(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // "01" and "1" have an order too
}

Status check_utf8(std::string_view text, std::string_view what) {
  if (to_valid_utf8(text) != text) return fail(ErrorCode::kBadData, "{} is not UTF-8", what);
  return {};
}

Status set_group(DatasetItem& item, std::string group) {
  if (group.empty()) return {};
  if (!item.group.empty() && item.group != group) {
    return fail(ErrorCode::kBadData, "\"{}\" is of group \"{}\" here and \"{}\" before", item.id, group,
                item.group);
  }
  item.group = std::move(group);
  return {};
}

void add_caption(Dataset& dataset, DatasetItem& item, std::string caption) {
  if (trim_ascii(caption).empty()) {
    dataset.exclude("empty captions", item.id);
  } else {
    item.captions.push_back(std::move(caption));
  }
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (is_ascii_alphanumeric(c)) plain += lower_ascii(c);
  }
  return plain;
}

Status add_caption_field(Dataset& dataset, DatasetItem& item, std::string_view field) {
  SACCADE_TRY(check_utf8(field, "the caption"));
  if (field.starts_with("[\"")) {
    const auto list = parse_json(field);
    if (list && std::all_of(list->begin(), list->end(), [](const Json& each) { return each.is_string(); })) {
      for (const Json& each : *list) add_caption(dataset, item, each.get<std::string>());
      return {};
    }
  }
  add_caption(dataset, item, std::string(field));
  return {};
}

Status add_caption_lines(std::string_view text, DatasetItem& item) {
  SACCADE_TRY(check_utf8(text, "its text"));
  return for_each_line(text, [&](int64_t, std::string_view line) -> Status {
    const std::string_view caption = trim_ascii(line);
    if (!caption.empty()) item.captions.emplace_back(caption);
    return {};
  });
}

void drop_uncaptioned(Dataset& dataset) {
  std::erase_if(dataset.as<CaptionedImages>().items, [&](const DatasetItem& item) {
    if (item.captions.empty()) dataset.exclude("images without captions", item.id);
    return item.captions.empty();
  });
}

Result<DatasetItem*> RowCollector::item(const std::string& id, const std::string& image,
                                        const std::string& split) {
  if (image.empty()) return fail(ErrorCode::kBadData, "no image named");
  const auto [place, fresh] = places_.emplace(id, items_.size());
  if (fresh) {
    DatasetItem item;
    item.id = id;
    item.image.path = image;
    item.split = split;
    items_.push_back(std::move(item));
  }
  DatasetItem& item = items_[place->second];
  if (item.image.path != image) {
    return fail(ErrorCode::kBadData, "id \"{}\" has image {} here and {} before", id, image,
                item.image.path.string());
  }
  if (item.split != split) {
    return fail(ErrorCode::kBadData, "\"{}\" is of split \"{}\" here and \"{}\" before", id, split,
                item.split);
  }
  return &item;
}

Status place_images(Dataset& dataset, const fs::path& folder, std::span<const std::string> hints,
                    const DatasetOptions& options) {
  const std::vector<ImageRef*> images =
      std::visit([](auto& kind) { return images_of(kind); }, dataset.content);
  if (images.empty()) return {};
  bool with_endings = true;
  for (const ImageRef* image : images) {
    if (image->path.native().find('\0') != std::string::npos) {
      return fail(ErrorCode::kBadData, "an image name with a zero byte in it");
    }
    with_endings = with_endings && has_image_extension(image->path);
  }
  std::vector<fs::path> places = {options.images};
  if (options.images.empty()) {
    places = {folder};
    for (const std::string& hint : hints) places.push_back((folder / hint).lexically_normal());
    const std::vector<fs::path> bases = places;
    for (const fs::path& base : bases) {
      for (const char* usual :
           {"images", "Images", "image", "imgs", "img", "Flicker8k_Dataset", "flickr30k-images",
            "flickr30k_images", "train2014", "val2014", "train2017", "val2017"}) {
        places.push_back(base / usual);
      }
    }
  }
  std::vector<std::string> endings = {""};
  if (!with_endings) endings = {"", ".jpg", ".png", ".jpeg", ".webp"};
  const size_t step = std::max<size_t>(1, images.size() / kTried);
  size_t best_found = 0;
  fs::path best_place = places.front();
  std::string best_ending;
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) continue;
    for (const std::string& ending : endings) {
      size_t found = 0;
      for (size_t i = 0; i < images.size(); i += step) {
        if (fs::is_regular_file(place / (images[i]->path.string() + ending), error)) ++found;
      }
      if (found <= best_found) continue;
      best_found = found;
      best_place = place;
      best_ending = ending;
    }
  }
  if (best_found == 0 && options.images.empty()) {
    std::error_code error;
    if (fs::is_directory(folder / "images", error)) best_place = folder / "images";
  }
  for (ImageRef* image : images) {
    const bool whole = has_image_extension(image->path);
    image->path = best_place / (image->path.string() + (whole ? "" : best_ending));
  }
  return {};
}

}  // namespace saccade::lab::data

// Folders of images, with captions in text files beside them or, as in Urban1k, in a folder of their own.
#include <algorithm>
#include <array>
#include <set>

#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxText = 16 << 20;

// Returns all files below a folder as relative paths, in the order of their numbers. Hidden ones are skipped,
// and links to folders are not followed.
Result<std::vector<std::string>> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->path().filename().string().starts_with(".")) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(error)) {
      files.push_back(at->path().lexically_relative(folder).string());
    }
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end(), by_number);
  return files;
}

std::string without_ending(const std::string& name) {
  return fs::path(name).replace_extension().string();
}

// Returns "train" for "train/cats/1.jpg", if the first folder has the name of a split.
std::string split_of(const std::string& name) {
  constexpr std::array<std::string_view, 6> kSplits = {"train", "val", "valid", "validation", "dev", "test"};
  const std::string first = name.substr(0, name.find('/'));
  const bool known = first != name && std::find(kSplits.begin(), kSplits.end(), first) != kSplits.end();
  return known ? first : "";
}

bool is_folder(const Candidate& candidate) {
  return candidate.folder;  // asked last
}

Result<Dataset> read_folder(const Candidate& candidate, const DatasetOptions& /*options*/) {
  SACCADE_ASSIGN(const std::vector<std::string> files, files_below(candidate.path));
  Dataset dataset;
  std::set<std::string> texts;
  for (const std::string& name : files) {
    if (name.ends_with(".txt")) texts.insert(name);
  }
  std::set<std::string> used;
  for (const std::string& name : files) {
    if (!has_image_extension(name)) continue;
    DatasetItem item;
    item.id = name;
    item.image.path = candidate.path / name;
    item.split = split_of(name);
    // The order is that of indexing: "1.txt" before "1.jpg.txt".
    for (const std::string& text : {without_ending(name) + ".txt", name + ".txt"}) {
      if (!texts.contains(text)) continue;
      used.insert(text);
      SACCADE_ASSIGN(const std::string content, read_file(candidate.path / text, kMaxText));
      SACCADE_TRY(add_caption_lines(content, item).in(text));
      break;
    }
    dataset.as<CaptionedImages>().items.push_back(std::move(item));
  }
  for (const std::string& text : texts) {
    if (!used.contains(text)) dataset.exclude("text files without an image", text);
  }
  drop_uncaptioned(dataset);
  return dataset;
}

bool is_urban1k(const Candidate& candidate) {
  std::error_code error;
  return candidate.folder && fs::is_directory(candidate.path / "image", error) &&
         fs::is_directory(candidate.path / "caption", error);
}

// Reads image/N.jpg and caption/N.txt, whose whole text is the caption.
Result<Dataset> read_urban1k(const Candidate& candidate, const DatasetOptions& options) {
  const fs::path folder = options.images.empty() ? candidate.path / "image" : options.images;
  SACCADE_ASSIGN(const Candidate images, look_at(folder));
  SACCADE_ASSIGN(const Candidate captions, look_at(candidate.path / "caption"));
  Dataset dataset;
  std::set<std::string> used;
  for (const std::string& name : images.names) {
    if (!has_image_extension(name)) continue;
    DatasetItem item;
    item.id = without_ending(name);
    item.image.path = folder / name;
    const std::string text = item.id + ".txt";
    if (captions.has(text)) {
      used.insert(text);
      SACCADE_ASSIGN(const std::string content, read_file(captions.path / text, kMaxText));
      SACCADE_TRY(check_utf8(content, text));
      add_caption(dataset, item, std::string(trim_ascii(without_byte_order_mark(content))));
    }
    dataset.as<CaptionedImages>().items.push_back(std::move(item));
  }
  for (const std::string& name : captions.names) {
    if (name.ends_with(".txt") && !used.contains(name)) dataset.exclude("text files without an image", name);
  }
  drop_uncaptioned(dataset);
  return dataset;
}

}  // namespace

const Reader kUrban1k = {"urban1k", is_urban1k, read_urban1k};
const Reader kFolder = {"folder", is_folder, read_folder};

}  // namespace saccade::lab::data

// webdataset shards: tar files in which members with one name up to the first dot make a sample. Captions are
// the lines of its .txt, the "caption" or "captions" of its .json, or the class name of its .cls.
// CLIP_benchmark has one folder per split, nshards.txt beside the shards and classnames.txt above them.
#include <algorithm>

#include "lab/data/readers/piece_file.h"
#include "lab/data/readers/reader.h"
#include "lab/data/readers/tar.h"
#include "saccade/core/ascii.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxText = 16 << 20;

struct Shard {
  fs::path path;
  std::string split;
};

struct Sample {
  DatasetItem item;
  bool has_image = false;
  std::optional<std::string> text;
  std::optional<std::string> json;
  std::optional<std::string> number;  // of the class
};

bool is_shard(std::string_view name) {
  return name.ends_with(".tar") || name.ends_with(".tar.gz") || name.ends_with(".tgz");
}

bool recognizes(const Candidate& candidate) {
  if (!candidate.folder) return is_shard(candidate.path.filename().string());
  if (std::any_of(candidate.names.begin(), candidate.names.end(), is_shard)) return true;
  return std::any_of(candidate.names.begin(), candidate.names.end(), [&](const std::string& name) {
    std::error_code error;
    if (!fs::is_directory(candidate.path / name, error)) return false;
    const auto inside = look_at(candidate.path / name);
    return inside && std::any_of(inside->names.begin(), inside->names.end(), is_shard);
  });
}

// Lists the shards of one folder, in the order of their numbers. nshards.txt must agree.
Status list_shards(const Candidate& folder, const std::string& split, std::vector<Shard>& shards) {
  int64_t count = 0;
  for (const std::string& name : folder.names) {
    if (!is_shard(name)) continue;
    shards.push_back({folder.path / name, split});
    ++count;
  }
  if (!folder.has("nshards.txt")) return {};
  SACCADE_ASSIGN(const std::string text, read_file(folder.path / "nshards.txt", 1000));
  if (trim_ascii(text) != std::to_string(count)) {
    return fail(ErrorCode::kBadData, "nshards.txt says {} shards, {} are there", trim_ascii(text), count);
  }
  return {};
}

Result<std::vector<Shard>> find_shards(const Candidate& candidate) {
  std::vector<Shard> shards;
  if (!candidate.folder) {
    shards.push_back({candidate.path, ""});
    return shards;
  }
  SACCADE_TRY(list_shards(candidate, "", shards));
  if (!shards.empty()) return shards;
  for (const std::string& name : candidate.names) {
    std::error_code error;
    if (!fs::is_directory(candidate.path / name, error)) continue;
    SACCADE_ASSIGN(const Candidate inside, look_at(candidate.path / name));
    SACCADE_TRY(list_shards(inside, name, shards).in(name));
  }
  return shards;
}

Result<std::vector<std::string>> read_class_names(const Candidate& candidate) {
  std::vector<std::string> names;
  const fs::path folder = candidate.folder ? candidate.path : candidate.path.parent_path();
  for (const fs::path& path : {folder / "classnames.txt", folder / ".." / "classnames.txt"}) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    SACCADE_ASSIGN(const std::string text, read_file(path, kMaxText));
    SACCADE_TRY(check_utf8(text, path.string()));
    SACCADE_TRY(for_each_line(text, [&](int64_t, std::string_view line) -> Status {
      names.emplace_back(trim_ascii(line));
      return {};
    }));
    break;
  }
  return names;
}

// Reads a shard's samples, in the order of their first members.
class ShardReader {
 public:
  ShardReader(const PieceFile& file, Shard shard, std::string prefix)
      : file_(file), shard_(std::move(shard)), prefix_(std::move(prefix)) {}

  Status read() {
    return for_each_tar_member(
        file_.size(), [this](int64_t offset, std::span<char> out) { return file_.read(offset, out); },
        [this](const TarMember& member) { return add(member); });
  }
  std::vector<Sample>& samples() { return samples_; }

 private:
  Status add(const TarMember& member) {
    const size_t slash = member.name.rfind('/');
    const size_t begin = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = member.name.find('.', begin);
    if (dot == std::string::npos || dot == begin) return {};  // hidden files and such belong to no sample
    const std::string key = member.name.substr(0, dot);
    const std::string ending = member.name.substr(dot);
    const bool image = has_image_extension("x" + ending) && ending.rfind('.') == 0;
    if (!image && ending != ".txt" && ending != ".json" && ending != ".cls") return {};
    SACCADE_TRY(check_utf8(member.name, "a member's name"));
    const auto [place, fresh] = places_.emplace(key, samples_.size());
    if (fresh) {
      samples_.emplace_back();
      samples_.back().item.id = prefix_ + key;
      samples_.back().item.split = shard_.split;
    }
    Sample& sample = samples_[place->second];
    if (image) {
      if (sample.has_image) return fail(ErrorCode::kBadData, "sample \"{}\" has two images", key);
      sample.has_image = true;
      sample.item.image = {
          .path = shard_.path, .member = member.name, .offset = member.offset, .size = member.size};
      return {};
    }
    if (member.size > kMaxText) {
      return fail(ErrorCode::kLimit, "\"{}\" has {} bytes of text, limit {}", member.name, member.size,
                  kMaxText);
    }
    auto& text = ending == ".txt" ? sample.text : ending == ".json" ? sample.json : sample.number;
    if (text) return fail(ErrorCode::kBadData, "a second \"{}\"", member.name);
    text.emplace(static_cast<size_t>(member.size), '\0');
    return file_.read(member.offset, *text);
  }

  const PieceFile& file_;
  Shard shard_;
  std::string prefix_;
  std::vector<Sample> samples_;
  std::unordered_map<std::string, size_t> places_;
};

Status json_captions(std::string_view text, DatasetItem& item, Dataset& dataset) {
  SACCADE_ASSIGN(const Json json, parse_json(text));
  if (!json.is_object()) return {};
  for (const char* key : {"caption", "captions"}) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& each : list) {
      SACCADE_ASSIGN(auto caption, detail::json_as<std::string>(key, each));
      add_caption(dataset, item, std::move(caption));
    }
    return {};
  }
  return {};
}

Status class_caption(std::string_view text, const std::vector<std::string>& classes, DatasetItem& item,
                     Dataset& dataset) {
  const std::string number(trim_ascii(without_byte_order_mark(text)));
  if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) {
    return fail(ErrorCode::kBadData, "class \"{}\" is no number", number.substr(0, 40));
  }
  if (classes.empty()) return {};
  const auto index = static_cast<size_t>(std::stol(number));
  if (index >= classes.size()) {
    return fail(ErrorCode::kBadData, "class {}, classnames.txt has {}", index, classes.size());
  }
  add_caption(dataset, item, classes[index]);
  return {};
}

Status add_sample(Sample sample, const std::vector<std::string>& classes, Dataset& dataset) {
  DatasetItem& item = sample.item;
  if (!sample.has_image) {
    dataset.exclude("captions without an image", item.id);
    return {};
  }
  if (sample.text) {
    SACCADE_TRY(add_caption_lines(*sample.text, item));
  } else if (sample.json) {
    SACCADE_TRY(json_captions(*sample.json, item, dataset));
  } else if (sample.number) {
    SACCADE_TRY(class_caption(*sample.number, classes, item, dataset));
  }
  dataset.as<CaptionedImages>().items.push_back(std::move(item));
  return {};
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& /*options*/) {
  SACCADE_ASSIGN(const std::vector<Shard> shards, find_shards(candidate));
  SACCADE_ASSIGN(const std::vector<std::string> classes, read_class_names(candidate));
  Dataset dataset;
  for (const Shard& shard : shards) {
    const std::string name = shard.path.filename().string();
    SACCADE_ASSIGN(const PieceFile file, PieceFile::open(shard.path));
    dataset.files.push_back({shard.path.string(), file.size(), ""});
    const std::string prefix = (shard.split.empty() ? "" : shard.split + "/") +
                               (candidate.folder ? shard.path.stem().string() + "/" : "");
    ShardReader reader(file, shard, prefix);
    SACCADE_TRY(reader.read().in(name));
    for (Sample& sample : reader.samples()) {
      const std::string id = sample.item.id;
      SACCADE_TRY(add_sample(std::move(sample), classes, dataset).in(fmt::format("{}: {}", name, id)));
    }
  }
  drop_uncaptioned(dataset);
  return dataset;
}

}  // namespace

const Reader kWebDataset = {"webdataset", recognizes, read};

}  // namespace saccade::lab::data

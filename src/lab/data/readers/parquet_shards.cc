// Files and splits of a Parquet dataset, found from file names as hubs give them.
//
//   data/train-00000-of-00005.parquet   the split, and its number of shards; a hash may follow
//   default/train/0000.parquet          CONFIGURATION/SPLIT/NUMBER, as hubs convert datasets
//   test.parquet, train/metadata.parquet
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lab/data/readers/parquet.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/parquet_layouts.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 2;  // folders below the dataset's that are looked into
constexpr std::string_view kEnding = ".parquet";
constexpr std::array<std::string_view, 6> kSplits = {"train", "val", "valid", "validation", "dev", "test"};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_usual_split(std::string_view name) {
  return std::find(kSplits.begin(), kSplits.end(), name) != kSplits.end();
}

// The parts of "train-00000-of-00005-0a1b".
struct Numbered {
  std::string_view series;  // "train"
  std::string_view number;  // "00000"
  std::string_view count;   // "00005"
};

std::optional<Numbered> numbered(std::string_view stem) {
  constexpr std::string_view kOf = "-of-";
  const size_t of = stem.rfind(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::string_view before = stem.substr(0, of);
  const std::string_view after = stem.substr(of + kOf.size());
  const size_t dash = before.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const Numbered parts = {before.substr(0, dash), before.substr(dash + 1), after.substr(0, after.find('-'))};
  if (!is_digits(parts.number) || !is_digits(parts.count) || parts.count.size() > 9) return std::nullopt;
  return parts;
}

// Returns a file's split, and the folder of its configuration; `below` is its folder in the dataset's.
std::pair<std::string, fs::path> split_and_configuration(std::string_view stem, const fs::path& below,
                                                         std::string folder) {
  const fs::path above = below.parent_path();
  if (const auto parts = numbered(stem)) {
    // In "flickr30k-test-00000-of-00001" the split's own name has no dash.
    const size_t dash = parts->series.rfind('-');
    const std::string_view last = dash == std::string_view::npos ? "" : parts->series.substr(dash + 1);
    return {std::string(is_usual_split(last) ? last : parts->series), below};
  }
  if (folder.starts_with("partial-")) folder.erase(0, 8);  // hubs' prefix of the first part of a large split
  if (is_digits(stem) && is_usual_split(folder)) return {folder, above};
  if (is_digits(stem) && !below.empty() && below != "data") return {folder, above};
  const std::string_view word = stem.substr(0, stem.find_first_of("-_.0123456789"));
  if (is_usual_split(word)) return {std::string(word), below};
  if (is_usual_split(folder)) return {folder, above};
  return {"", below};
}

// Lists the .parquet files of a folder and those below it, except hidden ones, as relative paths.
Status list_files(const fs::path& root, const fs::path& below, int depth, std::vector<fs::path>& files) {
  SACCADE_ASSIGN(const Candidate folder, look_at(root / below));
  for (const std::string& name : folder.names) {
    if (name.starts_with('.')) continue;
    std::error_code error;
    const fs::path path = root / below / name;
    if (name.ends_with(kEnding) && fs::is_regular_file(path, error)) {
      files.push_back(below / name);
    } else if (depth > 0 && fs::is_directory(path, error)) {
      SACCADE_TRY(list_files(root, below / name, depth - 1, files));
    }
  }
  return {};
}

Status check_one_configuration(const std::set<fs::path>& configurations, const fs::path& root) {
  if (configurations.size() < 2) return {};
  std::string names;
  for (const fs::path& each : configurations) {
    if (!names.empty()) names += ", ";
    names += each.empty() ? "." : each.string();
  }
  return fail(ErrorCode::kUsage, "several configurations ({}), name one: {}", names,
              (root / *configurations.rbegin()).string());
}

// Checks that each series of shards is complete.
Status check_complete(const std::vector<fs::path>& files) {
  struct Series {
    std::string count;
    std::set<std::string> numbers;
  };
  std::map<std::string, Series> all;
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string();
    const auto parts = numbered(stem);
    if (!parts) continue;
    const std::string name = (file.parent_path() / parts->series).string();
    Series& series = all[name];
    if (series.count.empty()) series.count = parts->count;
    if (series.count != parts->count) {
      return fail(ErrorCode::kBadData, "shards of {} \"-of-{}\" and \"-of-{}\" in one folder", name,
                  series.count, parts->count);
    }
    if (!series.numbers.insert(std::string(parts->number)).second) {
      return fail(ErrorCode::kBadData, "two shards {} of {}", parts->number, name);
    }
  }
  for (const auto& [name, series] : all) {
    if (series.numbers.size() != std::stoul(series.count)) {
      return fail(ErrorCode::kBadData, "{} has {} shards by their names, {} are there", name,
                  std::stoul(series.count), series.numbers.size());
    }
  }
  return {};
}

bool recognizes(const Candidate& candidate) {
  if (!candidate.folder) return candidate.extension() == kEnding || candidate.text.starts_with("PAR1");
  std::vector<fs::path> files;
  return list_files(candidate.path, {}, kDepth, files) && !files.empty();
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& options) {
  if (is_mteb(candidate)) return read_mteb(candidate, options);
  SACCADE_ASSIGN(const std::vector<ParquetShard> shards, find_parquet_shards(candidate));
  const bool named = options.columns.contains("image") || options.columns.contains("caption");
  if (!named && !shards.empty() && has_winoground_columns(shards.front())) {
    return read_winoground_parquet(shards);
  }
  return read_parquet(shards, candidate.folder ? candidate.path : candidate.path.parent_path(), options);
}

}  // namespace

const Reader kParquet = {"parquet", recognizes, read};

Result<std::vector<ParquetShard>> find_parquet_shards(const Candidate& candidate) {
  std::vector<fs::path> files = {candidate.path.filename()};
  if (candidate.folder) {
    files.clear();
    SACCADE_TRY(list_files(candidate.path, {}, kDepth, files));
    std::sort(files.begin(), files.end(),
              [](const fs::path& a, const fs::path& b) { return by_number(a.native(), b.native()); });
    SACCADE_TRY(check_complete(files));
  }
  std::vector<ParquetShard> shards;
  std::set<fs::path> configurations;
  for (const fs::path& file : files) {
    const fs::path path = candidate.folder ? candidate.path / file : candidate.path;
    const std::string folder = fs::absolute(path).parent_path().filename().string();
    const auto [split, configuration] =
        split_and_configuration(file.stem().string(), file.parent_path(), folder);
    configurations.insert(configuration);
    std::string prefix = (file.parent_path() / file.stem()).string() + "/";
    if (prefix.starts_with("data/")) prefix.erase(0, 5);
    shards.push_back({path, file.string(), std::move(prefix), split});
  }
  SACCADE_TRY(check_one_configuration(configurations, candidate.path));
  return shards;
}

ImageRef parquet_picture(const fs::path& path, const std::string& column, int64_t row) {
  return {.path = path, .member = fmt::format("row {}", row), .offset = row, .column = column};
}

}  // namespace saccade::lab::data

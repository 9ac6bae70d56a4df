#include "saccade/collection/exchange.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include "saccade/collection/catalog/item_json.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/ingest/ingest_decide.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/text/nearest.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMergedPerTransaction = 512;
// Number of rows in a transaction of an import. The index of hashes is written at random places. A transaction of many
// thousand rows changes nearly all of its pages, which go to the log and to the catalog: fewer transactions write less.
// A cluster gains nothing by more than the first number, because requests have 200 objects each.
constexpr size_t kFewestPerTransaction = 16'384;
constexpr size_t kMostPerTransaction = 131'072;
// Of embeddings. Two transactions are in memory: one that is committed, and one that is read meanwhile.
constexpr size_t kBytesPerTransaction = size_t{128} << 20;
constexpr const char* kRowsName = "rows.npy";
constexpr const char* kItemsName = "items.jsonl";
constexpr const char* kExportName = "export.json";

tl::unexpected<Error> stopped() {
  return fail(ErrorCode::kCancelled,
              "asked to stop; what was added stays, and the same command goes on from there");
}

bool same_late(const std::optional<LateSettings>& a, const std::optional<LateSettings>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->precision == b->precision && a->pool == b->pool && a->grid.rows == b->grid.rows &&
         a->grid.columns == b->grid.columns;
}

// Checks that embeddings made with the settings `b` may be stored in a collection made with `a`.
Status check_alike(const IngestSettings& a, const IngestSettings& b) {
  if (a.precision != b.precision) {
    return fail(ErrorCode::kMismatch, "its embeddings are in {}, those of this collection in {}",
                enum_name(b.precision), enum_name(a.precision));
  }
  if (a.background != b.background || a.apply_orientation != b.apply_orientation ||
      a.convert_to_srgb != b.convert_to_srgb) {
    return fail(ErrorCode::kMismatch,
                "made with other settings of --background, --as-stored or --convert-to-srgb");
  }
  if (a.fast_decode != b.fast_decode) {
    const auto size = [](const IngestSettings& one) { return one.fast_decode ? "a reduced" : "their full"; };
    return fail(ErrorCode::kMismatch,
                "its large JPEGs were decoded at {} size, those of this collection at {} size: add them to a "
                "collection made with {}",
                size(b), size(a), b.fast_decode ? "--fast-decode" : "--exact-decode");
  }
  if (!same_late(a.late, b.late)) return fail(ErrorCode::kMismatch, "its late rows are kept otherwise");
  return {};
}

// Returns the number of rows that an import commits at a time.
size_t rows_per_transaction(const CollectionWriter& into, const ImportOptions& options) {
  if (weaviate::is_address(into.folder())) return kFewestPerTransaction;
  if (options.rows_per_transaction > 0) return static_cast<size_t>(options.rows_per_transaction);
  const auto row = static_cast<size_t>(into.info().checkpoint.dim) * sizeof(float);
  return std::clamp(kBytesPerTransaction / row, kFewestPerTransaction, kMostPerTransaction);
}

// New items, committed so many at a time.
class Batch {
 public:
  Batch(CollectionWriter& into, int64_t& added, size_t items) : into_(into), added_(added), items_(items) {}

  // True for the path of an item that is not committed yet.
  [[nodiscard]] bool has(const std::string& path) const { return paths_.contains(path); }
  Status add(CollectionChange::Put put) {
    paths_.insert(put.item.path);
    change_.puts.push_back(std::move(put));
    return change_.puts.size() < items_ ? Status{} : commit();
  }
  Status commit() {
    SACCADE_TRY(into_.commit(change_));
    added_ += std::ssize(change_.puts);
    change_ = {};
    paths_.clear();
    return {};
  }

 private:
  CollectionWriter& into_;
  int64_t& added_;
  const size_t items_;
  CollectionChange change_;
  std::unordered_set<std::string> paths_;  // of the change
};

}  // namespace

Result<MergeReport> merge_collection(CollectionWriter& into, const CollectionReader& from,
                                     const ProgressCallback& progress, std::stop_token stop) {
  const auto merged = [&]() -> Result<MergeReport> {
    SACCADE_TRY(check_same_checkpoint(into.info(), from.info().checkpoint));
    SACCADE_TRY(check_alike(into.info().settings, from.info().settings));
    SACCADE_TRY(from.check_has_rows("merging"));
    SACCADE_TRY(from.check_files());
    std::vector<Item> items;
    SACCADE_TRY(from.for_each_item([&](const Item& item) {
      items.push_back(item);
      return Status{};
    }));
    MergeReport report;
    Batch batch(into, report.added, kMergedPerTransaction);
    for (size_t i = 0; i < items.size(); ++i) {
      if (stop.stop_requested()) {
        SACCADE_TRY(batch.commit());
        return stopped();
      }
      Item& item = items[i];
      SACCADE_ASSIGN(const std::optional<Item> known, into.find_path(item.path));
      SACCADE_ASSIGN(const bool removed, into.was_removed(item.path));
      if (known || removed) {
        ++(removed ? report.stayed_out : known->hash == item.hash ? report.same : report.different);
        continue;
      }
      CollectionChange::Put put;
      const auto row = from.rows().row(item.row);
      put.values.assign(row.begin(), row.end());
      if (from.has_late_rows()) {
        const StoredRows late = from.late_rows(item.row);
        put.late.assign(late.data, late.data + late.count * stored_row_bytes(late.layout));
      }
      SACCADE_ASSIGN(put.facts, from.facts(item.id));
      put.item = std::move(item);
      put.item.id = 0;
      SACCADE_TRY(batch.add(std::move(put)));
      if (progress)
        progress({"merging", static_cast<int64_t>(i) + 1, static_cast<int64_t>(items.size()), {}});
    }
    SACCADE_TRY(batch.commit());
    return report;
  };
  return merged().in(fmt::format("merge {}", from.folder().string()));
}

Result<int64_t> export_collection(const CollectionReader& collection, const fs::path& folder) {
  const auto exported = [&]() -> Result<int64_t> {
    std::error_code error;
    SACCADE_TRY(make_folders(folder));
    if (!fs::is_empty(folder, error) || error) {
      return fail(ErrorCode::kUsage, "{}: not empty; name a new folder", folder.string());
    }
    const int64_t dim = collection.info().checkpoint.dim;
    std::vector<float> values;
    values.reserve(static_cast<size_t>(collection.item_count() * dim));
    SACCADE_ASSIGN(AtomicFile lines, AtomicFile::create(folder / kItemsName));
    int64_t items = 0;
    SACCADE_TRY(
        collection.for_each_row([&](const Item& item, const ItemFacts& facts, std::span<const float> row) {
          values.insert(values.end(), row.begin(), row.end());
          ++items;
          return lines.write(dump_json(item_json(item, facts)) + "\n");
        }));
    // The rows come last: an export that was broken off cannot be taken for one of others,
    // which need not name a checkpoint.
    const CheckpointId& checkpoint = collection.info().checkpoint;
    IngestSettings settings = collection.info().settings;
    settings.late.reset();  // means alone are exported
    const Json about = {{"format", "saccade export"},
                        {"checkpoint",
                         {{"name", checkpoint.name},
                          {"path", checkpoint.path},
                          {"fingerprint", checkpoint.fingerprint},
                          {"dim", checkpoint.dim}}},
                        {"settings", store::settings_json(settings)},
                        {"items", items}};
    SACCADE_TRY(write_file_atomic(folder / kExportName, dump_json(about, 2) + "\n"));
    SACCADE_TRY(lines.commit());
    SACCADE_TRY(write_npy(folder / kRowsName, MatrixView<const float>(values.data(), items, dim)));
    return items;
  };
  return exported().in("export");
}

namespace {

// Returns the path of an item, which is relative to `folder` or absolute. Without files it is not looked at,
// so that links in it stay as they are.
std::string path_of(const std::string& named, const fs::path& folder, bool no_files) {
  const fs::path path = fs::path(named).is_absolute() ? fs::path(named) : folder / named;
  return no_files ? fs::absolute(path).lexically_normal().string() : catalog_path(path);
}

// Returns true for the hash of a whole file, or of the frame of a video.
bool is_hash(std::string_view hash, const std::string& path) {
  if (const auto frame = read_frame_name(path)) {
    const std::string fragment = frame_fragment(frame->milliseconds);
    if (!hash.ends_with(fragment)) return false;
    hash.remove_suffix(fragment.size());
  }
  return is_sha256_text(hash);
}

// Fills what a line does not say from the image's file.
Status read_file_of(Item& item, const DecodeOptions& limits) {
  if (read_frame_name(item.path))
    return fail(ErrorCode::kBadData, "a frame of a video, without all that an export says of it");
  SACCADE_ASSIGN(const FileState state, file_state(item.path));
  SACCADE_ASSIGN(const std::string content, read_file(item.path, limits.max_bytes));
  item.hash = sha256_hex(content);
  item.size = state.size;
  item.mtime_ns = state.mtime_ns;
  DecodeOptions size_only = limits;
  size_only.size_only_above = 1;
  SACCADE_ASSIGN(const DecodedImage picture, decode_image(std::as_bytes(std::span(content)), size_only));
  item.width = picture.original_width;
  item.height = picture.original_height;
  item.format = picture.format;
  return {};
}

// An item as a line of items.jsonl has it; the file says what the line does not.
Result<CollectionChange::Put> read_line(const std::string& line, const fs::path& folder,
                                        const ImportOptions& options) {
  SACCADE_ASSIGN(const Json json, parse_json(line));
  CollectionChange::Put put;
  Item& item = put.item;
  SACCADE_ASSIGN(const std::string named, json_field<std::string>(json, "path"));
  if (named.empty()) return fail(ErrorCode::kBadData, "\"path\" is empty");
  // Relative paths are the folder's, as in a manifest.
  item.path = path_of(named, folder, options.no_files);
  SACCADE_ASSIGN(put.facts, facts_of_item(json));
  SACCADE_ASSIGN(item.caption, json_field_or<std::string>(json, "caption", ""));
  if (item.caption.empty()) item.caption = put.facts->caption;
  const bool says_something = !put.facts->picture.empty() || !put.facts->place.empty();
  if (!says_something && put.facts->read == FactsRead::kNothing) put.facts.reset();
  SACCADE_ASSIGN(item.hash, json_field_or<std::string>(json, "hash", ""));
  SACCADE_ASSIGN(item.width, json_field_or<int64_t>(json, "width", 0));
  SACCADE_ASSIGN(item.height, json_field_or<int64_t>(json, "height", 0));
  SACCADE_ASSIGN(item.format, json_field_or<std::string>(json, "format", ""));
  SACCADE_ASSIGN(item.size, json_field_or<int64_t>(json, "size", kUnknownState));
  SACCADE_ASSIGN(item.mtime_ns, json_field_or<int64_t>(json, "mtime_ns", kUnknownState));
  item.added = store::now_seconds();
  const bool hashed = is_hash(item.hash, item.path);
  const bool sized = item.width > 0 && item.height > 0;
  if (options.no_files) {
    item.file.elsewhere = true;
    if (!hashed) item.hash.clear();
    if (!sized) item.width = item.height = 0;
    if (item.size < 0) item.size = kUnknownState;
    if (item.mtime_ns < 0) item.mtime_ns = kUnknownState;
  } else if (!hashed || !sized || item.format.empty() || item.size < 0 || item.mtime_ns < 0) {
    SACCADE_TRY(read_file_of(item, options.limits));
  }
  return put;
}

// Lines of items.jsonl with their rows, in their order.
struct ImportBlock {
  int64_t first = 0;  // number of the first line, from 0
  std::vector<Result<CollectionChange::Put>> puts;
};

// Reads lines and rows on a thread of its own, at least `ahead` of them before who takes them: with a whole
// transaction ahead, reading goes on while one is committed.
class ImportReader {
 public:
  ImportReader(const NpyReader& rows, std::ifstream lines, const fs::path& folder,
               const ImportOptions& options, size_t ahead, ThreadPool& pool)
      : rows_(rows),
        lines_(std::move(lines)),
        folder_(folder),
        options_(options),
        blocks_ahead_(std::max<size_t>(ahead / kLines, 1)),
        pool_(pool),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // Returns the next block; `nullopt` at the end. Rethrows an exception of the thread, such as that memory has run out.
  Result<std::optional<ImportBlock>> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !blocks_.empty() || thrown_; });
    if (blocks_.empty()) std::rethrow_exception(thrown_);
    auto block = std::move(blocks_.front());
    // The last one stays: it is the end, or an error.
    if (block && *block) blocks_.pop_front();
    changed_.notify_all();
    return block;
  }

 private:
  // Files are slow to read: few at a time keep the progress moving. Rows of which all is known are fast.
  static constexpr int64_t kLines = 512;
  static constexpr std::streamsize kLongestLine = std::streamsize{16} << 20;

  void run(const std::stop_token& stop) {
    try {
      read_all(stop);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      thrown_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void read_all(const std::stop_token& stop) {
    for (bool more = true; more;) {
      auto block = read();
      more = block && *block;
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return blocks_.size() < blocks_ahead_; })) return;
      blocks_.push_back(std::move(block));
      changed_.notify_all();
    }
  }

  // Returns the next line without its end; `nullopt` at the end of the file.
  Result<std::optional<std::string>> read_next_line() {
    lines_.getline(line_.get(), kLongestLine + 1);
    const std::streamsize got = lines_.gcount();
    if (lines_.bad()) return fail(ErrorCode::kIo, "{} cannot be read", kItemsName);
    if (got == 0) return std::optional<std::string>();
    if (lines_.fail())
      return fail(ErrorCode::kLimit, "{} has a line of more than {} bytes", kItemsName, kLongestLine);
    return std::optional(std::string(line_.get(), static_cast<size_t>(lines_.eof() ? got : got - 1)));
  }

  Result<std::optional<ImportBlock>> read() {
    ImportBlock block{.first = number_, .puts = {}};
    std::vector<std::string> lines;
    while (std::ssize(lines) < kLines) {
      SACCADE_ASSIGN(std::optional<std::string> line, read_next_line());
      if (!line) break;
      lines.push_back(*std::move(line));
    }
    const int64_t count = std::ssize(lines);
    if (number_ + count > rows_.rows()) {
      return fail(ErrorCode::kBadData, "{} has more lines than {} has rows ({})", kItemsName, kRowsName,
                  rows_.rows());
    }
    if (count == 0) {
      if (number_ == rows_.rows()) return std::optional<ImportBlock>();
      return fail(ErrorCode::kBadData,
                  "{} has {} lines, {} {} rows: nothing after the last whole transaction was added",
                  kItemsName, number_, kRowsName, rows_.rows());
    }
    SACCADE_ASSIGN(const Matrix<float> rows, rows_.read(number_, count));
    number_ += count;
    block.puts.resize(lines.size());
    pool_.parallel_for(count, kLines / 16, [&](int64_t begin, int64_t end) {
      Result<store::WordTexts> words = store::WordTexts::make();
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        block.puts[at] = put_of(lines[at], rows.row(i), words);
      }
    });
    return std::optional(std::move(block));
  }

  [[nodiscard]] Result<CollectionChange::Put> put_of(const std::string& line, std::span<const float> row,
                                                     Result<store::WordTexts>& words) const {
    if (!words) return fail(words.error());
    SACCADE_ASSIGN(CollectionChange::Put put, read_line(line, folder_, options_));
    SACCADE_ASSIGN(put.words, words->of(put.item.path, put.item.caption));
    put.values.assign(row.begin(), row.end());
    // A row of length 1 is copied bit by bit: to scale it again would change its last bits.
    constexpr double kRounding = 1e-5;
    if (check_unit_row(put.values, kRounding)) return put;
    const double length = normalize_row(put.values);
    if (!check_unit_row(put.values)) {
      return fail(ErrorCode::kBadData, "an embedding of length {}, expected a finite length above 0", length);
    }
    return put;
  }

  const NpyReader& rows_;
  std::ifstream lines_;
  const fs::path& folder_;
  const ImportOptions& options_;
  const size_t blocks_ahead_;
  ThreadPool& pool_;
  int64_t number_ = 0;  // of the next line
  // Memory for a line: touched as far as the longest one reaches.
  const std::unique_ptr<char[]> line_ = std::make_unique_for_overwrite<char[]>(kLongestLine + 1);
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Result<std::optional<ImportBlock>>> blocks_;
  std::exception_ptr thrown_;
  std::jthread thread_;  // last: it uses all of these
};

// Checks what export.json says of the rows: the checkpoint, and the settings if it records them.
Status check_export(const CollectionInfo& into, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kExportName, error)) return {};
  SACCADE_ASSIGN(const Json about, read_json(folder / kExportName));
  if (!about.contains("checkpoint")) return fail(ErrorCode::kBadData, "{}: no \"checkpoint\"", kExportName);
  CheckpointId made;
  SACCADE_ASSIGN(made.name, json_field<std::string>(about["checkpoint"], "name"));
  SACCADE_ASSIGN(made.fingerprint, json_field<std::string>(about["checkpoint"], "fingerprint"));
  SACCADE_ASSIGN(made.dim, json_field<int64_t>(about["checkpoint"], "dim"));
  SACCADE_TRY(check_same_checkpoint(into, made));
  SACCADE_ASSIGN(const std::optional<IngestSettings> settings, exported_settings(folder));
  return settings ? check_alike(into.settings, *settings) : Status();
}

// Checks the first line of items.jsonl for misspelled keys. Unknown keys are ignored, and these would be in every line. Short
// keys are not checked: others' keys are near them ("weight" and "height", "token" and "taken").
Status check_keys(const fs::path& folder) {
  const std::vector<std::string> keys = {
      "path",  "hash",   "size",     "mtime_ns",  "width",        "height",     "format", "caption",
      "taken", "camera", "latitude", "longitude", "place",        "rating",     "title",  "description",
      "grain", "look",   "keywords", "lens",      "zone_minutes", "looked_into"};
  constexpr size_t kShortest = 7;
  std::ifstream lines(folder / kItemsName);
  std::array<char, 1 << 16> line{};
  if (!lines.getline(line.data(), line.size()))
    return {};  // errors of reading, and long lines, are met later
  const auto json = parse_json(line.data());
  if (!json || !json->is_object()) return {};
  for (const auto& [key, value] : json->items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::string meant = nearest(key, keys);
    // Others' keys may be the beginning of one: "key" is no "keywords".
    if (meant.size() < kShortest || meant.starts_with(key) || json->contains(meant)) continue;
    return fail(ErrorCode::kBadData, "{}:1: \"{}\" is not known here; did you mean \"{}\"?", kItemsName, key,
                meant);
  }
  return {};
}

struct ImportFiles {
  NpyReader rows;
  std::ifstream lines;  // items.jsonl
};

// Opens the files of a folder after all checks that can be made before a line is read.
Result<ImportFiles> open_import(const CollectionInfo& into, const fs::path& folder) {
  if (into.settings.late) {
    return fail(ErrorCode::kUsage, "the collection keeps late rows, which are not imported");
  }
  SACCADE_TRY(check_export(into, folder));
  SACCADE_TRY(check_keys(folder));
  SACCADE_ASSIGN(NpyReader rows, NpyReader::open(folder / kRowsName));
  if (rows.columns() != into.checkpoint.dim) {
    return fail(ErrorCode::kMismatch, "{} has {} columns, the collection's checkpoint {}", kRowsName,
                rows.columns(), into.checkpoint.dim);
  }
  std::ifstream lines(folder / kItemsName);
  if (!lines) return fail(ErrorCode::kNotFound, "{}: no such file", (folder / kItemsName).string());
  return ImportFiles{std::move(rows), std::move(lines)};
}

// Adds what the collection does not have.
Status add_block(CollectionWriter& into, ImportBlock block, Batch& batch, ImportReport& report) {
  std::vector<std::string_view> paths;
  for (const auto& put : block.puts) {
    if (put) paths.emplace_back(put->item.path);
  }
  SACCADE_ASSIGN(const std::vector<PathUse> uses, into.path_uses(paths));
  auto use = uses.begin();
  for (size_t i = 0; i < block.puts.size(); ++i) {
    auto& put = block.puts[i];
    if (!put) {
      const int64_t line = block.first + static_cast<int64_t>(i) + 1;
      report.failed.push_back(failure_of(fmt::format("{}:{}", kItemsName, line), std::move(put).error()));
      continue;
    }
    if (*use == PathUse::kRemoved) {
      ++report.stayed_out;
    } else if (*use == PathUse::kItem || batch.has(put->item.path)) {
      ++report.same;
    } else {
      SACCADE_TRY(batch.add(*std::move(put)));
    }
    ++use;
  }
  return {};
}

}  // namespace

Result<std::optional<IngestSettings>> exported_settings(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kExportName, error)) return std::nullopt;
  SACCADE_ASSIGN(const Json about, read_json(folder / kExportName));
  if (!about.contains("settings")) return std::nullopt;
  return store::settings_of_json(about["settings"]).in(fmt::format("{}: \"settings\"", kExportName));
}

Status check_import(const CheckpointId& checkpoint, const IngestSettings& settings, const fs::path& folder) {
  CollectionInfo into;
  into.checkpoint = checkpoint;
  into.settings = settings;
  SACCADE_TRY(open_import(into, folder).in(fmt::format("import {}", folder.string())));
  return {};
}

Result<ImportReport> import_rows(CollectionWriter& into, const fs::path& folder, const ImportOptions& options,
                                 ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  const auto imported = [&]() -> Result<ImportReport> {
    SACCADE_ASSIGN(ImportFiles files, open_import(into.info(), folder));
    ImportReport report;
    const size_t transaction = rows_per_transaction(into, options);
    Batch batch(into, report.added, transaction);
    ImportReader reader(files.rows, std::move(files.lines), folder, options,
                        std::max(transaction, kFewestPerTransaction), pool);
    for (;;) {
      SACCADE_ASSIGN(std::optional<ImportBlock> block, reader.next());
      if (stop.stop_requested()) {
        SACCADE_TRY(batch.commit());
        return stopped();
      }
      if (!block) break;
      SACCADE_TRY(add_block(into, std::move(*block), batch, report));
      if (progress) progress({"importing", block->first + std::ssize(block->puts), files.rows.rows(), {}});
    }
    SACCADE_TRY(batch.commit());
    return report;
  };
  return imported().in(fmt::format("import {}", folder.string()));
}

}  // namespace saccade

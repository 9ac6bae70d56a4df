#include "saccade/collection/exchange.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "saccade/collection/catalog/facts_json.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/ingest/ingest_decide.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"
#include "saccade/model/options/precision.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr size_t kItemsPerTransaction = 512;
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

// Checks that embeddings of one collection may be stored in the other.
Status check_alike(const CollectionInfo& into, const CollectionInfo& from) {
  SACCADE_TRY(check_same_checkpoint(into, from.checkpoint));
  const IngestSettings& a = into.settings;
  const IngestSettings& b = from.settings;
  if (a.precision != b.precision) {
    return fail(ErrorCode::kMismatch, "its rows were made in {}, these in {}", enum_name(b.precision),
                enum_name(a.precision));
  }
  if (a.background != b.background || a.apply_orientation != b.apply_orientation ||
      a.convert_to_srgb != b.convert_to_srgb || a.fast_decode != b.fast_decode) {
    return fail(ErrorCode::kMismatch,
                "made with other settings of --background, --as-stored, --convert-to-srgb or --fast-decode");
  }
  if (!same_late(a.late, b.late)) return fail(ErrorCode::kMismatch, "its late rows are kept otherwise");
  return {};
}

// New items, committed so many at a time.
class Batch {
 public:
  Batch(CollectionWriter& into, int64_t& added) : into_(into), added_(added) {}

  Status add(CollectionChange::Put put) {
    change_.puts.push_back(std::move(put));
    return change_.puts.size() < kItemsPerTransaction ? Status{} : commit();
  }
  Status commit() {
    SACCADE_TRY(into_.commit(change_));
    added_ += std::ssize(change_.puts);
    change_ = {};
    return {};
  }

 private:
  CollectionWriter& into_;
  int64_t& added_;
  CollectionChange change_;
};

}  // namespace

Result<MergeReport> merge_collection(CollectionWriter& into, const Collection& from,
                                     const ProgressCallback& progress, std::stop_token stop) {
  const auto merged = [&]() -> Result<MergeReport> {
    SACCADE_TRY(check_alike(into.info(), from.info()));
    SACCADE_TRY(from.check_files());
    std::vector<Item> items;
    SACCADE_TRY(from.for_each_item([&](const Item& item) {
      items.push_back(item);
      return Status{};
    }));
    MergeReport report;
    Batch batch(into, report.added);
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

Json item_json(const Item& item, const ItemFacts& facts) {
  Json json = {{"path", item.path},         {"hash", item.hash},      {"size", item.size},
               {"mtime_ns", item.mtime_ns}, {"width", item.width},    {"height", item.height},
               {"format", item.format},     {"caption", item.caption}};
  json.update(facts_json(facts));
  if (facts.read != FactsRead::kNothing) {
    json["look"] = fmt::format("{:016x}", facts.look);
    json["grain"] = facts.grain;
    json["looked_into"] = enum_name(facts.read);
  }
  return json;
}

Result<int64_t> export_collection(const Collection& collection, const fs::path& folder) {
  const auto exported = [&]() -> Result<int64_t> {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
    if (!fs::is_empty(folder, error) || error) {
      return fail(ErrorCode::kUsage, "{}: not empty; name a new folder", folder.string());
    }
    SACCADE_TRY(collection.check_files());
    Matrix<float> rows(collection.item_count(), collection.info().checkpoint.dim);
    std::vector<Item> items;
    SACCADE_TRY(collection.for_each_item([&](const Item& item) {
      std::ranges::copy(collection.rows().row(item.row),
                        rows.row(static_cast<int64_t>(items.size())).begin());
      items.push_back(item);
      return Status{};
    }));
    // The rows come last: an export that was broken off cannot be taken for one of others,
    // which need not name a checkpoint.
    const CheckpointId& checkpoint = collection.info().checkpoint;
    const Json about = {{"format", "saccade export"},
                        {"checkpoint",
                         {{"name", checkpoint.name},
                          {"path", checkpoint.path},
                          {"fingerprint", checkpoint.fingerprint},
                          {"dim", checkpoint.dim}}},
                        {"items", static_cast<int64_t>(items.size())}};
    SACCADE_TRY(write_file_atomic(folder / kExportName, dump_json(about, 2) + "\n"));
    SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(folder / kItemsName));
    for (const Item& item : items) {
      SACCADE_ASSIGN(const ItemFacts facts, collection.facts(item.id));
      SACCADE_TRY(file.write(dump_json(item_json(item, facts)) + "\n"));
    }
    SACCADE_TRY(file.commit());
    SACCADE_TRY(write_npy(folder / kRowsName, rows.view()));
    return static_cast<int64_t>(items.size());
  };
  return exported().in("export");
}

namespace {

// Parses the metadata in a line of items.jsonl beside the item's own fields. The features of its look are
// those of the exported catalog's image. Without them the next `index` reads the image. Imported metadata is
// then kept for fields that the file leaves empty.
Result<ItemFacts> facts_of_line(const Json& json) {
  SACCADE_ASSIGN(ItemFacts facts, facts_of_json(json));
  SACCADE_ASSIGN(const std::string look, json_field_or<std::string>(json, "look", ""));
  SACCADE_ASSIGN(const std::string read, json_field_or<std::string>(json, "looked_into", ""));
  SACCADE_ASSIGN(const double grain, json_field_or<double>(json, "grain", -1));
  const auto known = from_name<FactsRead>(read);
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(look.data(), look.data() + look.size(), bits, 16);
  const bool looks = error == std::errc() && end == look.data() + look.size() && grain >= 0 && grain <= 1;
  if (known && looks) {
    facts.look = bits;
    facts.grain = grain;
    facts.read = *known;
  }
  return facts;
}

// An item as a line of items.jsonl has it; the file says what the line does not.
Result<CollectionChange::Put> read_line(const std::string& line, const fs::path& folder,
                                        const DecodeOptions& limits) {
  SACCADE_ASSIGN(const Json json, parse_json(line));
  CollectionChange::Put put;
  Item& item = put.item;
  SACCADE_ASSIGN(const std::string named, json_field<std::string>(json, "path"));
  if (named.empty()) return fail(ErrorCode::kBadData, "\"path\" is empty");
  // Relative paths are the folder's, as in a manifest.
  item.path = catalog_path(fs::path(named).is_absolute() ? fs::path(named) : folder / named);
  SACCADE_ASSIGN(put.facts, facts_of_line(json));
  SACCADE_ASSIGN(item.caption, json_field_or<std::string>(json, "caption", ""));
  if (item.caption.empty()) item.caption = put.facts->caption;
  SACCADE_ASSIGN(item.hash, json_field_or<std::string>(json, "hash", ""));
  SACCADE_ASSIGN(item.width, json_field_or<int64_t>(json, "width", 0));
  SACCADE_ASSIGN(item.height, json_field_or<int64_t>(json, "height", 0));
  SACCADE_ASSIGN(item.format, json_field_or<std::string>(json, "format", ""));
  SACCADE_ASSIGN(item.size, json_field_or<int64_t>(json, "size", -1));
  SACCADE_ASSIGN(item.mtime_ns, json_field_or<int64_t>(json, "mtime_ns", -1));
  item.added = store::now_seconds();
  const auto frame = read_frame_name(item.path);
  std::string_view hash = item.hash;
  if (frame && hash.ends_with(frame_fragment(frame->milliseconds))) {
    hash.remove_suffix(frame_fragment(frame->milliseconds).size());
  }
  const bool hashed = hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == std::string::npos &&
                      (!frame || hash.size() < item.hash.size());
  if (hashed && item.width > 0 && item.height > 0 && !item.format.empty() && item.size >= 0 &&
      item.mtime_ns >= 0) {
    return put;
  }
  if (frame) return fail(ErrorCode::kBadData, "a frame of a video, without all that an export says of it");
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
  return put;
}

// An export says what its rows were made with.
Status check_export(const CollectionInfo& into, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kExportName, error)) return {};
  SACCADE_ASSIGN(const Json about, read_json(folder / kExportName));
  if (!about.contains("checkpoint")) return fail(ErrorCode::kBadData, "{}: no \"checkpoint\"", kExportName);
  CheckpointId made;
  SACCADE_ASSIGN(made.name, json_field<std::string>(about["checkpoint"], "name"));
  SACCADE_ASSIGN(made.fingerprint, json_field<std::string>(about["checkpoint"], "fingerprint"));
  SACCADE_ASSIGN(made.dim, json_field<int64_t>(about["checkpoint"], "dim"));
  return check_same_checkpoint(into, made);
}

}  // namespace

Result<ImportReport> import_rows(CollectionWriter& into, const fs::path& folder, const DecodeOptions& limits,
                                 const ProgressCallback& progress, std::stop_token stop) {
  const auto imported = [&]() -> Result<ImportReport> {
    if (into.info().settings.late) {
      return fail(ErrorCode::kUsage, "the collection keeps late rows, which are not imported");
    }
    SACCADE_TRY(check_export(into.info(), folder));
    SACCADE_ASSIGN(const Matrix<float> rows, read_npy(folder / kRowsName));
    if (rows.columns() != into.info().checkpoint.dim) {
      return fail(ErrorCode::kMismatch, "{} has {} columns, the collection's checkpoint {}", kRowsName,
                  rows.columns(), into.info().checkpoint.dim);
    }
    std::ifstream lines(folder / kItemsName);
    if (!lines) return fail(ErrorCode::kNotFound, "{}: no such file", (folder / kItemsName).string());
    ImportReport report;
    Batch batch(into, report.added);
    int64_t number = 0;
    std::set<std::string> paths;
    for (std::string line; std::getline(lines, line); ++number) {
      if (number >= rows.rows()) {
        return fail(ErrorCode::kBadData, "{} has more lines than {} has rows ({})", kItemsName, kRowsName,
                    rows.rows());
      }
      if (stop.stop_requested()) {
        SACCADE_TRY(batch.commit());
        return stopped();
      }
      auto put = read_line(line, folder, limits);
      if (put) {
        put->values.assign(rows.row(number).begin(), rows.row(number).end());
        // A row of length 1 is copied bit by bit: to scale it again would change its last bits.
        constexpr double kRounding = 1e-5;
        if (!check_unit_row(put->values, kRounding)) normalize_row(put->values);
        if (auto usable = check_unit_row(put->values); !usable) put = fail(std::move(usable).error());
      }
      if (!put) {
        report.failed.push_back(
            failure_of(fmt::format("{}:{}", kItemsName, number + 1), std::move(put).error()));
        continue;
      }
      SACCADE_ASSIGN(const std::optional<Item> known, into.find_path(put->item.path));
      SACCADE_ASSIGN(const bool removed, into.was_removed(put->item.path));
      if (known || removed || !paths.insert(put->item.path).second) {
        ++(removed ? report.stayed_out : report.same);
        continue;
      }
      SACCADE_TRY(batch.add(*std::move(put)));
      if (progress) progress({"importing", number + 1, rows.rows(), {}});
    }
    if (number != rows.rows()) {
      return fail(ErrorCode::kBadData,
                  "{} has {} lines, {} {} rows: nothing after the last whole transaction was added",
                  kItemsName, number, kRowsName, rows.rows());
    }
    SACCADE_TRY(batch.commit());
    return report;
  };
  return imported().in(fmt::format("import {}", folder.string()));
}

}  // namespace saccade

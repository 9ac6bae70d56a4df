// The records of Parquet shards, row group by row group. Only text columns are decoded.
#include "lab/data/readers/parquet.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_image.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

// The items of shards of one folder. Rows with the same id, or with the same image file, are one item with
// several captions.
class Rows {
 public:
  explicit Rows(Dataset& dataset) : dataset_(dataset), files_(dataset) {}

  Result<DatasetItem*> file_item(const std::string& id, const std::string& file, const std::string& split) {
    return files_.item(id, file, split);
  }
  // Returns the item of an image with bytes of its own. If several rows have one id, the first's image is
  // kept; they are the same as far as the file names tell.
  Result<DatasetItem*> picture_item(const std::string& id, const ImageRef& image, const std::string& file,
                                    const std::string& split, bool may_repeat) {
    if (may_repeat) {
      const auto [place, fresh] =
          places_.emplace(id, Place{dataset_.as<CaptionedImages>().items.size(), file});
      if (!fresh) {
        DatasetItem& item = dataset_.as<CaptionedImages>().items[place->second.item];
        if (place->second.file != file || item.split != split) {
          return fail(ErrorCode::kBadData,
                      "id \"{}\" has image \"{}\", split \"{}\" here, and \"{}\", \"{}\" before", id, file,
                      split, place->second.file, item.split);
        }
        return &item;
      }
    }
    DatasetItem item;
    item.id = id;
    item.image = image;
    item.split = split;
    return &dataset_.as<CaptionedImages>().items.emplace_back(std::move(item));
  }
  [[nodiscard]] Dataset& dataset() { return dataset_; }

 private:
  struct Place {
    size_t item = 0;
    std::string file;
  };
  Dataset& dataset_;
  RowCollector files_;
  std::unordered_map<std::string, Place> places_;
};

class ShardReader {
 public:
  ShardReader(const ParquetShard& shard, const DatasetOptions& options, Rows& rows)
      : shard_(shard), options_(options), rows_(rows) {}

  Status read() {
    SACCADE_ASSIGN(const PieceFile file, PieceFile::open(shard_.path));
    return read_file(file).in(shard_.name);
  }

 private:
  Status read_file(const PieceFile& file) {
    SACCADE_ASSIGN(const ParquetFooter footer, read_parquet_footer(file));
    SACCADE_ASSIGN(columns_, choose_parquet_columns(footer, options_));
    for (size_t group = 0; group < footer.groups.size(); ++group) {
      SACCADE_TRY(read_group(file, footer, group).in(fmt::format("row group {}", group)));
    }
    return {};
  }

  Status read_group(const PieceFile& file, const ParquetFooter& footer, size_t group) {
    std::vector<bool> without_bytes;
    if (columns_.picture.bytes_leaf >= 0) {
      SACCADE_ASSIGN(without_bytes, rows_without_bytes(file, footer, group, columns_.picture.bytes_leaf)
                                        .in(fmt::format("column \"{}\"", columns_.picture.name)));
    }
    texts_.clear();
    const auto decode = [&](const std::string& name, int leaf) -> Status {
      if (leaf < 0 || texts_.contains(leaf)) return {};
      SACCADE_ASSIGN(texts_[leaf],
                     read_parquet_texts(file, footer, group, leaf).in(fmt::format("column \"{}\"", name)));
      return {};
    };
    SACCADE_TRY(decode(columns_.picture.name, columns_.picture.path_leaf));
    for (const TextColumn& column : columns_.captions) SACCADE_TRY(decode(column.name, column.leaf));
    for (const TextColumn* column : {&columns_.id, &columns_.split, &columns_.group}) {
      SACCADE_TRY(decode(column->name, column->leaf));
    }
    for (int64_t i = 0; i < footer.groups[group].rows; ++i, ++row_) {
      const bool bytes = columns_.picture.bytes_leaf >= 0 &&
                         (without_bytes.empty() || !without_bytes[static_cast<size_t>(i)]);
      SACCADE_TRY(add_row(i, bytes).in(fmt::format("row {}", row_)));
    }
    return {};
  }

  // Returns a leaf's text in a row, checked; `nullopt` for a null, and if there is no such column.
  Result<std::optional<std::string>> text(int64_t row, const std::string& column, int leaf) {
    if (leaf < 0) return std::optional<std::string>();
    const ParquetTexts& texts = texts_[leaf];
    std::optional<std::string> cell =
        texts.values[static_cast<size_t>(texts.begin[static_cast<size_t>(row)])];
    if (cell) SACCADE_TRY(check_utf8(*cell, fmt::format("column \"{}\"", column)));
    return cell;
  }

  Status add_row(int64_t index, bool bytes) {
    Dataset& dataset = rows_.dataset();
    SACCADE_ASSIGN(const std::optional<std::string> named,
                   text(index, columns_.picture.name, columns_.picture.path_leaf));
    const std::string file = named.value_or("");
    const std::string here = fmt::format("{}{}", shard_.prefix, row_);
    if (!bytes && file.empty()) {
      dataset.exclude("captions without an image", here);
      return {};
    }
    if (!bytes && is_web_address(file)) {
      dataset.exclude(kWebAddresses, file);
      return {};
    }
    SACCADE_ASSIGN(const std::optional<std::string> split,
                   text(index, columns_.split.name, columns_.split.leaf));
    SACCADE_ASSIGN(const std::optional<std::string> id, text(index, columns_.id.name, columns_.id.leaf));
    SACCADE_ASSIGN(const std::optional<std::string> group,
                   text(index, columns_.group.name, columns_.group.leaf));
    const bool has_ids = columns_.id.leaf >= 0;
    if (has_ids && !id) {
      return fail(ErrorCode::kBadData, "column \"{}\" is null, which is no id", columns_.id.name);
    }
    const std::string& of_split = split ? *split : shard_.split;
    DatasetItem* item = nullptr;
    if (bytes) {
      SACCADE_ASSIGN(item, rows_.picture_item(has_ids ? *id : here,
                                              parquet_picture(shard_.path, columns_.picture.name, row_), file,
                                              of_split, has_ids));
    } else {
      // File names are the same in every shard of a folder.
      const size_t slash = shard_.prefix.rfind('/', shard_.prefix.size() - 2);
      const std::string folder = slash == std::string::npos ? "" : shard_.prefix.substr(0, slash + 1);
      SACCADE_ASSIGN(item, rows_.file_item(has_ids ? *id : folder + file, file, of_split));
    }
    if (group) SACCADE_TRY(set_group(*item, *group));
    return add_captions(index, *item);
  }

  Status add_captions(int64_t index, DatasetItem& item) {
    for (const TextColumn& which : columns_.captions) {
      const ParquetTexts& texts = texts_[which.leaf];
      const auto row = static_cast<size_t>(index);
      for (int64_t v = texts.begin[row]; v < texts.begin[row + 1]; ++v) {
        const std::optional<std::string>& cell = texts.values[static_cast<size_t>(v)];
        if (!cell && !texts.listed) continue;
        const auto add = [&]() -> Status {
          if (!texts.listed) return add_caption_field(rows_.dataset(), item, *cell);
          std::string caption = cell.value_or("");
          SACCADE_TRY(check_utf8(caption, "a caption"));
          add_caption(rows_.dataset(), item, std::move(caption));
          return {};
        };
        SACCADE_TRY(add().in(fmt::format("column \"{}\"", which.name)));
      }
    }
    return {};
  }

  const ParquetShard& shard_;
  const DatasetOptions& options_;
  Rows& rows_;
  ParquetColumns columns_;
  std::map<int, ParquetTexts> texts_;  // of the row group, by leaf
  int64_t row_ = 0;                    // in the file
};

}  // namespace

Result<Dataset> read_parquet(const std::vector<ParquetShard>& shards, const fs::path& folder,
                             const DatasetOptions& options) {
  Dataset dataset;
  // Shards of one folder use the same file names, so they are placed before the next folder's are read.
  for (size_t begin = 0; begin < shards.size();) {
    const fs::path place = shards[begin].path.parent_path();
    Dataset part;
    Rows rows(part);
    for (; begin < shards.size() && shards[begin].path.parent_path() == place; ++begin) {
      const ParquetShard& shard = shards[begin];
      std::error_code error;
      const auto bytes = fs::file_size(shard.path, error);
      part.files.push_back({shard.path.string(), error ? 0 : static_cast<int64_t>(bytes), ""});
      SACCADE_TRY(ShardReader(shard, options, rows).read());
    }
    drop_uncaptioned(part);
    const std::string hints[] = {folder.lexically_relative(place).string()};
    SACCADE_TRY(place_images(part, place, hints, options));
    add_part(std::move(part), dataset);
  }
  return dataset;
}

}  // namespace saccade::lab::data

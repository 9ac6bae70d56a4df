// The records of Parquet shards, row group by row group. Only text columns are decoded.
#include "lab/data/readers/parquet.h"

#include <algorithm>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <memory>
#include <optional>
#include <parquet/arrow/reader.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>
#include <set>
#include <unordered_map>
#include <utility>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_file.h"
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

// Returns which rows of a group have no image bytes; empty if all have them. The file's statistics usually
// tell; otherwise the column is read.
Result<std::vector<bool>> rows_without_bytes(parquet::ParquetFileReader& file, int group, int leaf) {
  const parquet::ColumnDescriptor* column = file.metadata()->schema()->Column(leaf);
  const auto chunk = file.metadata()->RowGroup(group)->ColumnChunk(leaf);
  const auto rows = file.metadata()->RowGroup(group)->num_rows();
  if (column->max_repetition_level() != 0 || column->physical_type() != parquet::Type::BYTE_ARRAY) {
    return fail(ErrorCode::kBadData, "pictures in a column that is not of one value a row");
  }
  if (column->max_definition_level() == 0) return std::vector<bool>();
  const auto statistics = chunk->statistics();
  if (statistics && statistics->HasNullCount() && statistics->null_count() == 0) return std::vector<bool>();
  constexpr int64_t kBatch = 256;
  int16_t levels[kBatch];
  parquet::ByteArray values[kBatch];
  std::vector<bool> missing;
  const auto any = file.RowGroup(group)->Column(leaf);
  auto& cells = static_cast<parquet::ByteArrayReader&>(*any);
  while (cells.HasNext() && static_cast<int64_t>(missing.size()) <= rows) {
    int64_t found = 0;
    const int64_t read = cells.ReadBatch(kBatch, levels, nullptr, values, &found);
    if (read <= 0) break;
    for (int64_t i = 0; i < read; ++i) missing.push_back(levels[i] < column->max_definition_level());
  }
  if (static_cast<int64_t>(missing.size()) != rows) {
    return fail(ErrorCode::kBadData, "column {}: {} values, {} rows", column->path()->ToDotString(),
                missing.size(), rows);
  }
  return missing;
}

class ShardReader {
 public:
  ShardReader(const ParquetShard& shard, const DatasetOptions& options, Rows& rows)
      : shard_(shard), options_(options), rows_(rows) {}

  Status read() {
    SACCADE_ASSIGN(const ParquetSource source, ParquetSource::open(shard_.path));
    return guarded([&]() -> Status { return read_file(source); }).in(shard_.name);
  }

 private:
  Status read_file(const ParquetSource& source) {
    parquet::ArrowReaderProperties properties;
    properties.set_use_threads(false);
    properties.set_pre_buffer(false);  // its columns are read one after the other
    parquet::arrow::FileReaderBuilder builder;
    PARQUET_THROW_NOT_OK(builder.Open(source.stream(), parquet::ReaderProperties(source.pool())));
    builder.memory_pool(source.pool())->properties(properties);
    PARQUET_THROW_NOT_OK(builder.Build(&reader_));
    const auto metadata = reader_->parquet_reader()->metadata();
    std::string features;
    if (metadata->key_value_metadata()) {
      features = metadata->key_value_metadata()->Get("huggingface").ValueOr("");
    }
    SACCADE_ASSIGN(columns_, choose_parquet_columns(reader_->manifest(), features, options_));
    choose_leaves();
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      SACCADE_TRY(
          read_group(group, metadata->RowGroup(group)->num_rows()).in(fmt::format("row group {}", group)));
    }
    reader_.reset();
    return {};
  }

  // Chooses the leaves to decode, and the positions of their fields in the tables read.
  void choose_leaves() {
    std::set<int> leaves;
    std::set<int> fields;
    const auto add = [&](int field, int leaf) {
      if (leaf < 0) return;
      leaves.insert(leaf);
      fields.insert(field);
    };
    add(columns_.picture_field, columns_.picture.path_leaf);
    for (const TextColumn& column : columns_.captions) add(column.field, column.leaf);
    for (const TextColumn* column : {&columns_.id, &columns_.split, &columns_.group}) {
      add(column->field, column->leaf);
    }
    leaves_.assign(leaves.begin(), leaves.end());
    fields_.assign(fields.begin(), fields.end());
  }

  [[nodiscard]] const arrow::Array& column(const arrow::RecordBatch& batch, int field) const {
    const auto place = std::lower_bound(fields_.begin(), fields_.end(), field) - fields_.begin();
    return *batch.column(static_cast<int>(place));
  }

  Status read_group(int group, int64_t rows) {
    std::vector<bool> without_bytes;
    if (columns_.picture.bytes_leaf >= 0) {
      SACCADE_ASSIGN(without_bytes,
                     rows_without_bytes(*reader_->parquet_reader(), group, columns_.picture.bytes_leaf));
    }
    std::shared_ptr<arrow::Table> table;
    PARQUET_THROW_NOT_OK(reader_->RowGroup(group)->ReadTable(leaves_, &table));
    if (table->num_rows() != rows || table->num_columns() != static_cast<int>(fields_.size())) {
      return fail(ErrorCode::kBadData, "{} rows by its header, {} read", rows, table->num_rows());
    }
    PARQUET_THROW_NOT_OK(table->Validate());
    arrow::TableBatchReader batches(*table);
    for (int64_t begin = 0;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      PARQUET_THROW_NOT_OK(batches.ReadNext(&batch));
      if (!batch) break;
      for (int64_t i = 0; i < batch->num_rows(); ++i, ++row_) {
        const bool bytes = columns_.picture.bytes_leaf >= 0 &&
                           (without_bytes.empty() || !without_bytes[static_cast<size_t>(begin + i)]);
        SACCADE_TRY(add_row(*batch, i, bytes).in(fmt::format("row {}", row_)));
      }
      begin += batch->num_rows();
    }
    return {};
  }

  // Returns a text column's cell, checked; `nullopt` for a null, and if there is no such column.
  Result<std::optional<std::string>> text(const arrow::RecordBatch& batch, int64_t index,
                                          const TextColumn& which) const {
    if (which.field < 0) return std::optional<std::string>();
    const std::string name = fmt::format("column \"{}\"", which.name);
    SACCADE_ASSIGN(std::optional<std::string> cell, text_of_cell(column(batch, which.field), index).in(name));
    if (cell) SACCADE_TRY(check_utf8(*cell, name));
    return cell;
  }

  // Returns the row's name of its image file; empty if it has none.
  Result<std::string> file_name(const arrow::RecordBatch& batch, int64_t index) const {
    if (columns_.picture.path_leaf < 0) return std::string();
    const arrow::Array* cells = &column(batch, columns_.picture_field);
    std::shared_ptr<arrow::Array> inner;
    if (cells->type_id() == arrow::Type::STRUCT) {
      if (cells->IsNull(index)) return std::string();
      inner = static_cast<const arrow::StructArray&>(*cells).field(0);
      cells = inner.get();
    }
    const std::string name = fmt::format("column \"{}\"", columns_.picture.name);
    SACCADE_ASSIGN(std::optional<std::string> cell, text_of_cell(*cells, index).in(name));
    if (cell) SACCADE_TRY(check_utf8(*cell, name));
    return std::move(cell).value_or("");
  }

  Status add_row(const arrow::RecordBatch& batch, int64_t index, bool bytes) {
    Dataset& dataset = rows_.dataset();
    SACCADE_ASSIGN(const std::string file, file_name(batch, index));
    const std::string here = fmt::format("{}{}", shard_.prefix, row_);
    if (!bytes && file.empty()) {
      dataset.exclude("captions without an image", here);
      return {};
    }
    if (!bytes && (file.starts_with("http://") || file.starts_with("https://"))) {
      dataset.exclude("images that are web addresses, not files", file);
      return {};
    }
    SACCADE_ASSIGN(const std::optional<std::string> split, text(batch, index, columns_.split));
    SACCADE_ASSIGN(const std::optional<std::string> id, text(batch, index, columns_.id));
    SACCADE_ASSIGN(const std::optional<std::string> group, text(batch, index, columns_.group));
    const bool has_ids = columns_.id.field >= 0;
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
    if (group) item->group = *group;
    return add_captions(batch, index, *item);
  }

  Status add_captions(const arrow::RecordBatch& batch, int64_t index, DatasetItem& item) {
    for (const TextColumn& which : columns_.captions) {
      const auto add = [&](std::string caption, bool listed) -> Status {
        if (!listed) return add_caption_field(rows_.dataset(), item, caption);
        SACCADE_TRY(check_utf8(caption, "a caption"));
        add_caption(rows_.dataset(), item, std::move(caption));
        return {};
      };
      SACCADE_TRY(for_each_caption(column(batch, which.field), index, add)
                      .in(fmt::format("column \"{}\"", which.name)));
    }
    return {};
  }

  const ParquetShard& shard_;
  const DatasetOptions& options_;
  Rows& rows_;
  ParquetColumns columns_;
  std::vector<int> leaves_;
  std::vector<int> fields_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  int64_t row_ = 0;  // in the file
};

}  // namespace

bool has_parquet() {
  return true;
}

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

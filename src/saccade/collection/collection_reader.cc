#include "saccade/collection/collection_reader.h"

#include <utility>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/folder/folder_reader.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/collection/weaviate/weaviate_store.h"

namespace saccade {

bool is_collection(const std::filesystem::path& folder) {
  if (weaviate::is_address(folder)) return weaviate::Store::exists(folder);
  std::error_code error;
  return std::filesystem::exists(folder / store::kInfoName, error);
}

Result<CollectionInfo> read_collection_info(const std::filesystem::path& folder) {
  if (weaviate::is_address(folder)) return weaviate::Store::read_info(folder);
  return store::read_info(folder);
}

CollectionReader::CollectionReader(std::unique_ptr<ItemStore> store, std::unique_ptr<FolderReader> no_rows)
    : store_(std::move(store)), no_rows_(std::move(no_rows)) {
  rows_ = no_rows_ != nullptr ? no_rows_.get() : static_cast<const FolderReader*>(store_.get());
}
CollectionReader::CollectionReader(CollectionReader&&) noexcept = default;
CollectionReader& CollectionReader::operator=(CollectionReader&&) noexcept = default;
CollectionReader::~CollectionReader() = default;

Result<CollectionReader> CollectionReader::open(const std::filesystem::path& folder) {
  if (weaviate::is_address(folder)) {
    SACCADE_ASSIGN(weaviate::Store store, weaviate::Store::open(folder));
    SACCADE_ASSIGN(FolderReader no_rows, FolderReader::of_items({store.info(), {}, {}, folder}));
    return CollectionReader(std::make_unique<weaviate::Store>(std::move(store)),
                            std::make_unique<FolderReader>(std::move(no_rows)));
  }
  SACCADE_ASSIGN(FolderReader reader, FolderReader::open(folder));
  return CollectionReader(std::make_unique<FolderReader>(std::move(reader)), nullptr);
}

Result<CollectionReader> CollectionReader::of_items(MemoryItems content) {
  SACCADE_ASSIGN(FolderReader reader, FolderReader::of_items(std::move(content)));
  return CollectionReader(std::make_unique<FolderReader>(std::move(reader)), nullptr);
}

Status CollectionReader::check_has_rows(std::string_view task) const {
  if (index() == nullptr) return {};
  return fail(ErrorCode::kUnsupported,
              "{}: {} needs all embeddings on this host: export the collection first", folder().string(),
              task);
}

const std::filesystem::path& CollectionReader::folder() const {
  return store_->folder();
}
const CollectionInfo& CollectionReader::info() const {
  return store_->info();
}
MatrixView<const float> CollectionReader::rows() const {
  return rows_->rows();
}
Int8Rows CollectionReader::int8_rows() const {
  return rows_->int8_rows();
}
MatrixView<const float> CollectionReader::sample() const {
  return rows_->sample();
}
const ApproximateIndex* CollectionReader::approximate() const {
  return rows_->approximate();
}
const std::string& CollectionReader::why_not_approximate() const {
  return rows_->why_not_approximate();
}
int64_t CollectionReader::generation() const {
  return rows_->generation();
}
const std::filesystem::path& CollectionReader::files() const {
  return rows_->files();
}
StoredRows CollectionReader::late_rows(int64_t row) const {
  return rows_->late_rows(row);
}
std::span<const uint8_t> CollectionReader::alive() const {
  return rows_->alive();
}
std::span<const int64_t> CollectionReader::ids() const {
  return rows_->ids();
}
int64_t CollectionReader::item_count() const {
  return store_->item_count();
}
Status CollectionReader::check_files() const {
  return store_->check_files();
}
Result<Item> CollectionReader::item(int64_t id) const {
  return store_->item(id);
}
Result<Item> CollectionReader::item_of_row(int64_t row) const {
  return rows_->item_of_row(row);
}
Result<Item> CollectionReader::item_of_path(const std::filesystem::path& path) const {
  for (const std::string& name : catalog_paths(path)) {
    Result<Item> found = store_->item_of_path(name);
    if (found || found.error().code != ErrorCode::kNotFound) return found;
  }
  return fail(ErrorCode::kNotFound, "{}: no such item", path.string());
}
bool CollectionReader::has_path(const std::string& path) const {
  return store_->item_of_path(path).has_value();
}
Status CollectionReader::for_each_item(const std::function<Status(const Item&)>& visit) const {
  return store_->for_each_item(visit);
}
Result<ItemFacts> CollectionReader::facts(int64_t id) const {
  return store_->facts(id);
}
Status CollectionReader::for_each_facts(
    const std::function<Status(int64_t id, const ItemFacts& facts)>& visit) const {
  return rows_->for_each_facts(visit);
}
Result<LookedAt> CollectionReader::looked(int64_t most) const {
  return store_->looked(most);
}
Result<std::vector<RemovedPicture>> CollectionReader::removed() const {
  return store_->removed();
}
Result<std::vector<uint8_t>> CollectionReader::allowed(const Filter& filter) const {
  return rows_->allowed(filter);
}
Result<WordMatches> CollectionReader::match_words(std::span<const std::string> terms) const {
  return rows_->match_words(terms);
}
Result<std::vector<int64_t>> CollectionReader::rows_with_words(std::span<const std::string> terms) const {
  return rows_->rows_with_words(terms);
}
Result<std::vector<uint8_t>> CollectionReader::word_fields(int64_t id,
                                                           std::span<const std::string> terms) const {
  return rows_->word_fields(id, terms);
}
Result<std::string> CollectionReader::why_empty(const Filter& filter) const {
  return store_->why_empty(filter);
}
Result<std::vector<FieldValue>> CollectionReader::values_of(std::string_view field, int64_t most) const {
  return store_->values_of(field, most);
}
Result<CollectionSummary> CollectionReader::summary() const {
  return store_->summary();
}
Result<std::vector<Failure>> CollectionReader::failures() const {
  return store_->failures();
}
Status CollectionReader::refresh() {
  return store_->refresh();
}

}  // namespace saccade

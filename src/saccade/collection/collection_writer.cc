#include "saccade/collection/collection_writer.h"

#include <utility>

#include "saccade/collection/folder/folder_writer.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/collection/weaviate/weaviate_writer.h"

namespace saccade {
namespace {

// Makes a change by the first of a path's names in the catalog for which there is something to change.
template <typename Change>
Result<int64_t> change_first(const std::filesystem::path& path, const Change& change) {
  for (const std::string& name : catalog_paths(path)) {
    SACCADE_ASSIGN(const int64_t changed, change(name));
    if (changed > 0) return changed;
  }
  return 0;
}

// Makes a writer that a handle owns.
template <typename Writer>
Result<std::unique_ptr<ItemWriter>> owned(Result<Writer> writer) {
  if (!writer) return fail(std::move(writer).error());
  return std::unique_ptr<ItemWriter>(std::make_unique<Writer>(*std::move(writer)));
}

}  // namespace

CollectionWriter::CollectionWriter(CollectionWriter&&) noexcept = default;
CollectionWriter& CollectionWriter::operator=(CollectionWriter&&) noexcept = default;
CollectionWriter::~CollectionWriter() = default;

Result<CollectionWriter> CollectionWriter::create(const std::filesystem::path& folder,
                                                  const CheckpointId& checkpoint,
                                                  const IngestSettings& settings,
                                                  const WriterOptions& options) {
  SACCADE_ASSIGN(auto writer, weaviate::is_address(folder)
                                  ? owned(weaviate::Writer::create(folder, checkpoint, settings, options.stop,
                                                                   options.copy_of))
                                  : owned(FolderWriter::create(folder, checkpoint, settings, options)));
  return CollectionWriter(std::move(writer));
}

Result<CollectionWriter> CollectionWriter::open(const std::filesystem::path& folder,
                                                const WriterOptions& options) {
  SACCADE_ASSIGN(auto writer, weaviate::is_address(folder)
                                  ? owned(weaviate::Writer::open(folder, options.stop))
                                  : owned(FolderWriter::open(folder, options)));
  return CollectionWriter(std::move(writer));
}

Result<CollectionWriter> CollectionWriter::open_or_create(const std::filesystem::path& folder,
                                                          const CheckpointId& checkpoint,
                                                          const IngestSettings& settings,
                                                          const WriterOptions& options) {
  if (!is_collection(folder)) return create(folder, checkpoint, settings, options);
  SACCADE_ASSIGN(const CollectionInfo info, read_collection_info(folder).in("open collection"));
  SACCADE_TRY(check_same_checkpoint(info, checkpoint).in(fmt::format("collection {}", folder.string())));
  return open(folder, options);
}

const std::filesystem::path& CollectionWriter::folder() const {
  return writer_->folder();
}
const CollectionInfo& CollectionWriter::info() const {
  return writer_->info();
}
Status CollectionWriter::commit(const CollectionChange& change) {
  return writer_->commit(change);
}
Status CollectionWriter::expect(std::span<const std::string> paths) const {
  return writer_->expect(paths);
}
std::string CollectionWriter::shard_key(const std::string& path) const {
  return writer_->shard_key(path);
}
bool CollectionWriter::lists_cheaply() const {
  return writer_->lists_cheaply();
}
Result<std::optional<Item>> CollectionWriter::find_path(std::string_view path) const {
  return writer_->find_path(path);
}
Result<std::vector<PathUse>> CollectionWriter::path_uses(std::span<const std::string_view> paths) const {
  return writer_->path_uses(paths);
}
Result<std::vector<Item>> CollectionWriter::find_hash(std::string_view hash, int64_t after_id) const {
  return writer_->find_hash(hash, after_id);
}
Result<std::optional<Failure>> CollectionWriter::find_failure(std::string_view path) const {
  return writer_->find_failure(path);
}
Result<ItemFacts> CollectionWriter::find_facts(int64_t id) const {
  return writer_->find_facts(id);
}
Result<bool> CollectionWriter::was_removed(std::string_view path) const {
  return writer_->was_removed(path);
}
Result<std::vector<std::string>> CollectionWriter::removed_of_hash(std::string_view hash) const {
  return writer_->removed_of_hash(hash);
}
Status CollectionWriter::for_each_item_under(std::string_view path,
                                             const std::function<Status(const Item&)>& visit) const {
  return writer_->for_each_item_under(path, visit);
}
Status CollectionWriter::for_each_failure_under(std::string_view path,
                                                const std::function<Status(const Failure&)>& visit) const {
  return writer_->for_each_failure_under(path, visit);
}
Result<std::vector<float>> CollectionWriter::row_values(int64_t row) const {
  return writer_->row_values(row);
}
Result<std::vector<std::byte>> CollectionWriter::late_values(int64_t row) const {
  return writer_->late_values(row);
}
Status CollectionWriter::update_int8_rows(const ProgressCallback& progress, std::stop_token stop) {
  return writer_->update_int8_rows(progress, std::move(stop));
}
Result<int64_t> CollectionWriter::remove_ids(std::span<const int64_t> ids) {
  return writer_->remove_ids(ids);
}
Result<int64_t> CollectionWriter::remove_path(const std::filesystem::path& path) {
  return change_first(path, [&](const std::string& name) { return writer_->remove_path(name); });
}
Result<int64_t> CollectionWriter::remove_matching(const Filter& filter) {
  return writer_->remove_matching(filter);
}
Result<int64_t> CollectionWriter::forget_removed(const std::filesystem::path& path) {
  return change_first(path, [&](const std::string& name) { return writer_->forget_removed(name); });
}
Result<int64_t> CollectionWriter::compact(const ProgressCallback& progress, std::stop_token stop) {
  return writer_->compact(progress, std::move(stop));
}

}  // namespace saccade

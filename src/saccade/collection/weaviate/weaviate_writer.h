// The writing side of a collection in a Weaviate cluster. Any number of writers on any hosts write to one class at once.
// Not for use outside this module.
//
// An item's UUID is made of its path, so that writers that take in the same image write the same object. A commit sends
// objects in batches and is not atomic: what was sent before an error stays, and the next run goes on from there. A batch is
// repeated until its objects are stored on a quorum of replicas. The next writer that is
// opened sees what other writers remove or fail at meanwhile.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/collection_change.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/weaviate/weaviate_client.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::weaviate {

// Methods are those of CollectionWriter. A stop request ends waits for nodes that refuse a change: it fails with kCancelled.
class Writer final : public ItemWriter {
 public:
  // Makes the class. If another worker has just made it of the same checkpoint, that one is opened.
  static Result<Writer> create(const std::filesystem::path& address, const CheckpointId& checkpoint,
                               const IngestSettings& settings, const std::stop_token& stop = {},
                               const std::string& copy_of = {});
  static Result<Writer> open(const std::filesystem::path& address, const std::stop_token& stop = {});
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer() override;

  [[nodiscard]] const std::filesystem::path& folder() const override;
  [[nodiscard]] const CollectionInfo& info() const override;
  Status commit(const CollectionChange& change) override;
  [[nodiscard]] Status expect(std::span<const std::string> paths) const override;
  [[nodiscard]] std::string shard_key(const std::string& path) const override;
  [[nodiscard]] bool lists_cheaply() const override { return false; }
  [[nodiscard]] Result<std::optional<Item>> find_path(std::string_view path) const override;
  [[nodiscard]] Result<std::vector<PathUse>> path_uses(
      std::span<const std::string_view> paths) const override;
  [[nodiscard]] Result<std::vector<Item>> find_hash(std::string_view hash, int64_t after_id) const override;
  [[nodiscard]] Result<std::optional<Failure>> find_failure(std::string_view path) const override;
  [[nodiscard]] Result<ItemFacts> find_facts(int64_t id) const override;
  [[nodiscard]] Result<bool> was_removed(std::string_view path) const override;
  [[nodiscard]] Result<std::vector<std::string>> removed_of_hash(std::string_view hash) const override;
  [[nodiscard]] Status for_each_item_under(std::string_view path,
                                           const std::function<Status(const Item&)>& visit) const override;
  [[nodiscard]] Status for_each_failure_under(
      std::string_view path, const std::function<Status(const Failure&)>& visit) const override;
  [[nodiscard]] Result<std::vector<float>> row_values(int64_t row) const override;
  [[nodiscard]] Result<std::vector<std::byte>> late_values(int64_t row) const override;
  Status update_int8_rows(const ProgressCallback& progress, std::stop_token stop) override;
  Result<int64_t> remove_ids(std::span<const int64_t> ids) override;
  Result<int64_t> remove_path(const std::filesystem::path& path) override;
  Result<int64_t> remove_matching(const Filter& filter) override;
  Result<int64_t> forget_removed(const std::filesystem::path& path) override;
  Result<int64_t> compact(const ProgressCallback& progress, std::stop_token stop) override;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade::weaviate

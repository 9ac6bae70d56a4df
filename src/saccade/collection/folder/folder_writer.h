// The writing side of a collection's folder (folder_reader.h): one writer at a time.
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
#include "saccade/core/error.h"

namespace saccade {

// Methods are those of CollectionWriter.
class FolderWriter final : public ItemWriter {
 public:
  static Result<FolderWriter> create(const std::filesystem::path& folder, const CheckpointId& checkpoint,
                                     const IngestSettings& settings = {}, const WriterOptions& options = {});
  static Result<FolderWriter> open(const std::filesystem::path& folder, const WriterOptions& options = {});
  FolderWriter(FolderWriter&&) noexcept;
  FolderWriter& operator=(FolderWriter&&) noexcept;
  ~FolderWriter() override;

  [[nodiscard]] const std::filesystem::path& folder() const override;
  [[nodiscard]] const CollectionInfo& info() const override;
  Status commit(const CollectionChange& change) override;
  [[nodiscard]] Status expect(std::span<const std::string> /*paths*/) const override { return {}; }
  [[nodiscard]] std::string shard_key(const std::string& path) const override { return path; }
  [[nodiscard]] bool lists_cheaply() const override { return true; }
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
  // `files`: where the files of `folder` lie.
  static Result<FolderWriter> open(const std::filesystem::path& folder, const std::filesystem::path& files,
                                   const WriterOptions& options);
  explicit FolderWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade

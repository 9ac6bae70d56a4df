// The reading side of a collection in a Weaviate cluster (objects.h has the class). Not for use outside this module.
//
// Nothing is a snapshot here: every method sees what the cluster has when it is called. Items of the methods have their id
// as their row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/weaviate/weaviate_client.h"
#include "saccade/core/error.h"

namespace saccade::weaviate {

// Oldest version that this program works with: it has the operator Not.
inline constexpr int kOldestMajor = 1;
inline constexpr int kOldestMinor = 33;
// Number of results that Weaviate gives to a query, as its QUERY_MAXIMUM_RESULTS.
inline constexpr int64_t kMostResults = 10'000;

// A cluster that was found to answer, and a class of it.
struct Opened {
  std::shared_ptr<const Client> client;  // its address names the class, where an alias was given
  std::string version;
  CollectionInfo info;
};
// Opens a class: kIo if no node answers, kUnsupported for an old version, kNotFound without the class, kMismatch for one of
// another origin.
Result<Opened> open_class(const std::filesystem::path& address);
// Returns a client of an address, of which only the version was checked.
Result<Opened> open_cluster(const std::filesystem::path& address);

// Calls `visit` with each object of a class, by UUID; with the first `most` of them.
Status for_each_object(const Client& client, std::string_view class_name,
                       const std::function<Status(const Json& object)>& visit,
                       int64_t most = std::numeric_limits<int64_t>::max());
// Returns the items that meet a condition (where.h), at most `count`, by number.
Result<std::vector<WholeItem>> items_where(const Client& client, const std::string& where, int64_t count,
                                           bool rows);
Result<WholeItem> whole_of_id(const Client& client, int64_t id, bool rows);
// Notes of the second class, by kind: "failure" or "removed". Notes of VectorIndex::keep are passed over.
Status for_each_note(
    const Client& client,
    const std::function<Status(const std::string& kind, const std::string& path, const Json& note)>& visit);
Json failure_note(const Failure& failure);
Failure failure_of_note(const std::string& path, const Json& note);

class Store final : public ItemStore, public VectorIndex {
 public:
  static Result<Store> open(const std::filesystem::path& address);
  // Returns true if the cluster has the class, and also if that cannot be told: opening it says why.
  static bool exists(const std::filesystem::path& address);
  static Result<CollectionInfo> read_info(const std::filesystem::path& address);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store() override;

  [[nodiscard]] const std::filesystem::path& folder() const override;
  [[nodiscard]] const CollectionInfo& info() const override;
  [[nodiscard]] int64_t item_count() const override;
  [[nodiscard]] Status check_files() const override;
  [[nodiscard]] Result<Item> item(int64_t id) const override;
  [[nodiscard]] Result<Item> item_of_path(const std::filesystem::path& path) const override;
  [[nodiscard]] Status for_each_item(const std::function<Status(const Item&)>& visit) const override;
  [[nodiscard]] Status for_each_row(const RowVisitor& visit) const override;
  [[nodiscard]] Result<ItemFacts> facts(int64_t id) const override;
  [[nodiscard]] Result<LookedAt> looked(int64_t most) const override;
  [[nodiscard]] Result<std::vector<RemovedPicture>> removed() const override;
  [[nodiscard]] Result<std::string> why_empty(const Filter& filter) const override;
  [[nodiscard]] Result<std::vector<FieldValue>> values_of(std::string_view field,
                                                          int64_t most) const override;
  [[nodiscard]] Result<CollectionSummary> summary() const override;
  [[nodiscard]] Result<std::vector<Failure>> failures() const override;
  Status refresh() override;
  [[nodiscard]] const VectorIndex* index() const override { return this; }

  [[nodiscard]] std::string engine() const override;
  [[nodiscard]] std::string path_here(const std::string& stored) const override;
  [[nodiscard]] int64_t most() const override { return kMostResults; }
  [[nodiscard]] Result<NearestItems> nearest(const NearestQuery& query) const override;
  [[nodiscard]] Result<NearestItems> newest(const Filter* filter, int64_t count) const override;
  [[nodiscard]] Result<WholeItem> whole(int64_t id) const override;
  [[nodiscard]] Result<std::shared_ptr<const Matrix<float>>> sample() const override;
  [[nodiscard]] Result<std::vector<WholeItem>> sample_items(int64_t most) const override;
  Status keep(std::string_view name, std::string_view bytes) const override;
  [[nodiscard]] Result<std::string> kept(std::string_view name) const override;
  [[nodiscard]] Result<std::string> kept_state(std::string_view name) const override;

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade::weaviate

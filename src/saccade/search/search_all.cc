// Many searches of one collection together, which share passes over the rows.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "saccade/search/candidates.h"
#include "saccade/search/plan/carry_out.h"
#include "saccade/search/plan/row_query.h"
#include "saccade/search/plan/search_plan.h"
#include "saccade/search/row_finder.h"
#include "saccade/search/search.h"

namespace saccade {
namespace {

// Hands out what a shared pass found for a query. Another look at the rows, for more of them, is a pass of its own.
class GivenRows final : public RowFinder {
 public:
  GivenRows(int64_t k, Result<FoundRows> found) : k_(k), found_(std::move(found)) {}
  Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                         std::span<const int64_t> wanted, ThreadPool& pool) override {
    if (found_ && k == k_) return *std::exchange(found_, std::nullopt);
    return OwnPass().find(searched, query, k, wanted, pool);
  }

 private:
  int64_t k_;
  std::optional<Result<FoundRows>> found_;
};

// A search of search_encoded_all() that waits for a pass over the rows. `asked` refers to `parts`.
struct PlannedSearch {
  size_t which = 0;
  EncodedParts parts;
  std::optional<RowQuery> asked;
  SearchPlan plan;
  std::unique_ptr<RowFinder> finder;
};

// Candidates and word matches of planned searches that may be held at a time: some 100 MB.
constexpr int64_t kMostRowsHeld = int64_t{1} << 20;

// Makes the first looks at the rows, those that go together in one pass, and gives each search its finder.
void share_passes(const CollectionReader& collection, std::deque<PlannedSearch>& planned, ThreadPool& pool) {
  struct Look {
    PlannedSearch* search = nullptr;
    RowRequest request;
    const uint8_t* allowed = nullptr;
  };
  std::vector<Look> looks;
  for (PlannedSearch& one : planned) {
    one.finder = std::make_unique<OwnPass>();
    if (one.plan.first == 0) continue;
    const auto request = row_request(one.asked->row, one.plan.first, one.plan.rows);
    if (request) looks.push_back({&one, *request, one.plan.allowed->rows.data()});
  }
  std::ranges::stable_sort(looks, [](const Look& a, const Look& b) {
    return a.allowed != b.allowed ? std::less<>()(a.allowed, b.allowed) : a.request.k < b.request.k;
  });
  for (size_t begin = 0, end = 0; begin < looks.size(); begin = end) {
    const CandidateRows& rows = looks[begin].search->plan.rows;
    const SearchedRows searched{collection.rows(), rows.allowed, collection.int8_rows(), rows.stop};
    const int64_t k = looks[begin].request.k;
    const auto most = static_cast<size_t>(queries_of_a_pass(searched, k));
    std::vector<RowRequest> requests;
    while (end < looks.size() && requests.size() < most && looks[end].allowed == looks[begin].allowed &&
           share_a_pass(looks[end].request.k, k)) {
      requests.push_back(looks[end++].request);
    }
    if (requests.size() < 2) continue;
    std::vector<Result<FoundRows>> found = find_together(searched, requests, pool);
    for (size_t i = 0; i < requests.size(); ++i) {
      looks[begin + i].search->finder = std::make_unique<GivenRows>(requests[i].k, std::move(found[i]));
    }
  }
}

}  // namespace

std::vector<Result<SearchAnswer>> search_encoded_all(const CollectionReader& collection,
                                                     EncoderBackend& encoder,
                                                     std::span<const EncodedSearch> searches,
                                                     ThreadPool& pool) {
  std::vector<Result<SearchAnswer>> answers(searches.size());
  if (collection.index() != nullptr) {
    for (size_t i = 0; i < searches.size(); ++i) {
      const auto& [encoded, query] = searches[i];
      answers[i] = search_encoded(collection, encoder, *encoded, *query, pool);
    }
    return answers;
  }
  AllowedByFilter known;
  std::deque<PlannedSearch> planned;  // that have not been carried out
  int64_t held = 0;
  const auto carry_out_all = [&] {
    share_passes(collection, planned, pool);
    for (PlannedSearch& one : planned) {
      const EncodedQuery& encoded = *searches[one.which].encoded;
      answers[one.which] = [&]() -> Result<SearchAnswer> {
        SACCADE_ASSIGN(SearchAnswer answer,
                       carry_out(collection, *one.asked, std::move(one.plan), pool, *one.finder));
        SACCADE_TRY(complete_answer(collection, encoder, encoded, *one.asked, answer));
        return answer;
      }();
    }
    planned.clear();
    held = 0;
  };
  for (size_t i = 0; i < searches.size(); ++i) {
    PlannedSearch& one = planned.emplace_back();
    one.which = i;
    const Status done = [&]() -> Status {
      const auto& [encoded, query] = searches[i];
      SACCADE_ASSIGN(const RowQuery asked, row_query(collection, encoder, *encoded, *query, one.parts));
      SACCADE_ASSIGN(one.plan, plan_search(collection, one.asked.emplace(asked), known));
      return {};
    }();
    if (!done) {
      answers[i] = fail(done.error());
      planned.pop_back();
      continue;
    }
    held += one.plan.first + std::ssize(one.plan.brought);
    if (std::ssize(planned) == kSearchesTogether || held > kMostRowsHeld) carry_out_all();
  }
  carry_out_all();
  return answers;
}

}  // namespace saccade

#include "saccade/serve/shared/shared_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace saccade::serve {
namespace {

tl::unexpected<Error> no_memory() {
  return fail(ErrorCode::kCancelled, "no memory for a pass over the rows now: try again in a second");
}

}  // namespace

// Call of one search, which waits for its end.
struct SharedRows::Call : SharedCall {
  std::span<const float> query;
  int64_t k = 0;
  std::span<const int64_t> wanted;
  Result<FoundRows> found = no_memory();
};

void SharedRows::run(std::span<Call* const> calls, const SearchedRows& searched, ThreadPool& pool) {
  std::vector<RowRequest> requests;
  requests.reserve(calls.size());
  for (const Call* call : calls) requests.push_back({call->query, call->k, call->wanted});
  std::vector<Result<FoundRows>> found = find_together(searched, requests, pool);
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->found = std::move(found[i]);
}

Result<FoundRows> SharedRows::find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                                   std::span<const int64_t> wanted, ThreadPool& pool) {
  const bool alone = searched.allowed.data() != alive_.data() || k < 0 ||
                     static_cast<int64_t>(query.size()) != searched.rows.columns();
  if (alone) {
    return find_rows(searched, {query.data(), 1, static_cast<int64_t>(query.size())}, k, pool, {&wanted, 1});
  }
  Call own;
  own.query = query;
  own.k = k;
  own.wanted = wanted;
  // The largest `k` decides the depth of a pass, so a call that wants many more hits than others runs its
  // own.
  const auto most = static_cast<size_t>(queries_of_a_pass(searched, k));
  const auto takes = [most](const Call& other, std::span<Call* const> taken) {
    return taken.size() < most && share_a_pass(other.k, taken.front()->k);
  };
  passes_.join(own, takes, {}, [&](std::span<Call* const> calls) { run(calls, searched, pool); });
  return std::move(own.found);
}

SharedRows::Counts SharedRows::counts() const {
  const auto counts = passes_.counts();
  return {counts.passes, counts.calls};
}

}  // namespace saccade::serve

#include "saccade/search/row_finder.h"

#include <algorithm>
#include <utility>

#include "saccade/matrix.h"

namespace saccade {

std::vector<Result<FoundRows>> find_together(const SearchedRows& searched,
                                             std::span<const RowRequest> requests, ThreadPool& pool) {
  std::vector<Result<FoundRows>> each;
  if (requests.empty()) return each;
  each.reserve(requests.size());
  const auto alone = [&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      each.push_back(std::move(find_together(searched, requests.subspan(i, 1), pool).front()));
    }
    return std::move(each);
  };
  const bool fit = std::ranges::all_of(requests, [&](const RowRequest& one) {
    return one.k >= 0 && one.query.size() == requests.front().query.size();
  });
  if (!fit && requests.size() > 1) return alone();
  Matrix<float> queries(std::ssize(requests), std::ssize(requests.front().query));
  std::vector<std::span<const int64_t>> wanted;
  int64_t k = requests.front().k;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::ranges::copy(requests[i].query, queries.row(static_cast<int64_t>(i)).begin());
    k = std::max(k, requests[i].k);
    wanted.push_back(requests[i].wanted);
  }
  Result<FoundRows> found = find_rows(searched, queries.view(), k, pool, wanted);
  if (!found && requests.size() > 1) return alone();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!found) {
      each.emplace_back(fail(found.error()));
      continue;
    }
    FoundRows own;
    own.best.push_back(std::move(found->best[i]));
    // The best k are the first of any more.
    if (std::ssize(own.best.front()) > requests[i].k) {
      own.best.front().resize(static_cast<size_t>(requests[i].k));
    }
    own.wanted.push_back(std::move(found->wanted[i]));
    if (!found->rescored.empty()) own.rescored.push_back(found->rescored[i]);
    each.emplace_back(std::move(own));
  }
  return each;
}

Result<FoundRows> OwnPass::find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                                std::span<const int64_t> wanted, ThreadPool& pool) {
  return find_rows(searched, {query.data(), 1, static_cast<int64_t>(query.size())}, k, pool, {&wanted, 1});
}

}  // namespace saccade

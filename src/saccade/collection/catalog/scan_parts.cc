#include "saccade/collection/catalog/scan_parts.h"

#include <exception>
#include <thread>
#include <vector>

namespace saccade::store {

Status scan_parts(Database& database, std::span<Database> others, int64_t end,
                  const std::function<Status(Database&, int64_t, int64_t)>& scan) {
  const int64_t parts = std::ssize(others) + 1;
  std::vector<Status> results(others.size());
  std::vector<std::exception_ptr> thrown(others.size());  // such as that memory has run out
  Status own;
  {
    std::vector<std::jthread> threads;
    for (int64_t part = 1; part < parts; ++part) {
      const auto other = static_cast<size_t>(part - 1);
      threads.emplace_back([&, part, other] {
        try {
          results[other] = scan(others[other], end * part / parts, end * (part + 1) / parts);
        } catch (...) {
          thrown[other] = std::current_exception();
        }
      });
    }
    own = scan(database, 0, end / parts);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
  SACCADE_TRY(own);
  for (Status& result : results) SACCADE_TRY(result);
  return {};
}

}  // namespace saccade::store

#include "saccade/serve/descriptors.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace saccade::serve {
namespace {

constexpr int64_t kFiles = 512;  // of 64 workers: files, catalogs, pipes of decoders
constexpr int64_t kLeastFiles = 24;
constexpr int64_t kLeastSockets = 4;
constexpr int64_t kFilesOfWorker = 6;

}  // namespace

int64_t wanted_descriptors(const HttpServerOptions& options) {
  return 2 * int64_t{options.connections} + options.refusals + kFiles;
}

Status fit_to_descriptors(int64_t free, HttpServerOptions& options) {
  if (free >= wanted_descriptors(options)) return {};
  if (free < kLeastFiles + kLeastSockets) {
    return fail(ErrorCode::kLimit, "{} more files may be opened, a server needs {} (ulimit -n)",
                std::max<int64_t>(free, 0), kLeastFiles + kLeastSockets);
  }
  const int64_t files = std::clamp(free / 2, kLeastFiles, kFiles);
  const int64_t sockets = free - files;
  options.refusals = std::clamp<int64_t>(sockets / 8, 1, options.refusals);
  options.connections =
      static_cast<int>(std::min<int64_t>(options.connections, (sockets - options.refusals) / 2));
  options.workers = static_cast<int>(std::clamp<int64_t>(files / kFilesOfWorker, 2, options.workers));
  return {};
}

int64_t open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return error ? 0 : std::distance(std::filesystem::begin(all), std::filesystem::end(all));
}

}  // namespace saccade::serve

#include "saccade/collection/ingest/watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "saccade/collection/ingest/folder_events.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/core/counts.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// One of the inputs.
struct Root {
  std::string path;
  bool folder = false;
  dev_t device = 0;  // where it was when it was last there
  bool away = false;
};

bool is_empty_folder(const std::string& path) {
  std::error_code error;
  return fs::is_empty(path, error) || error;
}

class Watch {
 public:
  Watch(const fs::path& collection, const EncoderSource& encoder, const WatchOptions& options,
        ThreadPool& pool, const std::function<void(const WatchNews&)>& news, std::stop_token stop)
      : collection_(collection),
        encoder_(encoder),
        options_(options),
        pool_(pool),
        news_(news),
        stop_(std::move(stop)) {}

  Status run(std::span<const fs::path> inputs) {
    SACCADE_TRY(read_collection_info(collection_));
    SACCADE_TRY(check_any_input(inputs));
    const Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.get() < 0) return fail_errno(errno, "watch folders");
    const std::stop_callback waker(stop_, [&] {
      const uint64_t one = 1;
      (void)!::write(wake.get(), &one, sizeof one);
    });
    open_events();
    for (const fs::path& input : inputs) add_root(input);
    all_ = true;
    first_ = last_ = Clock::now() - seconds(options_.longest_seconds);
    while (!stop_.stop_requested()) {
      wait(wake.get());
      if (stop_.stop_requested()) break;
      if (events_) SACCADE_TRY(read_events());
      look_at_roots();
      if (due()) SACCADE_TRY(take_in());
    }
    return {};
  }

 private:
  void tell(std::string text, bool warning = false) {
    if (news_) news_({std::move(text), warning, std::nullopt});
  }

  void open_events() {
    auto events = FolderEvents::open(options_.most_watches, options_.ingest.hidden, collection_);
    if (events) {
      events_.emplace(*std::move(events));
    } else {
      tell(fmt::format("{}: all folders are scanned every {:g} s instead", events.error().message,
                       options_.look_seconds),
           true);
    }
  }

  void add_root(const fs::path& input) {
    Root root;
    root.path = catalog_path(input);
    struct stat info {};
    if (::stat(root.path.c_str(), &info) == 0) {
      root.folder = S_ISDIR(info.st_mode);
      root.device = info.st_dev;
    } else {
      root.away = root.folder = true;
      tell(fmt::format("{} does not exist: it is looked for every {:g} s", root.path, options_.look_seconds),
           true);
    }
    if (!root.away) watch_root(root);
    roots_.push_back(std::move(root));
  }

  void watch_root(const Root& root) {
    if (!events_) return;
    const bool before = events_->complete();
    // Watches the folder of a file, since editors replace the old file by a new one.
    if (events_->add(root.folder ? root.path : fs::path(root.path).parent_path().string())) return;
    if (before) {
      tell(
          fmt::format(
              "no more than {} can be watched (fs.inotify.max_user_watches or --most-watches): the others are scanned "
              "every {:g} s",
              counted(events_->watches(), "folder"), options_.look_seconds),
          true);
    }
  }

  // Until something has happened, or it is time to look.
  void wait(int wake) {
    const auto now = Clock::now();
    auto until = Clock::time_point::max();
    if (pending())
      until = std::min(last_ + seconds(options_.settle_seconds), first_ + seconds(options_.longest_seconds));
    if (until < not_before_) until = not_before_;
    if (looks()) until = std::min(until, last_look_ + seconds(options_.look_seconds));
    int milliseconds = -1;
    if (until != Clock::time_point::max()) {
      const double left = std::chrono::duration<double>(until - now).count();
      milliseconds = static_cast<int>(std::ceil(std::clamp(left, 0.0, 86'400.0) * 1000));
    }
    std::array<pollfd, 2> wait{{{wake, POLLIN, 0}, {events_ ? events_->descriptor() : -1, POLLIN, 0}}};
    (void)::poll(wait.data(), wait.size(), milliseconds);
  }

  [[nodiscard]] bool looks() const {
    return !events_ || !events_->complete() ||
           std::ranges::any_of(roots_, [](const Root& root) { return root.away; });
  }
  [[nodiscard]] bool pending() const { return all_ || !changes_.empty(); }
  [[nodiscard]] bool due() const {
    const auto now = Clock::now();
    return pending() && now >= not_before_ &&
           (now >= last_ + seconds(options_.settle_seconds) ||
            now >= first_ + seconds(options_.longest_seconds));
  }

  void changed() {
    last_ = Clock::now();
    if (!fresh_) first_ = last_;
    fresh_ = true;
  }

  Status read_events() {
    FolderChanges changes;
    SACCADE_TRY(events_->read(changes));
    if (changes.empty()) return {};
    if (changes.overflow) {
      tell("the kernel's event queue has overflowed: all folders are scanned", true);
      // Folders among them may not be watched yet.
      for (const Root& root : roots_) {
        if (!root.away) watch_root(root);
      }
      all_ = true;
      changes_ = {};
    }
    for (const std::string& path : changes.gone) {
      changes_.files.erase(path);
      changes_.gone.insert(path);
    }
    for (const std::string& path : changes.folders) {
      changes_.gone.erase(path);
      changes_.folders.insert(path);
    }
    for (const std::string& path : changes.files) {
      changes_.gone.erase(path);
      changes_.files.insert(path);
    }
    changed();
    return {};
  }

  // Roots that have gone or come back; and, where not all can be watched, everything.
  void look_at_roots() {
    for (Root& root : roots_) {
      struct stat info {};
      const bool there = ::stat(root.path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) == root.folder;
      // Without its file system a mount point is an empty folder of another.
      const bool here = there && (info.st_dev == root.device || (root.folder && !is_empty_folder(root.path)));
      if (!here && !root.away && root.folder) {
        root.away = true;
        tell(fmt::format("{} is gone (unmounted?): its images are kept, and it is looked for every {:g} s",
                         root.path, options_.look_seconds),
             true);
      } else if (here && root.away) {
        root.away = false;
        root.folder = S_ISDIR(info.st_mode);
        root.device = info.st_dev;
        tell(fmt::format("{} is there: it is scanned", root.path));
        watch_root(root);
        all_ = true;
        changed();
      }
    }
    const auto now = Clock::now();
    if (!looks() || now < last_look_ + seconds(options_.look_seconds)) return;
    last_look_ = now;
    if (!events_ || !events_->complete()) {
      all_ = true;
      changed();
    }
  }

  [[nodiscard]] bool below(const std::string& path, const std::string& top) const {
    return path == top || (path.size() > top.size() && path.starts_with(top) &&
                           (top.ends_with('/') || path[top.size()] == '/'));
  }
  // Under an input that is there.
  [[nodiscard]] bool reachable(const std::string& path) const {
    return std::ranges::any_of(roots_,
                               [&](const Root& root) { return !root.away && below(path, root.path); });
  }

  // Returns the changed paths that ingest has to read.
  Result<std::vector<fs::path>> inputs(CollectionWriter& writer) {
    std::vector<fs::path> found;
    if (all_) {
      for (const Root& root : roots_) {
        if (!root.away) found.emplace_back(root.path);
      }
      return found;
    }
    const WalkOptions walking = walk_options_of(options_.ingest, collection_);
    std::vector<fs::path> tops;
    for (const Root& root : roots_) tops.emplace_back(root.path);
    for (const std::string& folder : changes_.folders) {
      std::error_code error;
      if (reachable(folder) && fs::is_directory(folder, error) && walk_would_take(folder, tops, walking)) {
        found.emplace_back(folder);
      }
    }
    for (const std::string& file : changes_.files) {
      if (reachable(file) && walk_would_take(file, tops, walking)) found.emplace_back(file);
    }
    CollectionChange forget;
    for (const std::string& path : changes_.gone) {
      if (!reachable(path) || !is_missing(path)) continue;
      SACCADE_TRY(writer.for_each_failure_under(path, [&](const Failure& failure) {
        forget.forget_failures.push_back(failure.path);
        return Status{};
      }));
      if (!options_.ingest.prune) continue;
      bool known = false;
      SACCADE_TRY(writer.for_each_item_under(path, [&](const Item&) {
        known = true;
        return Status{};
      }));
      if (known) found.emplace_back(path);
    }
    SACCADE_TRY(writer.commit(forget));
    return found;
  }

  Status take_in() {
    const Status taken = try_to_take_in();
    if (taken) {
      waited_ = false;
      all_ = false;
      fresh_ = false;
      changes_ = {};
      return {};
    }
    // Another writes, the disk is full, or nodes of a cluster are down: what has changed is kept in mind.
    const ErrorCode code = taken.error().code;
    if (code != ErrorCode::kCancelled && code != ErrorCode::kIo) return taken;
    if (stop_.stop_requested()) return {};
    if (!waited_) {
      tell(fmt::format("{}: tried again every {:g} s", taken.error().message, options_.retry_seconds), true);
    }
    waited_ = true;
    not_before_ = Clock::now() + seconds(options_.retry_seconds);
    return {};
  }

  Status try_to_take_in() {
    SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(collection_, {.stop = stop_}));
    SACCADE_ASSIGN(const std::vector<fs::path> found, inputs(writer));
    if (!found.empty()) {
      IngestOptions taking = options_.ingest;
      // Folders that events name as gone were deleted, as their root is there; file systems may be mounted below it.
      if (!all_) taking.prune_guard = PruneGuard::kDevices;
      auto report = ingest(writer, encoder_, found, taking, pool_, {}, stop_);
      // All inputs may have gone since: events will say so. A checkpoint that is gone is another matter.
      const bool inputs_gone =
          !report && report.error().code == ErrorCode::kNotFound && !check_any_input(found);
      if (!report && !inputs_gone) return fail(std::move(report).error());
      if (report && news_) news_({{}, false, *std::move(report)});
    }
    return {};
  }

  const fs::path& collection_;
  const EncoderSource& encoder_;
  const WatchOptions& options_;
  ThreadPool& pool_;
  const std::function<void(const WatchNews&)>& news_;
  std::stop_token stop_;
  std::optional<FolderEvents> events_;
  std::vector<Root> roots_;
  FolderChanges changes_;
  bool all_ = false;    // everything is to be looked at
  bool fresh_ = false;  // changes_ has some, the first of them at first_
  bool waited_ = false;
  Clock::time_point first_;
  Clock::time_point last_;
  Clock::time_point not_before_;
  Clock::time_point last_look_ = Clock::now();
};

}  // namespace

Status watch(const fs::path& collection, const EncoderSource& encoder, std::span<const fs::path> inputs,
             const WatchOptions& options, ThreadPool& pool, const std::function<void(const WatchNews&)>& news,
             std::stop_token stop) {
  return Watch(collection, encoder, options, pool, news, std::move(stop)).run(inputs).in("watch");
}

}  // namespace saccade

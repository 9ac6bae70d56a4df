#include "saccade/collection/ingest/folder_events.h"

#include <array>
#include <cerrno>
#include <climits>
#include <sys/inotify.h>
#include <unistd.h>
#include <utility>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ignore_rules.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kWatched = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE |
                              IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

Result<FolderEvents> FolderEvents::open(int64_t most_watches, bool hidden, fs::path except) {
  Descriptor events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (events.get() < 0) return fail_errno(errno, "watch folders");
  return FolderEvents(std::move(events), most_watches, hidden, except.empty() ? "" : catalog_path(except));
}

bool FolderEvents::add_one(const std::string& folder) {
  if (most_ > 0 && watches() >= most_) return complete_ = false;
  const int watch = ::inotify_add_watch(events_.get(), folder.c_str(), kWatched);
  if (watch >= 0) {
    folders_[watch] = folder;
  } else if (errno == ENOSPC || errno == ENOMEM) {
    complete_ = false;
    return false;
  }
  return true;  // one that is gone again, or may not be read, is ingest's to speak of
}

bool FolderEvents::add(const std::string& top) {
  std::vector<std::string> stack = {top};
  while (!stack.empty()) {
    const std::string folder = std::move(stack.back());
    stack.pop_back();
    if (folder == except_) continue;
    if (!add_one(folder)) return false;
    // Watches before listing, so that files created in between are reported.
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      const std::string name = entry->path().filename().string();
      if (!hidden_ && name.starts_with('.')) continue;
      if (entry->is_directory(ignored) && !entry->is_symlink(ignored))
        stack.push_back(entry->path().string());
    }
  }
  return true;
}

bool FolderEvents::is_of(int watch, const std::string& folder) {
  const int there = ::inotify_add_watch(events_.get(), folder.c_str(), kWatched);
  if (there >= 0) folders_[there] = folder;
  return there == watch;
}

void FolderEvents::take(const inotify_event& event, const char* name, FolderChanges& changes) {
  if ((event.mask & IN_Q_OVERFLOW) != 0) {
    changes.overflow = true;
    return;
  }
  const auto found = folders_.find(event.wd);
  if (found == folders_.end()) return;
  const std::string folder = found->second;
  if ((event.mask & IN_MOVE_SELF) != 0) {
    // The event of its new name, if that is watched, came first, and gave the new names to this watch and to those below.
    // Otherwise they have the old names and are removed.
    if (is_of(event.wd, folder)) return;
    changes.gone.insert(folder);
    std::vector<std::pair<int, std::string>> below;
    for (const auto& [watch, path] : folders_) {
      if (path.starts_with(folder + "/")) below.emplace_back(watch, path);
    }
    (void)::inotify_rm_watch(events_.get(), event.wd);
    for (const auto& [watch, path] : below) {
      if (!is_of(watch, path)) (void)::inotify_rm_watch(events_.get(), watch);
    }
    return;
  }
  if ((event.mask & (IN_DELETE_SELF | IN_UNMOUNT)) != 0) changes.gone.insert(folder);
  if ((event.mask & IN_IGNORED) != 0) {
    folders_.erase(found);
    return;
  }
  if (event.len == 0) return;
  const std::string_view last(name);
  if (last == kIgnoreFileName || last.ends_with(".txt")) {
    changes.folders.insert(folder);  // it says something of the files beside it
    return;
  }
  if (!hidden_ && last.starts_with('.')) return;
  const std::string path = (fs::path(folder) / last).string();
  if (path == except_) return;
  const bool is_folder = (event.mask & IN_ISDIR) != 0;
  if ((event.mask & (IN_MOVED_FROM | IN_DELETE)) != 0) {
    changes.gone.insert(path);
    changes.files.erase(path);
  } else if (is_folder && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    add(path);
    changes.gone.erase(path);
    changes.folders.insert(path);
  } else if (!is_folder) {
    // A file that is only made will be written; a link never is.
    std::error_code error;
    if ((event.mask & IN_CREATE) != 0 && !fs::is_symlink(path, error)) {
      // A hard link is whole at once and never written either: more than one name.
      if (fs::hard_link_count(path, error) < 2 || error) return;
    }
    changes.gone.erase(path);
    changes.files.insert(path);
  }
}

Status FolderEvents::read(FolderChanges& changes) {
  alignas(inotify_event) std::array<char, 64 * (sizeof(inotify_event) + NAME_MAX + 1)> buffer;
  for (;;) {
    const ssize_t got = ::read(events_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got <= 0) return fail_errno(errno, "read what has changed");
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      take(*event, buffer.data() + at + sizeof(inotify_event), changes);
      at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
    }
  }
}

}  // namespace saccade

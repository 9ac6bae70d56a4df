#include "saccade/collection/ingest/walk.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sys/stat.h>
#include <unordered_set>
#include <utility>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ignore_rules.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/image_codec.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

class Walker {
 public:
  Walker(const WalkOptions& options, std::stop_token stop, const std::function<void(int64_t)>& progress)
      : options_(options), stop_(std::move(stop)), progress_(progress), exclude_(std::span(options.exclude)) {
    if (!options.except.empty()) except_ = catalog_path(options.except);
  }

  void take(const fs::path& input) {
    const std::string path = catalog_path(input);
    std::error_code error;
    if (fs::is_directory(path, error)) {
      result_.folders.push_back(path);
      take_folder(path);
    } else if (is_missing(path)) {
      result_.missing.push_back(path);
    } else {
      add(path);
    }
  }

  // Implements walk_would_take for a path below the input `top`: the folders between decide.
  bool would_take(const std::string& top, const std::string& path) {
    top_ = top;
    Folder folder{.path = top, .rules = nullptr};
    for (size_t begin = top.size() + (top.ends_with('/') ? 0 : 1);;) {
      const size_t slash = path.find('/', begin);
      const std::string next = path.substr(0, slash);
      const std::string name = next.substr(begin);
      std::error_code error;
      read_rules(folder);
      const bool is_folder = fs::is_directory(next, error);
      if (next == except_ || (!options_.hidden && name.starts_with('.'))) return false;
      if (excluded(next, folder.rules.get(), is_folder)) return false;
      if (is_folder && !options_.follow_links && fs::is_symlink(next, error)) return false;
      if (slash == std::string::npos) return is_folder || has_image_extension(next) || is_video(next);
      folder.path = next;
      begin = slash + 1;
    }
  }

  WalkResult result() { return std::move(result_); }

 private:
  bool is_video(const fs::path& path) const { return options_.videos && has_video_extension(path); }

  void add(const std::string& path) {
    if (!seen_.insert(path).second) return;
    (is_video(path) ? result_.videos : result_.files).push_back(path);
    if (progress_ && seen_.size() % 256 == 0) progress_(static_cast<int64_t>(seen_.size()));
  }

  // True the first time a folder is met, under whatever name: links may lead round in circles.
  bool first_visit(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return true;  // listing it will say what is wrong
    return visited_.emplace(info.st_dev, info.st_ino).second;
  }

  // The rules that hold in a folder: its own file's, and those above it. Relative to `folder`.
  struct Rules {
    std::string folder;
    IgnoreRules own;
    std::shared_ptr<const Rules> above;
  };

  // Folder that waits to be walked.
  struct Folder {
    std::string path;
    std::shared_ptr<const Rules> rules;
    bool is_collection = false;
  };

  void take_folder(const std::string& top) {
    top_ = top;
    std::vector<Folder> stack = {{.path = top, .rules = nullptr}};
    while (!stack.empty() && !stop_.stop_requested()) {
      Folder folder = std::move(stack.back());
      stack.pop_back();
      if (folder.path == except_ || !first_visit(folder.path)) continue;
      std::vector<fs::directory_entry> entries;
      std::error_code error;
      for (fs::directory_iterator entry(folder.path, error), end; !error && entry != end;
           entry.increment(error)) {
        entries.push_back(*entry);
      }
      if (error) {
        const auto code =
            error == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
        result_.unreadable.push_back({folder.path, Error{code, error.message()}});
      }
      // If the folder cannot be listed, that has been reported and its content is skipped.
      if (!error) read_rules(folder);
      folder.is_collection = is_saccades(folder.path);
      if (folder.is_collection) result_.not_looked_at.collections.push_back(folder.path);
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
      note_captioned(entries);
      std::vector<Folder> below;
      for (const fs::directory_entry& entry : entries) take_entry(entry, folder, below);
      stack.insert(stack.end(), below.rbegin(), below.rend());
    }
  }

  // Returns true for a folder of a Saccade collection, of this version or a newer one. A collection.json
  // alone may belong to another program.
  static bool is_saccades(const std::string& folder) {
    if (!is_collection(folder)) return false;
    const auto info = read_collection_info(folder);
    return info || info.error().code == ErrorCode::kUnsupported;
  }

  void read_rules(Folder& folder) {
    if (!options_.ignore_files) return;
    constexpr int64_t kMaxBytes = int64_t{64} << 20;
    const fs::path path = fs::path(folder.path) / kIgnoreFileName;
    const auto text = read_file(path, kMaxBytes);
    if (text) {
      folder.rules = std::make_shared<const Rules>(
          Rules{folder.path, IgnoreRules(std::string_view(*text)), folder.rules});
    } else if (text.error().code != ErrorCode::kNotFound) {
      result_.unreadable.push_back({path.string(), text.error()});
    }
  }

  // The command line first, then the deepest file that speaks of it.
  bool excluded(const std::string& path, const Rules* rules, bool folder) const {
    const auto below = [&](const std::string& top) {
      return std::string_view(path).substr(top.size() + (top.ends_with('/') ? 0 : 1));
    };
    if (!exclude_.empty()) {
      if (const auto decided = exclude_.decide(below(top_), folder)) return *decided;
    }
    for (; rules != nullptr; rules = rules->above.get()) {
      if (const auto decided = rules->own.decide(below(rules->folder), folder)) return *decided;
    }
    return false;
  }

  // Records the names of a folder's images, with and without their extension: a text file of such a name is a
  // caption.
  void note_captioned(const std::vector<fs::directory_entry>& entries) {
    captioned_.clear();
    const auto is_text = [](const fs::directory_entry& entry) { return entry.path().extension() == ".txt"; };
    if (!options_.sidecars || std::ranges::none_of(entries, is_text)) return;
    for (const fs::directory_entry& entry : entries) {
      if (!has_image_extension(entry.path()) && !is_video(entry.path())) continue;
      captioned_.insert(entry.path().filename().string());
      captioned_.insert(entry.path().stem().string());
    }
  }

  bool is_caption(const fs::path& path) const {
    return path.extension() == ".txt" && captioned_.find(path.stem().string()) != captioned_.end();
  }

  void take_entry(const fs::directory_entry& entry, const Folder& folder, std::vector<Folder>& below) {
    NotLookedAt& passed = result_.not_looked_at;
    const std::string name = entry.path().filename().string();
    std::string path = entry.path().string();
    std::error_code error;
    if (path == except_) return;
    if (!options_.hidden && name.starts_with('.')) {
      if (name != kIgnoreFileName) ++passed.hidden;
      return;
    }
    const bool link = entry.is_symlink(error);
    const bool is_folder = entry.is_directory(error);
    if (excluded(path, folder.rules.get(), is_folder)) {
      ++passed.excluded;
    } else if (is_folder) {
      if (link && !options_.follow_links) {
        ++passed.folder_links;
      } else {
        below.push_back({.path = std::move(path), .rules = folder.rules});
      }
    } else if (!has_image_extension(entry.path()) && !is_video(entry.path())) {
      if (!folder.is_collection && !is_caption(entry.path())) ++passed.endings[ending_of(entry.path())];
    } else if (entry.is_regular_file(error)) {
      add(path);
    } else if (link) {
      // One that cannot be followed for want of permission is tried, and fails aloud. A link to itself leads nowhere.
      const bool nowhere = entry.status(error).type() == fs::file_type::not_found;
      if (nowhere || error == std::errc::too_many_symbolic_link_levels) {
        ++passed.broken_links;
      } else {
        add(path);
      }
    }
  }

  // In small letters; long ones are none.
  static std::string ending_of(const fs::path& path) {
    constexpr size_t kLongest = 12;
    const std::string ending = path.extension().string();
    return ending.size() > kLongest ? std::string() : lower_ascii(ending);
  }

  const WalkOptions& options_;
  std::stop_token stop_;
  const std::function<void(int64_t)>& progress_;
  const IgnoreRules exclude_;
  std::string except_;
  std::string top_;  // the input that is being walked
  std::unordered_set<std::string> seen_;
  std::unordered_set<std::string> captioned_;  // of the folder at hand
  std::set<std::pair<dev_t, ino_t>> visited_;
  WalkResult result_;
};

}  // namespace

WalkOptions walk_options_of(const IngestOptions& options, const fs::path& except) {
  return {options.follow_links,
          options.hidden,
          except,
          options.exclude,
          options.ignore_files,
          options.sidecar_captions,
          options.video_tools && options.videos.most_frames > 0};
}

bool is_missing(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() == fs::file_type::not_found &&
         !fs::is_symlink(fs::symlink_status(path, error));
}

WalkResult walk(std::span<const fs::path> inputs, const WalkOptions& options, std::stop_token stop,
                const std::function<void(int64_t found)>& progress) {
  Walker walker(options, stop, progress);
  for (const fs::path& input : inputs) {
    if (stop.stop_requested()) break;
    walker.take(input);
  }
  return walker.result();
}

bool walk_would_take(const fs::path& path, std::span<const fs::path> inputs, const WalkOptions& options) {
  const std::string name = path.string();
  const std::function<void(int64_t)> nothing;
  for (const fs::path& input : inputs) {
    const std::string top = catalog_path(input);
    if (name == top) return true;
    const bool below =
        name.size() > top.size() && name.starts_with(top) && (top.ends_with('/') || name[top.size()] == '/');
    if (below && Walker(options, {}, nothing).would_take(top, name)) return true;
  }
  return false;
}

std::vector<std::string> first_pictures(std::span<const fs::path> inputs, size_t most,
                                        const WalkOptions& options) {
  std::stop_source enough;
  WalkResult found = walk(inputs, options, enough.get_token(), [&](int64_t count) {
    if (count >= static_cast<int64_t>(most)) enough.request_stop();
  });
  if (found.files.size() > most) found.files.resize(most);
  return std::move(found.files);
}

}  // namespace saccade

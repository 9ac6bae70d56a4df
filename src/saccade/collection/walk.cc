#include "saccade/collection/walk.h"

#include <algorithm>
#include <set>
#include <sys/stat.h>
#include <unordered_set>
#include <utility>

#include "saccade/collection/collection.h"
#include "saccade/image/image.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

class Walker {
 public:
  Walker(const WalkOptions& options, std::stop_token stop, const std::function<void(int64_t)>& progress)
      : options_(options), stop_(std::move(stop)), progress_(progress) {
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

  WalkResult result() { return std::move(result_); }

 private:
  void add(const std::string& path) {
    if (!seen_.insert(path).second) return;
    result_.files.push_back(path);
    if (progress_ && result_.files.size() % 256 == 0) progress_(static_cast<int64_t>(result_.files.size()));
  }

  // True the first time a folder is met, under whatever name: links may lead round in circles.
  bool first_visit(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return true;  // listing it will say what is wrong
    return visited_.emplace(info.st_dev, info.st_ino).second;
  }

  void take_folder(const std::string& top) {
    std::vector<std::string> stack = {top};
    while (!stack.empty() && !stop_.stop_requested()) {
      const std::string folder = std::move(stack.back());
      stack.pop_back();
      if (folder == except_ || !first_visit(folder)) continue;
      std::vector<fs::directory_entry> entries;
      std::error_code error;
      for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        entries.push_back(*entry);
      }
      if (error) {
        const auto code =
            error == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
        result_.unreadable.push_back({folder, Error{code, error.message()}});
      }
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
      std::vector<std::string> below;
      for (const fs::directory_entry& entry : entries) take_entry(entry, below);
      stack.insert(stack.end(), below.rbegin(), below.rend());
    }
  }

  void take_entry(const fs::directory_entry& entry, std::vector<std::string>& below) {
    const std::string name = entry.path().filename().string();
    if (!options_.hidden && name.starts_with('.')) return;
    std::error_code error;
    const bool link = entry.is_symlink(error);
    if (entry.is_directory(error)) {
      if (!link || options_.follow_links) below.push_back(entry.path().string());
    } else if ((entry.is_regular_file(error) || link) && has_image_extension(entry.path())) {
      add(entry.path().string());  // a dangling link too: its failure is worth a line
    }
  }

  const WalkOptions& options_;
  std::stop_token stop_;
  const std::function<void(int64_t)>& progress_;
  std::string except_;
  std::unordered_set<std::string> seen_;
  std::set<std::pair<dev_t, ino_t>> visited_;
  WalkResult result_;
};

}  // namespace

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

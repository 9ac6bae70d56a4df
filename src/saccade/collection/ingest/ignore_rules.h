// Ignore rules for files and folders, in gitignore's syntax (https://git-scm.com/docs/gitignore).
//
//   # comment                    blank lines and comments are skipped; "\#" and "\!" begin a name with these
//   *.tmp                        a name, anywhere below
//   drafts/                      a folder of that name, with all below it
//   /private, a/b                a path relative to the folder of the file, if "/" is at the front
//                                or in the middle
//   **/old, old/**, a/**/b       "**" is any number of folders
//   !keep.jpg                    includes again what an earlier line excluded, unless a
//                                folder above it is excluded
//
// The last line that matches decides. A deeper folder's file overrides one above it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace saccade {

inline constexpr std::string_view kIgnoreFileName = ".saccadeignore";

// Rules of one ignore file. Thread-safe once made. Lines without wildcards and those of the form "*.ending"
// are looked up, so a hundred thousand of them cost a file no more than ten. The others are tried one by one.
class IgnoreRules {
 public:
  explicit IgnoreRules(std::string_view text);
  explicit IgnoreRules(std::span<const std::string> lines);

  // Returns true if a line excludes `path`, false if a line includes it again, `nullopt` if no line matches.
  // `path` is relative to the file's folder and has no "/" at its ends. The caller checks the folders above
  // it.
  [[nodiscard]] std::optional<bool> decide(std::string_view path, bool folder) const;
  [[nodiscard]] bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    std::string pattern;
    bool negated = false;
    bool folders_only = false;
    bool anchored = false;  // the pattern is of the whole path, not of a name
  };
  using Places = std::unordered_map<std::string, std::vector<uint32_t>>;

  void add(std::string_view line);

  std::vector<Rule> rules_;
  Places names_;                   // rules that are a name, by it
  Places paths_;                   // that are a path
  Places endings_;                 // that are "*.ending", by ".ending"
  std::vector<uint32_t> general_;  // all others
};

// Returns true if the text matches a gitignore glob. `*` and `?` do not match `/`. `[a-z]` and `[!a-z]` match
// one character, and `**` between slashes matches any number of folders. Compares bytes, not characters.
// Cost: at most the length of the text times that of the pattern.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace saccade

// API keys, loaded from a file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::serve {

// Rights of a key; each includes those before it.
enum class Right {
  kNone,   // what everybody may
  kRead,   // search and encode
  kWrite,  // change collections
};

// Rights of a request by its keys: in all collections, and more in some. A value.
class Access {
 public:
  Access() = default;  // none
  explicit Access(Right everywhere) : everywhere_(everywhere) {}

  // Adds the rights of another key, in `collections`; in all of them if the list is empty.
  void add(Right right, const std::vector<std::string>& collections);
  void add(const Access& other);

  [[nodiscard]] Right everywhere() const { return everywhere_; }
  // Returns the right in one collection.
  [[nodiscard]] Right in(std::string_view collection) const;
  // Returns the largest right in any collection.
  [[nodiscard]] Right anywhere() const;

 private:
  Right everywhere_ = Right::kNone;
  std::map<std::string, Right, std::less<>> in_;
};

// Copies share the keys. Thread-safe.
class Keys {
 public:
  // No key is asked for.
  Keys() = default;
  // Reads a file with one key a line:
  //
  //   read KEY [COLLECTION...]    search and encode
  //   write KEY [COLLECTION...]   also change collections
  //   KEY                         as read KEY
  //
  // in the named collections (a blank is %20, as in addresses), or in all. Several lines of a key add up. Empty lines and those that begin with # are
  // skipped. kUsage, with the line's number, for a file that others than its owner may read or that holds no key, for a
  // key of fewer than 16 characters, and for a line of several words that begins with another one than read or write.
  static Result<Keys> read(const std::filesystem::path& file);

  [[nodiscard]] bool asked_for() const { return file_ != nullptr; }
  // Returns the rights of a key: kWrite everywhere for anybody if no key is asked for. Takes as long for any key, right or
  // wrong: digests are compared, each to its end, and all of them.
  [[nodiscard]] Access access_of(std::string_view key) const;
  // Returns the largest of them.
  [[nodiscard]] Right right_of(std::string_view key) const { return access_of(key).anywhere(); }
  // Returns the collections that keys are limited to.
  [[nodiscard]] std::vector<std::string> collections() const;

  // Reads the file again if it has changed since, or in any case with `anyway`. Returns whether other keys hold now.
  // Errors are those of read(); the previous keys stay then.
  [[nodiscard]] Result<bool> follow(bool anyway = false) const;

 private:
  struct File;
  std::shared_ptr<File> file_;  // nullptr: no key is asked for
};

}  // namespace saccade::serve

// Rows of pictures and texts kept from one evaluation to the next, found by the content they were made from.
//
// A cache is a folder; in it, each *space* (everything that decides a row beside the input: checkpoint,
// precision, preprocessing, libraries) is a folder named by the SHA-256 of its description; in that, files
// that are written once, whole, and never changed:
//
//   SPACE/NAME.safetensors   keys [n, 32] U8: the SHA-256 of each input
//                            begin [n + 1] I64: item i has rows [begin[i], begin[i + 1])
//                            rows [r, dim] F32
//                            check [n, 32] U8: SHA-256 over an item's key and rows
//
// So any number of processes may use one cache; what a killed one has not written is lost to nobody. A row
// whose check fails is as if it were not there, and its file is replaced. Above `max_bytes` the files that
// were used longest ago go. Other files, also in the same folder, stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::lab {

inline constexpr int64_t kEmbeddingCacheBytes = int64_t{8} << 30;

// One space of a cache. Not for several threads at a time.
class EmbeddingCache {
 public:
  // Makes the folder if need be, and reads which rows are there; files that are broken are deleted and
  // counted. `space`: a description, any text. kIo where the folder cannot be made or read. Cost: the keys.
  static Result<EmbeddingCache> open(const std::filesystem::path& folder, std::string_view space, int64_t dim,
                                     int64_t max_bytes = kEmbeddingCacheBytes);

  // Whether find() would look further than the keys.
  [[nodiscard]] bool has(const std::string& key) const;
  // Appends an item's rows to `rows` and says how many; 0 where there are none. key: 64 hexadecimal digits.
  int64_t find(const std::string& key, std::vector<float>& rows);
  // Keeps an item's rows ([k, dim], k >= 1) for later; written when enough has come together.
  Status add(const std::string& key, MatrixView<const float> rows);
  // Writes what was added, then deletes what is too much.
  Status flush();

  struct Counts {
    int64_t found = 0;
    int64_t added = 0;
    int64_t broken = 0;  // files and items that were not as they were written
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Segment {
    std::filesystem::path path;
    SafeTensors file;
    std::vector<int64_t> begin;
    bool used = false;
  };
  struct Place {
    size_t segment = 0;
    int64_t item = 0;
  };
  void open_segment(const std::filesystem::path& path);
  void replace_segment(size_t segment);
  [[nodiscard]] bool is_sound(size_t segment, int64_t item) const;
  [[nodiscard]] std::span<const std::byte> rows_of(size_t segment, int64_t item) const;
  Status prune();

  std::filesystem::path folder_;  // of the cache
  std::filesystem::path space_folder_;
  std::string space_;
  int64_t dim_ = 0;
  int64_t max_bytes_ = 0;
  std::vector<Segment> segments_;
  std::unordered_map<std::string, Place> places_;  // by key
  std::vector<std::string> new_keys_;
  std::vector<int64_t> new_begin_ = {0};
  std::vector<float> new_rows_;
  Counts counts_;
};

}  // namespace saccade::lab

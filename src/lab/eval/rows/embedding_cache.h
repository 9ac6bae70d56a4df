// Cache of image and text embeddings across evaluations, addressed by the content of the input.
//
// A cache is a folder. In it, each *space* is a folder named by the SHA-256 of its description. A space is
// everything that affects an embedding apart from the input: checkpoint, precision, preprocessing, libraries.
// It holds files that are written once, as a whole, and never changed:
//
//   SPACE/NAME.safetensors   keys [n, 32] U8: the SHA-256 of each input
//                            begin [n + 1] I64: item i has rows [begin[i], begin[i + 1])
//                            rows [r, dim] F32
//                            check [n, 32] U8: SHA-256 over an item's key and rows
//
// So any number of processes may use one cache, and a killed process loses only its own unwritten rows. A row
// whose check fails counts as missing, and its file is replaced. Above `max_bytes` the least recently used
// files are deleted. Other files, also in the same folder, stay.
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
#include "saccade/core/files/safetensors.h"
#include "saccade/matrix.h"

namespace saccade::lab {

inline constexpr int64_t kEmbeddingCacheBytes = int64_t{8} << 30;

// One space of a cache. Not thread-safe.
class EmbeddingCache {
 public:
  // Makes the folder if needed, and reads the keys of its rows. Broken files are deleted and counted.
  // `space`: a description, any text. Returns kIo if the folder cannot be made or read. Cost: the keys.
  static Result<EmbeddingCache> open(const std::filesystem::path& folder, std::string_view space, int64_t dim,
                                     int64_t max_bytes = kEmbeddingCacheBytes);

  // Returns true if the key is present. find() also checks the rows.
  [[nodiscard]] bool has(const std::string& key) const;
  // Appends an item's rows to `rows` and returns their number; 0 if there are none. key: 64 hexadecimal
  // digits.
  int64_t find(const std::string& key, std::vector<float>& rows);
  // Adds an item's rows ([k, dim], k >= 1). They are written once enough rows are pending.
  Status add(const std::string& key, MatrixView<const float> rows);
  // Writes the pending rows, then deletes files beyond the limit.
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

  std::filesystem::path folder_;  // folder of the cache
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

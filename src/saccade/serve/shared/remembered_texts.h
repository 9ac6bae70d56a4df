// Cache of the embeddings of recently requested texts. Turning a page, setting a filter or repeating a search
// then encodes nothing.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/matrix.h"

namespace saccade::serve {

// The least recently asked for go first. Thread-safe.
class RememberedTexts {
 public:
  // bytes: for rows and token ids, and what keeping them takes; 0: nothing is kept.
  explicit RememberedTexts(int64_t bytes) : most_bytes_(bytes) {}

  // ids: a text's tokens; all that an encoder's row depends on.
  [[nodiscard]] std::optional<Matrix<float>> find(std::span<const int32_t> ids);
  void keep(std::span<const int32_t> ids, std::span<const float> row);
  // Returns the number of hits so far.
  [[nodiscard]] int64_t found() const;

 private:
  struct Text {
    std::vector<int32_t> ids;
    std::vector<float> row;

    [[nodiscard]] int64_t bytes() const;
  };
  // The bytes of the ids: these of the list's own texts, which stay where they are.
  static std::string_view key_of(std::span<const int32_t> ids) {
    return {reinterpret_cast<const char*>(ids.data()), ids.size_bytes()};
  }

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Text> texts_;  // the last one asked for first
  std::unordered_map<std::string_view, std::list<Text>::iterator> places_;
  int64_t bytes_ = 0;
  int64_t found_ = 0;
};

}  // namespace saccade::serve

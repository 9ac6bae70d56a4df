// Cache of text embeddings; each text is encoded once per round. Used by length.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lab/eval/rows/embed.h"
#include "saccade/core/error.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// A cache that works in rounds. Texts are requested between begin() and finish(); after finish() their
// embeddings are available, one for texts with equal ids. Texts of the previous round are not encoded again.
class RowCache {
 public:
  // See LengthModel::encode.
  using Encode = std::function<Result<EmbeddedRows>(std::span<const TokenizedText>, const std::string&)>;
  explicit RowCache(Encode encode) : encode_(std::move(encode)) {}

  void begin();
  // Requests texts and returns the place of each in rows().
  std::vector<int64_t> add(std::span<const TokenizedText> texts);
  // Encodes the round's texts. Returns the encoder's errors, and kInternal if it gave another number of
  // embeddings than texts. `detail`: for progress.
  Status finish(const std::string& detail);
  [[nodiscard]] const EmbeddedRows& rows() const { return rows_; }
  // Number of texts encoded so far.
  [[nodiscard]] int64_t encoded() const { return encoded_; }

 private:
  struct Hash {
    size_t operator()(const std::vector<int32_t>& ids) const;
  };
  using Places = std::unordered_map<std::vector<int32_t>, int64_t, Hash>;

  Encode encode_;
  Places places_;                     // places in rows_
  Places wanted_;                     // places of this round
  std::vector<TokenizedText> texts_;  // texts of this round, by place
  EmbeddedRows rows_;
  int64_t encoded_ = 0;
};

}  // namespace saccade::lab

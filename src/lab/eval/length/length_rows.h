// Rows of texts that are encoded once, however often they are asked for. For length.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "lab/eval/rows/embed.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// Works in rounds: between begin() and finish() texts are asked for; after finish() their rows are there, of
// those with equal ids one. Texts that the round before had too are not encoded again.
class RowCache {
 public:
  // As LengthModel::encode.
  using Encode = std::function<Result<EmbeddedRows>(std::span<const TokenizedText>, const std::string&)>;
  explicit RowCache(Encode encode) : encode_(std::move(encode)) {}

  void begin();
  // Where in rows() each text will be.
  std::vector<int64_t> add(std::span<const TokenizedText> texts);
  // The encoder's errors, kInternal where it gave another number of rows than texts. `detail`: for progress.
  Status finish(const std::string& detail);
  [[nodiscard]] const EmbeddedRows& rows() const { return rows_; }
  // How many texts were encoded so far.
  [[nodiscard]] int64_t encoded() const { return encoded_; }

 private:
  struct Hash {
    size_t operator()(const std::vector<int32_t>& ids) const;
  };
  using Places = std::unordered_map<std::vector<int32_t>, int64_t, Hash>;

  Encode encode_;
  Places places_;                     // of what rows_ holds
  Places wanted_;                     // of this round
  std::vector<TokenizedText> texts_;  // of this round, by place
  EmbeddedRows rows_;
  int64_t encoded_ = 0;
};

}  // namespace saccade::lab

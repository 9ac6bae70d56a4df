// Segmentation of text into the pieces of a SentencePiece model.
//
// Unigram: Kudo, "Subword Regularization", 2018; maximizes the sum of the pieces' scores by dynamic
// programming. BPE: Sennrich et al. 2016; merges neighbors, the piece of the highest score first. Results
// equal those of github.com/google/sentencepiece, including ties.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"
#include "saccade/text/tokenizers/sentencepiece_model.h"
#include "saccade/text/tokenizers/sentencepiece_normalizer.h"

namespace saccade {

class SentencePieceEncoder : public PieceEncoder {
 public:
  static Result<std::shared_ptr<const SentencePieceEncoder>> make(SentencePieceModel model);

  // Cost: linear in the text (unigram: times the longest piece), n log n for BPE.
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const override;
  [[nodiscard]] const SentencePieceModel& model() const { return model_; }

 private:
  explicit SentencePieceEncoder(SentencePieceModel model) : model_(std::move(model)) {}
  void append_unigram(std::string_view text, std::vector<int32_t>& ids) const;
  void append_bpe(std::string_view text, std::vector<int32_t>& ids) const;
  // Appends one piece's id. An unknown piece becomes its bytes' ids, if supported; a run of unknown pieces
  // becomes one.
  void emit(std::string_view piece, int32_t id, bool& after_unknown, std::vector<int32_t>& ids) const;
  [[nodiscard]] bool is(int32_t id, SentencePieceModel::Type type) const {
    return model_.pieces[static_cast<size_t>(id)].type == type;
  }

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  PrefixTrie trie_;                                        // unigram: what a text can be made of
  std::unordered_map<std::string_view, int32_t> by_text_;  // BPE: the same
  size_t longest_piece_ = 0;                               // bytes
  PrefixTrie user_defined_;
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_ = 0;
  float unknown_score_ = 0;
  float highest_score_ = 0;
};

}  // namespace saccade

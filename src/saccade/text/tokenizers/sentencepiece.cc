#include "saccade/text/tokenizers/sentencepiece.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using Type = SentencePieceModel::Type;

// Penalty of an unknown character relative to the score of the least likely piece.
constexpr float kUnknownPenalty = 10;

size_t character_size(std::string_view text) {
  size_t size = 0;
  next_code_point(text, size);
  return size;
}

}  // namespace

Result<std::shared_ptr<const SentencePieceEncoder>> SentencePieceEncoder::make(SentencePieceModel model) {
  SACCADE_TRY(check_sentencepiece_model(model));
  std::shared_ptr<SentencePieceEncoder> encoder(new SentencePieceEncoder(std::move(model)));
  const SentencePieceModel& own = encoder->model_;
  SACCADE_ASSIGN(encoder->normalizer_, SentencePieceNormalizer::make(own));
  float lowest = std::numeric_limits<float>::max();
  float highest = std::numeric_limits<float>::lowest();
  for (size_t i = 0; i < own.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = own.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.type == Type::kUnknown) encoder->unknown_ = id;
    if (piece.type == Type::kNormal) {
      lowest = std::min(lowest, piece.score);
      highest = std::max(highest, piece.score);
    }
    if (piece.type == Type::kUserDefined) encoder->user_defined_.insert(piece.text, id);
    if (piece.type != Type::kNormal && piece.type != Type::kUserDefined && piece.type != Type::kUnused)
      continue;
    encoder->longest_piece_ = std::max(encoder->longest_piece_, piece.text.size());
    if (own.kind == SentencePieceModel::Kind::kUnigram) {
      encoder->trie_.insert(piece.text, id);
    } else {
      encoder->by_text_.emplace(piece.text, id);
    }
  }
  if (own.byte_fallback) {
    for (size_t byte = 0; byte < 256; ++byte) {
      encoder->byte_ids_[byte] = own.find(byte_fallback_piece(static_cast<uint8_t>(byte)));
    }
  }
  encoder->unknown_score_ = lowest - kUnknownPenalty;
  encoder->highest_score_ = highest;
  return std::shared_ptr<const SentencePieceEncoder>(std::move(encoder));
}

void SentencePieceEncoder::append_ids(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string normalized = normalizer_.normalize(text);
  if (normalized.empty()) return;
  if (model_.kind == SentencePieceModel::Kind::kUnigram) {
    append_unigram(normalized, ids);
  } else {
    append_bpe(normalized, ids);
  }
}

void SentencePieceEncoder::emit(std::string_view piece, int32_t id, bool& after_unknown,
                                std::vector<int32_t>& ids) const {
  const bool unknown = id == unknown_;
  if (unknown && model_.byte_fallback) {
    for (const char byte : piece) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  } else if (!unknown || !after_unknown) {
    ids.push_back(id);
  }
  after_unknown = unknown;
}

void SentencePieceEncoder::append_unigram(std::string_view text, std::vector<int32_t>& ids) const {
  // Best segmentation up to a position: the beginning and id of its last piece.
  struct Best {
    float score = 0;
    int32_t begin = -1;
    int32_t id = 0;
  };
  std::vector<Best> best(text.size() + 1);
  const auto offer = [&](size_t begin, size_t end, int32_t id, float score) {
    Best& there = best[end];
    const float sum = score + best[begin].score;
    if (there.begin < 0 || sum > there.score) there = {sum, static_cast<int32_t>(begin), id};
  };
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    const size_t one = character_size(rest);
    bool single = false;
    trie_.prefixes(rest, [&](size_t length, int32_t id) {
      if (is(id, Type::kUnused)) return;
      // User-defined pieces are always chosen.
      const float score = is(id, Type::kUserDefined) ? static_cast<float>(length) * highest_score_ - 0.1F
                                                     : model_.pieces[static_cast<size_t>(id)].score;
      offer(begin, begin + length, id, score);
      single = single || length == one;
    });
    if (!single) offer(begin, begin + one, unknown_, unknown_score_);
    begin += one;
  }
  std::vector<size_t> ends;
  for (size_t end = text.size(); end > 0; end = static_cast<size_t>(best[end].begin)) ends.push_back(end);
  bool after_unknown = false;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const auto begin = static_cast<size_t>(best[*end].begin);
    emit(text.substr(begin, *end - begin), best[*end].id, after_unknown, ids);
  }
}

void SentencePieceEncoder::append_bpe(std::string_view text, std::vector<int32_t>& ids) const {
  struct Symbol {
    uint32_t begin = 0;
    uint32_t size = 0;  // 0: joined into the one before
    int32_t previous = -1;
    int32_t next = -1;
    bool frozen = false;  // user-defined: never joined
  };
  struct Candidate {
    float score;
    int32_t left;
    int32_t right;
    uint32_t size;
    int32_t id;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  std::vector<Symbol> symbols;
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    const size_t user_defined = user_defined_.empty() ? 0 : user_defined_.longest(rest).length;
    const size_t size = user_defined != 0 ? user_defined : character_size(rest);
    const auto index = static_cast<int32_t>(symbols.size());
    begin += size;
    symbols.push_back({static_cast<uint32_t>(begin - size), static_cast<uint32_t>(size), index - 1,
                       begin < text.size() ? index + 1 : -1, user_defined != 0});
  }
  const auto at = [&](int32_t index) -> Symbol& { return symbols[static_cast<size_t>(index)]; };
  // Unused pieces occur as intermediate results and are split again at the end.
  std::unordered_map<std::string_view, size_t> first_part;
  std::priority_queue<Candidate> agenda;
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0 || at(left).frozen || at(right).frozen) return;
    const uint32_t size = at(left).size + at(right).size;
    if (size > longest_piece_) return;
    const auto found = by_text_.find(text.substr(at(left).begin, size));
    if (found == by_text_.end()) return;
    agenda.push({model_.pieces[static_cast<size_t>(found->second)].score, left, right, size, found->second});
    if (is(found->second, Type::kUnused)) first_part[found->first] = at(left).size;
  };
  for (size_t i = 1; i < symbols.size(); ++i) {
    consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  }
  while (!agenda.empty()) {
    const Candidate top = agenda.top();
    agenda.pop();
    Symbol& left = at(top.left);
    Symbol& right = at(top.right);
    // Either side may have been merged since.
    if (left.size == 0 || right.size == 0 || left.size + right.size != top.size) continue;
    left.size = top.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) at(left.next).previous = top.left;
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }

  bool after_unknown = false;
  std::vector<std::string_view> waiting;
  for (int32_t index = 0; index >= 0; index = at(index).next) {
    waiting.assign(1, text.substr(at(index).begin, at(index).size));
    while (!waiting.empty()) {
      const std::string_view piece = waiting.back();
      waiting.pop_back();
      const auto found = by_text_.find(piece);
      const int32_t id = found == by_text_.end() ? unknown_ : found->second;
      const auto part = first_part.find(piece);
      if (is(id, Type::kUnused) && part != first_part.end()) {
        waiting.push_back(piece.substr(part->second));
        waiting.push_back(piece.substr(0, part->second));
      } else {
        emit(piece, id, after_unknown, ids);
      }
    }
  }
}

}  // namespace saccade

#include "saccade/text/tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "saccade/text/utf8.h"

namespace saccade {

std::string byte_piece(uint8_t byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  char32_t code_point = byte;
  if (!printable(byte)) {
    code_point = 0x100;
    for (int b = 0; b < byte; ++b) code_point += printable(b) ? 0 : 1;
  }
  std::string piece;
  append_utf8(piece, code_point);
  return piece;
}

Result<Bpe> Bpe::make(const Vocabulary& vocabulary, std::span<const BpeMerge> merges, std::string_view suffix,
                      std::optional<int32_t> unknown) {
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string piece = byte_piece(static_cast<uint8_t>(byte));
    for (const bool last : {false, true}) {
      const auto found = vocabulary.find(last ? piece + std::string(suffix) : piece);
      if (found == vocabulary.end() && !unknown) {
        return fail(ErrorCode::kBadData,
                    "the vocabulary has no piece \"{}{}\" for byte {}, and no unknown token", piece,
                    last ? suffix : "", byte);
      }
      auto& ids = last ? bpe.last_byte_ids_ : bpe.byte_ids_;
      ids[static_cast<size_t>(byte)] = found == vocabulary.end() ? *unknown : found->second;
    }
  }

  SACCADE_TRY(bpe.add_merges(vocabulary, merges));
  return bpe;
}

Result<Bpe> Bpe::make_merges(const Vocabulary& vocabulary, std::span<const BpeMerge> merges) {
  Bpe bpe;
  SACCADE_TRY(bpe.add_merges(vocabulary, merges));
  return bpe;
}

Status Bpe::add_merges(const Vocabulary& vocabulary, std::span<const BpeMerge> merges) {
  rules_.resize(std::bit_ceil(2 * merges.size() + 2));
  int32_t rank = 0;
  for (const BpeMerge& merge : merges) {
    const auto left = vocabulary.find(merge.left);
    const auto right = vocabulary.find(merge.right);
    const auto whole = vocabulary.find(merge.left + merge.right);
    for (const auto& [found, name] : {std::pair(left, merge.left), std::pair(right, merge.right),
                                      std::pair(whole, merge.left + merge.right)}) {
      if (found == vocabulary.end()) {
        return fail(ErrorCode::kBadData, "{}: piece \"{}\" is not in the vocabulary", merge.place,
                    name.substr(0, 60));
      }
    }
    insert({pair_key(left->second, right->second), rank++, whole->second});
  }
  return {};
}

size_t Bpe::slot_of(uint64_t pair) const {
  // Fibonacci hashing: the multiplication's upper bits depend on all of the pair.
  const size_t mask = rules_.size() - 1;
  size_t slot = static_cast<size_t>((pair * 0x9e3779b97f4a7c15ULL) >> 32) & mask;
  while (rules_[slot].pair != pair && rules_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return slot;
}

const Bpe::Rule* Bpe::find(int32_t left, int32_t right) const {
  const Rule& rule = rules_[slot_of(pair_key(left, right))];
  return rule.pair == kNoPair ? nullptr : &rule;
}

// A pair listed twice has the rank of its last occurrence, as in the reference's dictionaries.
void Bpe::insert(const Rule& rule) {
  rules_[slot_of(rule.pair)] = rule;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto size = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(word[static_cast<size_t>(i)]);
    const bool last = i + 1 == size;
    symbols.push_back({last ? last_byte_ids_[byte] : byte_ids_[byte], i - 1, last ? -1 : i + 1});
  }
  join_symbols(scratch, ids);
}

void Bpe::join(std::span<const int32_t> pieces, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (pieces.empty()) return;
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto size = static_cast<int32_t>(pieces.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols.push_back({pieces[static_cast<size_t>(i)], i - 1, i + 1 == size ? -1 : i + 1});
  }
  join_symbols(scratch, ids);
}

void Bpe::join_symbols(Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  heap.clear();
  const auto size = static_cast<int32_t>(symbols.size());
  const auto symbol = [&](int32_t position) -> Scratch::Symbol& {
    return symbols[static_cast<size_t>(position)];
  };
  // Standard library heaps return the greatest element: "greater" is the pair learned later, or further
  // right.
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  };
  const auto candidate_at = [&](int32_t position) {
    const int32_t next = symbol(position).next;
    const Rule* rule = next < 0 ? nullptr : find(symbol(position).id, symbol(next).id);
    if (rule == nullptr) return false;
    heap.push_back({rule->rank, position, rule->id});
    return true;
  };
  for (int32_t i = 0; i + 1 < size; ++i) candidate_at(i);
  std::make_heap(heap.begin(), heap.end(), later);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbol(candidate.position);
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbol(left.next);
    // Either side may have been merged since.
    const Rule* rule = find(left.id, right.id);
    if (rule == nullptr || rule->id != candidate.id) continue;

    left.id = candidate.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbol(left.next).previous = candidate.position;
    if (left.previous >= 0 && candidate_at(left.previous)) std::push_heap(heap.begin(), heap.end(), later);
    if (candidate_at(candidate.position)) std::push_heap(heap.begin(), heap.end(), later);
  }
  for (int32_t i = 0; i >= 0; i = symbol(i).next) ids.push_back(symbol(i).id);
}

}  // namespace saccade

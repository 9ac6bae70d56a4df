// Byte-level byte pair encoding: a word's bytes are merged pair by pair, in the order in which the pairs were
// learned.
//
// Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016, over bytes as in
// GPT-2; CLIP marks a word's last piece with "</w>". Pairs wait in a heap, and the word is a linked list: n
// log n in the word's length for any word.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// Map of piece to id. Ids are 0 to size - 1, each once.
using Vocabulary = std::unordered_map<std::string, int32_t>;

struct BpeMerge {
  std::string left;
  std::string right;
  std::string place;  // "line 17" or "merge 17", for messages
};

// Returns the character that represents a byte in vocabulary files, in UTF-8 (GPT-2's table: printable bytes
// are themselves, the others U+0100 and up).
std::string byte_piece(uint8_t byte);

// Byte pair encoder. Immutable, so encoding from many threads is safe.
class Bpe {
 public:
  // Working memory of encode, reused between words by one thread.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      int32_t id;  // -1: joined into the one before
      int32_t previous;
      int32_t next;  // -1 if there is none
    };
    struct Candidate {
      int32_t rank;
      int32_t position;
      int32_t id;
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
  };

  // Builds the encoder. `suffix` ends a word's last piece ("</w>"). Bytes missing from the vocabulary become
  // `unknown`. Returns kBadData for a merge whose parts or result are not in the vocabulary, and for missing
  // bytes without `unknown`.
  static Result<Bpe> make(const Vocabulary& vocabulary, std::span<const BpeMerge> merges,
                          std::string_view suffix, std::optional<int32_t> unknown);

  // Builds only the merges, for vocabularies whose initial pieces are not bytes. Supports join(), not
  // encode().
  static Result<Bpe> make_merges(const Vocabulary& vocabulary, std::span<const BpeMerge> merges);

  // Appends the ids of one word of at most 2^30 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;
  // Merges a sequence of at most 2^30 pieces and appends the resulting ids.
  void join(std::span<const int32_t> pieces, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;
    int32_t rank = 0;
    int32_t id = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  [[nodiscard]] size_t slot_of(uint64_t pair) const;
  [[nodiscard]] const Rule* find(int32_t left, int32_t right) const;
  void insert(const Rule& rule);
  Status add_merges(const Vocabulary& vocabulary, std::span<const BpeMerge> merges);
  void join_symbols(Scratch& scratch, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_{};
  std::array<int32_t, 256> last_byte_ids_{};
  std::vector<Rule> rules_;  // open addressing, a power of two of slots, at most half of them filled
};

}  // namespace saccade

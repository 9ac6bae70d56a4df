// SentencePiece model files (spiece.model, tokenizer.model), read and validated.
//
// The format is a protocol buffer (github.com/google/sentencepiece, src/sentencepiece_model.proto). These
// fields affect tokenization:
//
//   ModelProto       1 pieces (repeated), 2 trainer_spec, 3 normalizer_spec
//   SentencePiece    1 piece (text), 2 score (float), 3 type: 1 normal, 2 unknown, 3 control,
//                    4 user-defined, 5 unused, 6 byte
//   TrainerSpec      3 model_type: 1 unigram, 2 BPE; 24 treat_whitespace_as_suffix; 35 byte_fallback
//   NormalizerSpec   2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
//                    5 escape_whitespaces
//
// All others are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct SentencePieceModel {
  enum class Type { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  enum class Kind { kUnigram = 1, kBpe = 2 };

  Kind kind = Kind::kUnigram;
  std::vector<Piece> pieces;  // by id
  bool byte_fallback = false;
  bool space_as_suffix = false;
  // Normalization table: uint32 n, little-endian; a Darts double array of n bytes, which maps UTF-8 to an
  // offset in the rest; then NUL-terminated replacements. If empty, all characters are kept.
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;

  // Returns the id of the piece with exactly that text, or -1. Linear: meant for the few special ones.
  [[nodiscard]] int32_t find(std::string_view text) const;
};

// Parses a model. Returns kBadData for an invalid file, and kUnsupported for word and character models.
Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes);
// Checks the invariants of a model from any source. Every piece has text and is unique, and scores are
// finite. There is one unknown piece, and byte fallback has all 256 byte pieces.
Status check_sentencepiece_model(const SentencePieceModel& model);

// Returns the piece for a byte in byte fallback, "<0x0A>".
std::string byte_fallback_piece(uint8_t byte);

}  // namespace saccade

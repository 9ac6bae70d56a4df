#include "saccade/text/tokenizers/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

namespace saccade {
namespace {

using Type = SentencePieceModel::Type;

// One field of a protocol buffer's message: a number, or bytes.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;
  int wire = 0;  // 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits
};

// Reads a message field by field, within its bytes.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }

  Result<Field> next() {
    Field field;
    SACCADE_ASSIGN(const uint64_t key, varint());
    field.number = key >> 3;
    field.wire = static_cast<int>(key & 7);
    if (field.number == 0) return broken("field 0");
    switch (field.wire) {
      case 0: {
        SACCADE_ASSIGN(field.value, varint());
        return field;
      }
      case 1:
      case 5: {
        const size_t size = field.wire == 1 ? 8 : 4;
        if (rest_.size() < size) return broken("a number cut short");
        std::memcpy(&field.value, rest_.data(), size);  // little-endian, as all we build for
        rest_.remove_prefix(size);
        return field;
      }
      case 2: {
        SACCADE_ASSIGN(const uint64_t size, varint());
        if (size > rest_.size()) return broken("a field longer than what is left");
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return field;
      }
      default:
        return broken("an unknown wire type");
    }
  }

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return broken("a number cut short");
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return broken("a number of more than 64 bits");
  }

  [[nodiscard]] tl::unexpected<Error> broken(const char* what) const {
    return fail(ErrorCode::kBadData, "not a SentencePiece model: {} before byte {}", what,
                size_ - rest_.size());
  }

  std::string_view rest_;
  size_t size_;
};

Status expect_wire(const Field& field, int wire, const char* name) {
  if (field.wire == wire) return {};
  return fail(ErrorCode::kBadData, "not a SentencePiece model: {} has wire type {}, not {}", name, field.wire,
              wire);
}

Result<SentencePieceModel::Piece> parse_piece(std::string_view bytes) {
  SentencePieceModel::Piece piece;
  for (Message message(bytes); !message.done();) {
    SACCADE_ASSIGN(const Field field, message.next());
    if (field.number == 1) {
      SACCADE_TRY(expect_wire(field, 2, "piece"));
      piece.text = field.bytes;
    } else if (field.number == 2) {
      SACCADE_TRY(expect_wire(field, 5, "score"));
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else if (field.number == 3) {
      SACCADE_TRY(expect_wire(field, 0, "type"));
      if (field.value < 1 || field.value > 6) {
        return fail(ErrorCode::kBadData, "piece type {}, known are 1 to 6", field.value);
      }
      piece.type = static_cast<Type>(field.value);
    }
  }
  return piece;
}

Status parse_trainer(std::string_view bytes, SentencePieceModel& model) {
  for (Message message(bytes); !message.done();) {
    SACCADE_ASSIGN(const Field field, message.next());
    if (field.number == 3) {
      SACCADE_TRY(expect_wire(field, 0, "model_type"));
      if (field.value != 1 && field.value != 2) {
        return fail(ErrorCode::kUnsupported, "SentencePiece model type {}, known are 1 (unigram) and 2 (BPE)",
                    field.value);
      }
      model.kind = static_cast<SentencePieceModel::Kind>(field.value);
    } else if (field.number == 24) {
      SACCADE_TRY(expect_wire(field, 0, "treat_whitespace_as_suffix"));
      model.space_as_suffix = field.value != 0;
    } else if (field.number == 35) {
      SACCADE_TRY(expect_wire(field, 0, "byte_fallback"));
      model.byte_fallback = field.value != 0;
    }
  }
  return {};
}

Status parse_normalizer(std::string_view bytes, SentencePieceModel& model) {
  for (Message message(bytes); !message.done();) {
    SACCADE_ASSIGN(const Field field, message.next());
    if (field.number == 2) {
      SACCADE_TRY(expect_wire(field, 2, "precompiled_charsmap"));
      model.charsmap = field.bytes;
    } else if (field.number >= 3 && field.number <= 5) {
      SACCADE_TRY(expect_wire(field, 0, "a normalizer's switch"));
      (field.number == 3   ? model.add_dummy_prefix
       : field.number == 4 ? model.remove_extra_spaces
                           : model.escape_spaces) = field.value != 0;
    }
  }
  return {};
}

}  // namespace

std::string byte_fallback_piece(uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

int32_t SentencePieceModel::find(std::string_view text) const {
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].text == text) return static_cast<int32_t>(id);
  }
  return -1;
}

Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  for (Message message(bytes); !message.done();) {
    SACCADE_ASSIGN(const Field field, message.next());
    if (field.number >= 1 && field.number <= 3) SACCADE_TRY(expect_wire(field, 2, "a part of the model"));
    if (field.number == 1) {
      SACCADE_ASSIGN(SentencePieceModel::Piece piece,
                     parse_piece(field.bytes).in(fmt::format("piece {}", model.pieces.size())));
      model.pieces.push_back(std::move(piece));
    } else if (field.number == 2) {
      SACCADE_TRY(parse_trainer(field.bytes, model));
    } else if (field.number == 3) {
      SACCADE_TRY(parse_normalizer(field.bytes, model));
    }
  }
  SACCADE_TRY(check_sentencepiece_model(model));
  return model;
}

Status check_sentencepiece_model(const SentencePieceModel& model) {
  constexpr size_t kMaxPieces = 10'000'000;
  constexpr size_t kMaxPieceBytes = 4096;
  if (model.pieces.empty() || model.pieces.size() > kMaxPieces) {
    return fail(ErrorCode::kBadData, "{} pieces, expected 1 to {}", model.pieces.size(), kMaxPieces);
  }
  std::unordered_set<std::string_view> texts;
  int unknown = 0;
  int byte_pieces = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.text.empty() || piece.text.size() > kMaxPieceBytes) {
      return fail(ErrorCode::kBadData, "piece {} has {} bytes, expected 1 to {}", id, piece.text.size(),
                  kMaxPieceBytes);
    }
    if (!std::isfinite(piece.score)) {
      return fail(ErrorCode::kBadData, "piece {} has score {}", id, piece.score);
    }
    if (!texts.insert(piece.text).second) {
      return fail(ErrorCode::kBadData, "piece \"{}\" is there twice, the second time as {}",
                  piece.text.substr(0, 60), id);
    }
    unknown += piece.type == Type::kUnknown ? 1 : 0;
    byte_pieces += piece.type == Type::kByte ? 1 : 0;
  }
  if (unknown != 1) return fail(ErrorCode::kBadData, "{} unknown pieces, expected 1", unknown);
  if (!model.byte_fallback) return {};
  for (int byte = 0; byte < 256; ++byte) {
    const std::string piece = byte_fallback_piece(static_cast<uint8_t>(byte));
    if (!texts.contains(piece) || byte_pieces != 256) {
      return fail(ErrorCode::kBadData,
                  "byte fallback needs the 256 pieces <0x00> to <0xFF>: {} of type byte, {} {}", byte_pieces,
                  piece, texts.contains(piece) ? "among them" : "missing");
    }
  }
  return {};
}

}  // namespace saccade

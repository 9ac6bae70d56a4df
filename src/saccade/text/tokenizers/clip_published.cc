// Published merges of CLIP, embedded in the program, and the vocabulary derived from them.
#include "saccade/core/ascii.h"
#include "saccade/text/tokenizers/clip_spec.h"

// Contents of clip_merges.txt, from its first byte to one past its last.
asm(R"(
  .section .rodata
  .global saccade_clip_merges
  .global saccade_clip_merges_end
saccade_clip_merges:
  .incbin ")" SACCADE_CLIP_MERGES R"("
saccade_clip_merges_end:
  .byte 0
  .previous
)");
extern "C" {
extern const char saccade_clip_merges[];      // NOLINT(*-avoid-c-arrays)
extern const char saccade_clip_merges_end[];  // NOLINT(*-avoid-c-arrays)
}

namespace saccade {
namespace {

// GPT-2's order of bytes: those that print, then the rest (bytes_to_unicode in OpenAI's simple_tokenizer.py).
std::vector<uint8_t> byte_order() {
  std::vector<uint8_t> printing, others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    (prints ? printing : others).push_back(static_cast<uint8_t>(byte));
  }
  printing.insert(printing.end(), others.begin(), others.end());
  return printing;
}

// Builds the vocabulary: bytes, bytes that end a word, results of merges, start and end of text.
Json vocabulary_of(std::string_view merges) {
  Json vocabulary = Json::object();
  // Appends directly, because 49,000 failed look-ups would take seconds.
  auto& pieces = vocabulary.get_ref<Json::object_t&>();
  const auto add = [&](std::string piece) { pieces.emplace_back(std::move(piece), pieces.size()); };
  for (const uint8_t byte : byte_order()) add(byte_piece(byte));
  for (const uint8_t byte : byte_order()) add(byte_piece(byte) + "</w>");
  merges.remove_prefix(merges.find('\n') + 1);  // "#version: 0.2"
  for (const std::string_view line : Lines(merges)) {
    const size_t space = line.find(' ');
    add(std::string(line.substr(0, space)) + std::string(line.substr(space + 1)));
  }
  add("<|startoftext|>");
  add("<|endoftext|>");
  return vocabulary;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> published_clip_tokenizer() {
  const std::string_view merges(saccade_clip_merges, saccade_clip_merges_end);
  SACCADE_ASSIGN(const ClipTokenizerSpec spec,
                 clip_spec_from_vocab_and_merges(vocabulary_of(merges), merges, Json::object()));
  return make_clip_tokenizer(spec, TextCleanup::kOpenAi);
}

}  // namespace saccade

#include "saccade/text/token_parts.h"

#include <algorithm>
#include <optional>
#include <string>

#include "saccade/core/ascii.h"
#include "saccade/text/normalize.h"
#include "saccade/text/sentences.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

// Returns the text's frame around its own tokens [begin, begin + count), with all others counted as dropped.
TokenizedText part_of(const TokenizedText& text, int64_t begin, int64_t count) {
  TokenizedText part;
  part.first = text.first;
  part.used = count;
  part.dropped = text.dropped + text.used - count;
  const auto at = [&](int64_t i) { return text.ids.begin() + static_cast<std::ptrdiff_t>(i); };
  part.ids.reserve(static_cast<size_t>(frame_size(text) + count));
  part.ids.insert(part.ids.end(), text.ids.begin(), at(text.first));
  part.ids.insert(part.ids.end(), at(text.first + begin), at(text.first + begin + count));
  part.ids.insert(part.ids.end(), at(text.first + text.used), text.ids.end());
  return part;
}

int64_t kept_of(const TokenizedText& text, int64_t n) {
  return std::clamp<int64_t>(n - text.first, 0, text.used);
}

Result<int64_t> room_beside_frame(int64_t frame, int64_t max_ids) {
  if (max_ids > frame) return max_ids - frame;
  return fail(ErrorCode::kUsage, "chunks of {} tokens have no room for text: start, end and prompt take {}",
              max_ids, frame);
}

// Returns chunks of `size` words, or `nullopt` as soon as a chunk has more than `room` tokens. Chunks of one
// word may have more.
std::optional<std::vector<TokenizedText>> runs_of_words(const Tokenizer& tokenizer,
                                                        std::span<const std::string_view> words, size_t size,
                                                        int64_t room) {
  std::vector<TokenizedText> chunks;
  for (size_t begin = 0; begin < words.size(); begin += size) {
    const std::string_view last = words[std::min(begin + size, words.size()) - 1];
    const char* from = words[begin].data();
    const auto bytes = static_cast<size_t>(last.data() - from) + last.size();
    chunks.push_back(tokenizer.encode(std::string_view(from, bytes), kWholeText));
    if (chunks.back().used > room && size > 1) return std::nullopt;
  }
  return chunks;
}

}  // namespace

int64_t frame_size(const TokenizedText& text) {
  return static_cast<int64_t>(text.ids.size()) - text.used;
}

TokenizedText keep_first(const TokenizedText& text, int64_t n) {
  return part_of(text, 0, kept_of(text, n));
}

TokenizedText keep_last(const TokenizedText& text, int64_t n) {
  const int64_t kept = kept_of(text, n);
  return part_of(text, text.used - kept, kept);
}

Result<std::vector<TokenizedText>> equal_chunks(const TokenizedText& text, int64_t max_ids) {
  SACCADE_ASSIGN(const int64_t room, room_beside_frame(frame_size(text), max_ids));
  const int64_t count = std::max<int64_t>(1, (text.used + room - 1) / room);
  std::vector<TokenizedText> chunks;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = text.used / count + (i < text.used % count ? 1 : 0);
    TokenizedText chunk = part_of(text, begin, size);
    chunk.dropped = i + 1 == count ? text.dropped : 0;
    chunks.push_back(std::move(chunk));
    begin += size;
  }
  return chunks;
}

Result<std::vector<TokenizedText>> sentence_chunks(const Tokenizer& tokenizer, std::string_view text,
                                                   int64_t max_ids) {
  SACCADE_ASSIGN(const int64_t room,
                 room_beside_frame(frame_size(tokenizer.encode("", kWholeText)), max_ids));
  SACCADE_ASSIGN(const std::vector<std::string_view> sentences, split_sentences(text));
  std::vector<int64_t> sizes;
  for (const std::string_view sentence : sentences) {
    sizes.push_back(tokenizer.encode(sentence, kWholeText).used);
  }
  std::vector<TokenizedText> chunks;
  for (size_t begin = 0; begin < sentences.size();) {
    size_t end = begin + 1;
    for (int64_t sum = sizes[begin]; end < sizes.size() && sum + sizes[end] <= room; ++end) sum += sizes[end];
    // Joined sentences may have one token more than separate ones.
    for (;; --end) {
      const char* from = sentences[begin].data();
      const std::string_view run(
          from, static_cast<size_t>(sentences[end - 1].data() - from) + sentences[end - 1].size());
      TokenizedText chunk = tokenizer.encode(run, kWholeText);
      if (chunk.used > room && end > begin + 1) continue;
      if (chunk.used > room) {
        SACCADE_ASSIGN(std::vector<TokenizedText> pieces, equal_chunks(chunk, max_ids));
        std::ranges::move(pieces, std::back_inserter(chunks));
      } else if (chunk.used > 0) {
        chunks.push_back(std::move(chunk));
      }
      break;
    }
    begin = end;
  }
  if (chunks.empty()) chunks.push_back(tokenizer.encode(text, kWholeText));
  return chunks;
}

Result<std::vector<TokenizedText>> word_chunks(const Tokenizer& tokenizer, std::string_view text,
                                               int64_t max_ids) {
  TokenizedText whole = tokenizer.encode(text, kWholeText);
  SACCADE_ASSIGN(const int64_t room, room_beside_frame(frame_size(whole), max_ids));
  if (whole.used <= room) return std::vector<TokenizedText>{std::move(whole)};
  const std::string spaced = collapse_white_space(to_valid_utf8(text));
  const std::vector<std::string_view> words = split_ascii(spaced, " ");
  std::optional<std::vector<TokenizedText>> runs;
  size_t tried = words.size();
  for (size_t parts = 2; !runs; ++parts) {  // ends with single words, which are always taken
    const size_t size = std::max<size_t>(1, words.size() / parts);
    if (size == tried && size > 1) continue;
    tried = size;
    runs = runs_of_words(tokenizer, words, size, room);
  }
  std::vector<TokenizedText> chunks;
  for (TokenizedText& run : *runs) {
    if (run.used > room) {
      SACCADE_ASSIGN(std::vector<TokenizedText> pieces, equal_chunks(run, max_ids));
      std::ranges::move(pieces, std::back_inserter(chunks));
    } else if (run.used > 0) {
      chunks.push_back(std::move(run));
    }
  }
  if (chunks.empty()) return equal_chunks(whole, max_ids);
  return chunks;
}

std::span<const EnumName<Chunking>> enum_names(Chunking) {
  static constexpr EnumName<Chunking> kWords[] = {
      {Chunking::kEqual, "equal"}, {Chunking::kSentences, "sentences"}, {Chunking::kWords, "words"}};
  return kWords;
}

Result<std::vector<TokenizedText>> chunk_text(const Tokenizer& tokenizer, std::string_view text,
                                              int64_t max_ids, Chunking chunking) {
  if (chunking == Chunking::kSentences) return sentence_chunks(tokenizer, text, max_ids);
  if (chunking == Chunking::kWords) return word_chunks(tokenizer, text, max_ids);
  return equal_chunks(tokenizer.encode(text, kWholeText), max_ids);
}

std::vector<TokenizedText> keep_first(std::span<const TokenizedText> chunks, int64_t n) {
  std::vector<TokenizedText> kept;
  if (chunks.empty()) return kept;
  int64_t left = std::max<int64_t>(0, n - chunks.front().first);
  int64_t dropped = 0;
  for (const TokenizedText& chunk : chunks) {
    if (left == 0 && !kept.empty()) {
      dropped += chunk.used + chunk.dropped;
      continue;
    }
    kept.push_back(keep_first(chunk, chunk.first + left));
    left -= kept.back().used;
  }
  kept.back().dropped += dropped;
  return kept;
}

}  // namespace saccade

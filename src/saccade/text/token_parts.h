// Parts of a tokenized text that are texts themselves: its first or last tokens, or chunks that together
// cover all of it. They are cut from token ids, not from characters. Each keeps the tokens that its tokenizer
// puts around a text, called the frame.
//
// The frame differs between families and stays in its place:
//
//   CLIP           start, tokens, end: a cut text ends with the end token, where the encoder reads its row
//   SigLIP         tokens, end: the end token stays ("sticky"); the encoder fills up with padding behind it
//   SigLIP 2       the same with Gemma's tokens
//   BERT, ALIGN    [CLS], tokens, [SEP]
//   Gemma          start, tokens: without an end token nothing takes its place
//   with a prompt  start, prompt, tokens, end: the prompt counts as frame, every part begins with it
//
// Padding is added by the encoder and never part of the ids.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/tokenizer.h"

namespace saccade {

// Returns the number of frame tokens around a text.
int64_t frame_size(const TokenizedText& text);

// Keeps the first n ids, including the start token, followed by the frame's end at position n (from 0). With
// CLIP the result has n + 1 ids, as in the procedure of github.com/beichenzbc/Long-CLIP, issue 71. A text
// without more ids is returned unchanged; for an n within the frame, the result is the frame alone. Removed
// ids are counted in `dropped`.
TokenizedText keep_first(const TokenizedText& text, int64_t n);
// Keeps as many of the text's own tokens as keep_first, but from its end.
TokenizedText keep_last(const TokenizedText& text, int64_t n);

// Splits the text into the smallest number of chunks of at most max_ids ids. Their token counts are as equal
// as possible, larger ones first, and every token is in exactly one chunk. Returns at least one chunk, which
// is the frame alone for an empty text. Tokens that `text` had already dropped are counted in the last chunk.
// Returns kUsage if max_ids leaves no room beside the frame.
Result<std::vector<TokenizedText>> equal_chunks(const TokenizedText& text, int64_t max_ids);

// Splits the text into chunks of whole sentences (sentences.h). Each chunk holds as many sentences as fit
// max_ids ids and is tokenized as a text of its own. A sentence that does not fit is cut into equal chunks.
// Every byte is in exactly one chunk. Returns the errors of equal_chunks and split_sentences. Cost: about
// three times that of tokenizing the text.
Result<std::vector<TokenizedText>> sentence_chunks(const Tokenizer& tokenizer, std::string_view text,
                                                   int64_t max_ids);

// Splits the text into chunks of equally many words, the last one shorter, and tokenizes each as a text of its
// own. Words are separated by white space, and joined by single spaces. A text that fits max_ids is one chunk,
// as it is. Otherwise a chunk has max(1, words / p) words, for the smallest p of 2 or more with which all
// chunks fit: the split of github.com/aiforsec/EffectiveTokenLength-MModels. A single word that does not fit
// is cut into equal chunks. Returns the errors of equal_chunks. Cost: that of tokenizing the text for each
// number of words tried.
Result<std::vector<TokenizedText>> word_chunks(const Tokenizer& tokenizer, std::string_view text,
                                               int64_t max_ids);

enum class Chunking { kEqual, kSentences, kWords };
std::span<const EnumName<Chunking>> enum_names(Chunking);  // "equal", "sentences", "words"

// Splits the text into chunks of any kind, with the limits and errors described above.
Result<std::vector<TokenizedText>> chunk_text(const Tokenizer& tokenizer, std::string_view text,
                                              int64_t max_ids, Chunking chunking);

// Returns the chunks with the first n ids of a chunked text, counted as in keep_first. The last of them is
// cut; the tokens of later chunks are counted in its `dropped`.
std::vector<TokenizedText> keep_first(std::span<const TokenizedText> chunks, int64_t n);

}  // namespace saccade

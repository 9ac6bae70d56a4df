// Parts of a tokenized text that are texts themselves: its first or last tokens, and chunks that together
// are all of it. They are cut from token ids, not from characters, and each keeps what its tokenizer puts
// around a text.
//
// That frame is not the same in all families, and stays where the family has it:
//
//   CLIP           start, tokens, end: a cut text ends with the end token, where the encoder reads its row
//   SigLIP         tokens, end: the end token stays ("sticky"); the encoder fills up with padding behind it
//   SigLIP 2       the same with Gemma's tokens
//   BERT, ALIGN    [CLS], tokens, [SEP]
//   Gemma          start, tokens: without an end token nothing takes its place
//   with a prompt  start, prompt, tokens, end: the prompt counts as frame, every part begins with it
//
// Padding is the encoder's business, and never in the ids.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/enum_names.h"
#include "saccade/tokenizer.h"

namespace saccade {

// Ids that stand around a text's own.
int64_t frame_size(const TokenizedText& text);

// The first n ids, the start token among them, and the frame's end behind them, at
// position n counting from 0: n + 1 ids with CLIP, as in the procedure of
// github.com/beichenzbc/Long-CLIP, issue 71. A text that has no more comes back as it
// is; of an n within the frame, the frame alone. What is cut is counted in `dropped`.
TokenizedText keep_first(const TokenizedText& text, int64_t n);
// As many of the text's own tokens as keep_first keeps, the last ones.
TokenizedText keep_last(const TokenizedText& text, int64_t n);

// All of the text in as few chunks of at most max_ids ids as can be, their tokens'
// counts as equal as can be, longer ones first: every token is in exactly one chunk. At
// least one, of the frame alone where there is no more. What `text` itself had dropped
// is counted in the last. kUsage where max_ids leaves no room beside the frame.
Result<std::vector<TokenizedText>> equal_chunks(const TokenizedText& text, int64_t max_ids);

// All of the text in chunks of whole sentences (sentences.h), each chunk as many as
// fit max_ids ids and tokenized as a text of its own; a sentence that does not fit
// is itself cut into equal chunks. Every byte is in exactly one chunk. Errors as
// equal_chunks and split_sentences. Cost: tokenizing the text three times or so.
Result<std::vector<TokenizedText>> sentence_chunks(const Tokenizer& tokenizer, std::string_view text,
                                                   int64_t max_ids);

enum class Chunking { kEqual, kSentences };
std::span<const EnumName<Chunking>> enum_names(Chunking);  // "equal", "sentences"

// The text in chunks of one of the two kinds; what its tokenizer reads of it, and errors, as above.
Result<std::vector<TokenizedText>> chunk_text(const Tokenizer& tokenizer, std::string_view text,
                                              int64_t max_ids, Chunking chunking);

// The chunks that hold the first n ids of a text cut in chunks, counted as keep_first does: the last of them
// is cut, those behind it are left out and counted in its `dropped`.
std::vector<TokenizedText> keep_first(std::span<const TokenizedText> chunks, int64_t n);

}  // namespace saccade

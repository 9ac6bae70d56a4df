// Training texts of textual inversion: each as it is, and with its keywords replaced by one word that stands
// for them (LinCIR's self-masking projection, Gu et al. 2023, section 3.2). Internal to the module.
//
// LinCIR's keywords are runs of nouns, adjectives and determiners, found by a tagger. There is no tagger
// here: a keyword is a run of words that are not function words, and no run crosses a comma.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// Returns the text with kPictureMark for each of its keywords; words and marks are separated by spaces. An
// empty text, or one of function words alone, becomes "a photo of *".
std::string masked_text(std::string_view text);

struct InversionText {
  TokenizedText whole;
  TokenizedText masked;
  std::vector<int64_t> marks;  // places of the mark in masked.ids; one at least
};

struct InversionTexts {
  std::vector<InversionText> texts;
  int64_t empty = 0;     // number of blank lines
  int64_t repeated = 0;  // lines that were there before
  int64_t cut = 0;       // texts longer than the encoder reads: their beginnings are learned from
  std::string sha256;    // hash of the file
};
// Reads one text per line, without duplicates. Errors: kBadData for a file without texts and for a line that
// is not UTF-8, with its number; kUnsupported for a tokenizer without a token for the mark. Memory: the
// texts' tokens twice.
Result<InversionTexts> read_inversion_texts(const std::filesystem::path& path, const Tokenizer& tokenizer,
                                            int64_t context);

}  // namespace saccade::lab

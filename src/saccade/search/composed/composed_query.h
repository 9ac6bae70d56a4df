// Report of how a trained composer combined an image and a text into a query, for answers and explanations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/search/encoded_query.h"

namespace saccade {

class Composer;
class EncoderBackend;

struct ComposerReport {
  // A patch of the reference picture that a token of the text met.
  struct Patch {
    bool whole = false;  // the token that stands for the whole picture: it has no place
    int row = 0;         // from the top left, of `rows` x `columns`
    int column = 0;
    float cosine = 0;
  };
  // A token of the text, and what it met; tokens of one word have the same stretch of the text.
  struct Token {
    int64_t place = 0;  // among the text's ids, start and end among them
    size_t begin =
        0;  // bytes of the text; 0 to 0 for start and end, and where tokens could not be given to words
    size_t end = 0;
    std::vector<Patch> patches;  // the nearest first
  };
  std::string composer;     // its name, for people
  std::string fingerprint;  // of its checkpoint
  std::string kind;         // "atf", "combiner", ...
  // Values of composers that join tokens: the minimum cosine similarity for joining, the number of text
  // tokens, and the number of those joined to a patch.
  std::optional<double> tau;
  int64_t tokens = 0;
  int64_t matched = 0;
  int rows = 0;  // of the picture's patches
  int columns = 0;
  std::vector<Token> met;  // those that met any, in the text's order
};

// Composes an image, pixels: [1, 3 * height * width], with each of `texts`. Errors as Composer::compose.
Result<std::vector<EncodedQuery>> compose_query(EncoderBackend& encoder, Composer& composer,
                                                MatrixView<const float> pixels,
                                                const std::vector<std::string>& texts);

// "the query was made by the composer X (atf): 3 of 7 tokens of the text met a
// patch of the picture at tau 0.7".
std::string composer_note(const ComposerReport& report);
// Lists the words and the patches they were joined to, a line each, indented by two. Empty for composers that
// join no tokens.
std::string composer_text(const ComposerReport& report, const std::string& text);
Json composer_json(const ComposerReport& report, const std::string& text);

}  // namespace saccade

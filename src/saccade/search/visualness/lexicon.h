// Word lists with human ratings, and text features from them: the study's baselines without a model (Verma et
// al. 2023, section 5.1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// Returns the words of a text, lower-case, in their order. Any bytes.
Result<std::vector<std::string>> words_in_order(std::string_view text);
// The different words of a text, lower-case, in the order they first stand in. Any bytes.
Result<std::vector<std::string>> unique_words(std::string_view text);

// Imageability or concreteness of words, on a scale brought to [0, 1] by its own ends.
struct Lexicon {
  std::string format;                             // "mrc", "brysbaert", or "<format>, expanded"
  std::string what;                               // "imageability, 100 to 700"
  std::string sha256;                             // of the file
  std::unordered_map<std::string, double> words;  // lower-case
  int64_t left_out = 0;                           // entries without a rating, and of several words
};

// Two published formats, told from the content:
//   MRC (Coltheart 1981; Wilson 1988): mrc2.dct, a fixed-width line an entry, imageability in columns
//     32-34 (100 to 700, 000 for none), the word from column 52 up to '|'. A word's entries of several
//     meanings are averaged.
//   Brysbaert et al. 2014, "Concreteness ratings for 40 thousand English word lemmas": tab- or
//     comma-separated with a header; the columns Word and Conc.M (1 to 5). Two-word expressions are left out.
// kBadData with the line for what breaks the format; kUnsupported for any other, with what was found.
Result<Lexicon> read_lexicon(const std::filesystem::path& path);

// Names of things that can be seen, a line each, of one word or several; lower-case. '#' begins a comment.
struct ObjectList {
  std::string sha256;
  std::set<std::vector<std::string>> names;  // by their words
  size_t longest = 0;                        // words
};
Result<ObjectList> read_object_list(const std::filesystem::path& path);
// The program's own, everyday_words() (text/caption_queries.h): a thousand things that people look
// for, and their plurals. No sha256.
Result<ObjectList> everyday_objects();

// The mean over a text's different words, those that the lexicon lacks as 0; 0 for a text without words.
double mean_rating(const Lexicon& lexicon, std::span<const std::string> unique_words);
// Returns those of a text's different words that name objects: a name of several words, in their order in the
// text, counts with all of them.
std::set<std::string> named_objects(const ObjectList& objects, std::span<const std::string> words_in_order);
// The share of a text's different words that name objects.
Result<double> object_share(const ObjectList& objects, std::string_view text);

// Lexicon extended by word vectors. Each of `wanted` that the lexicon lacks and `vectors` has gets the rating
// of the nearest lexicon word by cosine, times that cosine (0 if it is negative). The file of vectors is in
// one of three formats: GloVe's text ("word v1 ... vd" a line), word2vec's text (the same behind a line
// "words d"), or word2vec's binary ("words d\n", then for each word its name, a space and d little-endian
// floats). It is mapped, and only the vectors of requested words are kept. kBadData for a file of another
// format, a truncated one, or a vector that is not finite. kUsage if it has no word of the lexicon. Memory: 4
// d bytes a word of the lexicon. Cost: reads the file once, then words of `wanted` times words of the lexicon
// times d.
struct WordVectors {
  std::string format;  // "glove", "word2vec text", "word2vec binary"
  std::string sha256;
  int64_t words = 0;  // in the file
  int64_t dim = 0;
  int64_t added = 0;  // words that got a rating
};
Result<Lexicon> expand_lexicon(const Lexicon& lexicon, const std::filesystem::path& vectors,
                               const std::set<std::string>& wanted, WordVectors& used);

}  // namespace saccade

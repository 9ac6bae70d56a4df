// Pictures by the words of their captions, names and folders: what the catalog's
// full-text index is asked and answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

// One word of a query, or several that must stand side by side.
struct WordTerm {
  std::string text;
  int64_t pictures = 0;  // that have it, up to the number from which it is common
  bool common = false;   // more pictures have it than tell anything: it is left out
  double weight = 0;     // how rare it is: ln(1 + (n - df + 0.5) / (df + 0.5)), BM25's; 0 where it is common
};

struct WordMatch {
  int64_t row = 0;
  int64_t id = 0;
  // BM25 without its constant factor: the sum, over the terms it has, of the term's weight times tf / (tf + k1
  // (1 - b + b length / mean length)), which is in (0, 1). Fields count as one text. k1 and b are those of SQLite's
  // FTS5, 1.2 and 0.75.
  double weight = 0;
  uint64_t has = 0;  // the terms it has: bit i for terms[i]
};

struct WordMatches {
  std::vector<WordTerm> terms;
  double weight = 0;             // of all terms that are not common: what WordMatch::weight stays below
  std::vector<WordMatch> found;  // pictures that have a term that is not common, by row
  std::string reason;            // why the collection has no words to search; empty where it has
};

}  // namespace saccade

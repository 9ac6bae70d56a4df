// Keyword search results of an answer, beside the vectors (keyword_search.h fills these in).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

// Fields of an image in which a word occurs, as a bit set.
enum WordField : uint8_t { kInCaption = 1, kInName = 2, kInFolders = 4 };

// Why words brought a hit.
struct KeywordHit {
  struct Match {
    std::string term;    // a word of the query, or words in quotes
    uint8_t fields = 0;  // WordField
  };
  int64_t rank = 0;            // among all pictures that have words of the query, from 1; equal ones share it
  double weight = 0;           // share of the query's words that the image has, weighted (evidence.h), (0, 1]
  bool all = false;            // it has all of them that tell anything
  std::vector<Match> matches;  // empty if they could not be read
};

// Word search results of the whole answer.
struct KeywordSearch {
  struct Term {
    std::string text;
    int64_t pictures = 0;  // that have it
    bool common = false;   // so many have it that it tells nothing: it is not looked at
  };
  double share = 0;  // of words beside vectors, [0, 1]
  std::vector<Term> terms;
  int64_t pictures = 0;  // that match: that have a word of the query, and not only one for an attribute
  // Why there was nothing to search, or why a hit's matches could not be read; empty otherwise.
  std::string reason;
};

}  // namespace saccade

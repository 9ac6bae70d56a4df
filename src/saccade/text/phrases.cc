#include "saccade/text/phrases.h"

#include <algorithm>
#include <array>

#include <unicode/uchar.h>

#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

// Separator words, sorted: English function words of three letters or more, and verbs, adverbs and adjectives
// common to any text.
constexpr auto kDividers = std::to_array<std::string_view>(
    {"able",      "about",      "above",      "across",    "actually",   "added",     "after",    "again",
     "against",   "ago",        "all",        "allow",     "allows",     "almost",    "along",    "already",
     "also",      "although",   "always",     "among",     "and",        "another",   "any",      "anyone",
     "anything",  "appear",     "appears",    "are",       "aren",       "around",    "ask",      "asked",
     "available", "away",       "back",       "became",    "because",    "become",    "becomes",  "been",
     "before",    "began",      "begin",      "begins",    "behind",     "being",     "below",    "beneath",
     "beside",    "besides",    "best",       "better",    "between",    "beyond",    "both",     "bring",
     "brought",   "but",        "call",       "called",    "calls",      "came",      "can",      "cannot",
     "case",      "cause",      "certain",    "click",     "come",       "comes",     "coming",   "consists",
     "contain",   "contains",   "could",      "couldn",    "currently",  "default",   "did",      "didn",
     "different", "does",       "doesn",      "doing",     "don",        "done",      "down",     "during",
     "each",      "either",     "else",       "enough",    "especially", "etc",       "even",     "ever",
     "every",     "everyone",   "everything", "exactly",   "example",    "except",    "few",      "find",
     "finds",     "first",      "follow",     "following", "follows",    "for",       "found",    "from",
     "further",   "gave",       "general",    "get",       "gets",       "getting",   "give",     "given",
     "gives",     "goes",       "going",      "gone",      "good",       "got",       "had",      "hadn",
     "has",       "hasn",       "have",       "haven",     "having",     "held",      "help",     "hence",
     "her",       "here",       "hers",       "herself",   "him",        "himself",   "his",      "hold",
     "how",       "however",    "include",    "includes",  "including",  "indeed",    "ing",      "inside",
     "instead",   "into",       "isn",        "its",       "itself",     "just",      "keep",     "keeps",
     "kept",      "kind",       "knew",       "know",      "known",      "knows",     "last",     "later",
     "least",     "leave",      "less",       "let",       "lets",       "like",      "likely",   "longer",
     "look",      "looked",     "looking",    "looks",     "lot",        "lots",      "made",     "main",
     "make",      "makes",      "making",     "many",      "may",        "maybe",     "mean",     "means",
     "might",     "mine",       "more",       "most",      "much",       "must",      "myself",   "near",
     "nearly",    "need",       "needed",     "needs",     "neither",    "never",     "new",      "next",
     "nor",       "not",        "note",       "nothing",   "now",        "number",    "off",      "often",
     "once",      "one",        "ones",       "only",      "onto",       "other",     "others",   "otherwise",
     "our",       "ours",       "out",        "outside",   "over",       "own",       "part",     "per",
     "perhaps",   "please",     "possible",   "press",     "probably",   "provide",   "provided", "provides",
     "put",       "puts",       "quite",      "rather",    "really",     "said",      "same",     "saw",
     "say",       "says",       "see",        "seem",      "seems",      "seen",      "select",   "set",
     "several",   "shall",      "she",        "should",    "shouldn",    "show",      "shown",    "shows",
     "simply",    "since",      "some",       "someone",   "something",  "sometimes", "soon",     "still",
     "such",      "sure",       "take",       "taken",     "takes",      "tell",      "than",     "that",
     "the",       "their",      "theirs",     "them",      "themselves", "then",      "there",    "therefore",
     "these",     "they",       "thing",      "things",    "think",      "this",      "those",    "though",
     "through",   "throughout", "thus",       "till",      "time",       "times",     "together", "too",
     "took",      "toward",     "towards",    "tried",     "try",        "turn",      "two",      "under",
     "unless",    "until",      "upon",       "use",       "used",       "useful",    "uses",     "using",
     "usually",   "various",    "version",    "very",      "via",        "want",      "wants",    "was",
     "wasn",      "way",        "ways",       "well",      "went",       "were",      "weren",    "what",
     "whatever",  "when",       "whenever",   "where",     "wherever",   "whether",   "which",    "while",
     "who",       "whole",      "whom",       "whose",     "why",        "will",      "with",     "within",
     "without",   "won",        "work",       "works",     "would",      "wouldn",    "yes",      "yet",
     "you",       "your",       "yours",      "yourself"});
static_assert(std::ranges::is_sorted(kDividers));

constexpr size_t kShortestWord = 3;

bool in_word(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_isalpha(c) != 0 || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0 || c == '-';
}

}  // namespace

std::vector<std::string> sentence_phrases(std::string_view sentence) {
  const std::string text = lowercase_each(to_valid_utf8(sentence)) + ".";
  std::vector<std::string> phrases;
  std::vector<std::string> run;
  const auto add = [&](const std::string& phrase) {
    if (std::ranges::find(phrases, phrase) == phrases.end()) phrases.push_back(phrase);
  };
  const auto finish = [&] {
    for (size_t begin = 0; begin < run.size();) {
      const size_t rest = (run.size() - begin) % kMostPhraseWords;
      const size_t end = begin + (rest == 0 ? kMostPhraseWords : rest);
      std::string phrase;
      for (size_t w = begin; w < end; ++w) phrase += (phrase.empty() ? "" : " ") + run[w];
      add(phrase);
      for (; begin < end; ++begin) add(run[begin]);
    }
    run.clear();
  };
  std::string word;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (in_word(code)) {
      append_utf8(word, code);
      continue;
    }
    if (word.find_first_not_of('-') == std::string::npos && !word.empty()) finish();  // a dash
    while (word.ends_with('-')) word.pop_back();
    while (word.starts_with('-')) word.erase(0, 1);
    const bool divides =
        word.size() < kShortestWord || std::ranges::binary_search(kDividers, std::string_view(word));
    if (!word.empty() && divides) finish();
    if (!word.empty() && !divides) run.push_back(word);
    word.clear();
    if (u_isUWhiteSpace(static_cast<UChar32>(code)) == 0) finish();
  }
  return phrases;
}

}  // namespace saccade

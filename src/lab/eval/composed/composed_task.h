// A composed-search task: a dataset of edit queries under one protocol.
//
// Published figures leave several choices open: the gallery's images, whether it contains the reference, how
// two captions become one text, whether an annotator's shared concept is used (CIRCO), and which of several
// targets a recall counts. Each is an option here, and the protocol of a run names them all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Method that joins several texts of a query.
enum class JoinTexts {
  kAnd,    // "C1 and c2", without '.', '?', ',' and spaces at their ends, the first capitalized (CLIP4Cir)
  kComma,  // "c1, and c2" (BGE-VL)
  kToken,  // "c1 <and> c2" (Fashion-IQ's own program)
  kBothOrders,  // the mean of the rows of "C1 and c2" and "C2 and c1" (LinCIR)
  kEach,        // each text is a query of its own (VAL)
};
std::span<const EnumName<JoinTexts>> enum_names(JoinTexts);

// Images of a gallery that are ranked.
enum class GalleryPictures {
  kOriginal,  // all of the dataset's own list
  kNamed,     // those that are a reference or a target of a query (VAL)
};
std::span<const EnumName<GalleryPictures>> enum_names(GalleryPictures);

// Treatment of a query's reference in the ranking.
enum class ReferenceRanked { kLayout, kKeep, kRemove };  // kLayout: removed in CIRR, kept elsewhere
std::span<const EnumName<ReferenceRanked>> enum_names(ReferenceRanked);

// Use of the shared concept (CIRCO).
enum class SharedConcept {
  kAlone,  // the relative text alone (SEARLE, LinCIR, CIReVL)
  kWith,   // "find {shared concept} but {text}" (MagicLens, BGE-VL)
};
std::span<const EnumName<SharedConcept>> enum_names(SharedConcept);

// Target that r@k counts if there are several.
enum class RecallTarget { kLayout, kAny, kFirst };  // kLayout: the first in CIRCO, any elsewhere
std::span<const EnumName<RecallTarget>> enum_names(RecallTarget);

struct ComposedProtocol {
  JoinTexts join = JoinTexts::kAnd;
  GalleryPictures gallery = GalleryPictures::kOriginal;
  ReferenceRanked reference = ReferenceRanked::kLayout;
  SharedConcept concepts = SharedConcept::kAlone;
  RecallTarget recall = RecallTarget::kLayout;
};
// Returns the protocol as text, and as fields, for a run's protocol.
std::string protocol_words(const ComposedProtocol& protocol);
Json protocol_fields(const ComposedProtocol& protocol);

// Returns the texts of a query; the mean of their embeddings is the text part. There is one, or two with
// kBothOrders. With kEach each is a query of its own. `texts`: the query's own, or one paraphrase.
std::vector<std::vector<std::string>> said_texts(std::span<const std::string> texts,
                                                 const std::string& shared_concept,
                                                 const ComposedProtocol& protocol);

// Returns a text as CLIP4Cir writes it: without '.', '?', ',' and spaces at its ends, the first letter
// upper-case and the others lower-case.
std::string as_sentence(std::string_view text);

struct ComposedTask {
  struct Query {
    int64_t source = 0;              // its number in the dataset
    int64_t gallery = 0;             // number
    int64_t reference = 0;           // numbers of images, as all below
    std::vector<int64_t> targets;    // the one for which the text was written first; empty: withheld
    std::vector<int64_t> subset;     // without the reference
    std::vector<int64_t> negatives;  // without the reference
  };
  struct Gallery {
    std::string name;
    std::vector<int64_t> pictures;  // numbers, ascending
  };
  // A query in one of its wordings.
  struct Asked {
    int64_t query = 0;
    int64_t wording = 0;  // 0: its own texts; n: paraphrase n - 1
    std::vector<std::string> texts;
  };

  std::string layout;
  bool remove_reference = false;
  bool recall_first = false;
  std::vector<GalleryPicture> pictures;  // images of all galleries, in the dataset's order
  std::vector<int64_t> source;           // [pictures]: their numbers in the dataset
  std::vector<Gallery> galleries;
  std::vector<EditQuery> edits;  // [queries]
  std::vector<Query> queries;
  std::vector<Asked> asked;      // in the order of queries; a query's own texts before its paraphrases
  std::vector<int64_t> cluster;  // [queries]: those of one reference
  int64_t clusters = 0;
  int64_t empty_texts = 0;          // number of blank query texts, which leave the reference alone
  std::vector<Exclusion> excluded;  // in addition to the dataset's own exclusions

  // Returns true if any query has its targets. Without targets there is nothing to measure.
  [[nodiscard]] bool has_targets() const;
};

// Makes the task. `unreadable`: numbers in EditQueries::gallery, ascending. They are left out, together with the
// queries whose reference, target or subset contains one. Queries whose only target is a reference that is
// not ranked are left out and counted. Returns kUsage for a dataset of another kind, for kWith if no query
// has a shared concept, and if nothing is left.
Result<ComposedTask> composed_task(const Dataset& dataset, const ComposedProtocol& protocol,
                                   std::span<const int64_t> unreadable);

}  // namespace saccade::lab

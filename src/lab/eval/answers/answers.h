// Evaluation of whole answers to texts: their order, with and without keyword matches, and their match
// probabilities.
//
// A dataset's images become a collection as `saccade index` makes it, of which only the first captions of each image
// are indexed. Queries are the other captions, and phrases of one, two and three words of them. Right are the images that have all
// words of the query in any of their captions, indexed or not. Function words and inflection do not count: "two tanks" is right for
// "a tank". Other queries ask for things that no caption names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

inline constexpr int64_t kAnswerDepth = 10;  // hits that count
inline constexpr int64_t kAbsentQueries = 200;

struct AnswersOptions {
  int64_t indexed = 1;       // captions of each image that are indexed
  int64_t each = 150;        // queries of one, two, three and more words, at most
  int64_t attributed = 200;  // queries of an adjective and the noun behind it, at most
  bool fitted = false;       // true: query the half of the classes on which the factors were fitted
};

// Groups of queries whose figures are given apart.
enum class QueryGroup { kAll, kOne, kTwo, kThree, kMore, kAttributed, kAbsent };
std::span<const EnumName<QueryGroup>> enum_names(QueryGroup);

struct AnswersTask {
  struct Query {
    std::string text;
    std::vector<int64_t> right;  // images, ascending; empty for a query of absent things
    QueryGroup group = QueryGroup::kOne;
    int64_t cluster = 0;  // class of the image whose caption it comes from
  };
  std::vector<std::string> indexed;  // what is indexed of each image's captions, joined by "; "; may be empty
  std::vector<Query> queries;        // with an answer first
  int64_t present = 0;               // number of queries with an answer
  int64_t clusters = 0;
};

// Makes the task of the items with these numbers. Images without more captions than are indexed are asked by those.
// Queries come from one half of the classes. Deterministic.
AnswersTask answers_task(std::span<const DatasetItem> items, std::span<const int64_t> numbers,
                         const AnswersOptions& options);

// Ways to order the hits of a query.
enum class Ordering { kVectors, kKeywords, kReciprocalRanks, kConvex, kDefault };
inline constexpr Ordering kOrderings[] = {Ordering::kVectors, Ordering::kKeywords, Ordering::kReciprocalRanks,
                                          Ordering::kConvex, Ordering::kDefault};
std::span<const EnumName<Ordering>> enum_names(Ordering);

struct AnswersFigures {
  struct Order {
    Ordering ordering = Ordering::kDefault;
    QueryGroup group = QueryGroup::kAll;
    int64_t queries = 0;
    BriefFigure ndcg;   // normalized discounted cumulative gain of the first ten hits
    BriefFigure first;  // share of queries whose first hit is right
    BriefFigure lead;   // nDCG@10 of the default order less this one's, over the same queries
    static void fields(auto& self, auto& field) {
      field("order", self.ordering);
      field("group", self.group);
      field("queries", self.queries);
      field("ndcg10", self.ndcg);
      field("r1", self.first);
      field("default_leads", self.lead);
    }
  };
  struct Bin {
    double from = 0;
    int64_t hits = 0;
    double promised = Figure::kNone;
    double came = Figure::kNone;
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(from, hits, promised, came); }
  };
  struct Cut {
    double cut = 0;
    int64_t hits = 0;
    BriefFigure precision;
    double recall =
        Figure::kNone;  // share of the right hits among the first ten that are at or above the cut
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(cut, hits, precision, recall); }
  };
  int64_t asked = 0;
  int64_t absent = 0;
  std::vector<Order> orders;
  // Match probabilities of the default order's hits. Absent queries are among them.
  bool tells = false;
  std::string reason;
  bool shipped = false;  // Matching::shipped
  double separation = 0;
  double ece = Figure::kNone;  // expected calibration error: ten bins of equal width, weighted by their hits
  std::vector<Bin> bins;
  std::vector<Cut> cuts;
  BriefFigure first_right_above_half;  // of right first hits, those with a match probability of 0.5 or more
  // Share of absent queries whose best match probability is below that of nine in ten queries with an answer.
  BriefFigure absent_named;
  BriefFigure absent_weak;   // share of absent queries whose best hit is a weak match
  BriefFigure present_weak;  // the same of queries with an answer
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(asked, absent, tells);
    field.or_null("reason", self.reason);
    SACCADE_FIELDS(shipped, separation, ece, first_right_above_half, absent_named, absent_weak, present_weak,
                   orders);
    field("calibration", self.bins);
    field("cuts", self.cuts);
  }
};

// A model on a dataset, as runs hold it.
struct AnswersResult {
  std::string dataset;
  std::string model;
  std::string unsupported = {};  // reason if nothing was measured
  AnswersFigures figures = {};   // without such a reason
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model);
    field.or_null("unsupported", self.unsupported);
    if (self.unsupported.empty()) AnswersFigures::fields(self.figures, field);
  }
};

// metrics.json of a run.
struct AnswersMetrics {
  static constexpr std::string_view kKind = "answers";
  std::vector<AnswersResult> results;
  static void fields(auto& self, auto& field) { field("results", self.results); }
};

// One query with the evidence of its hits in the default order, a line of answers.jsonl. From these lines
// tools/evidence/fit.py fits the factors of match probabilities (saccade/search/matching/evidence.h).
struct AnswerRecord {
  struct Hit {
    int64_t image = 0;
    bool right = false;
    double standard = 0;  // standard score
    double odds = 0;      // among the kCompetitors best scores
    bool known = false;   // the image, or most images, have words
    bool all = false;     // the three figures of WordEvidence
    double coverage = 0;
    double bm25 = 0;
    double probability = Figure::kNone;  // that the program shows
    static void fields(auto& self, auto& field) {
      SACCADE_FIELDS(image, right, standard, odds, known, all, coverage, bm25, probability);
    }
  };
  std::string dataset;
  std::string model;
  std::string query;
  QueryGroup group = QueryGroup::kOne;
  int64_t cluster = 0;
  int64_t right = 0;  // number of right images
  double separation = 0;
  bool any_all = false;  // the figures of QueryWords
  double unknown = 0;
  std::vector<Hit> hits;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, query, group, cluster, right, separation, any_all, unknown, hits);
  }
};

struct MeasuredAnswers {
  AnswersFigures figures;
  std::vector<AnswerRecord> records;  // one a query, without dataset and model
};

// Measures the task with the embeddings of its images, [images, dim]. Makes a collection in `folder`, which must be
// missing or empty, and removes nothing. Errors: those of the collection, of encoding and of searching.
Result<MeasuredAnswers> measure_answers(const AnswersTask& task, MatrixView<const float> rows,
                                        EncoderBackend& encoder, const std::filesystem::path& folder,
                                        const BootstrapOptions& bootstrap, ThreadPool& pool);

}  // namespace saccade::lab

// metrics.json of runs of matches (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// Figures of one kind of query. They are NaN without data.
struct MatchFigures {
  // Hits with a match probability between two numbers, and the number of them that are relevant.
  struct Bin {
    double from = 0;
    double to = 0;
    int64_t hits = 0;
    double promised = Figure::kNone;
    BriefFigure came = {};
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(from, to, hits, promised, came); }
  };
  struct Cut {
    double cut = 0;
    int64_t hits = 0;  // at or above it
    double promised = Figure::kNone;
    BriefFigure precision = {};
    BriefFigure found = {};        // share of queries with an answer there of which any hit is shown
    BriefFigure false_found = {};  // the same of queries without one
    static void fields(auto& self, auto& field) {
      SACCADE_FIELDS(cut, hits, promised, precision, found, false_found);
    }
  };
  bool tells = false;
  std::string reason;
  int64_t learned = 0;  // labelled queries
  int64_t asked = 0;
  double gain = 0;  // MatchModel's
  double gain_error = 0;
  BriefFigure first_right;   // share of queries with an answer there whose first hit is right
  BriefFigure found_auroc;   // queries with an answer against the same without: by Judgement::there
  BriefFigure cosine_auroc;  // by the best score
  BriefFigure hit_auroc;  // right hits against wrong ones, by likelihood; of all asked, first ten hits each
  BriefFigure hit_cosine_auroc;
  BriefFigure rare;  // share of queries without an answer with a p-value of at most 0.1
  std::vector<Bin> bins;
  std::vector<Cut> cuts;
  static void fields(auto& self, auto& field) {
    field("tells", self.tells);
    field.or_null("reason", self.reason);
    SACCADE_FIELDS(learned, asked, gain, gain_error, first_right, found_auroc, cosine_auroc, hit_auroc,
                   hit_cosine_auroc, rare);
    field("calibration", self.bins);
    field("cuts", self.cuts);
  }
};

// A model on a dataset.
struct MatchesResult {
  std::string dataset;
  std::string model;
  int64_t classes = 0;
  std::string unsupported = {};            // reason if nothing was measured
  std::optional<MatchFigures> texts = {};  // searched by text
  std::optional<MatchFigures> pictures = {};
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, classes);
    field.or_null("unsupported", self.unsupported);
    field("text", self.texts);
    field("image", self.pictures);
  }
};

struct MatchesMetrics {
  static constexpr std::string_view kKind = "matches";
  std::vector<MatchesResult> results;
  static void fields(auto& self, auto& field) { field("results", self.results); }
};

}  // namespace saccade::lab

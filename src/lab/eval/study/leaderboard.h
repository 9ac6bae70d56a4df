// The leaderboard of a study: every model's figures side by side, ranked, with what cannot be told apart sharing a rank. It is
// made from the finished pieces of a study (study_plan.h) and stored as STUDY/leaderboard.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed_metrics.h"
#include "lab/eval/study/study_plan.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

// Effective length of a model on one dataset, text to image.
struct LeaderboardLength {
  std::string dataset;
  std::string domain;  // may be empty
  std::optional<int64_t> value;
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  bool at_end = false;
  bool above_chance = true;  // otherwise the length is that of noise
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, domain, value, low, high, at_end, above_chance);
  }
};

struct LeaderboardRow {
  std::optional<int64_t> rank;  // from 1; shared by models that cannot be told apart; nullopt: not measured
  std::string model;            // unique in the study
  std::string precision;
  std::string fingerprint;
  int64_t parameters = 0;
  std::string scored_by;  // "cosine": one vector an item; "maxsim": late interaction
  ByDirection<std::vector<Figure>> retrieval = {};        // r1, r5, r10
  std::optional<Difference> gap;                          // R@1 of image to text minus text to image
  ByDirection<std::optional<Difference>> symmetric = {};  // R@1 of the protocol minus the symmetric one
  std::vector<Figure> composition;                        // text, and for items of two images image and group
  std::optional<BenchmarkPass> benchmark;
  std::optional<Spread> images_per_s;
  std::optional<Spread> texts_per_s;
  std::optional<Spread> queries_per_s;
  std::vector<LeaderboardLength> lengths;
  std::vector<std::string> missing;  // parts without a finished run
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(rank, model, precision, fingerprint, parameters, scored_by);
    field.object("retrieval", [&](auto& in) { self.retrieval.fields(self.retrieval, in); });
    SACCADE_FIELDS(gap);
    field.object("symmetric", [&](auto& in) { self.symmetric.fields(self.symmetric, in); });
    SACCADE_FIELDS(composition, benchmark, images_per_s, texts_per_s, queries_per_s, lengths, missing);
  }
};

// A part's runs of all models as one run: what a single command over all models would have written.
struct LeaderboardPart {
  RunInfo info;
  Json metrics;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(info, metrics); }
};

struct Leaderboard {
  static constexpr int64_t kFormat = 1;
  int64_t format = kFormat;
  std::string ranked_by;             // "text-to-image R@1", "group score"; empty: nothing to rank by
  std::vector<LeaderboardRow> rows;  // by rank
  std::vector<std::string> notes;    // for the reader of the figures, in sentences
  std::vector<LeaderboardPart> parts;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(format, ranked_by, rows, notes, parts); }
};

// Makes the leaderboard of a study's finished pieces. Differences between models are paired as one run of all models would have
// paired them, from the ranks in the pieces' runs. Models are ranked by R@1 of text to image, or by the group (or text) score
// without retrieval. Errors: kMismatch if two pieces measured other data or protocols; kBadData for an invalid run. Cost: the
// bootstrap of each model.
Result<Leaderboard> make_leaderboard(const StudyWork& work, ThreadPool& pool);

// Writes and reads STUDY/leaderboard.json.
Status write_leaderboard(const std::filesystem::path& study, const Leaderboard& board);
Result<Leaderboard> read_leaderboard(const std::filesystem::path& study);
// Returns the parts as runs, for advice and reports. `study` is their folder.
std::vector<Run> leaderboard_runs(const Leaderboard& board, const std::filesystem::path& study);

}  // namespace saccade::lab

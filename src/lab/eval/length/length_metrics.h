// metrics.json of runs of length (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/data/audit.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// Lengths of texts in their own tokens, without start, end and prompt.
struct TokenLengths {
  Lengths lengths;
  std::optional<int64_t> limit;  // own tokens that a model has room for
  int64_t beyond = 0;            // texts that have more
  // Histogram. counts[i] is the number of texts of i * width .. (i + 1) * width - 1 tokens; the last one is
  // not 0.
  int64_t width = 1;
  std::vector<int64_t> counts;
  static void fields(auto& self, auto& field) {
    field("count", self.lengths.count);
    field("min", self.lengths.min);
    field("median", self.lengths.median);
    field("mean", self.lengths.mean);
    field("p95", self.lengths.p95);
    field("max", self.lengths.max);
    field("limit", self.limit);
    bool no_limit = !self.limit;
    field.nullable("beyond_limit", self.beyond, no_limit);
    field.object("histogram", [&](auto& in) {
      in("width", self.width);
      in("counts", self.counts);
    });
  }
};

// R@1 at one length in each subset of the images.
struct LengthPointSubsets {
  double mean = 0;
  double low = 0;  // the smallest
  double high = 0;
  std::vector<double> values;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(mean, low, high, values); }
};

// R@1 at one length, over all images and in each subset of them.
struct LengthPointRecord {
  int64_t n = 0;
  BriefFigure r1;
  std::optional<LengthPointSubsets> subsets;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(n, r1, subsets); }
};

// EffectiveLength, with the share that it is of, and its part that is the text's own.
struct EffectiveLengthRecord {
  struct Subsets {
    std::optional<int64_t> value;
    std::optional<int64_t> low;
    std::optional<int64_t> high;
    std::vector<std::optional<int64_t>> values;
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(value, low, high, values); }
  };
  std::optional<int64_t> value;
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  double share = 0;
  bool at_end = false;
  std::optional<int64_t> tokens;
  std::optional<Subsets> subsets;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(value, low, high, share, at_end, tokens, subsets);
  }
};

// Difference of texts in chunks minus texts cut at the limit.
struct ChunkDifference : Difference {
  ChunkDifference() = default;
  ChunkDifference(Difference difference)
      : Difference(std::move(difference)) {}  // NOLINT(google-explicit-constructor)
  static void fields(auto& self, auto& field) {
    field("value", self.figure.value);
    field("low", self.figure.low);
    field("high", self.figure.high);
    SACCADE_FIELDS(p_value, significant);
  }
};

struct LengthCurveRecord {
  std::vector<LengthPointRecord> curve;
  EffectiveLengthRecord effective;
  double chance = Figure::kNone;
  bool above_chance = true;                   // otherwise the effective length is that of noise
  std::optional<ChunkDifference> difference;  // of chunked texts
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(curve, effective);
    field.added("chance", self.chance);
    field.added("above_chance", self.above_chance);
    field.if_set("difference", self.difference);
  }
};
using LengthCurvesRecord = ByDirection<LengthCurveRecord>;

struct ChunkingRecord {
  std::string chunks;
  std::string pooling;
  int64_t chunk_count = 0;
  LengthCurvesRecord curves;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(chunks, pooling, chunk_count);
    self.curves.fields(self.curves, field);
  }
};

// A model on a dataset.
struct LengthResult {
  std::string dataset;
  std::string domain;  // may be empty
  std::string model;
  int64_t images = 0;
  int64_t texts = 0;
  ByDirection<int64_t> queries;
  int64_t first = 0;
  int64_t limit = 0;
  int64_t subset_items = 0;  // 0: no subsets
  LengthCurvesRecord curves;
  int64_t texts_of_sentences = 0;
  std::optional<LengthCurvesRecord> sentences_permuted;
  std::optional<LengthCurvesRecord> last_tokens;
  std::vector<ChunkingRecord> chunking;
  TokenLengths token_lengths;
  int64_t encoded_texts = 0;
  static void fields(auto& self, auto& field) {
    field("dataset", self.dataset);
    field.or_null("domain", self.domain);
    SACCADE_FIELDS(model, images, texts, queries, first, limit);
    field.or_null("subset_items", self.subset_items);
    self.curves.fields(self.curves, field);
    field.object("controls", [&](auto& in) {
      in("texts_of_sentences", self.texts_of_sentences);
      in("sentences_permuted", self.sentences_permuted);
      in("last_tokens", self.last_tokens);
    });
    SACCADE_FIELDS(chunking, token_lengths, encoded_texts);
  }
};

struct LengthMetrics {
  static constexpr std::string_view kKind = "length";
  std::vector<LengthResult> results;
  static void fields(auto& self, auto& field) { field("results", self.results); }
};

// Lengths of a dataset's texts in the tokens of one tokenizer: what `eval length --token-lengths` prints.
struct TokenLengthsResult {
  std::string dataset;
  std::string dataset_sha256;
  std::string domain;  // may be empty
  std::string tokenizer;
  int64_t vocabulary = 0;
  std::optional<int64_t> context;
  TokenLengths token_lengths;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, dataset_sha256);
    field.or_null("domain", self.domain);
    SACCADE_FIELDS(tokenizer, vocabulary, context, token_lengths);
  }
};

}  // namespace saccade::lab

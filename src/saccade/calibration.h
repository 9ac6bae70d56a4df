// Calibration: match probabilities for the nearest rows of a query.
//
// A cosine alone says little: its scale differs between models and between queries, and the best of many rows scores high by
// chance. A calibration is learned from queries whose right rows are known. It judges a hit by its score, by how far it
// stands out among the query's best scores, and by how near its row is to everything.
//
//   auto calibration = saccade::Calibration::learn(encoder, rows, captions);
//   auto found = calibration->top_k(query, rows, 10, {.text = "a red door"});
//   if (found->hits[0].probability > 0.5) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/matrix.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

class Encoder;  // encoder.h

// Kinds of queries that are calibrated separately.
enum class QueryKind {
  kText,   // a text
  kImage,  // an image
};

// Returns "text" or "image". Thread-safe.
std::string_view name(QueryKind kind);
// Returns the kind of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<QueryKind> parse_query_kind(std::string_view name);

// Queries whose right rows are known. The lists have one entry a query.
struct KnownQueries {
  MatrixView<const float> embeddings = {};       // [n, dim], each of length 1
  std::vector<std::vector<int64_t>> right = {};  // right rows, ascending; empty if they are not known
  std::vector<std::string> texts = {};           // of text queries; empty for images
  std::vector<int64_t> own_rows = {};  // row of the query itself, which is left out, or -1; may be empty
};

// Options of learning a calibration.
struct CalibrationOptions {
  QueryKind kind = QueryKind::kText;  // kind of the queries
  // Factor on scores in a softmax, as the model was trained with: EncoderInfo::logit_scale.
  double logit_scale = 100;
  std::span<const uint8_t> allowed = {};  // empty, or one byte a row: 0 leaves the row out
  int threads = 0;                        // 0: one for each processor of the process; at most 1,024
  std::stop_token stop = {};              // ends with kCancelled between two batches of texts or queries
};

// Options of a calibrated search.
struct CalibratedTopKOptions {
  std::string_view text = {};             // the query's text, whose words are counted; empty for an image
  std::span<const uint8_t> allowed = {};  // empty, or one byte a row: 0 leaves the row out
  int threads = 0;                        // 0: one for each processor of the process; at most 1,024
  std::stop_token stop = {};              // ends the call within milliseconds of a request, with kCancelled
};

// A row found, with the probability that it is right.
struct CalibratedHit {
  int64_t row = 0;                         // row number, from 0
  float score = 0;                         // cosine similarity
  std::optional<double> probability = {};  // [0, 1]; `nullopt` if the calibration gives none
  // Number of wrong rows expected at this score or above for a query without a right row; `nullopt` if not measured.
  std::optional<double> expected_wrong = {};
};

// Rows found for a query, with what the calibration says of them.
struct CalibratedTopK {
  std::vector<CalibratedHit> hits = {};  // best first
  // Probability that any row is right, if half of all queries have a right row; `nullopt` if the calibration gives none.
  std::optional<double> answered = {};
  // Share of queries without a right row whose best hit stands out at least as much; `nullopt` if not measured.
  std::optional<double> p_value = {};
};

// A learned calibration for one kind of query, one model and rows like those that it was learned on. A value: copies share
// the numbers, and all methods may be called from several threads.
class Calibration {
 public:
  // Learns from queries with known right rows. rows: [n, dim], each of length 1. Too little data is no error: the result
  // then gives no probabilities, and reason() says why. It takes 65 rows, and 60 texts or 200 images with right rows.
  // kMismatch for widths or lists that do not fit; kUsage for no queries, or a row or number of threads out of range;
  // kCancelled after a stop request. Cost: two passes over the rows for each batch of queries.
  static Result<Calibration> learn(MatrixView<const float> rows, const KnownQueries& queries,
                                   const CalibrationOptions& options = {});
  // Learns from captions, one a row (empty if the row has none): words and parts of captions become text queries, and the
  // right rows are those whose captions have all their words. Everyday words are the queries without right rows. The
  // encoder must be the rows' own; its logit scale is used, options.kind and options.logit_scale are ignored.
  // kUnsupported if it reads no texts. Cost: 192 to 1,024 texts are encoded, and two passes over the rows.
  static Result<Calibration> learn(const Encoder& encoder, MatrixView<const float> rows,
                                   std::span<const std::string> captions,
                                   const CalibrationOptions& options = {});

  // True if hits get probabilities: on held-out queries they were better than a constant.
  [[nodiscard]] bool gives_probabilities() const;
  // Reason for no probabilities, a sentence for people; empty if there are any.
  [[nodiscard]] const std::string& reason() const;
  // Number of queries with known right rows that it was learned from.
  [[nodiscard]] int64_t known_queries() const;

  // Finds the k nearest rows of a query, as saccade::top_k does with inner products, and the probability of each. The
  // probabilities need the best 64 rows, so all of them are found and judged. query: [dim], of length 1. kUsage for k < 1;
  // kMismatch for widths that do not fit. Cost: one pass over the rows, and 320 dot products.
  [[nodiscard]] Result<CalibratedTopK> top_k(std::span<const float> query, MatrixView<const float> rows,
                                             int64_t k, const CalibratedTopKOptions& options = {}) const;

 private:
  friend class Collection;
  struct State;
  explicit Calibration(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace saccade
#pragma GCC visibility pop

#include "saccade/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/engine/calibration_state.h"
#include "saccade/engine/encoder_state.h"
#include "saccade/index/exact_search.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

Status check_allowed(MatrixView<const float> rows, std::span<const uint8_t> allowed) {
  if (allowed.empty() || std::ssize(allowed) == rows.rows()) return {};
  return fail(ErrorCode::kMismatch, "a filter of {} bytes for {} rows", allowed.size(), rows.rows());
}

int64_t words_of(std::string_view text) {
  return std::ssize(caption_words(text));
}

std::optional<double> known(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Result<LabelledQueries> labelled(MatrixView<const float> rows, const KnownQueries& known,
                                 const CalibrationOptions& options) {
  const int64_t count = known.embeddings.rows();
  if (known.embeddings.columns() != rows.columns()) {
    return fail(ErrorCode::kMismatch, "queries of {} values, rows of {}", known.embeddings.columns(),
                rows.columns());
  }
  const auto check_list = [&](std::string_view what, int64_t size, bool may_be_empty) -> Status {
    if (size == count || (may_be_empty && size == 0)) return {};
    return fail(ErrorCode::kMismatch, "{} {} for {} queries", size, what, count);
  };
  SACCADE_TRY(check_list("lists of right rows", std::ssize(known.right), false));
  SACCADE_TRY(check_list("texts", std::ssize(known.texts), options.kind == QueryKind::kImage));
  SACCADE_TRY(check_list("own rows", std::ssize(known.own_rows), true));
  if (count == 0) return fail(ErrorCode::kUsage, "no queries to learn from");
  LabelledQueries queries;
  queries.rows = Matrix<float>(count, rows.columns());
  queries.fewest = options.kind == QueryKind::kImage ? kFewestLabelledPictures : kFewestLabelled;
  for (int64_t q = 0; q < count; ++q) {
    const auto at = static_cast<size_t>(q);
    std::ranges::copy(known.embeddings.row(q), queries.rows.row(q).begin());
    std::vector<int64_t> right = known.right[at];
    for (const int64_t row : right) {
      if (row < 0 || row >= rows.rows()) {
        return fail(ErrorCode::kUsage, "query {} has row {} as a right one, there are {} rows", q, row,
                    rows.rows());
      }
    }
    const int64_t own = known.own_rows.empty() ? -1 : known.own_rows[at];
    std::ranges::sort(right);
    std::erase(right, own);
    right.erase(std::unique(right.begin(), right.end()), right.end());
    // A query that nearly everything answers teaches nothing.
    if (std::ssize(right) > kMostRight) right.clear();
    queries.right.push_back(std::move(right));
    queries.itself.push_back(own);
    queries.words.push_back(options.kind == QueryKind::kImage ? 0 : words_of(known.texts[at]));
  }
  return queries;
}

}  // namespace

static std::span<const EnumName<QueryKind>> enum_names(QueryKind) {
  static constexpr std::array<EnumName<QueryKind>, 2> kNames{
      {{QueryKind::kText, "text"}, {QueryKind::kImage, "image"}}};
  return kNames;
}
std::string_view name(QueryKind kind) {
  return enum_name(kind);
}
Result<QueryKind> parse_query_kind(std::string_view name) {
  return parse_name<QueryKind>("kind", name);
}

Result<Calibration> Calibration::learn(MatrixView<const float> rows, const KnownQueries& queries,
                                       const CalibrationOptions& options) {
  SACCADE_TRY(check_threads(options.threads));
  SACCADE_TRY(check_allowed(rows, options.allowed));
  SACCADE_ASSIGN(const LabelledQueries known, labelled(rows, queries, options));
  ThreadPool pool(options.threads);
  SACCADE_ASSIGN(Background::Kind kind,
                 measure_queries(rows, options.allowed, known, options.logit_scale, pool, options.stop));
  return Calibration(
      std::make_shared<const State>(std::make_shared<const Background::Kind>(std::move(kind))));
}

Result<Calibration> Calibration::learn(const Encoder& encoder, MatrixView<const float> rows,
                                       std::span<const std::string> captions,
                                       const CalibrationOptions& options) {
  SACCADE_TRY(check_threads(options.threads));
  SACCADE_TRY(check_allowed(rows, options.allowed));
  if (rows.columns() != encoder.info().dim) {
    return fail(ErrorCode::kMismatch, "rows of {} values, {} gives {}", rows.columns(), encoder.name(),
                encoder.info().dim);
  }
  if (std::ssize(captions) != rows.rows()) {
    return fail(ErrorCode::kMismatch, "{} captions for {} rows", captions.size(), rows.rows());
  }
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported, "{}: the checkpoint has no tokenizer, so that it reads no texts",
                encoder.name());
  }
  ThreadPool pool(options.threads);
  std::vector<std::string> drawn(captions.begin(), captions.end());
  for (size_t row = 0; row < options.allowed.size(); ++row) {
    if (options.allowed[row] == 0) drawn[row].clear();
  }
  const CaptionIndex index(drawn);
  SACCADE_ASSIGN(Background::Kind kind,
                 measure_texts(rows, options.allowed, *encoder.state_->backend, index, pool, options.stop));
  return Calibration(
      std::make_shared<const State>(std::make_shared<const Background::Kind>(std::move(kind))));
}

bool Calibration::gives_probabilities() const {
  return state_->kind->model.tells;
}

const std::string& Calibration::reason() const {
  return state_->kind->model.reason;
}

int64_t Calibration::known_queries() const {
  return state_->kind->model.labelled;
}

Result<CalibratedTopK> Calibration::top_k(std::span<const float> query, MatrixView<const float> rows,
                                          int64_t k, const CalibratedTopKOptions& options) const {
  if (k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", k);
  SACCADE_TRY(check_threads(options.threads));
  const Background::Kind& kind = *state_->kind;
  const std::vector<float>& learned = kind.surroundings.mean_query;
  if (!learned.empty() && learned.size() != query.size()) {
    return fail(ErrorCode::kMismatch, "a query of {} values, the calibration was learned with {}",
                query.size(), learned.size());
  }
  ThreadPool pool(options.threads);
  const MatrixView<const float> one(query.data(), 1, std::ssize(query));
  SACCADE_ASSIGN(const FoundRows found,
                 find_rows({.rows = rows, .allowed = options.allowed, .stop = options.stop}, one,
                           std::max(k, kCompetitors), pool));
  const std::vector<RowScore>& best = found.best.front();
  CalibratedTopK answer;
  Judgement judgement;
  if (!learned.empty()) {
    const int64_t searched =
        options.allowed.empty()
            ? rows.rows()
            : std::ranges::count_if(options.allowed, [](uint8_t flag) { return flag != 0; });
    judgement =
        judge_hits(kind.model, kind.surroundings, rows, query, best, searched, words_of(options.text));
  }
  answer.answered = known(judgement.there);
  answer.p_value = known(judgement.p_value);
  for (size_t i = 0; i < std::min(best.size(), static_cast<size_t>(k)); ++i) {
    CalibratedHit hit{.row = best[i].row, .score = best[i].score};
    if (i < judgement.hits.size()) {
      hit.probability = known(judgement.hits[i].right);
      hit.expected_wrong = known(judgement.hits[i].expected_false);
    }
    answer.hits.push_back(hit);
  }
  return answer;
}

}  // namespace saccade

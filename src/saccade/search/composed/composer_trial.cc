#include "saccade/search/composed/composer_trial.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/index/exact_search.h"
#include "saccade/model/composers/compose_embeddings.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

struct Trial {
  int64_t reference = 0;  // row
  std::string change;
  std::vector<int64_t> right;  // rows, ascending
};

constexpr size_t kLongestCaption = 6;  // words

// Evenly spread over all pairs of captions that differ in one word, one reference each.
std::vector<Trial> trials_of(const std::vector<std::string>& captions) {
  std::map<std::vector<std::string>, std::vector<int64_t>> rows;  // of each different caption
  for (size_t r = 0; r < captions.size(); ++r) {
    for (const std::string_view part : caption_parts(captions[r])) {
      std::vector<std::string> words = caption_words(part);
      if (words.size() < 2 || words.size() > kLongestCaption) continue;
      std::vector<int64_t>& of = rows[std::move(words)];
      if (of.empty() || of.back() != static_cast<int64_t>(r)) of.push_back(static_cast<int64_t>(r));
    }
  }
  // Captions with a word left out, and which captions that leaves.
  std::map<std::pair<size_t, std::vector<std::string>>, std::vector<const std::vector<std::string>*>> frames;
  for (const auto& [words, ignored] : rows) {
    for (size_t at = 0; at < words.size(); ++at) {
      std::vector<std::string> frame = words;
      frame[at].clear();
      frames[{at, std::move(frame)}].push_back(&words);
    }
  }
  std::vector<Trial> trials;
  for (const auto& [frame, alike] : frames) {
    for (size_t i = 0; i < alike.size() && alike.size() > 1; ++i) {
      const std::vector<std::string>& target = *alike[(i + 1) % alike.size()];
      const std::vector<int64_t>& right = rows.at(target);
      const int64_t reference = rows.at(*alike[i]).front();
      if (std::ranges::binary_search(right, reference)) continue;
      trials.push_back({reference, target[frame.first], right});
    }
  }
  const int64_t count = std::min(kMostTrials, std::ssize(trials));
  std::vector<Trial> some;
  for (int64_t i = 0; i < count; ++i) {
    some.push_back(std::move(trials[static_cast<size_t>(i * std::ssize(trials) / count)]));
  }
  return some;
}

// One a query: 1 if a right row is among the first kTrialDepth, the reference left out.
Result<std::vector<double>> found(const CollectionReader& collection, const std::vector<Trial>& trials,
                                  MatrixView<const float> queries, ThreadPool& pool) {
  SACCADE_ASSIGN(const auto best,
                 exact_search(collection.rows(), queries, kTrialDepth + 1, pool, collection.alive()));
  std::vector<double> result;
  for (size_t q = 0; q < trials.size(); ++q) {
    std::vector<RowScore> hits = best[q];
    std::erase_if(hits, [&](const RowScore& hit) { return hit.row == trials[q].reference; });
    hits.resize(std::min(hits.size(), static_cast<size_t>(kTrialDepth)));
    const bool any = std::ranges::any_of(
        hits, [&](const RowScore& hit) { return std::ranges::binary_search(trials[q].right, hit.row); });
    result.push_back(any ? 1 : 0);
  }
  return result;
}

}  // namespace

ComposerTrial compared(std::span<const double> by_composer, std::span<const double> by_sum) {
  ComposerTrial trial;
  trial.queries = std::ssize(by_sum);
  const auto count = static_cast<double>(trial.queries);
  for (size_t q = 0; q < by_sum.size(); ++q) {
    trial.composer += by_composer[q] / count;
    trial.sum += by_sum[q] / count;
  }
  trial.difference = trial.composer - trial.sum;
  double squares = 0;
  for (size_t q = 0; q < by_sum.size(); ++q) {
    const double off = by_composer[q] - by_sum[q] - trial.difference;
    squares += off * off;
  }
  trial.error = std::sqrt(squares / (count - 1) / count);
  trial.better = trial.difference > 2 * trial.error;
  return trial;
}

Result<ComposerTrial> try_composer(const CollectionReader& collection, EncoderBackend& encoder,
                                   Composer& composer, ThreadPool& pool, const std::stop_token& stop) {
  ComposerTrial trial;
  SACCADE_TRY(collection.check_has_rows("the trial of a composer"));
  SACCADE_TRY(composer.check_encoder(encoder));
  const ComposerNeeds& needs = composer.kind().needs;
  if (needs.tokens || needs.words) {
    trial.reason = fmt::format("a composer of the kind {} needs more than the stored embeddings",
                               composer.config().kind);
    return trial;
  }
  SACCADE_ASSIGN(const std::vector<std::string> captions, captions_by_row(collection));
  const std::vector<Trial> trials = trials_of(captions);
  trial.queries = std::ssize(trials);
  if (trial.queries < kFewestTrials) {
    trial.reason =
        fmt::format("{} pairs of captions differ in one word, {} are needed", trial.queries, kFewestTrials);
    return trial;
  }
  std::vector<std::string> changes;
  for (const Trial& one : trials) changes.push_back(one.change);
  SACCADE_ASSIGN(const Matrix<float> texts, encode_all_texts(encoder, changes, stop));
  Matrix<float> sums(trial.queries, texts.columns());
  ComposerInput input;
  input.picture_rows = Matrix<float>(trial.queries, texts.columns());
  for (int64_t q = 0; q < trial.queries; ++q) {
    const std::span<const float> picture = collection.rows().row(trials[static_cast<size_t>(q)].reference);
    std::ranges::copy(picture, input.picture_rows.row(q).begin());
    SACCADE_ASSIGN(const std::vector<float> sum, compose_rows(Compose::kSum, {}, picture, texts.row(q), {}));
    std::ranges::copy(sum, sums.row(q).begin());
  }
  SACCADE_ASSIGN(input.text_rows, encode_all_texts(composer.texts(encoder), changes, stop));
  SACCADE_ASSIGN(const Composed composed, composer.compose(encoder, input));
  SACCADE_ASSIGN(const std::vector<double> by_composer,
                 found(collection, trials, composed.rows.view(), pool));
  SACCADE_ASSIGN(const std::vector<double> by_sum, found(collection, trials, sums.view(), pool));
  return compared(by_composer, by_sum);
}

std::string trial_text(const ComposerTrial& trial) {
  if (!trial.reason.empty()) return "the composer was not compared with the sum: " + trial.reason;
  return fmt::format(
      "of {} captions that differ in one word, the composer finds {:.0f}% among the first {}, the sum {:.0f}% "
      "(difference {:.1f} points, standard error {:.1f})",
      trial.queries, 100 * trial.composer, kTrialDepth, 100 * trial.sum, 100 * trial.difference,
      100 * trial.error);
}

}  // namespace saccade

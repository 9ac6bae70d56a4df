#include "saccade/serve/formats/score_inputs.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

#include "saccade/core/seconds_since.h"
#include "saccade/index/max_sim.h"

namespace saccade::serve {
namespace {

bool is_picture(const Input& input) {
  return !input.picture.empty();
}

// Scores pairs with the matching head. `pictures` and `texts` have one entry per pair each, or one of them
// has a single entry for all pairs.
Result<std::vector<float>> pair_scores(const Context& context, EncoderBackend& encoder,
                                       const std::vector<const Input*>& pictures,
                                       const std::vector<TokenizedText>& texts) {
  std::vector<float> scores;
  const size_t pairs = std::max(pictures.size(), texts.size());
  for (size_t begin = 0; begin < pairs; begin += kPicturesAtATime) {
    const size_t size = std::min(kPicturesAtATime, pairs - begin);
    const bool one_picture = pictures.size() == 1;
    const bool one_text = texts.size() == 1;
    const std::span<const Input* const> some =
        std::span(pictures).subspan(one_picture ? 0 : begin, one_picture ? 1 : size);
    const int64_t first = one_picture ? 0 : static_cast<int64_t>(begin) + 1;
    SACCADE_ASSIGN(const PixelBatch batch, input_pixels(context, encoder, some, first));
    const int64_t columns = batch.pixels.columns();
    Matrix<float> pixels(static_cast<int64_t>(size), columns);
    std::vector<TokenizedText> pair_texts;
    for (size_t i = 0; i < size; ++i) {
      const auto row = static_cast<int64_t>(i);
      std::ranges::copy(batch.pixels.row(one_picture ? 0 : row), pixels.row(row).begin());
      pair_texts.push_back(texts[one_text ? 0 : begin + i]);
    }
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const std::vector<float> some_scores,
                   encoder.pair_scorer()->score_pairs(pixels.view(), pair_texts));
    context.metrics.spent("encode", seconds_since(start));
    scores.insert(scores.end(), some_scores.begin(), some_scores.end());
  }
  return scores;
}

// Rows of late interaction of each input, in their order.
Result<std::vector<Matrix<float>>> late_rows(const Context& context, EncoderBackend& encoder,
                                             const std::vector<const Input*>& inputs,
                                             const std::vector<TokenizedText>& texts) {
  std::vector<Matrix<float>> rows;
  size_t text = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Result<RowSets> sets = RowSets{};
    if (is_picture(*inputs[i])) {
      const std::span<const Input* const> one = std::span(inputs).subspan(i, 1);
      SACCADE_ASSIGN(const PixelBatch batch, input_pixels(context, encoder, one, static_cast<int64_t>(i)));
      sets = encoder.late_interaction()->encode_image_rows(batch.rows());
    } else {
      sets = encoder.late_interaction()->encode_text_rows(std::span(texts).subspan(text++, 1));
    }
    if (!sets) return fail(std::move(sets).error());
    rows.push_back(std::move(sets->rows));
  }
  return rows;
}

}  // namespace

Result<InputScores> score_inputs(const Context& context, ServedModel& model, Input query,
                                 std::vector<Input> inputs) {
  inputs.insert(inputs.begin(), std::move(query));
  SACCADE_TRY(fetch_addresses(context, model, inputs));
  const bool all_pairs = std::all_of(inputs.begin() + 1, inputs.end(), [&](const Input& input) {
    return is_picture(input) != is_picture(inputs.front());
  });
  const bool by_pairs = model.pair_scorer && all_pairs;
  InputScores result;
  if (!by_pairs && !model.late_interaction) {
    result.by = "rows";
    SACCADE_ASSIGN(const EncodedInputs encoded, encode_inputs(context, model, std::move(inputs)));
    result.tokens = encoded.tokens;
    result.dropped_tokens = encoded.dropped_tokens;
    const auto first = encoded.rows.row(0);
    for (int64_t i = 1; i < encoded.rows.rows(); ++i) {
      const auto row = encoded.rows.row(i);
      result.scores.push_back(std::inner_product(row.begin(), row.end(), first.begin(), 0.0F));
    }
    return result;
  }
  std::vector<const Input*> all;
  all.reserve(inputs.size());
  for (const Input& input : inputs) all.push_back(&input);
  SACCADE_ASSIGN(const std::shared_ptr<EncoderBackend> encoder, context.lend(model));
  SACCADE_ASSIGN(const TokenizedInputs texts, tokenize_inputs(context, model, *encoder, all));
  result.tokens = texts.tokens;
  result.dropped_tokens = texts.dropped_tokens;
  if (by_pairs) {
    result.by = "pairs";
    std::vector<const Input*> pictures;
    std::ranges::copy_if(all, std::back_inserter(pictures),
                         [](const Input* one) { return is_picture(*one); });
    SACCADE_ASSIGN(result.scores, pair_scores(context, *encoder, pictures, texts.texts));
    return result;
  }
  result.by = "late";
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const std::vector<Matrix<float>> rows, late_rows(context, *encoder, all, texts.texts));
  context.metrics.spent("encode", seconds_since(start));
  const auto query_rows = static_cast<float>(rows.front().rows());
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto matches = max_sim_matches_plain(rows.front().view(), rows[i].view());
    result.scores.push_back(max_sim_total(matches) / query_rows);
  }
  return result;
}

}  // namespace saccade::serve

#include "lab/eval/composed/composed_rows.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "saccade/core/rows.h"
#include "saccade/model/composers/compose_embeddings.h"
#include "saccade/model/composers/token_states.h"

namespace saccade::lab {
namespace {

constexpr int64_t kAtOnce = 256;  // asked texts whose references' tokens are held together

// A reference image with one text.
struct Said {
  int64_t asked = 0;
  int64_t reference = 0;  // number of an image
  std::string_view text;
};

std::vector<Said> said_of(const ComposedTask& task) {
  std::vector<Said> said;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    for (const std::string& text : task.asked[a].texts) {
      said.push_back(
          {static_cast<int64_t>(a), task.queries[static_cast<size_t>(task.asked[a].query)].reference, text});
    }
  }
  return said;
}

// Returns row sets in which item i is item which[i] of `from`.
RowSets gather(const RowSets& from, std::span<const int64_t> which) {
  RowSets sets;
  for (const int64_t item : which) {
    const auto at = static_cast<size_t>(item);
    sets.begin.push_back(sets.begin.back() + from.begin[at + 1] - from.begin[at]);
  }
  sets.rows = Matrix<float>(sets.begin.back(), from.rows.columns());
  auto to = sets.rows.values().begin();
  for (const int64_t item : which) {
    const auto at = static_cast<size_t>(item);
    for (int64_t r = from.begin[at]; r < from.begin[at + 1]; ++r) {
      to = std::ranges::copy(from.rows.row(r), to).out;
    }
  }
  return sets;
}

// Returns states of each query's reference image.
Result<RowSets> picture_states(const EncodedContext& context, const ImageFunction& states,
                               const ComposedTask& task, std::span<const Said> said) {
  std::vector<ImageRef> pictures;
  std::unordered_map<int64_t, int64_t> places;
  std::vector<int64_t> which;
  for (const Said& one : said) {
    const auto [place, fresh] = places.try_emplace(one.reference, std::ssize(pictures));
    if (fresh) pictures.push_back(task.pictures[static_cast<size_t>(one.reference)].image);
    which.push_back(place->second);
  }
  EmbedOptions options = context.embed;
  options.progress = {};
  SACCADE_ASSIGN(const EmbeddedPictures embedded,
                 embed_pictures(context.encoder, states, pictures, options, context.pool));
  if (!embedded.failed.empty()) return fail(embedded.failed.front().second);
  return gather(embedded.rows.sets, which);
}

// Both are cached like the embeddings of late interaction.
ImageFunction token_states_of(EncoderBackend& encoder) {
  TokenStates& states = *encoder.token_states();
  return {" tokens", encoder.info().dim, true,
          [&states](auto pixels) { return states.image_tokens(pixels); }};
}
ImageFunction vision_states_of(EncoderBackend& encoder) {
  constexpr auto kState = FrozenFeatures::ImageState::kVision;
  FrozenFeatures& features = *encoder.frozen_features();
  return {" vision", features.image_width(kState), true,
          [&features](auto pixels) { return features.image_features(pixels, kState); }};
}

Result<ComposerInput> input_of(const EncodedContext& context, const Composer& composer,
                               const ComposedTask& task, std::span<const Said> said) {
  const ComposerNeeds& needs = composer.kind().needs;
  EncoderBackend& reader = composer.texts(context.encoder);
  ComposerInput input;
  if (needs.picture_rows) {
    input.picture_rows = Matrix<float>(std::ssize(said), context.encoder.info().dim);
    for (size_t i = 0; i < said.size(); ++i) {
      std::ranges::copy(context.pictures.sets.rows.row(said[i].reference),
                        input.picture_rows.row(static_cast<int64_t>(i)).begin());
    }
  }
  std::vector<TokenizedText> texts;
  for (const Said& one : said) {
    texts.push_back(reader.tokenizer()->encode(one.text, reader.info().context));
    if (needs.words) input.words.emplace_back(one.text);
  }
  if (needs.text_rows) {
    SACCADE_ASSIGN(const EmbeddedRows rows, embed_texts(reader, texts, context.embed));
    input.text_rows = rows.sets.rows.copy();
  }
  if (needs.tokens) {
    SACCADE_ASSIGN(input.picture_tokens,
                   picture_states(context, token_states_of(context.encoder), task, said));
    SACCADE_ASSIGN(input.text_tokens, reader.token_states()->text_tokens(texts));
  }
  if (needs.prompts) {
    SACCADE_ASSIGN(input.picture_states,
                   picture_states(context, vision_states_of(context.encoder), task, said));
  }
  return input;
}

void add_matches(const ComposerInput& input, const Composed& composed, ComposedRows& result) {
  for (size_t i = 0; i < composed.matches.size(); ++i) {
    std::set<int32_t> met;
    for (const auto& match : composed.matches[i]) met.insert(match.text);
    result.matched += std::ssize(met);
    result.tokens += input.text_tokens.begin[i + 1] - input.text_tokens.begin[i];
  }
}

}  // namespace

Result<ComposedRows> compose_task(Composer& composer, const EncodedContext& context,
                                  const ComposedTask& task) {
  SACCADE_TRY(composer.check_encoder(context.encoder));
  SACCADE_TRY(check_composer_needs(context.encoder, composer.kind()));
  if (context.pictures.late && !composer.kind().late) {
    return fail(ErrorCode::kUnsupported,
                "composers of kind {} compare one row with one, and this encoder's images have many",
                composer.kind().name);
  }
  const std::vector<Said> said = said_of(task);
  ComposedRows result;
  result.rows = Matrix<float>(std::ssize(task.asked), context.encoder.info().dim);
  for (size_t first = 0; first < said.size(); first += kAtOnce) {
    if (context.embed.stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while composing");
    const auto some = std::span(said).subspan(first, std::min<size_t>(kAtOnce, said.size() - first));
    SACCADE_ASSIGN(const ComposerInput input, input_of(context, composer, task, some));
    SACCADE_ASSIGN(const Composed composed, composer.compose(context.encoder, input));
    if (composer.kind().needs.tokens) add_matches(input, composed, result);
    for (size_t i = 0; i < some.size(); ++i) {
      const auto row = result.rows.row(some[i].asked);
      const auto own = composed.rows.row(static_cast<int64_t>(i));
      for (size_t d = 0; d < row.size(); ++d) row[d] += own[d];
    }
    if (context.embed.progress) {
      context.embed.progress({.what = "composing",
                              .done = static_cast<int64_t>(first + some.size()),
                              .total = std::ssize(said),
                              .detail = std::string(composer.kind().name)});
    }
  }
  for (size_t a = 0; a < task.asked.size(); ++a) {
    if (task.asked[a].texts.size() < 2) continue;
    const auto row = result.rows.row(static_cast<int64_t>(a));
    if (!(normalize_row(row, kShortestSum) > kShortestSum)) {
      return fail(ErrorCode::kBadData, "asked text {}: the rows of its texts cancel out", a);
    }
  }
  return result;
}

Result<std::optional<TokenSimilarities>> token_similarities(const EncodedContext& context,
                                                            const ComposedTask& task,
                                                            std::span<const int64_t> which) {
  constexpr int64_t kBins = 40;
  constexpr double kLow = -1;
  constexpr double kWidth = 2.0 / kBins;
  TokenStates* states = context.encoder.token_states();
  if (states == nullptr || context.encoder.tokenizer() == nullptr) return std::nullopt;
  std::vector<Said> said;
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const ComposedTask::Asked& asked = task.asked[a];
    if (asked.wording != 0 || std::ranges::find(which, asked.query) == which.end()) continue;
    said.push_back({static_cast<int64_t>(a), task.queries[static_cast<size_t>(asked.query)].reference,
                    asked.texts.front()});
  }
  std::vector<int64_t> counts(kBins, 0);
  double sum = 0;
  int64_t pairs = 0;
  for (size_t first = 0; first < said.size(); first += kAtOnce) {
    const auto some = std::span(said).subspan(first, std::min<size_t>(kAtOnce, said.size() - first));
    std::vector<TokenizedText> texts;
    for (const Said& one : some) {
      texts.push_back(context.encoder.tokenizer()->encode(one.text, context.encoder.info().context));
    }
    SACCADE_ASSIGN(RowSets pictures, picture_states(context, token_states_of(context.encoder), task, some));
    SACCADE_ASSIGN(RowSets words, states->text_tokens(texts));
    for (RowSets* sets : {&pictures, &words}) {
      for (int64_t r = 0; r < sets->rows.rows(); ++r) normalize_row(sets->rows.row(r), 0);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      for (int64_t p = pictures.begin[i]; p < pictures.begin[i + 1]; ++p) {
        const auto picture = std::as_const(pictures.rows).row(p);
        for (int64_t w = words.begin[i]; w < words.begin[i + 1]; ++w) {
          const auto word = std::as_const(words.rows).row(w);
          const double cosine = dot_product(word, picture);
          const auto bin = static_cast<int64_t>(std::floor((cosine - kLow) / kWidth));
          ++counts[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kBins - 1))];
          sum += cosine;
          ++pairs;
        }
      }
    }
  }
  TokenSimilarities similarities;
  similarities.queries = std::ssize(said);
  similarities.pairs = pairs;
  similarities.low = kLow;
  similarities.width = kWidth;
  similarities.counts = std::move(counts);
  if (pairs > 0) similarities.mean = sum / static_cast<double>(pairs);
  return similarities;
}

}  // namespace saccade::lab

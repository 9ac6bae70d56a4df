#include "lab/eval/retrieval/retrieval_rerank.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "lab/data/read_dataset.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/read_pixels.h"

namespace saccade::lab {
namespace {

// A pair of a text and an image, by their numbers in the task.
using Pair = std::pair<int64_t, int64_t>;
using PairMap = std::map<Pair, float>;

std::vector<TokenizedText> tokenize(EncoderBackend& encoder, const RetrievalTask& task) {
  std::vector<TokenizedText> texts;
  for (const RunText& text : task.items.texts) {
    texts.push_back(encoder.tokenizer()->encode(text.text, encoder.info().context));
  }
  return texts;
}

// Judges pairs by the encoder's matching head, image by image: each is decoded once.
Status judge_by_head(EncoderBackend& encoder, const RetrievalTask& task, const EmbedOptions& embed,
                     ThreadPool& pool, PairMap& pairs) {
  const std::vector<TokenizedText> texts = tokenize(encoder, task);
  const Preprocessing preprocessing = with_transparency(encoder.preprocessing(), embed.transparency);
  PixelOptions options = pixel_options(
      preprocessing,
      {.apply_orientation = !embed.as_stored, .processes = embed.processes, .stop = embed.stop});
  std::vector<std::vector<int64_t>> of_image(task.items.images.size());
  for (const auto& [pair, score] : pairs) of_image[static_cast<size_t>(pair.second)].push_back(pair.first);
  for (size_t image = 0; image < of_image.size(); ++image) {
    if (embed.stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while reranking");
    if (embed.progress) {
      embed.progress({.what = "reranking",
                      .done = static_cast<int64_t>(image),
                      .total = std::ssize(of_image),
                      .detail = embed.progress_detail});
    }
    const std::vector<int64_t>& own = of_image[image];
    if (own.empty()) continue;
    const ImageRef& ref = task.items.images[image].image;
    const PixelBatch pixels = read_pixels(
        1, [&](int64_t) { return read_image_bytes(ref, options.decode.max_bytes); }, options, pool);
    if (!pixels.failed.empty()) return fail(pixels.failed.front().second.in(ref.name()));
    for (size_t begin = 0; begin < own.size(); begin += static_cast<size_t>(embed.batch)) {
      const size_t count = std::min(static_cast<size_t>(embed.batch), own.size() - begin);
      Matrix<float> repeated(static_cast<int64_t>(count), pixels.pixels.columns());
      std::vector<TokenizedText> some;
      for (size_t i = 0; i < count; ++i) {
        std::ranges::copy(pixels.pixels.row(0), repeated.row(static_cast<int64_t>(i)).begin());
        some.push_back(texts[static_cast<size_t>(own[begin + i])]);
      }
      SACCADE_ASSIGN(const std::vector<float> scores,
                     encoder.pair_scorer()->score_pairs(repeated.view(), some));
      for (size_t i = 0; i < count; ++i) pairs[{own[begin + i], static_cast<int64_t>(image)}] = scores[i];
    }
  }
  return {};
}

Status judge_by_rows(EncoderBackend& encoder, const RetrievalTask& task, LateScoring late,
                     const EmbedOptions& embed, ThreadPool& pool, PairMap& pairs) {
  const std::vector<ImageRef> refs = image_list(task.items.images);
  SACCADE_ASSIGN(const EmbeddedPictures images, embed_pictures(encoder, refs, embed, pool));
  if (!images.failed.empty()) {
    const auto& [number, error] = images.failed.front();
    return fail(error.in(refs[static_cast<size_t>(number)].name()));
  }
  const std::vector<TokenizedText> tokenized = tokenize(encoder, task);
  SACCADE_ASSIGN(const EmbeddedRows texts, embed_texts(encoder, tokenized, embed));
  SACCADE_ASSIGN(const auto scores, scores_of(texts, images.rows, late));
  for (auto& [pair, score] : pairs) scores->score(pair.first, 1, pair.second, 1, &score, 1, 1);
  return {};
}

}  // namespace

std::string_view rerank_method(EncoderBackend& encoder) {
  if (encoder.pair_scorer() != nullptr) return "match";
  return encoder.late_interaction() != nullptr ? "maxsim" : "cosine";
}

QueryRanks reranked(const QueryRanks& first, std::span<const JudgedAnswers> judged,
                    const Relevance& relevance, Direction direction, int64_t depth) {
  QueryRanks ranks;
  ranks.gallery = first.gallery;
  for (int64_t q = 0; q < first.queries(); ++q) {
    const JudgedAnswers& one = judged[static_cast<size_t>(q)];
    const auto count = std::min(static_cast<size_t>(depth), one.answers.size());
    const auto right = relevance.right(direction, q);
    const auto is_right = [&](size_t i) { return std::ranges::binary_search(right, one.answers[i]); };
    std::vector<double> own;
    bool tied = false;
    for (size_t i = 0; i < count; ++i) {
      if (!is_right(i)) continue;
      double rank = 1;
      for (size_t j = 0; j < count; ++j) {
        const bool equal = one.scores[j] == one.scores[i];
        const bool before = is_right(j) ? equal && j < i : equal;
        rank += j != i && (one.scores[j] > one.scores[i] || before) ? 1 : 0;
        tied = tied || (j != i && equal && !is_right(j));
      }
      own.push_back(rank);
    }
    // The others are behind all that were judged, where they were.
    const auto all = first.of(q);
    own.insert(own.end(), all.begin() + std::ssize(own), all.end());
    std::ranges::sort(own);
    ranks.ranks.insert(ranks.ranks.end(), own.begin(), own.end());
    ranks.begin.push_back(std::ssize(ranks.ranks));
    ranks.tied.push_back(tied ? 1 : 0);
  }
  return ranks;
}

std::vector<int64_t> rerank_depths(int64_t last) {
  std::vector<int64_t> depths;
  for (int64_t ten = 1; ten < last; ten *= 10) {
    for (const int64_t one : {ten, 2 * ten, 5 * ten}) {
      if (one > 1 && one < last) depths.push_back(one);
    }
  }
  depths.push_back(last);
  return depths;
}

Status check_rerank(const RerankChoice& choice, TiePolicy ties, bool first_queries) {
  if (ties != TiePolicy::kPessimistic) {
    return fail(ErrorCode::kUsage, "reranking counts ties against the models: ties are {}", enum_name(ties));
  }
  if (first_queries) {
    return fail(ErrorCode::kUsage,
                "reranking is measured with all captions as queries, not under seven-models");
  }
  if (choice.encoder->tokenizer() == nullptr || choice.encoder->info().image_height == 0) {
    return fail(ErrorCode::kUsage, "{} cannot rerank: it needs images and a tokenizer", choice.name);
  }
  return {};
}

Result<RerankResult> evaluate_rerank(const RerankChoice& choice, const PairScores& scores,
                                     const RetrievalTask& task, const RetrievalOutcome& outcome,
                                     const EmbedOptions& embed, const BootstrapOptions& bootstrap,
                                     ThreadPool& pool) {
  EncoderBackend& encoder = *choice.encoder;
  ByDirection<std::vector<JudgedAnswers>> judged;
  PairMap pairs;
  const auto pair_of = [](Direction direction, int64_t query, int64_t answer) {
    return direction == Direction::kTextToImage ? Pair(query, answer) : Pair(answer, query);
  };
  for (const Direction direction : kBothDirections) {
    const auto top = top_answers(scores, task.relevance, direction, choice.depth, pool);
    for (size_t q = 0; q < top.size(); ++q) {
      JudgedAnswers& one = judged.of(direction).emplace_back();
      for (const RunAnswer& answer : top[q]) {
        one.answers.push_back(answer.answer);
        pairs.emplace(pair_of(direction, static_cast<int64_t>(q), answer.answer), 0.0F);
      }
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  SACCADE_TRY(encoder.pair_scorer() != nullptr
                  ? judge_by_head(encoder, task, embed, pool, pairs)
                  : judge_by_rows(encoder, task, choice.late, embed, pool, pairs));
  const double seconds = seconds_since(begin);

  RerankResult result;
  result.second = choice.name;
  result.by = rerank_method(encoder);
  result.pairs = std::ssize(pairs);
  result.seconds_per_query = seconds / static_cast<double>(task.relevance.texts() + task.relevance.images());
  const int64_t largest = std::max(task.relevance.texts(), task.relevance.images());
  for (const int64_t depth : rerank_depths(std::min(choice.depth, largest)))
    result.points.emplace_back().depth = depth;
  for (const Direction direction : kBothDirections) {
    std::vector<JudgedAnswers>& queries = judged.of(direction);
    for (size_t q = 0; q < queries.size(); ++q) {
      for (const int64_t answer : queries[q].answers) {
        queries[q].scores.push_back(pairs.at(pair_of(direction, static_cast<int64_t>(q), answer)));
      }
    }
    const std::vector<int64_t> owner = owners(task.relevance, task.image_of_text, direction);
    const DirectionOutcome& before = outcome.of(direction);
    bool whole = false;  // an earlier depth holds the whole gallery
    for (RerankPoint& point : result.points) {
      if (whole) break;
      whole = point.depth >= before.ranks.gallery;
      const DirectionOutcome after =
          outcome_of_ranks(reranked(before.ranks, queries, task.relevance, direction, point.depth), owner,
                           task.relevance.images(), bootstrap, pool);
      SACCADE_ASSIGN(const std::vector<Difference> gain,
                     paired_differences(after.estimates, before.estimates, bootstrap.confidence));
      for (const char* name : {"r1", "r5", "r10"}) {
        if (const Figure* figure = find_named(after.figures, name))
          point.figures.of(direction).push_back(*figure);
        if (const Difference* one = find_named(gain, name)) point.gain.of(direction).push_back(*one);
      }
      blank_beyond(before.ranks.gallery, point.figures.of(direction));
      blank_beyond(before.ranks.gallery, point.gain.of(direction));
    }
  }
  return result;
}

}  // namespace saccade::lab

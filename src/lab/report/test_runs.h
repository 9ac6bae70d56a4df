// Small runs for tests of pages. Figures, ranks and embeddings are those that `eval` computes from random
// rows; images are drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/eval/length/length.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/rows/pair_scores.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed_metrics.h"
#include "lab/eval/winoground/composition_metrics.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/image/image_codec.h"

namespace saccade::test {}  // namespace saccade::test
namespace saccade::lab::test {

using namespace saccade::test;

inline std::filesystem::path draw_picture(const std::filesystem::path& path, int number) {
  Image image;
  image.width = 48;
  image.height = 40;
  image.channels = 3;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const bool inside = std::hypot(x - 24, y - 20) < 8 + number % 9;
      image.pixels.push_back(static_cast<uint8_t>(inside ? 40 * (number % 6) : 230));
      image.pixels.push_back(static_cast<uint8_t>(inside ? 70 * (number % 4) : 225));
      image.pixels.push_back(static_cast<uint8_t>(inside ? 200 - 20 * (number % 7) : 210));
    }
  }
  EXPECT_TRUE(write_file_atomic(path, *encode_png(image)).has_value());
  return path;
}

inline RunInfo small_info(std::string kind, const std::vector<std::string>& models) {
  RunInfo info;
  info.kind = std::move(kind);
  info.saccade = "0.1.0";
  info.command = {"saccade", "eval", info.kind};
  info.protocol = {{"description", "Every caption is a query. Ties count against the model."},
                   {"captions", "all"},
                   {"ties", "pessimistic"}};
  info.seed = 3;
  info.resamples = 200;
  info.datasets = {{.name = "drawings",
                    .path = "drawings.jsonl",
                    .layout = "manifest",
                    .sha256 = std::string(64, 'a'),
                    .images_sha256 = std::string(64, 'b'),
                    .images = 30,
                    .texts = 60,
                    .excluded = {{"images without captions", 2, {"x", "y"}}}}};
  for (const std::string& model : models) {
    info.checkpoints.push_back({.name = model,
                                .path = model,
                                .fingerprint = std::string(64, 'c') + model,
                                .family = "clip",
                                .precision = "fp32",
                                .parameters = 1234567,
                                .dim = 16,
                                .context = 77,
                                .image_height = 64,
                                .image_width = 64});
  }
  info.libraries = {{"libtorch", "1.13"}};
  info.machine = {.processor = "a processor", .threads = 2, .memory_bytes = int64_t{8} << 30};
  return info;
}

// Writes a run of 30 images with two texts each. A model's embeddings are the truth plus noise, more for
// later models. captions[i] replaces the first texts.
inline void write_retrieval_run(const std::filesystem::path& folder, const std::vector<std::string>& models,
                                const std::vector<std::string>& captions = {}) {
  constexpr int64_t kImages = 30;
  constexpr int64_t kTexts = 60;
  constexpr int64_t kDim = 16;
  ThreadPool pool(2);
  const RunInfo info = small_info("retrieval", models);
  auto writer = RunWriter::open(folder, info, false);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  const std::filesystem::path pictures = std::filesystem::absolute(folder).string() + "-pictures";
  std::filesystem::create_directories(pictures);
  RunItems items;
  std::vector<int64_t> text_image;
  std::vector<int64_t> each_image;
  for (int64_t i = 0; i < kImages; ++i) {
    const auto path = draw_picture(pictures / fmt::format("{}.png", i), static_cast<int>(i));
    items.images.push_back({fmt::format("drawing {}", i), {.path = path, .member = ""}});
    each_image.push_back(i);
  }
  for (int64_t t = 0; t < kTexts; ++t) {
    const auto at = static_cast<size_t>(t);
    items.texts.push_back(
        {at < captions.size() ? captions[at] : fmt::format("a round thing, number {}", t), {t / 2}});
    text_image.push_back(t / 2);
  }
  ASSERT_TRUE(writer->add_items("drawings", items).has_value());
  const auto relevance = Relevance::from_text_image(text_image, kImages);
  ASSERT_TRUE(relevance.has_value());

  const std::vector<int64_t> ks = {1, 5, 10};
  const BootstrapOptions bootstrap{.resamples = 200, .seed = 3};
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  Matrix<float> truth(kImages, kDim);
  for (float& value : truth.values()) value = normal(random);
  RetrievalMetrics metrics;
  std::vector<std::map<Direction, Estimates>> all;
  for (size_t m = 0; m < models.size(); ++m) {
    Matrix<float> images(kImages, kDim);
    Matrix<float> texts(kTexts, kDim);
    const auto fill = [&](Matrix<float>& rows, bool text) {
      for (int64_t r = 0; r < rows.rows(); ++r) {
        double square = 0;
        for (int64_t c = 0; c < kDim; ++c) {
          rows(r, c) = truth(text ? r / 2 : r, c) + 0.45F * static_cast<float>(m + 1) * normal(random) +
                       (text && c == 0 ? 2.5F : 0.0F);
          square += rows(r, c) * rows(r, c);
        }
        for (int64_t c = 0; c < kDim; ++c) rows(r, c) /= static_cast<float>(std::sqrt(square));
      }
    };
    fill(images, false);
    fill(texts, true);
    const auto scores = dot_scores(texts.view(), images.view());
    ASSERT_TRUE(scores.has_value());
    RetrievalResult result = {.dataset = "drawings", .model = models[m], .images = kImages, .texts = kTexts};
    all.emplace_back();
    for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
      const bool by_text = direction == Direction::kTextToImage;
      const auto ranks = rank_right_answers(**scores, *relevance, direction, {}, pool);
      ASSERT_TRUE(ranks.has_value());
      const ClusteredSample sample = retrieval_sample(*ranks, ks, by_text ? text_image : each_image, kImages);
      Estimates estimates = estimate(sample, bootstrap, pool);
      result.directions.of(direction) = {count_queries(*ranks), figures_of(estimates, 0.95)};
      all.back().emplace(direction, std::move(estimates));
      for (int64_t q = 0; q < ranks->queries(); ++q) {
        RunQuery query;
        query.dataset = "drawings";
        query.model = models[m];
        query.direction = direction;
        query.query = q;
        query.ranks.assign(ranks->of(q).begin(), ranks->of(q).end());
        std::vector<RunAnswer> answers;
        for (int64_t a = 0; a < (by_text ? kImages : kTexts); ++a) {
          float score = 0;
          (*scores)->score(by_text ? q : a, 1, by_text ? a : q, 1, &score, 1, 1);
          answers.push_back({a, score, (by_text ? q : a) / 2 == (by_text ? a : q)});
        }
        std::ranges::stable_sort(answers,
                                 [](const RunAnswer& a, const RunAnswer& b) { return a.score > b.score; });
        query.top.assign(answers.begin(), answers.begin() + 5);
        ASSERT_TRUE(writer->add_query(query).has_value());
      }
    }
    metrics.results.push_back(std::move(result));
    ASSERT_TRUE(writer->add_embeddings("drawings", models[m], images.view(), texts.view(), text_image, {})
                    .has_value());
  }
  RetrievalResult guess = {
      .dataset = "drawings", .model = std::string(kChance), .images = kImages, .texts = kTexts};
  for (const Direction direction : kBothDirections) {
    RetrievalDirection& one = guess.directions.of(direction);
    one.counts.queries = relevance->queries(direction);
    const std::vector<double> values = chance_figures(*relevance, direction, ks);
    const std::vector<std::string> names = retrieval_names(ks);
    for (size_t i = 0; i < values.size(); ++i) one.figures.push_back({.name = names[i], .value = values[i]});
  }
  metrics.results.push_back(std::move(guess));
  for (size_t b = 1; b < models.size(); ++b) {
    RetrievalComparison comparison = {.dataset = "drawings", .a = models[0], .b = models[b]};
    for (const Direction direction : kBothDirections) {
      const auto differences = paired_differences(all[0].at(direction), all[b].at(direction), 0.95);
      ASSERT_TRUE(differences.has_value());
      comparison.directions.of(direction) = *differences;
    }
    metrics.comparisons.push_back(std::move(comparison));
  }
  const Status finished = writer->finish(info, record_json(metrics));
  ASSERT_TRUE(finished.has_value()) << finished.error().message;
}

// Writes a run with these metrics and nothing else.
inline void write_plain_run(const std::filesystem::path& folder, const std::string& kind,
                            const std::vector<std::string>& models, const Json& metrics) {
  const RunInfo info = small_info(kind, models);
  auto writer = RunWriter::open(folder, info, false);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  const Status finished = writer->finish(info, metrics);
  ASSERT_TRUE(finished.has_value()) << finished.error().message;
}

// Writes the speed of the checkpoints of small_info, under the names in a speed run.
inline void write_speed_run(const std::filesystem::path& folder, const std::vector<std::string>& models,
                            const std::vector<double>& images_per_s) {
  RunInfo info = small_info("speed", models);
  SpeedMetrics metrics;
  for (size_t i = 0; i < models.size(); ++i) {
    info.checkpoints[i].name += "-fp32";
    const auto spread = [](double value) { return Spread{value, value * 0.9, value * 1.1}; };
    SpeedRecord& one = metrics.results.emplace_back();
    one.dataset = "drawings";
    one.model = info.checkpoints[i].name;
    one.precision = "fp32";
    one.batch = 32;
    one.images_per_s = spread(images_per_s[i]);
    one.texts_per_s = spread(images_per_s[i] * 4);
    one.stages = {{"read", 0.001}, {"decode", 0.004}, {"preprocess", 0.002}, {"encode", 0.03}};
    one.text_latency = {.samples = 90, .p50 = 12.5, .p95 = 14, .max = 20, .stages = {}};
    one.load_s = 0.4;
    one.peak_bytes = int64_t{300} << 20;
  }
  auto writer = RunWriter::open(folder, info, false);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  const Status finished = writer->finish(info, record_json(metrics));
  ASSERT_TRUE(finished.has_value()) << finished.error().message;
}

// Returns a curve that rises to 0.1 + height by about `knee` tokens; it is noise if the height is 0.
inline LengthCurve length_curve(double height, int64_t knee) {
  LengthCurve curve;
  for (const int64_t n : {2, 4, 6, 8, 10, 14, 20, 30, 40, 60, 77}) {
    const double share = static_cast<double>(n) / static_cast<double>(knee);
    const double value = 0.1 + height * (1 - std::exp(-share));
    curve.points.push_back({.n = n,
                            .r1 = {.name = "r1", .value = value, .low = value - 0.03, .high = value + 0.03},
                            .subsets = {}});
  }
  curve.effective = {.value = 3 * knee, .low = 2 * knee, .high = 4 * knee};
  curve.chance = 0.1;
  curve.above_chance = height > 0;
  return curve;
}

// Returns a result as `eval length` writes it.
inline Json length_result(const std::string& dataset, const std::string& domain, const std::string& model,
                          double height, int64_t knee) {
  const auto both = [&](double factor) {
    return LengthCurves{length_curve(height * factor, knee), length_curve(height * factor * 0.9, knee)};
  };
  LengthOutcome study;
  study.images = 30;
  study.texts = 60;
  study.queries_t2i = 60;
  study.queries_i2t = 30;
  study.first = 1;
  study.limit = 77;
  study.plain = both(1);
  study.texts_of_sentences = 12;
  study.permuted = both(0.9);
  study.last = both(0.7);
  ChunkedTexts& chunked = study.chunked.emplace_back();
  chunked.pooling = ChunkPooling::kMean;
  chunked.chunks = 80;
  chunked.curves = both(1.05);
  for (Difference* difference : {&chunked.t2i, &chunked.i2t}) {
    difference->figure = {.name = "r1", .value = 0.01, .low = -0.02, .high = 0.04};
    difference->p_value = 0.4;
  }
  for (int64_t text = 0; text < 60; ++text) study.text_tokens.push_back(3 + text * text / 36);
  study.token_lengths = token_lengths(study.text_tokens, 75);
  LengthResult result = saccade::lab::length_result(study, 0.95);
  result.dataset = dataset;
  result.domain = domain;
  result.model = model;
  return record_json(result);
}

inline Json winoground_metrics(const std::string& model) {
  const auto scores = [](double text, double image, double group, double half) {
    std::vector<Figure> figures;
    for (const auto& [name, value] : {std::pair("text", text), {"image", image}, {"group", group}}) {
      figures.push_back({.name = name, .value = value, .low = value - half, .high = value + half});
    }
    return figures;
  };
  CompositionMetrics metrics;
  metrics.results = {{"drawings", model, std::nullopt, 40, 1, scores(0.3, 0.11, 0.08, 0.05)},
                     {"drawings", model, "Object", 22, 0, scores(0.35, 0.14, 0.1, 0.05)},
                     {"drawings", "chance", std::nullopt, 40, 0, scores(0.25, 0.25, 1.0 / 6, Figure::kNone)}};
  return record_json(metrics);
}

}  // namespace saccade::lab::test

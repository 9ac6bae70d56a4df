// JSON of the length study as stored in runs: docs/runs.md.
#include <algorithm>
#include <numeric>
#include <string>

#include "lab/eval/figures/figure_json.h"
#include "lab/eval/length/length.h"

namespace saccade::lab {
namespace {

Json length_json(const std::optional<int64_t>& length) {
  return length ? Json(*length) : Json();
}

Json effective_json(const LengthOutcome& study, const LengthCurve& curve, double share) {
  const EffectiveLength& effective = curve.effective;
  Json json = {{"value", length_json(effective.value)},
               {"low", length_json(effective.low)},
               {"high", length_json(effective.high)},
               {"share", share},
               {"at_end", effective.at_end},
               {"tokens", effective.value ? Json(*effective.value - study.first) : Json()},
               {"subsets", nullptr}};
  if (curve.subset_values.empty()) return json;
  Json values = Json::array();
  for (const auto& value : curve.subset_values) values.push_back(length_json(value));
  json["subsets"] = {{"value", length_json(curve.subset_effective.value)},
                     {"low", length_json(curve.subset_effective.low)},
                     {"high", length_json(curve.subset_effective.high)},
                     {"values", std::move(values)}};
  return json;
}

Json curve_json(const LengthOutcome& study, const LengthCurve& curve, double share) {
  Json points = Json::array();
  for (const LengthPoint& point : curve.points) {
    Json json = {{"n", point.n}, {"r1", figure_json(point.r1)}, {"subsets", nullptr}};
    if (!point.subsets.empty()) {
      const double sum = std::accumulate(point.subsets.begin(), point.subsets.end(), 0.0);
      json["subsets"] = {{"mean", sum / static_cast<double>(point.subsets.size())},
                         {"low", *std::ranges::min_element(point.subsets)},
                         {"high", *std::ranges::max_element(point.subsets)},
                         {"values", point.subsets}};
    }
    points.push_back(std::move(json));
  }
  return {{"curve", std::move(points)},
          {"effective", effective_json(study, curve, share)},
          {"chance", curve.chance},
          {"above_chance", curve.above_chance}};
}

Json curves_json(const LengthOutcome& study, const LengthCurves& curves, double share) {
  return {{"t2i", curve_json(study, curves.t2i, share)}, {"i2t", curve_json(study, curves.i2t, share)}};
}

Json difference_json(const Difference& difference) {
  Json json = figure_json(difference.figure);
  json["p_value"] = difference.p_value;
  json["told_apart"] = difference.told_apart;
  return json;
}

}  // namespace

Json token_lengths_json(const TokenLengths& lengths) {
  const Lengths& all = lengths.lengths;
  return {{"count", all.count},
          {"min", all.min},
          {"median", all.median},
          {"mean", all.mean},
          {"p95", all.p95},
          {"max", all.max},
          {"limit", length_json(lengths.limit)},
          {"beyond_limit", lengths.limit ? Json(lengths.beyond) : Json()},
          {"histogram", {{"width", lengths.width}, {"counts", lengths.counts}}}};
}

Json length_outcome_json(const LengthOutcome& study, double share) {
  Json json = {{"images", study.images},
               {"texts", study.texts},
               {"queries", {{"t2i", study.queries_t2i}, {"i2t", study.queries_i2t}}},
               {"first", study.first},
               {"limit", study.limit},
               {"subset_items", study.subset_items == 0 ? Json() : Json(study.subset_items)}};
  json.update(curves_json(study, study.plain, share));
  Json permuted;
  if (study.permuted) permuted = curves_json(study, *study.permuted, share);
  json["controls"] = {{"texts_of_sentences", study.texts_of_sentences},
                      {"sentences_permuted", std::move(permuted)},
                      {"last_tokens", study.last ? curves_json(study, *study.last, share) : Json()}};
  json["chunking"] = Json::array();
  for (const ChunkedTexts& chunked : study.chunked) {
    Json one = {{"chunks", enum_name(chunked.chunking)},
                {"pooling", chunked.pooling ? enum_name(*chunked.pooling) : "joined"},
                {"chunk_count", chunked.chunks}};
    one.update(curves_json(study, chunked.curves, share));
    one["t2i"]["difference"] = difference_json(chunked.t2i);
    one["i2t"]["difference"] = difference_json(chunked.i2t);
    json["chunking"].push_back(std::move(one));
  }
  json["token_lengths"] = token_lengths_json(study.token_lengths);
  json["encoded_texts"] = study.encoded;
  return json;
}

}  // namespace saccade::lab

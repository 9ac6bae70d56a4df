// The length study as runs hold it: docs/runs.md.
#include <algorithm>
#include <numeric>

#include "lab/eval/length/length.h"

namespace saccade::lab {
namespace {

EffectiveLengthRecord effective_record(const LengthOutcome& study, const LengthCurve& curve, double share) {
  const EffectiveLength& effective = curve.effective;
  EffectiveLengthRecord record = {.value = effective.value,
                                  .low = effective.low,
                                  .high = effective.high,
                                  .share = share,
                                  .at_end = effective.at_end,
                                  .tokens = {},
                                  .subsets = {}};
  if (effective.value) record.tokens = *effective.value - study.first;
  if (curve.subset_values.empty()) return record;
  const EffectiveLength& subsets = curve.subset_effective;
  record.subsets = {subsets.value, subsets.low, subsets.high, curve.subset_values};
  return record;
}

LengthCurveRecord curve_record(const LengthOutcome& study, const LengthCurve& curve, double share) {
  LengthCurveRecord record;
  for (const LengthPoint& point : curve.points) {
    LengthPointRecord& one = record.curve.emplace_back();
    one.n = point.n;
    one.r1 = point.r1;
    if (point.subsets.empty()) continue;
    const double sum = std::accumulate(point.subsets.begin(), point.subsets.end(), 0.0);
    const auto [low, high] = std::ranges::minmax(point.subsets);
    one.subsets = {sum / static_cast<double>(point.subsets.size()), low, high, point.subsets};
  }
  record.effective = effective_record(study, curve, share);
  record.chance = curve.chance;
  record.above_chance = curve.above_chance;
  return record;
}

LengthCurvesRecord curves_record(const LengthOutcome& study, const LengthCurves& curves, double share) {
  return {curve_record(study, curves.t2i, share), curve_record(study, curves.i2t, share)};
}

}  // namespace

LengthResult length_result(const LengthOutcome& study, double share) {
  LengthResult result;
  result.images = study.images;
  result.texts = study.texts;
  result.queries = {study.queries_t2i, study.queries_i2t};
  result.first = study.first;
  result.limit = study.limit;
  result.subset_items = study.subset_items;
  result.curves = curves_record(study, study.plain, share);
  result.texts_of_sentences = study.texts_of_sentences;
  if (study.permuted) result.sentences_permuted = curves_record(study, *study.permuted, share);
  if (study.last) result.last_tokens = curves_record(study, *study.last, share);
  for (const ChunkedTexts& chunked : study.chunked) {
    ChunkingRecord& one = result.chunking.emplace_back();
    one.chunks = enum_name(chunked.chunking);
    one.pooling = chunked.pooling ? enum_name(*chunked.pooling) : "joined";
    one.chunk_count = chunked.chunks;
    one.curves = curves_record(study, chunked.curves, share);
    one.curves.t2i.difference = chunked.t2i;
    one.curves.i2t.difference = chunked.i2t;
  }
  result.token_lengths = study.token_lengths;
  result.encoded_texts = study.encoded;
  return result;
}

}  // namespace saccade::lab

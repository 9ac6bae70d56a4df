#include "lab/data/dataset_json.h"

#include <utility>
#include <vector>

#include "lab/data/edit_queries.h"

namespace saccade::lab {
namespace {

Json lengths_json(const Lengths& lengths) {
  return {{"count", lengths.count}, {"min", lengths.min}, {"median", lengths.median},
          {"mean", lengths.mean},   {"p95", lengths.p95}, {"max", lengths.max}};
}

Json failures_json(const std::vector<AuditReport::Failure>& failures) {
  Json list = Json::array();
  for (const auto& failure : failures) {
    list.push_back({{"image", failure.image}, {"code", name(failure.code)}, {"reason", failure.reason}});
  }
  return list;
}

Json leaks_json(const std::vector<AuditReport::Leak>& leaks) {
  Json list = Json::array();
  for (const auto& leak : leaks) {
    list.push_back({{"a", leak.a},
                    {"b", leak.b},
                    {"same_images", {leak.same_images_a, leak.same_images_b}},
                    {"near_images", {leak.near_images_a, leak.near_images_b}},
                    {"captions", {leak.captions_a, leak.captions_b}},
                    {"groups", leak.groups},
                    {"examples", leak.examples}});
  }
  return list;
}

}  // namespace

Json exclusions_json(std::span<const Exclusion> excluded) {
  Json list = Json::array();
  for (const Exclusion& exclusion : excluded) {
    list.push_back(
        {{"reason", exclusion.reason}, {"count", exclusion.count}, {"examples", exclusion.examples}});
  }
  return list;
}

Json exclusion_counts(std::span<const Exclusion> excluded) {
  Json counts = Json::object();
  for (const Exclusion& exclusion : excluded) counts[exclusion.reason] = exclusion.count;
  return counts;
}

Json rated_texts_json(const Dataset& dataset) {
  const auto* texts = dataset.find<RatedTexts>();
  if (texts == nullptr) return {};
  int64_t visual = 0;
  int64_t non_visual = 0;
  int64_t with_image = 0;
  for (const RatedText& item : texts->items) {
    if (item.visual) ++(*item.visual ? visual : non_visual);
    if (item.image) ++with_image;
  }
  return {{"visual", visual},
          {"non_visual", non_visual},
          {"ambiguous", dataset.size() - visual - non_visual},
          {"with_image", with_image}};
}

Json edits_json(const Dataset& dataset) {
  const auto* edits = dataset.find<EditQueries>();
  if (edits == nullptr) return {};
  const EditCounts counts = count_edits(*edits);
  Json galleries = Json::object();
  for (const auto& [gallery, pictures] : counts.galleries) galleries[gallery] = pictures;
  return {{"queries", counts.queries},
          {"images", counts.pictures},
          {"galleries", std::move(galleries)},
          {"texts", counts.texts},
          {"empty_texts", counts.empty_texts},
          {"paraphrased", counts.paraphrased},
          {"several_targets", counts.several_targets},
          {"without_target", counts.without_target},
          {"with_subset", counts.with_subset},
          {"with_negatives", counts.with_negatives},
          {"with_shared_concept", counts.with_concept}};
}

Json dataset_info_json(const Dataset& dataset) {
  Json splits = Json::object();
  for (const auto& [split, count] : dataset.split_sizes) splits[split] = count;
  Json files = Json::array();
  for (const RecordFile& file : dataset.files) {
    files.push_back({{"path", file.path},
                     {"bytes", file.bytes},
                     {"sha256", file.sha256.empty() ? Json() : Json(file.sha256)}});
  }
  return {{"name", dataset.name},
          {"layout", dataset.layout},
          {"sha256", dataset.hash},
          {"items", count_of<CaptionedImages>(dataset)},
          {"compositions", count_of<CompositionTests>(dataset)},
          {"rated_texts", rated_texts_json(dataset)},
          {"edits", edits_json(dataset)},
          {"splits", std::move(splits)},
          {"captions_per_item", lengths_json(captions_per_item(dataset))},
          {"caption_characters", lengths_json(caption_characters(dataset))},
          {"excluded", exclusions_json(dataset.excluded)},
          {"files", std::move(files)}};
}

Json audit_json(const AuditReport& report) {
  Json near = Json::array();
  for (const auto& pair : report.near_images) near.push_back({pair.a, pair.b, pair.distance});
  Json shared = Json::array();
  for (const auto& caption : report.most_shared) {
    shared.push_back({{"caption", caption.caption}, {"items", caption.items}});
  }
  Json tokens;
  if (report.tokens) {
    tokens = lengths_json(*report.tokens);
    tokens["cut_captions"] = report.cut_captions;
    tokens["cut_tokens"] = report.cut_tokens;
  }
  return {{"items", report.items},
          {"images", report.images},
          {"missing", failures_json(report.missing)},
          {"unreadable", failures_json(report.unreadable)},
          {"same_images", report.same_images},
          {"near_method", report.near_method},
          {"near_images", std::move(near)},
          {"captions",
           {{"count", report.captions},
            {"distinct", report.distinct_captions},
            {"distinct_plain", report.distinct_plain_captions},
            {"repeated_in_item", report.repeated_in_item},
            {"ambiguous", report.ambiguous_captions},
            {"contradicting_labels", report.contradicting_labels},
            {"most_shared", std::move(shared)}}},
          {"indistinguishable_compositions", report.indistinguishable_compositions},
          {"leaks", leaks_json(report.leaks)},
          {"edits", report.edits.queries == 0
                        ? Json()
                        : Json{{"queries", report.edits.queries},
                               {"reference_is_target", report.edits.reference_is_target},
                               {"targets_seen_in_training", report.edits.targets_seen},
                               {"same_query_other_targets", report.edits.same_query_other_targets},
                               {"without_target", report.edits.without_target},
                               {"empty_texts", report.edits.empty_texts},
                               {"examples", report.edits.examples}}},
          {"order",
           {{"ids_in_order", report.ids_in_order},
            {"neighbour_overlap", report.neighbour_overlap},
            {"random_overlap", report.random_overlap},
            {"by_content", report.ordered_by_content}}},
          {"characters", lengths_json(report.characters)},
          {"tokens", std::move(tokens)}};
}

}  // namespace saccade::lab

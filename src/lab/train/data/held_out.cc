#include "lab/train/data/held_out.h"

#include <span>

#include "saccade/core/hash.h"

namespace saccade::lab {
Json recall_json(const Recall& recall) {
  return Json{{"queries", recall.queries}, {"r1", recall.r1}, {"r5", recall.r5}, {"r10", recall.r10}};
}

namespace {

Result<Recall> parse_recall(const Json& json) {
  Recall recall;
  SACCADE_ASSIGN(recall.queries, json_field<int64_t>(json, "queries"));
  SACCADE_ASSIGN(recall.r1, json_field<double>(json, "r1"));
  SACCADE_ASSIGN(recall.r5, json_field<double>(json, "r5"));
  SACCADE_ASSIGN(recall.r10, json_field<double>(json, "r10"));
  return recall;
}

}  // namespace

Json held_out_protocol_json() {
  return Json{
      {"captions", kHeldOutProtocol},
      {"ties", "pessimistic"},
      {"description",
       "Every image with its first caption. Text to image: one query per image; all images with that first "
       "caption are right. Image to text: the other way. Ties count against the model. "
       "Transparent images are laid on white. `eval retrieval --captions one-caption` measures the "
       "same; with other captions its figures do not compare with these."}};
}

Json held_out_json(const std::vector<OneCaptionRecall>& recalls) {
  Json json = Json::array();
  for (const OneCaptionRecall& recall : recalls) {
    json.push_back(Json{{"name", recall.name},
                        {"protocol", kHeldOutProtocol},
                        {"images", recall.images},
                        {"t2i", recall_json(recall.text_to_image)},
                        {"i2t", recall_json(recall.image_to_text)}});
  }
  return json;
}

Result<std::vector<OneCaptionRecall>> parse_held_out(const Json& json) {
  if (!json.is_array()) return fail(ErrorCode::kBadData, "not an array");
  std::vector<OneCaptionRecall> recalls;
  for (const Json& each : json) {
    OneCaptionRecall recall;
    SACCADE_ASSIGN(recall.name, json_field<std::string>(each, "name"));
    SACCADE_ASSIGN(recall.images, json_field<int64_t>(each, "images"));
    if (!each.contains("t2i") || !each.contains("i2t")) {
      return fail(ErrorCode::kBadData, "without \"t2i\" and \"i2t\"");
    }
    SACCADE_ASSIGN(recall.text_to_image, parse_recall(each["t2i"]));
    SACCADE_ASSIGN(recall.image_to_text, parse_recall(each["i2t"]));
    recalls.push_back(std::move(recall));
  }
  return recalls;
}

double held_out_headline(const std::vector<OneCaptionRecall>& recalls) {
  double sum = 0;
  double weight = 0;
  for (const OneCaptionRecall& recall : recalls) {
    const auto images = static_cast<double>(recall.images);
    sum += images * (recall.text_to_image.r10 + recall.image_to_text.r10) / 2;
    weight += images;
  }
  return weight > 0 ? sum / weight : 0;
}

std::string images_sha256(const OneCaptionSet& set) {
  Sha256 hash;
  for (int64_t i = 0; i < set.pixels.rows(); ++i) hash.update(std::as_bytes(std::span(set.pixels.row(i))));
  return hash.hex();
}

}  // namespace saccade::lab

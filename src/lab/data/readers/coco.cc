// COCO's captions JSON: "images" with an id and a file name, "annotations" with an image's id and a caption.
#include <map>

#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

bool recognizes(const Candidate& candidate) {
  return candidate.outline &&
         has_keys(first_element(candidate.outline->member("annotations")), {"caption"}) &&
         !candidate.outline->member("images").empty();
}

// An ordered map, since ids are untrusted and could be chosen to collide in a hash table.
using Places = std::map<int64_t, size_t>;

Status add_image(const Json& record, Places& places, Dataset& dataset) {
  DatasetItem item;
  SACCADE_ASSIGN(const auto id, json_field<int64_t>(record, "id"));
  SACCADE_ASSIGN(item.id, json_field<std::string>(record, "file_name"));
  item.image.path = item.id;
  if (!places.emplace(id, dataset.as<CaptionedImages>().items.size()).second) {
    return fail(ErrorCode::kBadData, "a second image with id {}", id);
  }
  dataset.as<CaptionedImages>().items.push_back(std::move(item));
  return {};
}

Status add_annotation(const Json& record, const Places& places, Dataset& dataset) {
  SACCADE_ASSIGN(const auto image, json_field<int64_t>(record, "image_id"));
  SACCADE_ASSIGN(auto caption, json_field<std::string>(record, "caption"));
  const auto place = places.find(image);
  if (place == places.end()) {
    return fail(ErrorCode::kBadData, "its \"image_id\" {} is the id of no image", image);
  }
  add_caption(dataset, dataset.as<CaptionedImages>().items[place->second], std::move(caption));
  return {};
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  note_file(candidate, dataset);
  std::string_view images;
  std::string_view annotations;
  const auto member = [&](const std::string& key, std::string_view value) -> Status {
    if (key == "images") images = value;
    if (key == "annotations") annotations = value;
    return {};
  };
  SACCADE_TRY(for_each_member(candidate.text, member));
  if (images.empty()) return fail(ErrorCode::kBadData, "\"images\" is missing");
  if (annotations.empty()) return fail(ErrorCode::kBadData, "\"annotations\" is missing");
  Places places;
  const auto image = [&](int64_t, const Json& record) { return add_image(record, places, dataset); };
  SACCADE_TRY(for_each_record(images, image).in("\"images\""));
  const auto annotation = [&](int64_t, const Json& record) {
    return add_annotation(record, places, dataset);
  };
  SACCADE_TRY(for_each_record(annotations, annotation).in("\"annotations\""));
  drop_uncaptioned(dataset);
  // captions_val2017.json in annotations/ has its images in val2017/ beside that folder.
  const std::string stem = candidate.path.stem().string();
  const std::string set = stem.substr(stem.rfind('_') + 1);
  const std::string hints[] = {set, "../" + set, "../images/" + set, "../images"};
  SACCADE_TRY(place_images(dataset, candidate.path.parent_path(), hints, options));
  return dataset;
}

}  // namespace

const Reader kCoco = {"coco", recognizes, read};

}  // namespace saccade::lab::data

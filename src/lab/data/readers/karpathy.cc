// Karpathy's JSON (COCO, Flickr30k, Flickr8k and datasets in the same form): an object whose "images" each
// have their "sentences" and "split".
#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

bool recognizes(const Candidate& candidate) {
  return candidate.outline && has_keys(first_element(candidate.outline->member("images")), {"sentences"});
}

Status add_image(const Json& record, Dataset& dataset) {
  DatasetItem item;
  SACCADE_ASSIGN(const auto file, json_field<std::string>(record, "filename"));
  SACCADE_ASSIGN(const auto folder, json_field_or<std::string>(record, "filepath", ""));
  if (file.empty()) return fail(ErrorCode::kBadData, "\"filename\" is empty");
  item.id = folder.empty() ? file : folder + "/" + file;
  item.image.path = item.id;
  SACCADE_ASSIGN(item.split, json_field_or<std::string>(record, "split", ""));
  const auto sentences = record.find("sentences");
  if (sentences == record.end() || !sentences->is_array()) {
    return fail(ErrorCode::kBadData, "\"sentences\" is not an array");
  }
  for (const Json& sentence : *sentences) {
    SACCADE_ASSIGN(auto raw, json_field<std::string>(sentence, "raw"));
    add_caption(dataset, item, std::move(raw));
  }
  dataset.as<CaptionedImages>().items.push_back(std::move(item));
  return {};
}

Result<Dataset> read(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  note_file(candidate, dataset);
  bool found = false;
  const auto member = [&](const std::string& key, std::string_view value) -> Status {
    if (key != "images") return {};
    found = true;
    return for_each_record(value, [&](int64_t, const Json& record) { return add_image(record, dataset); })
        .in("\"images\"");
  };
  SACCADE_TRY(for_each_member(candidate.text, member));
  if (!found) return fail(ErrorCode::kBadData, "\"images\" is missing");
  drop_uncaptioned(dataset);
  SACCADE_TRY(place_images(dataset, candidate.path.parent_path(), {}, options));
  return dataset;
}

}  // namespace

const Reader kKarpathy = {"karpathy", recognizes, read};

}  // namespace saccade::lab::data

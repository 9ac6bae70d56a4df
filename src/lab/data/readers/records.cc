// JSON arrays of records: ShareGPT4V's conversations, whose first answer is the caption, and plain records of
// an image and its caption or captions, in the form of ALBEF and BLIP.
#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

bool is_sharegpt4v(const Candidate& candidate) {
  return candidate.outline && candidate.outline->array &&
         has_keys(candidate.outline->first, {"conversations"});
}

bool is_records(const Candidate& candidate) {
  return candidate.outline && candidate.outline->array &&
         has_keys(candidate.outline->first, {"image", "caption"});
}

// Returns the model's first answer.
Result<std::string> first_answer(const Json& record) {
  const auto turns = record.find("conversations");
  if (turns == record.end() || !turns->is_array()) {
    return fail(ErrorCode::kBadData, "\"conversations\" is not an array");
  }
  for (const Json& turn : *turns) {
    SACCADE_ASSIGN(const auto from, json_field<std::string>(turn, "from"));
    if (from == "gpt") return json_field<std::string>(turn, "value");
  }
  return fail(ErrorCode::kBadData, "\"conversations\" has nothing from \"gpt\"");
}

Status add_conversation(int64_t number, const Json& record, RowCollector& rows, Dataset& dataset) {
  SACCADE_ASSIGN(const auto image, json_field_or<std::string>(record, "image", ""));
  if (image.empty()) {
    dataset.exclude("records without an image", fmt::format("record {}", number));
    return {};
  }
  SACCADE_ASSIGN(DatasetItem * item, rows.item(image, image));
  SACCADE_ASSIGN(std::string caption, first_answer(record));
  add_caption(dataset, *item, std::move(caption));
  return {};
}

Status add_record(const Json& record, RowCollector& rows, Dataset& dataset) {
  SACCADE_ASSIGN(const auto image, json_field<std::string>(record, "image"));
  SACCADE_ASSIGN(const auto split, json_field_or<std::string>(record, "split", ""));
  SACCADE_ASSIGN(DatasetItem * item, rows.item(image, image, split));
  const auto found = record.find("caption");
  if (found == record.end()) return fail(ErrorCode::kBadData, "\"caption\" is missing");
  const Json captions = found->is_array() ? *found : Json::array({*found});
  for (const Json& caption : captions) {
    SACCADE_ASSIGN(auto text, detail::json_as<std::string>("caption", caption));
    add_caption(dataset, *item, std::move(text));
  }
  return {};
}

template <typename Add>
Result<Dataset> read_array(const Candidate& candidate, const DatasetOptions& options, Add add) {
  Dataset dataset;
  note_file(candidate, dataset);
  RowCollector rows(dataset);
  const auto each = [&](int64_t number, const Json& record) -> Status {
    return add(number, record, rows, dataset);
  };
  SACCADE_TRY(for_each_record(candidate.text, each));
  drop_uncaptioned(dataset);
  const std::string hints[] = {"data", "..", "../images"};
  SACCADE_TRY(place_images(dataset, candidate.path.parent_path(), hints, options));
  return dataset;
}

Result<Dataset> read_sharegpt4v(const Candidate& candidate, const DatasetOptions& options) {
  return read_array(candidate, options, add_conversation);
}

Result<Dataset> read_records(const Candidate& candidate, const DatasetOptions& options) {
  return read_array(candidate, options,
                    [](int64_t, const Json& record, RowCollector& rows, Dataset& dataset) {
                      return add_record(record, rows, dataset);
                    });
}

}  // namespace

const Reader kShareGpt4v = {"sharegpt4v", is_sharegpt4v, read_sharegpt4v};
const Reader kRecords = {"records", is_records, read_records};

}  // namespace saccade::lab::data

#include "saccade/collection/catalog/facts_json.h"

#include <optional>
#include <string>
#include <utility>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/core/files/file_stamp.h"

namespace saccade {
namespace {

template <typename T>
Result<std::optional<T>> optional_field(const Json& json, const char* key) {
  if (!json.contains(key) || json[key].is_null()) return std::optional<T>();
  SACCADE_ASSIGN(const T value, json_field<T>(json, key));
  return std::optional<T>(value);
}

}  // namespace

Json facts_json(const ItemFacts& facts) {
  const PictureFacts& picture = facts.picture;
  Json json = Json::object();
  const auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  if (picture.taken) json["taken"] = store::local_text(*picture.taken);
  if (picture.zone_minutes) json["zone_minutes"] = *picture.zone_minutes;
  text("camera", picture.camera);
  text("lens", picture.lens);
  if (picture.latitude) json["latitude"] = *picture.latitude;
  if (picture.longitude) json["longitude"] = *picture.longitude;
  text("place", facts.place);
  if (picture.rating) json["rating"] = *picture.rating;
  text("title", picture.title);
  text("description", picture.description);
  if (!picture.keywords.empty()) json["keywords"] = picture.keywords;
  return json;
}

Json file_date_json(const Item& item) {
  return item.mtime_ns == kUnknownState ? Json() : Json(whole_seconds(item.mtime_ns));
}

std::string_view dated_by(const ItemFacts& facts) {
  return facts.picture.taken ? "taken" : "file";
}

Result<ItemFacts> facts_of_json(const Json& json) {
  ItemFacts facts;
  PictureFacts& picture = facts.picture;
  SACCADE_ASSIGN(const std::string taken, json_field_or<std::string>(json, "taken", ""));
  if (!taken.empty()) {
    const auto span = parse_date(taken);
    if (!span) {
      return fail(ErrorCode::kBadData, "\"taken\" is \"{}\", expected a date like 2024-05-31T23:30:59",
                  taken);
    }
    picture.taken = span->begin;
  }
  SACCADE_ASSIGN(picture.zone_minutes, optional_field<int>(json, "zone_minutes"));
  SACCADE_ASSIGN(picture.camera, json_field_or<std::string>(json, "camera", ""));
  SACCADE_ASSIGN(picture.lens, json_field_or<std::string>(json, "lens", ""));
  SACCADE_ASSIGN(picture.latitude, optional_field<double>(json, "latitude"));
  SACCADE_ASSIGN(picture.longitude, optional_field<double>(json, "longitude"));
  SACCADE_ASSIGN(picture.rating, optional_field<int>(json, "rating"));
  SACCADE_ASSIGN(picture.title, json_field_or<std::string>(json, "title", ""));
  SACCADE_ASSIGN(picture.description, json_field_or<std::string>(json, "description", ""));
  if (json.contains("keywords")) {
    const Json& keywords = json["keywords"];
    if (!keywords.is_array()) return detail::wrong_kind("keywords", keywords, "a list of strings");
    for (const Json& keyword : keywords) {
      SACCADE_ASSIGN(std::string text, detail::json_as<std::string>("keywords", keyword));
      picture.keywords.push_back(std::move(text));
    }
  }
  // The place is a name like any other text of a file.
  SACCADE_ASSIGN(std::string place, json_field_or<std::string>(json, "place", ""));
  PictureFacts named;
  named.camera = std::move(place);
  facts.place = plausible(std::move(named)).camera;
  picture = plausible(std::move(picture));
  facts.caption = caption_of(picture);
  return facts;
}

}  // namespace saccade

#include "saccade/collection/weaviate/objects.h"

#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "saccade/collection/catalog/item_json.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/weaviate/where.h"
#include "saccade/core/base64.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/uuid.h"
#include "saccade/image/frame_name.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade::weaviate {
namespace {

// Weaviate indexes terms of less than 64 KiB.
constexpr size_t kMostText = 30'000;

std::string filter_text(std::string_view text) {
  return kept_text(to_valid_utf8(text.substr(0, kMostText)));
}

Json text_property(std::string_view name, bool several = false) {
  return {{"name", name},
          {"dataType", {several ? "text[]" : "text"}},
          {"tokenization", "field"},
          {"indexFilterable", true},
          {"indexSearchable", false}};
}

Json notes_of(const std::string& name) {
  return {{"name", name},
          {"dataType", {"text"}},
          {"tokenization", "field"},
          {"indexFilterable", false},
          {"indexSearchable", false}};
}

Json replication(const Address& address) {
  return {{"factor", address.replicas}};
}

}  // namespace

std::string uuid_of(std::string_view class_name, std::string_view stored) {
  static const std::string space = name_uuid(kUrlNamespace, "saccade:collection");
  return name_uuid(space, fmt::format("{}\n{}", class_name, stored));
}

int64_t id_of(std::string_view uuid) {
  std::array<char, 32> digits{};
  size_t count = 0;
  for (const char c : uuid) {
    if (c != '-' && count < digits.size()) digits[count++] = c;
  }
  uint64_t high = 0;
  uint64_t low = 0;
  std::from_chars(digits.data(), digits.data() + 12, high, 16);
  std::from_chars(digits.data() + 13, digits.data() + 16, low, 16);  // after the version
  const auto id = static_cast<int64_t>(high << 5U | low >> 7U);
  return id == 0 ? 1 : id;
}

Json class_json(const Address& address, const CollectionInfo& info) {
  Json properties = Json::array();
  properties.push_back(notes_of("item"));
  properties.push_back(notes_of("row"));
  for (const char* name :
       {"path", "path_folded", "hash", "format", "caption", "camera", "lens", "place", "title"}) {
    properties.push_back(text_property(name));
  }
  properties.push_back(text_property("keywords", true));
  properties.push_back({{"name", "words"},
                        {"dataType", {"text"}},
                        {"tokenization", "whitespace"},
                        {"indexFilterable", true},
                        {"indexSearchable", true}});
  for (const char* name : {"number", "width", "height", "pixels", "aspect", "size", "date", "taken", "added",
                           "rating", "latitude", "longitude", "grain"}) {
    properties.push_back({{"name", name}, {"dataType", {"number"}}, {"indexFilterable", true}});
  }
  Json json = {
      {"class", address.name},
      {"description", dump_json({{"saccade", 1}, {"collection", store::info_json(info)}})},
      {"vectorizer", "none"},
      {"vectorIndexType", "hnsw"},
      {"vectorIndexConfig", {{"distance", "cosine"}}},
      {"invertedIndexConfig", {{"bm25", {{"b", 0.75}, {"k1", 1.2}}}, {"stopwords", {{"preset", "none"}}}}},
      {"replicationConfig", replication(address)},
      {"properties", std::move(properties)}};
  if (address.shards > 0) json["shardingConfig"] = {{"desiredCount", address.shards}};
  return json;
}

Json notes_class_json(const Address& address) {
  Json properties = Json::array();
  properties.push_back(text_property("kind"));
  properties.push_back(notes_of("path"));
  properties.push_back(notes_of("note"));
  return {{"class", address.name + std::string(kNotes)},
          {"description", fmt::format("failures and removals of the collection {}", address.name)},
          {"vectorizer", "none"},
          {"vectorIndexType", "hnsw"},
          {"vectorIndexConfig", {{"skip", true}}},
          {"replicationConfig", replication(address)},
          {"properties", std::move(properties)}};
}

Result<CollectionInfo> info_of_class(const Json& schema) {
  SACCADE_ASSIGN(const std::string description, json_field_or<std::string>(schema, "description", ""));
  const auto json = parse_json(description);
  if (!json || !json->is_object() || !json->contains("saccade") || !json->contains("collection")) {
    return fail(ErrorCode::kMismatch,
                "the class was not made by Saccade: name another class, which `saccade index` makes");
  }
  return store::info_of_json((*json)["collection"]);
}

Json properties_of(const Address& address, const WholeItem& all, std::string_view words) {
  const Item& item = all.item;
  const ItemFacts& facts = all.facts;
  const std::string stored = stored_path(address, item.path);
  Json whole = item_json(item, facts);
  const std::string valid = to_valid_utf8(stored);
  whole["path"] = valid;
  if (valid != stored) whole["path_bytes"] = encode_base64(stored);
  whole["added"] = item.added;
  if (item.file.elsewhere) whole["elsewhere"] = true;
  const PictureFacts& picture = facts.picture;
  const std::string file = file_of(stored);
  const auto* const bytes = reinterpret_cast<const char*>(all.values.data());
  Json json = {{"item", dump_json(whole)},
               {"row", encode_base64({bytes, all.values.size() * sizeof(float)})},
               {"number", id_of(uuid_of(address.name, stored))},
               {"path", filter_text(file)},
               {"path_folded", filter_text(fold_case(file))},
               {"hash", filter_text(item.hash)},
               {"format", filter_text(item.format)},
               {"caption", filter_text(fold_case(item.caption))},
               {"camera", filter_text(fold_case(picture.camera))},
               {"lens", filter_text(fold_case(picture.lens))},
               {"place", filter_text(fold_case(facts.place))},
               {"title", filter_text(fold_case(picture.title))},
               {"words", words},
               {"added", item.added},
               {"rating", picture.rating.value_or(0)},
               {"grain", facts.grain}};
  Json keywords = Json::array();
  for (const std::string& keyword : picture.keywords) {
    if (!keyword.empty()) keywords.push_back(filter_text(fold_case(keyword)));
  }
  if (!keywords.empty()) json["keywords"] = std::move(keywords);
  const auto number = [&](const char* name, const auto& value) { json[name] = value; };
  if (item.width != 0) number("width", item.width);
  if (item.height != 0) number("height", item.height);
  if (item.width != 0 && item.height != 0) number("pixels", pixel_count(item.width, item.height));
  if (item.height != 0) number("aspect", static_cast<double>(item.width) / static_cast<double>(item.height));
  if (item.size != kUnknownState) number("size", item.size);
  if (facts.read != FactsRead::kNothing) number("grain", facts.grain);
  if (picture.taken) number("taken", *picture.taken);
  if (picture.taken || item.mtime_ns != kUnknownState) {
    number("date", picture.taken ? *picture.taken : whole_seconds(item.mtime_ns));
  }
  if (picture.latitude) number("latitude", *picture.latitude);
  if (picture.longitude) number("longitude", *picture.longitude);
  return json;
}

Result<WholeItem> item_of(const Address& address, std::string_view uuid, const std::string& text) {
  const auto read = [&]() -> Result<WholeItem> {
    SACCADE_ASSIGN(const Json json, parse_json(text));
    WholeItem whole;
    Item& item = whole.item;
    SACCADE_ASSIGN(std::string stored, json_field<std::string>(json, "path"));
    if (json.contains("path_bytes")) {
      SACCADE_ASSIGN(const std::string bytes, json_field<std::string>(json, "path_bytes"));
      SACCADE_ASSIGN(stored, decode_base64(bytes));
    }
    item.path = local_path(address, stored);
    item.id = id_of(uuid);
    item.row = item.id;
    SACCADE_ASSIGN(item.hash, json_field<std::string>(json, "hash"));
    SACCADE_ASSIGN(item.size, json_field<int64_t>(json, "size"));
    SACCADE_ASSIGN(item.mtime_ns, json_field<int64_t>(json, "mtime_ns"));
    SACCADE_ASSIGN(item.width, json_field<int64_t>(json, "width"));
    SACCADE_ASSIGN(item.height, json_field<int64_t>(json, "height"));
    SACCADE_ASSIGN(item.format, json_field<std::string>(json, "format"));
    SACCADE_ASSIGN(item.caption, json_field<std::string>(json, "caption"));
    SACCADE_ASSIGN(item.added, json_field<int64_t>(json, "added"));
    SACCADE_ASSIGN(item.file.elsewhere, json_field_or<bool>(json, "elsewhere", false));
    SACCADE_ASSIGN(whole.facts, facts_of_item(json));
    return whole;
  };
  return read().in(fmt::format("object {}", uuid));
}

Result<WholeItem> item_of(const Address& address, const Json& object) {
  SACCADE_ASSIGN(const std::string uuid, json_field<std::string>(object, "id"));
  SACCADE_ASSIGN(const std::string text, json_field<std::string>(member(object, "properties"), "item"));
  return item_of(address, uuid, text);
}

Result<std::vector<float>> row_of(const Json& object) {
  SACCADE_ASSIGN(const std::string text, json_field<std::string>(object, "row"));
  SACCADE_ASSIGN(const std::string bytes, decode_base64(text).in("row"));
  if (bytes.size() % sizeof(float) != 0) {
    return fail(ErrorCode::kBadData, "a row of {} bytes, expected values of {}", bytes.size(), sizeof(float));
  }
  std::vector<float> row(bytes.size() / sizeof(float));
  if (!row.empty()) std::memcpy(row.data(), bytes.data(), bytes.size());
  return row;
}

Json vector_json(std::span<const float> row) {
  Json json = Json::array();
  for (const float value : row) {
    // As few digits as a float needs: those of the same number as a double are twice as many.
    const std::string digits = fmt::format("{}", value);
    double shortest = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), shortest);
    json.push_back(shortest);
  }
  return json;
}

}  // namespace saccade::weaviate

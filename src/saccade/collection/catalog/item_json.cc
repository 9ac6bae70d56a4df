#include "saccade/collection/catalog/item_json.h"

#include <charconv>
#include <string>

#include "saccade/collection/catalog/facts_json.h"

namespace saccade {

Json item_json(const Item& item, const ItemFacts& facts) {
  Json json = {{"path", item.path},         {"hash", item.hash},      {"size", item.size},
               {"mtime_ns", item.mtime_ns}, {"width", item.width},    {"height", item.height},
               {"format", item.format},     {"caption", item.caption}};
  json.update(facts_json(facts));
  if (facts.read != FactsRead::kNothing) {
    json["look"] = fmt::format("{:016x}", facts.look);
    json["grain"] = facts.grain;
    json["looked_into"] = enum_name(facts.read);
  }
  return json;
}

Result<ItemFacts> facts_of_item(const Json& json) {
  SACCADE_ASSIGN(ItemFacts facts, facts_of_json(json));
  SACCADE_ASSIGN(const std::string look, json_field_or<std::string>(json, "look", ""));
  SACCADE_ASSIGN(const std::string read, json_field_or<std::string>(json, "looked_into", ""));
  SACCADE_ASSIGN(const double grain, json_field_or<double>(json, "grain", -1));
  const auto known = from_name<FactsRead>(read);
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(look.data(), look.data() + look.size(), bits, 16);
  const bool looks = error == std::errc() && end == look.data() + look.size() && grain >= 0 && grain <= 1;
  if (known && looks) {
    facts.look = bits;
    facts.grain = grain;
    facts.read = *known;
  }
  return facts;
}

}  // namespace saccade

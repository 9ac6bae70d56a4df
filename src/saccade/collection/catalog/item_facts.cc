#include "saccade/collection/catalog/item_facts.h"

#include <string_view>
#include <type_traits>

namespace saccade {

std::span<const EnumName<FactsRead>> enum_names(FactsRead) {
  static constexpr EnumName<FactsRead> kWords[] = {{FactsRead::kNothing, "nothing"},
                                                   {FactsRead::kPixels, "pixels"},
                                                   {FactsRead::kEverything, "everything"}};
  return kWords;
}

std::string caption_of(const PictureFacts& facts) {
  std::string caption;
  const auto add = [&](const std::string& text) {
    if (text.empty()) return;
    if (!caption.empty())
      caption += std::string_view(".!?").find(caption.back()) == std::string_view::npos ? ". " : " ";
    caption += text;
  };
  add(facts.title);
  add(facts.description);
  std::string keywords;
  for (const std::string& keyword : facts.keywords) keywords += (keywords.empty() ? "" : ", ") + keyword;
  add(keywords);
  return caption;
}

void fill_gaps(ItemFacts& facts, const ItemFacts& from) {
  PictureFacts& picture = facts.picture;
  const PictureFacts& other = from.picture;
  const auto fill = [](auto& field, const auto& value) {
    if (field == std::decay_t<decltype(field)>()) field = value;
  };
  if (!picture.taken) {
    picture.taken = other.taken;
    picture.zone_minutes = other.zone_minutes;
  }
  if (!picture.latitude) {
    picture.latitude = other.latitude;
    picture.longitude = other.longitude;
    fill(facts.place, from.place);
  }
  fill(picture.camera, other.camera);
  fill(picture.lens, other.lens);
  fill(picture.rating, other.rating);
  fill(picture.title, other.title);
  fill(picture.description, other.description);
  fill(picture.keywords, other.keywords);
  facts.caption = caption_of(picture);
}

}  // namespace saccade

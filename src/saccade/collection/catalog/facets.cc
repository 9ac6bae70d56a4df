#include "saccade/collection/catalog/facets.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/file_stamp.h"

namespace saccade {
namespace {

// Metadata of one image that facets count.
struct Facts {
  std::string path;
  std::string format;
  std::string day;  // "2024-05-31"
  int64_t width = 0;
  int64_t height = 0;
  std::string camera;
  std::string place;
  std::vector<std::string> keywords;
};

// Formats the filter's `date`: seconds since 1970, in local time of the image's place or the file's time in
// UTC.
std::string day_of(std::time_t seconds) {
  std::tm utc = {};
  if (::gmtime_r(&seconds, &utc) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

// A glob that matches the text alone, as a quoted value: what a glob or a
// quotation reads otherwise is escaped.
std::string literal_glob(std::string_view text) {
  std::string glob;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[') {
      glob += {'[', c, ']'};
    } else {
      if (c == '"' || c == '\\') glob += '\\';
      glob += c;
    }
  }
  return glob;
}

Facet most_first(std::string name, std::vector<FacetValue> values) {
  std::ranges::stable_sort(values, std::ranges::greater(), &FacetValue::items);
  if (values.size() > kMostFacetValues) values.resize(kMostFacetValues);
  return {std::move(name), std::move(values)};
}

Facet folders(const std::vector<Facts>& pictures) {
  // The deepest folder of all, with its slash.
  std::string common = pictures.front().path.substr(0, pictures.front().path.rfind('/') + 1);
  for (const Facts& picture : pictures) {
    while (!picture.path.starts_with(common)) {
      common.pop_back();
      common.resize(common.rfind('/') + 1);
    }
  }
  std::map<std::string, int64_t> counts;
  for (const Facts& picture : pictures) {
    const size_t slash = picture.path.find('/', common.size());
    if (slash != std::string::npos) ++counts[picture.path.substr(common.size(), slash - common.size())];
  }
  std::vector<FacetValue> values;
  for (const auto& [name, count] : counts) {
    values.push_back({name, fmt::format("path~\"{}*\"", literal_glob(common + name + "/")), count});
  }
  return most_first("folder", std::move(values));
}

// Quotes a value of these fields so that "=" accepts it, whatever its characters.
std::string in_quotes(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value + '"';
}

// Counts names that the filter compares without regard to (ASCII) case. The first spelling found represents
// all spellings of a name.
template <typename NamesOf>
Facet names(const std::string& field, const std::vector<Facts>& pictures, const NamesOf& names_of) {
  std::map<std::string, FacetValue> counts;
  for (const Facts& picture : pictures) {
    std::map<std::string, std::string> here;  // each once a picture
    for (const std::string& name : names_of(picture)) {
      if (!name.empty()) here.emplace(lower_ascii(name), name);
    }
    for (const auto& [lower, name] : here) {
      FacetValue& value =
          counts.try_emplace(lower, FacetValue{name, field + "=" + in_quotes(name), 0}).first->second;
      ++value.items;
    }
  }
  std::vector<FacetValue> values;
  for (auto& [lower, value] : counts) values.push_back(std::move(value));
  return most_first(field, std::move(values));
}

Facet formats(const std::vector<Facts>& pictures) {
  std::map<std::string, int64_t> counts;
  for (const Facts& picture : pictures) ++counts[picture.format];
  std::vector<FacetValue> values;
  for (const auto& [name, count] : counts) {
    if (!name.empty()) values.push_back({name, fmt::format("format={}", name), count});
  }
  return most_first("format", std::move(values));
}

Facet dates(const std::vector<Facts>& pictures) {
  std::vector<FacetValue> values;
  for (const size_t length : {4U, 7U, 10U}) {  // of a year, a month, a day
    std::map<std::string, int64_t, std::greater<>> counts;
    for (const Facts& picture : pictures) {
      if (!picture.day.empty()) ++counts[picture.day.substr(0, length)];
    }
    values.clear();
    for (const auto& [span, count] : counts) values.push_back({span, fmt::format("date={}", span), count});
    if (values.size() > 1) break;
  }
  if (values.size() > kMostFacetValues) values.resize(kMostFacetValues);
  return {"date", std::move(values)};
}

// Counts by rules of which each picture meets one.
template <typename Rules>
Facet by_rules(std::string name, const std::vector<Facts>& pictures, const Rules& rules) {
  Facet facet{std::move(name), {}};
  for (const auto& rule : rules) {
    const int64_t count = std::ranges::count_if(pictures, [&](const Facts& picture) {
      return picture.width > 0 && picture.height > 0 && rule.meets(picture);
    });
    if (count > 0) facet.values.push_back({rule.name, rule.filter, count});
  }
  return facet;
}

struct Rule {
  const char* name;
  const char* filter;
  bool (*meets)(const Facts&);
};

int64_t pixels(const Facts& picture) {
  return pixel_count(picture.width, picture.height);
}
double aspect(const Facts& picture) {
  return static_cast<double>(picture.width) / static_cast<double>(picture.height);
}

constexpr std::array<Rule, 3> kSizes = {{
    {"small", "pixels<100k", [](const Facts& picture) { return pixels(picture) < 100'000; }},
    {"medium", "pixels>=100k and pixels<2M",
     [](const Facts& picture) { return pixels(picture) >= 100'000 && pixels(picture) < 2'000'000; }},
    {"large", "pixels>=2M", [](const Facts& picture) { return pixels(picture) >= 2'000'000; }},
}};
constexpr std::array<Rule, 3> kShapes = {{
    {"tall", "aspect<0.9", [](const Facts& picture) { return aspect(picture) < 0.9; }},
    {"square", "aspect>=0.9 and aspect<=1.1",
     [](const Facts& picture) { return aspect(picture) >= 0.9 && aspect(picture) <= 1.1; }},
    {"wide", "aspect>1.1", [](const Facts& picture) { return aspect(picture) > 1.1; }},
}};

}  // namespace

Result<std::vector<Facet>> collection_facets(const CollectionReader& collection, std::string_view filter) {
  if (collection.index() != nullptr) return std::vector<Facet>();
  std::optional<std::vector<uint8_t>> allowed;
  if (!filter.empty()) {
    SACCADE_ASSIGN(const Filter parsed, parse_filter(filter).in("filter"));
    SACCADE_ASSIGN(allowed, collection.allowed(parsed));
  }
  std::map<int64_t, ItemFacts> said;
  SACCADE_TRY(collection.for_each_facts([&](int64_t id, const ItemFacts& facts) {
    if (!facts.picture.empty() || !facts.place.empty()) said.emplace(id, facts);
    return Status{};
  }));
  std::vector<Facts> pictures;
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    // An item that came after the snapshot has a row behind it.
    const auto row = static_cast<size_t>(item.row);
    if (!allowed || (row < allowed->size() && (*allowed)[row] != 0)) {
      const auto found = said.find(item.id);
      const ItemFacts facts = found == said.end() ? ItemFacts{} : found->second;
      const PictureFacts& picture = facts.picture;
      const bool dated = picture.taken || item.mtime_ns != kUnknownState;
      const std::string day = dated ? day_of(picture.taken.value_or(whole_seconds(item.mtime_ns))) : "";
      pictures.push_back({item.path, item.format, day, item.width, item.height, picture.camera, facts.place,
                          picture.keywords});
    }
    return {};
  }));
  std::vector<Facet> facets;
  if (pictures.empty()) return facets;
  for (Facet& facet :
       std::array{folders(pictures), formats(pictures), dates(pictures), by_rules("size", pictures, kSizes),
                  by_rules("shape", pictures, kShapes),
                  names("place", pictures, [](const Facts& each) { return std::array{each.place}; }),
                  names("camera", pictures, [](const Facts& each) { return std::array{each.camera}; }),
                  names("keyword", pictures, [](const Facts& each) { return each.keywords; })}) {
    const bool says_something =
        facet.values.size() > 1 ||
        (facet.values.size() == 1 && facet.values.front().items < std::ssize(pictures));
    if (says_something) facets.push_back(std::move(facet));
  }
  return facets;
}

}  // namespace saccade

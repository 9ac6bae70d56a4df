#include "lab/eval/retrieval/query_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/figures/resampling.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

constexpr std::array<std::string_view, 19> kColors = {
    "beige", "black", "blue",   "brown", "colorful", "colourful", "cyan",      "gold",  "golden", "gray",
    "green", "grey",  "orange", "pink",  "purple",   "red",       "turquoise", "white", "yellow"};
constexpr std::array<std::string_view, 20> kNumbers = {
    "two",    "three",  "four",  "five",   "six",     "seven",    "eight",    "nine", "ten",    "eleven",
    "twelve", "twenty", "dozen", "dozens", "hundred", "hundreds", "thousand", "pair", "couple", "several"};
constexpr std::array<std::string_view, 23> kSpatialWords = {
    "above",   "across", "against", "around",  "behind", "below", "beneath", "beside",
    "between", "bottom", "center",  "centre",  "corner", "front", "inside",  "left",
    "middle",  "near",   "next",    "outside", "right",  "top",   "under"};

// Upper ends of the groups of length, in own tokens.
constexpr std::array<int64_t, 5> kLengthEnds = {5, 10, 20, 40, 75};

// Calls call(word) for each word of a text, in lower case.
template <typename Call>
void for_each_word(std::string_view text, const Call& call) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (is_ascii_alphanumeric(c)) {
      word += lower_ascii(c);
    } else if (!word.empty()) {
      call(word);
      word.clear();
    }
  }
}

// Returns the list of words of a kind; empty for kinds without one.
std::span<const std::string_view> words_of_kind(TextQueryKind kind) {
  switch (kind) {
    case TextQueryKind::kColor:
      return kColors;
    case TextQueryKind::kNumber:
      return kNumbers;
    case TextQueryKind::kSpatial:
      return kSpatialWords;
    default:
      return {};
  }
}

bool has_word(TextQueryKind kind, std::string_view text) {
  const std::span<const std::string_view> words = words_of_kind(kind);
  bool found = false;
  for_each_word(text, [&](const std::string& word) {
    found = found || std::ranges::find(words, word) != words.end();
    if (kind == TextQueryKind::kNumber) {
      found = found || std::ranges::all_of(word, is_ascii_digit);
    }
  });
  return found;
}

// Groups by names of groups, in alphabetical order.
QueryGrouping group_by_names(std::string kind, const std::vector<std::string>& of_query) {
  QueryGrouping grouping{.kind = std::move(kind), .names = of_query};
  std::ranges::sort(grouping.names);
  grouping.names.erase(std::unique(grouping.names.begin(), grouping.names.end()), grouping.names.end());
  for (const std::string& name : of_query) {
    grouping.group_of_query.push_back(std::ranges::lower_bound(grouping.names, name) -
                                      grouping.names.begin());
  }
  return grouping;
}

QueryGrouping group_by_length(const QueryTexts& queries) {
  QueryGrouping grouping{.kind = std::string(enum_name(TextQueryKind::kLength))};
  int64_t begin = 0;
  for (const int64_t end : kLengthEnds) {
    grouping.names.push_back(fmt::format("{} to {} tokens", begin, end));
    begin = end + 1;
  }
  grouping.names.push_back(fmt::format("{} tokens or more", begin));
  for (const int64_t tokens : queries.tokens) {
    grouping.group_of_query.push_back(std::ranges::lower_bound(kLengthEnds, tokens) - kLengthEnds.begin());
  }
  return grouping;
}

std::string field_of(TextQueryKind kind, const DatasetItem& item) {
  switch (kind) {
    case TextQueryKind::kSource:
      return item.source;
    case TextQueryKind::kLicence:
      return item.licence;
    case TextQueryKind::kGroup:
      return item.group;
    default:
      return item.split;
  }
}

}  // namespace

std::span<const EnumName<TextQueryKind>> enum_names(TextQueryKind) {
  static constexpr std::array<EnumName<TextQueryKind>, 9> kNames = {{
      {TextQueryKind::kLength, "length", "own tokens of the query, in steps"},
      {TextQueryKind::kColor, "color", "queries with a color word, and others"},
      {TextQueryKind::kColor, "colour", "queries with a color word, and others"},
      {TextQueryKind::kNumber, "number", "queries with a number, and others"},
      {TextQueryKind::kSpatial, "spatial", "queries with a word for a place or direction, and others"},
      {TextQueryKind::kSource, "source", "the field `source` of the query's image"},
      {TextQueryKind::kLicence, "licence", "the field `licence` of the query's image"},
      {TextQueryKind::kGroup, "group", "the field `group` of the query's image"},
      {TextQueryKind::kSplit, "split", "the field `split` of the query's image"},
  }};
  return kNames;
}

bool is_field(TextQueryKind kind) {
  return kind == TextQueryKind::kSource || kind == TextQueryKind::kLicence || kind == TextQueryKind::kGroup ||
         kind == TextQueryKind::kSplit;
}

Result<QueryTable> read_query_table(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const std::string content, read_file(path));
  const std::string_view text = without_byte_order_mark(content);
  QueryTable table{.name = path.stem().string()};
  int64_t number = 0;
  for (std::string_view line : Lines(text)) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos || tab + 1 == line.size()) {
      return fail(ErrorCode::kBadData, "{}: line {}: a caption, a tab and its group are expected",
                  path.string(), number);
    }
    const std::string group(line.substr(tab + 1));
    const auto [at, added] = table.groups.emplace(line.substr(0, tab), group);
    if (!added && at->second != group) {
      return fail(ErrorCode::kBadData,
                  "{}: line {}: its caption is in group \"{}\" here and in \"{}\" before; "
                  "a caption has one group",
                  path.string(), number, group, at->second);
    }
  }
  if (table.groups.empty()) {
    return fail(ErrorCode::kBadData, "{}: no groups; each line has a caption, a tab and its group",
                path.string());
  }
  return table;
}

Result<QueryGrouping> group_by_kind(TextQueryKind kind, const QueryTexts& queries) {
  if (kind == TextQueryKind::kLength) {
    if (queries.tokens.size() != queries.captions.size()) {
      return fail(ErrorCode::kUsage,
                  "--by length counts a checkpoint's tokens, and no checkpoint encodes here");
    }
    return group_by_length(queries);
  }
  std::vector<std::string> names;
  if (is_field(kind)) {
    if (queries.items.size() != queries.captions.size()) {
      return fail(ErrorCode::kUsage, "--by {} is a field of a dataset: name one with --dataset",
                  enum_name(kind));
    }
    for (const DatasetItem* item : queries.items) {
      const std::string value = field_of(kind, *item);
      names.push_back(value.empty() ? "(none)" : value);
    }
    return group_by_names(std::string(enum_name(kind)), names);
  }
  QueryGrouping grouping{
      .kind = std::string(enum_name(kind)),
      .names = {fmt::format("{} words", enum_name(kind)), fmt::format("no {} words", enum_name(kind))}};
  for (const std::string_view caption : queries.captions) {
    grouping.group_of_query.push_back(has_word(kind, caption) ? 0 : 1);
  }
  return grouping;
}

QueryGrouping group_by_table(const QueryTable& table, const QueryTexts& queries) {
  std::vector<std::string> names;
  for (const std::string_view caption : queries.captions) {
    const auto found = table.groups.find(std::string(caption));
    names.push_back(found == table.groups.end() ? std::string(kNotInTable) : found->second);
  }
  return group_by_names(table.name, names);
}

std::vector<QueryGroupFigures> query_groups(const QueryGrouping& grouping, const QueryRanks& ranks,
                                            std::span<const int64_t> owner, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool) {
  std::vector<QueryGroupFigures> result;
  for (int64_t g = 0; g < std::ssize(grouping.names); ++g) {
    // The group's queries alone, over the images that they belong to.
    QueryRanks own;
    own.gallery = ranks.gallery;
    std::vector<int64_t> own_owner;
    std::map<int64_t, int64_t> image_number;
    for (int64_t q = 0; q < ranks.queries(); ++q) {
      const auto index = static_cast<size_t>(q);
      const std::span<const double> right = ranks.of(q);
      if (grouping.group_of_query[index] != g || right.empty()) continue;
      own.ranks.insert(own.ranks.end(), right.begin(), right.end());
      own.begin.push_back(std::ssize(own.ranks));
      own.tied.push_back(ranks.tied[index]);
      own_owner.push_back(image_number.emplace(owner[index], std::ssize(image_number)).first->second);
    }
    if (own.queries() == 0) continue;
    QueryGroupFigures& group = result.emplace_back();
    group.kind = grouping.kind;
    group.group = grouping.names[static_cast<size_t>(g)];
    group.queries = own.queries();
    group.images = std::ssize(image_number);
    group.few = group.images < kFewestClusters;
    const int64_t gallery = own.gallery;
    DirectionOutcome outcome = outcome_of_ranks(std::move(own), own_owner, group.images, bootstrap, pool);
    blank_beyond(gallery, outcome.figures);
    for (const char* name : {"r1", "r5", "r10"}) {
      const Figure* found = find_named(outcome.figures, name);
      if (found == nullptr) continue;
      Figure figure = *found;
      if (group.few && bootstrap.resamples > 0 && std::isfinite(figure.value)) {
        const Interval wilson = wilson_interval(figure.value, group.images, bootstrap.confidence);
        figure.low = wilson.low;
        figure.high = wilson.high;
      }
      group.figures.emplace_back(std::move(figure));
    }
  }
  return result;
}

}  // namespace saccade::lab

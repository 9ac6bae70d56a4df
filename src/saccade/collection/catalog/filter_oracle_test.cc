// Random filters against a slow, obvious evaluation over the items' values.
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

using Text = std::u32string;  // code points

// Case-folds and composes by hand the letters that the test uses.
Text folded(std::string_view utf8) {
  static const std::map<char32_t, Text> kFolded = {
      {U'\u00C9', U"\u00E9"}, {U'\u00D6', U"\u00F6"}, {U'\u00DF', U"ss"},     {U'\u1E9E', U"ss"},
      {U'\u0391', U"\u03B1"}, {U'\u03A3', U"\u03C3"}, {U'\u03C2', U"\u03C3"}, {U'\u0416', U"\u0436"}};
  Text out;
  for (size_t at = 0; at < utf8.size();) {
    const char32_t c = next_code_point(utf8, at);
    if (c == 0x301 && !out.empty() && out.back() == U'e') {
      out.back() = U'\u00E9';
    } else if (const auto found = kFolded.find(c); found != kFolded.end()) {
      out += found->second;
    } else {
      out += c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
  }
  return out;
}

Text plain(std::string_view utf8) {
  Text out;
  for (size_t at = 0; at < utf8.size();) out += next_code_point(utf8, at);
  return out;
}

// Sets are a letter, or a range of two.
bool glob(std::u32string_view pattern, std::u32string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == U'*')
    return glob(pattern.substr(1), text) || (!text.empty() && glob(pattern, text.substr(1)));
  if (text.empty()) return false;
  if (pattern[0] == U'?') return glob(pattern.substr(1), text.substr(1));
  if (pattern[0] == U'[') {
    const size_t end = pattern.find(U']');
    const char32_t last = pattern[end - 1];
    return text[0] >= pattern[1] && text[0] <= last && glob(pattern.substr(end + 1), text.substr(1));
  }
  return pattern[0] == text[0] && glob(pattern.substr(1), text.substr(1));
}

struct Values {
  int64_t width = 0;
  std::string path;
  std::string caption = {};
  std::string camera = {};                 // empty: missing
  std::vector<std::string> keywords = {};  // empty: missing
  std::optional<int64_t> taken = {};       // seconds since 1970
  std::optional<double> latitude = {};
  std::optional<int> rating = {};  // 0 where it is missing
  std::optional<double> grain = {};
};

// A filter's text, and whether an item meets it.
struct Condition {
  std::string text;
  std::function<bool(const Values&)> met;
};

constexpr int64_t kDay = 86'400;

class Generator {
 public:
  explicit Generator(std::mt19937& random) : random_(random) {}

  Values values(int number) {
    Values item;
    item.width = 1 + one_of(5);
    // A path that is there once.
    item.path = fmt::format("/{}/{}.jpg", word(), number);
    if (half()) item.caption = word() + " " + word();
    if (half()) item.camera = word();
    for (int i = one_of(4); i > 0; --i) item.keywords.push_back(half() ? word() : word() + " " + word());
    if (half()) item.taken = year_begin(2020 + one_of(4)) + one_of(365) * kDay;
    if (half()) item.latitude = one_of(5) - 2;
    if (half()) item.rating = one_of(6);
    if (half()) item.grain = half() ? 0.9 : 0.0;
    return item;
  }

  Condition filter(int depth) {
    if (depth == 0 || one_of(4) == 0) return comparison();
    if (one_of(3) == 0) {
      Condition inner = filter(depth - 1);
      return {fmt::format("not ({})", inner.text), [=](const Values& item) { return !inner.met(item); }};
    }
    const Condition left = filter(depth - 1);
    const Condition right = filter(depth - 1);
    if (half()) {
      return {fmt::format("({}) and ({})", left.text, right.text),
              [=](const Values& item) { return left.met(item) && right.met(item); }};
    }
    return {fmt::format("({}) or ({})", left.text, right.text),
            [=](const Values& item) { return left.met(item) || right.met(item); }};
  }

 private:
  int one_of(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool half() { return one_of(2) == 0; }

  std::string word() {
    static const std::array<std::string, 14> kWords = {"animal",          "bob",
                                                       "Animal",          "ab",
                                                       "\u00E9t\u00E9",   "\u00C9T\u00C9",
                                                       "e\u0301te\u0301", "\u00D6lympus",
                                                       "\u00F6LYMPUS",    "stra\u00DFe",
                                                       "STRASSE",         "\u0391\u03A3\u03C2",
                                                       "\u0416",          "b"};
    return kWords[static_cast<size_t>(one_of(kWords.size()))];
  }

  std::string pattern() {
    static const std::array<std::string, 12> kPatterns = {
        "a*b",  "*",         "?b",      "*l",   "[a-b]*", "\u00E9?\u00E9",
        "*SS*", "[\u00F6]*", "*\u03C3", "b?b*", "A*",     "*[a]l"};
    return kPatterns[static_cast<size_t>(one_of(kPatterns.size()))];
  }

  static int64_t year_begin(int year) { return parse_date(std::to_string(year))->begin; }

  Condition comparison() {
    switch (one_of(7)) {
      case 0:
        return number(
            "width", [](const Values& item) { return std::optional<double>(item.width); }, one_of(7));
      case 1:
        return number(
            "latitude", [](const Values& item) { return item.latitude; }, one_of(5) - 2);
      case 2:
        return number(
            "rating", [](const Values& item) { return std::optional<double>(item.rating.value_or(0)); },
            one_of(6));
      case 3:
        return date();
      case 4: {
        const bool yes = half();
        const bool equal = half();
        return {fmt::format("photograph{}{}", equal ? "=" : "!=", yes ? "yes" : "no"),
                [=](const Values& item) { return ((item.grain.value_or(0) > 0.5) == yes) == equal; }};
      }
      default:
        return text();
    }
  }

  Condition number(const std::string& name, const std::function<std::optional<double>(const Values&)>& of,
                   int wanted) {
    static const std::array<std::string, 6> kOperators = {"=", "!=", "<", "<=", ">", ">="};
    const std::string op = kOperators[static_cast<size_t>(one_of(6))];
    return {fmt::format("{}{}{}", name, op, wanted), [=](const Values& item) {
              const std::optional<double> value = of(item);
              if (!value) return op == "!=";
              return op == "="    ? *value == wanted
                     : op == "!=" ? *value != wanted
                     : op == "<"  ? *value < wanted
                     : op == "<=" ? *value <= wanted
                     : op == ">"  ? *value > wanted
                                  : *value >= wanted;
            }};
  }

  Condition date() {
    static const std::array<std::string, 6> kOperators = {"=", "!=", "<", "<=", ">", ">="};
    const std::string op = kOperators[static_cast<size_t>(one_of(6))];
    const int year = 2019 + one_of(6);
    const int64_t begin = year_begin(year);
    const int64_t end = year_begin(year + 1);
    return {fmt::format("taken{}{}", op, year), [=](const Values& item) {
              if (!item.taken) return op == "!=";
              const bool within = *item.taken >= begin && *item.taken < end;
              return op == "="    ? within
                     : op == "!=" ? !within
                     : op == "<"  ? *item.taken < begin
                     : op == "<=" ? *item.taken < end
                     : op == ">"  ? *item.taken >= end
                                  : *item.taken >= begin;
            }};
  }

  Condition text() {
    const int field = one_of(4);
    const bool whole = half();
    const bool globs = !whole && half();
    const bool negated = half();
    const std::string value = globs ? pattern() : word();
    const std::array<std::string, 4> names = {"path", "caption", "camera", "keyword"};
    const bool by_case = field == 0 && (whole || globs);
    const auto matches = [=](const std::string& said) {
      const Text text = by_case ? plain(said) : folded(said);
      const Text wanted = by_case ? plain(value) : folded(value);
      return whole ? text == wanted : globs ? glob(wanted, text) : text.find(wanted) != Text::npos;
    };
    return {fmt::format("{}{}{}\"{}\"", names[static_cast<size_t>(field)], negated ? "!" : "",
                        whole ? "=" : "~", value),
            [=](const Values& item) {
              if (field == 3) return std::ranges::any_of(item.keywords, matches) != negated;
              return matches(field == 0 ? item.path : field == 1 ? item.caption : item.camera) != negated;
            }};
  }

  std::mt19937& random_;
};

class FilterOracle : public testing::Test {
 protected:
  void make(const std::vector<Values>& items) {
    auto writer = CollectionWriter::create(folder_ / "c", test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    for (const Values& values : items) {
      auto put = test::put_of(values.path, static_cast<int>(change.puts.size()));
      put.item.width = values.width;
      put.item.caption = values.caption;
      if (values.taken || values.latitude || values.rating || values.grain || !values.camera.empty() ||
          !values.keywords.empty()) {
        ItemFacts& facts = put.facts.emplace();
        facts.read = FactsRead::kEverything;
        facts.picture.camera = values.camera;
        facts.picture.keywords = values.keywords;
        facts.picture.taken = values.taken;
        facts.picture.latitude = values.latitude;
        facts.picture.rating = values.rating;
        facts.grain = values.grain.value_or(0);
      }
      change.puts.push_back(std::move(put));
    }
    ASSERT_OK(writer->commit(change));
    auto collection = CollectionReader::open(folder_ / "c");
    ASSERT_OK(collection);
    collection_.emplace(*std::move(collection));
  }

  // Places in `items` of what the filter leaves.
  std::vector<size_t> left_by(const std::string& text) {
    const auto filter = parse_filter(text);
    EXPECT_TRUE(filter) << text << ": " << filter.error().message;
    if (!filter) return {};
    const auto mask = collection_->allowed(*filter);
    EXPECT_TRUE(mask) << text << ": " << mask.error().message;
    std::vector<size_t> places;
    for (size_t row = 0; mask && row < mask->size(); ++row) {
      if ((*mask)[row] != 0) places.push_back(static_cast<size_t>(collection_->ids()[row] - 1));
    }
    return places;
  }

  test::TestFolder folder_;
  std::optional<CollectionReader> collection_;
};

TEST_F(FilterOracle, RandomFiltersLeaveWhatASlowEvaluationLeaves) {
  std::mt19937 random(24);
  Generator generate(random);
  std::vector<Values> items;
  for (int i = 0; i < 150; ++i) items.push_back(generate.values(i));
  make(items);
  size_t some = 0;
  for (int round = 0; round < 500; ++round) {
    const Condition condition = generate.filter(static_cast<int>(random() % 4));
    std::vector<size_t> expected;
    for (size_t i = 0; i < items.size(); ++i) {
      if (condition.met(items[i])) expected.push_back(i);
    }
    if (!expected.empty() && expected.size() < items.size()) ++some;
    ASSERT_EQ(left_by(condition.text), expected) << condition.text;
  }
  EXPECT_GT(some, 350U) << "filters that leave some items and not others";
}

TEST_F(FilterOracle, KeywordsAreMatchedOneByOne) {
  Values item{.width = 1, .path = "/a.jpg", .keywords = {"animal", "bob"}};
  make({item, {.width = 2, .path = "/b.jpg"}});
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(left_by("keyword~\"a*b\""), IsEmpty());
  EXPECT_THAT(left_by("keyword~\"a*l\""), ElementsAre(0));
  EXPECT_THAT(left_by("keyword=\"animal\nbob\""), IsEmpty());
  EXPECT_THAT(left_by("keyword~\"l\nb\""), IsEmpty());
  EXPECT_THAT(left_by("keyword=\"\""), IsEmpty());
  EXPECT_THAT(left_by("keyword~\"*\""), ElementsAre(0));
  EXPECT_THAT(left_by("not keyword~\"*\""), ElementsAre(1));
}

TEST_F(FilterOracle, CaseOfAnyAlphabetDoesNotCount) {
  make({{.width = 1, .path = "/Caf\u00C9/x.jpg", .caption = "Un \u00C9T\u00C9", .camera = "\u00D6LYMPUS"}});
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(left_by("caption~\u00E9t\u00E9"), ElementsAre(0));
  EXPECT_THAT(left_by("caption~\"*e\u0301te\u0301\""), ElementsAre(0));
  EXPECT_THAT(left_by("camera=\u00F6lympus"), ElementsAre(0));
  EXPECT_THAT(left_by("camera=olympus"), IsEmpty());
  EXPECT_THAT(left_by("path~caf\u00E9"), ElementsAre(0));
  EXPECT_THAT(left_by("path~\"*caf\u00E9*\""), IsEmpty());
}

TEST_F(FilterOracle, MissingValuesMeetNoComparisonAndAllNegations) {
  Values dated{.width = 1, .path = "/a.jpg", .camera = "X"};
  dated.taken = parse_date("2024")->begin;
  dated.latitude = 2;
  make({dated, {.width = 2, .path = "/b.jpg"}});
  using testing::ElementsAre;
  using testing::IsEmpty;
  for (const char* equal : {"taken=2024", "latitude=2", "camera=X"}) {
    EXPECT_THAT(left_by(equal), ElementsAre(0)) << equal;
    EXPECT_THAT(left_by(fmt::format("not {}", equal)), ElementsAre(1)) << equal;
    EXPECT_THAT(left_by(fmt::format("not not {}", equal)), ElementsAre(0)) << equal;
  }
  for (const char* other : {"taken!=2024", "latitude!=2", "camera!=X", "camera!~x", "not taken>=1900"}) {
    EXPECT_THAT(left_by(other), ElementsAre(1)) << other;
  }
  EXPECT_THAT(left_by("taken<1900 or taken>1900"), ElementsAre(0));
  EXPECT_THAT(left_by("latitude<0"), IsEmpty());
  EXPECT_THAT(left_by("not latitude<0"), ElementsAre(0, 1));
}

// If all items without metadata are alike to a filter, a reader scans the metadata alone.
TEST_F(FilterOracle, AFilterKnowsWhatItSaysOfItemsWithoutMetadata) {
  Values seen{.width = 2, .path = "/b.jpg", .camera = "x"};
  seen.taken = parse_date("2024")->begin;
  make({{.width = 1, .path = "/a.jpg"}, seen, {.width = 3, .path = "/c.jpg"}});
  struct Case {
    std::string text;
    std::optional<bool> without_facts;
    bool facts_alone;
  };
  const Case cases[] = {
      {"width>1", std::nullopt, false},
      {"date=2024", std::nullopt, false},
      {"not width>1", std::nullopt, false},
      {"taken=2024", false, true},
      {"taken>2024", false, true},
      {"taken!=2024", true, true},
      {"not taken=2024", true, true},
      {"latitude<1", false, true},
      {"rating=0", true, true},
      {"rating=3", false, true},
      {"rating<3", true, true},
      {"rating<0", false, true},
      {"rating<=0", true, true},
      {"rating<=-1", false, true},
      {"rating>-1", true, true},
      {"rating>0", false, true},
      {"rating>=0", true, true},
      {"rating>=1", false, true},
      {"photograph=yes", false, true},
      {"photograph=no", true, true},
      {"photograph!=no", false, true},
      {"camera=x", false, true},
      {"camera=\"\"", true, true},
      {"camera~x", false, true},
      {"camera~\"\"", true, true},
      {"camera~\"**\"", true, true},
      {"camera~\"*?\"", false, true},
      {"keyword~\"*\"", false, true},
      {"keyword!~\"*\"", true, true},
      {"width>1 and camera=x", false, false},
      {"camera=x and width>1", false, false},
      {"width>1 or camera=x", std::nullopt, false},
      {"width>1 or camera!=x", true, false},
      {"width>1 and camera!=x", std::nullopt, false},
      {"taken=2024 or camera=x", false, true},
      {"taken=2024 and camera!=x", false, true},
      {"(width>1 or rating>0) and (camera=x or latitude>1)", false, false},
      {"not (width>1 and rating>0)", true, false},
  };
  for (const Case& one : cases) {
    const auto filter = parse_filter(one.text);
    ASSERT_OK(filter);
    EXPECT_EQ(filter->without_facts, one.without_facts) << one.text;
    EXPECT_EQ(filter->facts_alone, one.facts_alone) << one.text;
    // The items without metadata are the first and the last.
    const std::vector<size_t> left = left_by(one.text);
    if (!one.without_facts) continue;
    for (const size_t item : {size_t{0}, size_t{2}})
      EXPECT_EQ(std::ranges::count(left, item), *one.without_facts ? 1 : 0) << one.text;
  }
}

// A reader keeps what the last filter leaves, for its snapshot.
TEST_F(FilterOracle, AFilterAskedAgainLeavesTheSame) {
  using testing::ElementsAre;
  make({{.width = 1, .path = "/a.jpg"}, {.width = 2, .path = "/b.jpg"}});
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(left_by("width>=2"), ElementsAre(1));
    EXPECT_THAT(left_by("width>=2"), ElementsAre(1));
    EXPECT_THAT(left_by("width>=1"), ElementsAre(0, 1)) << "the same condition with another value";
  }
  {
    auto writer = CollectionWriter::open(folder_ / "c");
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {test::put_of("/c.jpg", 3)};
    ASSERT_OK(writer->commit(change));
  }
  EXPECT_THAT(left_by("width>=1"), ElementsAre(0, 1)) << "of the snapshot";
  ASSERT_OK(collection_->refresh());
  EXPECT_THAT(left_by("width>=1"), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace saccade

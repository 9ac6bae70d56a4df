#include "saccade/collection/catalog/words/word_index.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "saccade/collection/catalog/scan_parts.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/source_dir.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

namespace fs = std::filesystem;

CollectionChange::Put captioned(std::string path, int seed, std::string caption) {
  CollectionChange::Put put = test::put_of(std::move(path), seed);
  put.item.caption = std::move(caption);
  return put;
}

class WordIndexTest : public testing::Test {
 protected:
  void make() {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {captioned("/pics/fruit/red_apple.png", 1, ""),
                   captioned("/pics/IMG_7.jpg", 2, "a red stop sign"),
                   captioned("/pics/b.jpg", 3, "Zwei Vögel, NOT \"apples\"")};
    ASSERT_OK(writer->commit(change));
  }
  // Ids of what the term finds.
  std::vector<int64_t> found(const std::string& term) {
    const auto collection = CollectionReader::open(folder_);
    EXPECT_TRUE(collection) << collection.error().message;
    const auto matches = collection->match_words({&term, 1});
    EXPECT_TRUE(matches) << matches.error().message;
    std::vector<int64_t> ids;
    if (!matches) return ids;
    for (const WordMatch& match : matches->found) ids.push_back(match.id);
    return ids;
  }

  test::TestFolder temporary_;
  fs::path folder_ = temporary_.path() / "photos";
};

TEST_F(WordIndexTest, FindsWordsOfCaptionsNamesAndFolders) {
  make();
  EXPECT_THAT(found("red"), ElementsAre(1, 2));
  EXPECT_THAT(found("fruit"), ElementsAre(1));
  EXPECT_THAT(found("img"), ElementsAre(2));
  EXPECT_THAT(found("APPLE"), ElementsAre(1, 3)) << "case and English endings do not count";
  EXPECT_THAT(found("vogel"), ElementsAre(3)) << "nor do accents";
  EXPECT_THAT(found("png"), IsEmpty()) << "a file's ending is no word of it";
  EXPECT_THAT(found("stop sign"), ElementsAre(2));
  EXPECT_THAT(found("sign stop"), IsEmpty()) << "a term of two words has them side by side";

  const auto collection = CollectionReader::open(folder_);
  const std::vector<std::string> terms = {"red", "fruit", "apple", "bird"};
  EXPECT_THAT(collection->word_fields(1, terms).value(), ElementsAre(2, 4, 2, 0));
  EXPECT_THAT(collection->word_fields(2, terms).value(), ElementsAre(1, 0, 0, 0));
}

// https://www.sqlite.org/fts5.html, section 3: what would be syntax there is a word here, or nothing.
TEST_F(WordIndexTest, NothingInATermIsSyntax) {
  make();
  for (const char* term : {"", " ", "\"", "\"\"", "*", "apple*", "NOT", "apple OR sign", "caption:red",
                           "{caption}:red", "NEAR(red apple, 2)", "^red", "-red", "(red", "a\"b",
                           "'; DROP TABLE items; --", "\xff\xfe", "red + stop", "\xe2\x80\xae"}) {
    const auto ids = found(term);
    EXPECT_LE(ids.size(), 3U) << term;
  }
  EXPECT_THAT(found("NOT"), ElementsAre(3)) << "a word that a caption has";
  EXPECT_THAT(found("apple OR sign"), IsEmpty());
  EXPECT_THAT(found("caption:red"), IsEmpty());
  EXPECT_THAT(found("\"red\""), ElementsAre(1, 2)) << "quotes are no part of a word";
}

TEST_F(WordIndexTest, ScriptsWithoutSpacesHaveWordsToo) {
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  change.puts = {captioned("/a.jpg", 1, "赤いりんごと木"), captioned("/\xff.jpg", 2, "\xc3\x28 broken")};
  ASSERT_OK(writer->commit(change));
  EXPECT_THAT(found("りんご"), ElementsAre(1));
  EXPECT_THAT(found("broken"), ElementsAre(2));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(WordIndexTest, ChangesWithTheItems) {
  make();
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {captioned("/pics/IMG_7.jpg", 20, "a green bus"), captioned("/new.jpg", 4, "red")};
    change.puts[0].item.id = 2;
    Item moved = writer->find_path("/pics/fruit/red_apple.png").value().value();
    moved.path = "/pics/vegetables/tomato.png";
    change.updates = {moved};
    change.removals = {3};
    ASSERT_OK(writer->commit(change));
  }
  EXPECT_THAT(found("red"), ElementsAre(4));
  EXPECT_THAT(found("bus"), ElementsAre(2));
  EXPECT_THAT(found("fruit"), IsEmpty());
  EXPECT_THAT(found("vegetable"), ElementsAre(1));
  EXPECT_THAT(found("vogel"), IsEmpty());
  EXPECT_EQ(test::faults(folder_), "");
  // A change that fails leaves the words as the items are: a path that another item has.
  auto writer = CollectionWriter::open(folder_);
  CollectionChange change;
  change.puts = {captioned("/other.jpg", 5, "yellow"), captioned("/new.jpg", 6, "yellow")};
  EXPECT_FALSE(writer->commit(change));
  EXPECT_THAT(found("yellow"), IsEmpty());
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(WordIndexTest, AWordThatAQuarterHasTellsNothing) {
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  for (int i = 0; i < 200; ++i) {
    change.puts.push_back(captioned(fmt::format("/icons/{}.png", i), i,
                                    i < 50    ? "arrow"
                                    : i < 101 ? "line"
                                              : ""));
  }
  ASSERT_OK(writer->commit(change));
  const auto collection = CollectionReader::open(folder_);
  const std::vector<std::string> terms = {"icons", "arrow", "line", "nowhere"};
  const auto matches = collection->match_words(terms);
  ASSERT_OK(matches);
  ASSERT_EQ(matches->terms.size(), 4U);
  EXPECT_TRUE(matches->terms[0].common);
  EXPECT_FALSE(matches->terms[1].common);
  EXPECT_EQ(matches->terms[1].pictures, 50);
  EXPECT_TRUE(matches->terms[2].common) << "51 of 200";
  EXPECT_EQ(matches->terms[3].pictures, 0);
  EXPECT_EQ(matches->found.size(), 50U);
  // BM25's weight of a word, by hand.
  EXPECT_NEAR(matches->terms[1].weight, std::log(1 + 150.5 / 50.5), 1e-12);
  EXPECT_NEAR(matches->terms[3].weight, std::log(1 + 200.5 / 0.5), 1e-12);
  EXPECT_NEAR(matches->weight, matches->terms[1].weight + matches->terms[3].weight, 1e-12)
      << "a word that no image has counts, a common one does not";

  const auto rows_with = [&](std::vector<std::string> some) {
    return collection->rows_with_words(some).value();
  };
  EXPECT_EQ(rows_with({"icons"}).size(), 200U) << "common or not";
  EXPECT_EQ(rows_with({"line", "arrow", "nowhere"}).size(), 101U);
  EXPECT_EQ(rows_with({"line"}).front(), 50);
  EXPECT_EQ(rows_with({"arrow", "lines"}).back(), 100);
  EXPECT_THAT(rows_with({"nowhere"}), IsEmpty());
  EXPECT_THAT(rows_with({}), IsEmpty());
}

// By the formula, with plain loops. A name and folders are part of the text.
TEST_F(WordIndexTest, MatchesAreWeighedByBm25) {
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  const std::vector<std::string> captions = {
      "red apple", "a red apple and another red apple on a table", "apple", "red", "", "green pear tree"};
  for (int i = 0; i < 60; ++i) {
    change.puts.push_back(captioned(fmt::format("/x/{}.png", i), i,
                                    i < 6 ? captions[static_cast<size_t>(i)] : "something else"));
  }
  ASSERT_OK(writer->commit(change));
  const auto collection = CollectionReader::open(folder_);
  const std::vector<std::string> terms = {"red", "apple", "nowhere"};
  const auto matches = collection->match_words(terms);
  ASSERT_OK(matches);
  // Number of words: the caption's, and "x" and the number.
  double mean = 0;
  std::vector<double> lengths;
  for (int i = 0; i < 60; ++i) {
    const double own = i == 0 ? 2 : i == 1 ? 10 : i == 2 || i == 3 ? 1 : i == 4 ? 0 : i == 5 ? 3 : 2;
    lengths.push_back(own + 2);
    mean += lengths.back() / 60;
  }
  const double counts[][2] = {{1, 1}, {2, 2}, {0, 1}, {1, 0}};
  ASSERT_EQ(matches->found.size(), 4U);
  for (const WordMatch& match : matches->found) {
    const auto i = static_cast<size_t>(match.id - 1);
    ASSERT_LT(i, 4U);
    double weight = 0;
    uint64_t has = 0;
    for (size_t t = 0; t < 2; ++t) {
      const double tf = counts[i][t];
      weight += matches->terms[t].weight * tf / (tf + 1.2 * (0.25 + 0.75 * lengths[i] / mean));
      has |= tf > 0 ? uint64_t{1} << t : 0;
    }
    EXPECT_NEAR(match.weight, weight, 1e-6) << i;
    EXPECT_EQ(match.has, has) << i;
    EXPECT_LT(match.weight, matches->weight);
  }
}

// Grades are those of FTS5's bm25(), to the bit: on one connection and on several, with the lengths of texts looked up one
// by one and read all at once.
TEST_F(WordIndexTest, GradesAreThoseOfBm25) {
  constexpr int kItems = 600;
  std::mt19937 random(17);
  const auto of = [&](unsigned count) { return static_cast<int>(random() % count); };
  // Word 0 is the most frequent.
  const auto word = [&] { return fmt::format("w{}", of(1 + static_cast<unsigned>(of(60)))); };
  const auto caption = [&] {
    std::string text;
    for (int words = of(25); words > 0; --words) text += (text.empty() ? "" : ", ") + word();
    return text;
  };
  {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    for (int i = 0; i < kItems; ++i)
      change.puts.push_back(captioned(fmt::format("/f{}/{} img{}.jpg", i % 9, word(), i), i, caption()));
    ASSERT_OK(writer->commit(change));
    CollectionChange later;
    later.removals = {1, 40, 41, 333, kItems};
    for (const int64_t id : {2, 77, 400}) {
      later.puts.push_back(captioned(fmt::format("/later/{}.jpg", id), static_cast<int>(id), caption()));
      later.puts.back().item.id = id;
    }
    ASSERT_OK(writer->commit(later));
  }
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  std::map<int64_t, int64_t> row_of;
  for (size_t row = 0; row < collection->ids().size(); ++row) {
    if (collection->ids()[row] != 0) row_of[collection->ids()[row]] = static_cast<int64_t>(row);
  }
  std::vector<Database> connections;
  for (int i = 0; i < 4; ++i) {
    auto connection = Database::open(folder_ / "catalog.sqlite", Database::Mode::kRead);
    ASSERT_OK(connection);
    connections.push_back(*std::move(connection));
  }
  std::vector<std::string> terms;
  for (int i = 0; i < 60; ++i) terms.push_back(fmt::format("w{}", 59 - i));  // rare ones first
  for (const char* term : {"w0 w1", "w1 w0", "w0 w0", "img7", "later", "nowhere", "f3", "W3s"})
    terms.emplace_back(term);
  const store::IdRows rows(collection->ids());
  store::TermLookup alone(rows);
  store::TermLookup shared(rows);
  const auto n = static_cast<double>(row_of.size());
  int few = 0;
  int many = 0;
  int common = 0;
  for (const std::string& term : terms) {
    const auto here = alone.rows_of(connections[0], {}, term);
    ASSERT_OK(here);
    const auto there = shared.rows_of(connections[0], std::span(connections).subspan(1), term);
    ASSERT_OK(there);
    auto slow =
        connections[0].prepare("SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rowid");
    ASSERT_OK(slow);
    slow->bind(std::string_view("\"" + term + "\""));
    std::map<int64_t, double> ranks;  // of each row
    for (;;) {
      const auto more = slow->step();
      ASSERT_OK(more);
      if (!*more) break;
      ASSERT_TRUE(row_of.contains(slow->integer(0))) << term;
      ranks[row_of[slow->integer(0)]] = slow->real(1);
    }
    for (const auto& found : {*here, *there}) {
      EXPECT_EQ(found->common, std::ssize(ranks) > std::ssize(row_of) / 4) << term;
      if (found->common) {
        EXPECT_THAT(found->rows, IsEmpty()) << term;
        continue;
      }
      ASSERT_EQ(found->pictures, std::ssize(ranks)) << term;
      ASSERT_EQ(found->rows.size(), ranks.size()) << term;
      ASSERT_EQ(found->grades.size(), ranks.size()) << term;
      const auto df = static_cast<double>(ranks.size());
      const double factor = std::log((n - df + 0.5) / (df + 0.5)) * 2.2;
      size_t i = 0;
      for (const auto& [row, rank] : ranks) {
        EXPECT_EQ(found->rows[i], row) << term;
        EXPECT_EQ(found->grades[i], static_cast<float>(std::clamp(-rank / factor, 1e-3, 1.0))) << term;
        ++i;
      }
    }
    if (std::ssize(ranks) > std::ssize(row_of) / 4) {
      ++common;
    } else if (std::ssize(ranks) > std::ssize(row_of) / 20) {
      ++many;
    } else if (!ranks.empty()) {
      ++few;
    }
  }
  EXPECT_GE(few, 8);
  EXPECT_GE(many, 10);
  EXPECT_GE(common, 2);
}

// A cached term returns the same as a new look-up, also if items have changed their rows since.
TEST_F(WordIndexTest, AskedAgainATermSaysTheSame) {
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  for (int i = 0; i < 100; ++i) {
    change.puts.push_back(captioned(fmt::format("/{}/{}.png", i % 7 == 0 ? "bell" : "else", i), i,
                                    i % 5 == 0   ? "a red bell"
                                    : i % 3 == 0 ? "bell, red"
                                                 : "none"));
  }
  ASSERT_OK(writer->commit(change));
  CollectionChange moved;
  for (const int i : {90, 5, 35}) {
    moved.puts.push_back(
        captioned(fmt::format("/{}/{}.png", i % 7 == 0 ? "bell" : "else", i), i, "a red bell"));
    moved.puts.back().item.id = i + 1;
  }
  ASSERT_OK(writer->commit(moved));
  const auto collection = CollectionReader::open(folder_);
  const std::vector<std::string> terms = {"red bell", "35", "bell"};
  const auto first = collection->match_words(terms);
  ASSERT_OK(first);
  EXPECT_EQ(first->terms[0].pictures, 20);
  EXPECT_EQ(first->terms[1].pictures, 1);
  EXPECT_TRUE(first->terms[2].common);
  ASSERT_EQ(first->found.size(), 20U);
  for (const WordMatch& match : first->found) {
    EXPECT_EQ((match.id - 1) % 5, 0);
    EXPECT_EQ(collection->item(match.id)->row, match.row);
  }
  for (int again = 0; again < 3; ++again) {
    const auto matches = collection->match_words(terms);
    ASSERT_OK(matches);
    ASSERT_EQ(matches->found.size(), 20U);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(matches->found[i].row, first->found[i].row);
      EXPECT_EQ(matches->found[i].weight, first->found[i].weight);
    }
    // Caption 1, name 2, folders 4.
    EXPECT_EQ(*collection->word_fields(36, terms), (std::vector<uint8_t>{1, 2, 5}));
    EXPECT_EQ(*collection->word_fields(6, terms), (std::vector<uint8_t>{1, 0, 1}));
    EXPECT_EQ(*collection->word_fields(2, terms), (std::vector<uint8_t>{0, 0, 0}));
  }
}

// A collection that the program of schema 1 wrote: read as it is, and brought to
// the newest when next written to.
TEST_F(WordIndexTest, ACollectionOfTheFirstSchemaBecomesOneWithWords) {
  fs::create_directories(temporary_.path());
  fs::copy(fs::path(test::kSourceDir) / "tests/data/collection_v1", folder_);
  const std::string term = "apple";
  {
    const auto old = CollectionReader::open(folder_);
    ASSERT_OK(old);
    EXPECT_EQ(old->item_count(), 3);
    const auto matches = old->match_words({&term, 1});
    ASSERT_OK(matches);
    EXPECT_EQ(matches->reason, "the collection has no keyword index yet: the next `saccade index` makes it");
    EXPECT_THAT(matches->found, IsEmpty());
    EXPECT_THAT(old->rows_with_words({&term, 1}).value(), IsEmpty());
    EXPECT_EQ(test::faults(folder_), "");
  }
  const auto before = test::paths_of(CollectionReader::open(folder_).value());
  ASSERT_OK(CollectionWriter::open(folder_));
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  EXPECT_EQ(test::paths_of(*collection), before);
  EXPECT_THAT(found("apple"),
              UnorderedElementsAre(collection->item_of_path("/photos/fruit/red_apple.svg").value().id));
  EXPECT_THAT(found("stop sign"),
              UnorderedElementsAre(collection->item_of_path("/photos/signs/IMG_0001.svg").value().id));
  EXPECT_THAT(found("ubung").size(), 1U);
  EXPECT_EQ(test::faults(folder_), "");
  EXPECT_EQ(Database::open(folder_ / "catalog.sqlite", Database::Mode::kRead)
                ->integer("PRAGMA user_version")
                .value(),
            store::kCatalogSchemaVersion);
}

TEST_F(WordIndexTest, AnIndexThatIsNotWhatTheItemsSayIsFoundAndMended) {
  make();
  {
    auto database = Database::open(folder_ / "catalog.sqlite", Database::Mode::kWrite);
    ASSERT_OK(database);
    ASSERT_OK(database->execute("DELETE FROM words WHERE rowid = 2"));
    ASSERT_OK(database->execute("INSERT INTO words (rowid, caption) VALUES (99, 'ghost')"));
  }
  EXPECT_THAT(test::faults(folder_), HasSubstr("of 2 items, the first of them 2"));
  EXPECT_THAT(found("ghost"), IsEmpty()) << "what is no item is no hit";
  ASSERT_OK(CollectionWriter::open(folder_)->compact());
  EXPECT_EQ(test::faults(folder_), "");
  EXPECT_THAT(found("stop"), ElementsAre(2));
}

// A foreign catalog may hold our tables and nothing else, also beside the index of words.
TEST_F(WordIndexTest, ATableThatFtsDoesNotMakeIsForeign) {
  make();
  {
    auto database = Database::open(folder_ / "catalog.sqlite", Database::Mode::kWrite);
    ASSERT_OK(database->execute("CREATE TABLE words_extra (x)"));
  }
  const auto collection = CollectionReader::open(folder_);
  ASSERT_FALSE(collection);
  EXPECT_THAT(collection.error().message, HasSubstr("words_extra"));
}

// The index itself is the oracle: FTS5's table of each word's place, and its answer to a phrase in a field.
TEST(WordStems, AreThoseOfTheIndex) {
  const char* const kTexts[] = {
      "",
      "red apples",
      "Zwei V\xc3\xb6gel running runs ran",
      "the generalizations of organizers, relational hopping",
      "\xe8\xb5\xa4\xe3\x81\x84\xe3\x82\x8a\xe3\x82\x93\xe3\x81\x94 IMG_2031 3.5mm x-ray",
      "NOT OR AND \"quoted\" caption:red * ^",
      "caf\xc3\xa9 cafe\xcc\x81 \xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0 \xf0\x9f\x98\x80 stra\xc3\x9f\x65"};
  const char* const kTerms[] = {"red",        "apple",        "run",   "hop",  "vogel",
                                "img 2031",   "x ray",        "ray x", "cafe", "caption red",
                                "apples red", "organization", "",      "\"",   "strasse"};
  auto stems = store::WordStems::make();
  ASSERT_OK(stems);
  auto splitter = WordSplitter::open();
  ASSERT_OK(splitter);
  auto texts = store::WordTexts::make();
  ASSERT_OK(texts);
  auto index = Database::in_memory();
  ASSERT_OK(index);
  ASSERT_OK(index->execute(std::string(store::kWordIndexSql)));
  ASSERT_OK(index->execute("CREATE VIRTUAL TABLE places USING fts5vocab(words, instance)"));
  for (const char* caption : kTexts) {
    SCOPED_TRACE(caption);
    const auto text = texts->of("/old pictures/birds/red_apple 12.jpg", caption);
    ASSERT_OK(text);
    ASSERT_OK(index->execute("DELETE FROM words"));
    auto add = index->prepare("INSERT INTO words (rowid, caption, name, folders) VALUES (1, ?, ?, ?)");
    ASSERT_OK(add);
    for (const std::string* field : {&text->caption, &text->name, &text->folders})
      add->bind(std::string_view(*field));
    ASSERT_OK(add->run());
    auto read = index->prepare("SELECT term FROM places ORDER BY col, offset");  // caption, folders, name
    ASSERT_OK(read);
    std::vector<std::string> expected;
    while (*read->step()) expected.push_back(read->text(0));
    EXPECT_EQ(stems->of(*text).value(), expected);
    const std::vector<std::string> field = stems->of_field(text->caption).value();
    for (const char* term : kTerms) {
      const std::vector<std::string> wanted = stems->of_term(term).value();
      auto match = index->prepare("SELECT rowid FROM words WHERE words MATCH ?");
      ASSERT_OK(match);
      const std::string phrase = store::spaced_words(*splitter, term).value();
      const bool has =
          !phrase.empty() && *match->bind(std::string_view("caption : \"" + phrase + "\"")).step();
      EXPECT_EQ(store::has_phrase(field, wanted), has) << term;
    }
  }
}

TEST(ScanParts, AnExceptionOfAnyThreadReachesTheCaller) {
  auto first = Database::in_memory();
  ASSERT_TRUE(first) << first.error().message;
  std::vector<Database> others;
  for (int i = 0; i < 2; ++i) {
    auto other = Database::in_memory();
    ASSERT_TRUE(other) << other.error().message;
    others.push_back(*std::move(other));
  }
  for (const int64_t part : {0, 3, 6}) {
    const auto scan = [&](Database& /*database*/, int64_t begin, int64_t /*end*/) -> Status {
      if (begin == part) throw std::bad_alloc();
      return {};
    };
    EXPECT_THROW((void)store::scan_parts(*first, others, 9, scan), std::bad_alloc) << part;
  }
}

}  // namespace
}  // namespace saccade

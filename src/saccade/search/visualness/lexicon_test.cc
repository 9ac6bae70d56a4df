#include "saccade/search/visualness/lexicon.h"

#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

std::filesystem::path vectors(const char* name) {
  return std::filesystem::path(test::kSourceDir) / "tests/golden/word_vectors" / name;
}

// An entry as the MRC database's own documentation lays it out: fields of fixed width, then the word.
std::string mrc(const char* word, int imageability) {
  return fmt::format("03031{:05}{:02}{:03}{:06}{:04}{:03}{:03}{:03}{:03}{:03}{:03} NN S   {}|x|x|0\n", 12, 3,
                     10, 200, 5, 500, 480, imageability, 0, 0, 0, word);
}

class Lexicons : public testing::Test {
 protected:
  test::TestFolder folder_;
};

TEST_F(Lexicons, ReadsTheMrcDatabase) {
  const auto path = folder_.write(
      "mrc2.dct", mrc("DOG", 636) + mrc("BANK", 500) + mrc("BANK", 300) + mrc("THE", 0) + mrc("IDEA", 100));
  const auto lexicon = read_lexicon(path);
  ASSERT_TRUE(lexicon) << lexicon.error().message;
  EXPECT_EQ(lexicon->format, "mrc");
  EXPECT_EQ(lexicon->words.size(), 3U);
  EXPECT_NEAR(lexicon->words.at("dog"), 536.0 / 600, 1e-12);
  EXPECT_NEAR(lexicon->words.at("bank"), 0.5, 1e-12);
  EXPECT_NEAR(lexicon->words.at("idea"), 0, 1e-12);
  EXPECT_EQ(lexicon->left_out, 1);
}

TEST_F(Lexicons, ReadsBrysbaert) {
  const auto path =
      folder_.write("c.txt",
                    "Word\tBigram\tConc.M\tConc.SD\r\nDog\t0\t4.85\t0.4\r\nzero in\t1\t2.1\t1\r\n"
                    "idea\t0\t1\t0.3\r\n");
  const auto lexicon = read_lexicon(path);
  ASSERT_TRUE(lexicon) << lexicon.error().message;
  EXPECT_EQ(lexicon->format, "brysbaert");
  EXPECT_NEAR(lexicon->words.at("dog"), 3.85 / 4, 1e-12);
  EXPECT_NEAR(lexicon->words.at("idea"), 0, 1e-12);
  EXPECT_EQ(lexicon->left_out, 1);
  const auto csv = read_lexicon(folder_.write("c.csv", "\"Word\",\"Conc.M\"\r\n\"dog\",4.85\r\n"));
  ASSERT_TRUE(csv) << csv.error().message;
  EXPECT_EQ(csv->words.size(), 1U);
}

TEST_F(Lexicons, NameWhatIsWrong) {
  const std::pair<std::string, const char*> kCases[] = {
      {"word\tscore\ndog\t3\n", "another format"},
      {"", "another format"},
      {std::string("\x00\xff\xfe", 3), "another format"},
      {"Word\tConc.M\ndog\tx\n", "line 2: \"x\" is no rating"},
      {"Word\tConc.M\ndog\t5.5\n", "line 2: \"dog\" has a rating of 5.5, expected 1 to 5"},
      {"Word\tConc.M\ndog\n", "line 2: 1 fields"},
      {"Word\tConc.M\n", "no word with a rating"},
      {mrc("DOG", 636) + "nothing\n", "line 2: no entry"},
      {mrc("DOG", 99), "a rating of 99, expected 100 to 700"},
  };
  for (const auto& [text, expected] : kCases) {
    const auto lexicon = read_lexicon(folder_.write("l", text));
    ASSERT_FALSE(lexicon) << text;
    EXPECT_NE(lexicon.error().message.find(expected), std::string::npos) << lexicon.error().message;
  }
  EXPECT_EQ(read_lexicon(folder_ / "missing").error().code, ErrorCode::kNotFound);
}

TEST_F(Lexicons, AverageOverDifferentWordsWithOthersAsZero) {
  Lexicon lexicon;
  lexicon.words = {{"dog", 0.9}, {"grass", 0.8}, {"idea", 0.1}};
  const auto words = unique_words("The dog, the DOG on grass!");
  ASSERT_TRUE(words);
  EXPECT_EQ(*words, (std::vector<std::string>{"the", "dog", "on", "grass"}));
  EXPECT_NEAR(mean_rating(lexicon, *words), (0.9 + 0.8) / 4, 1e-12);
  EXPECT_EQ(mean_rating(lexicon, {}), 0);
}

TEST_F(Lexicons, ObjectsMayHaveSeveralWords) {
  const auto objects = read_object_list(folder_.write("o.txt", "# seen\nDog\n\ntraffic light\nlight\n"));
  ASSERT_TRUE(objects) << objects.error().message;
  EXPECT_EQ(objects->names.size(), 3U);
  EXPECT_EQ(objects->longest, 2U);
  // dog, traffic, light of a, dog, at, the, traffic, light.
  EXPECT_NEAR(*object_share(*objects, "A dog at the traffic light, a dog."), 3.0 / 6, 1e-12);
  EXPECT_EQ(named_objects(*objects, *words_in_order("A dog at the traffic light, a dog.")),
            (std::set<std::string>{"dog", "traffic", "light"}));
  EXPECT_NEAR(*object_share(*objects, "traffic"), 0, 1e-12);
  EXPECT_EQ(*object_share(*objects, "..."), 0);
  EXPECT_FALSE(read_object_list(folder_.write("e.txt", "\n# nothing\n")));
}

// tests/golden/word_vectors is what gensim writes (tools/reference/word_vectors.py) of six vectors.
TEST_F(Lexicons, AreExpandedByNearestWords) {
  Lexicon lexicon;
  lexicon.format = "mrc";
  lexicon.words = {{"dog", 0.9}, {"idea", 0.1}, {"absent", 1}};
  for (const char* name : {"glove.txt", "word2vec.txt", "word2vec.bin"}) {
    SCOPED_TRACE(name);
    WordVectors used;
    const auto expanded =
        expand_lexicon(lexicon, vectors(name), {"puppy", "thought", "dog", "opposite"}, used);
    ASSERT_TRUE(expanded) << expanded.error().message;
    EXPECT_EQ(used.words, 6);
    EXPECT_EQ(used.dim, 3);
    EXPECT_EQ(used.added, 3);
    // dog (1, 0, 0), idea (0, 2, 0), puppy (3, 0, 4), thought (1, 5, 0), opposite (-1, -1, 0), rest (0, 0, 1)
    EXPECT_NEAR(expanded->words.at("puppy"), 0.6 * 0.9, 1e-6);
    EXPECT_NEAR(expanded->words.at("thought"), 5 / std::sqrt(26.0) * 0.1, 1e-6);
    EXPECT_NEAR(expanded->words.at("opposite"), 0, 1e-6);
    EXPECT_NEAR(expanded->words.at("dog"), 0.9, 1e-12);
    EXPECT_FALSE(expanded->words.contains("rest"));
  }
}

TEST_F(Lexicons, BrokenWordVectorsAreNamed) {
  Lexicon lexicon;
  lexicon.words = {{"dog", 0.9}};
  const std::string whole = read_file(vectors("word2vec.bin")).value();
  WordVectors used;
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    const auto cut =
        expand_lexicon(lexicon, folder_.write("cut.bin", whole.substr(0, size)), {"puppy"}, used);
    EXPECT_FALSE(cut) << size;
  }
  float infinite = std::numeric_limits<float>::infinity();
  std::string bad = whole;
  std::memcpy(bad.data() + bad.find("dog ") + 4, &infinite, sizeof infinite);
  EXPECT_NE(expand_lexicon(lexicon, folder_.write("bad.bin", bad), {}, used)
                .error()
                .message.find("\"dog\" is not finite"),
            std::string::npos);
  const std::pair<const char*, const char*> kCases[] = {
      {"a text of other things\n", "no word vectors"},
      {"dog 1 2 3\ncat 1 2\n", "line 2: fewer than 3 values"},
      {"dog 1 2 3\ndog2 1 x 3\n", nullptr},  // of a word nobody asks for
      {"dog 1 x 3\n", "\"x\" is no number"},
      {"cat 1 2 3\n", "none of its 1 words is in the lexicon"},
      {"99999999999 3\n", "no file of word vectors"},
  };
  for (const auto& [text, expected] : kCases) {
    const auto result = expand_lexicon(lexicon, folder_.write("v.txt", text), {}, used);
    if (expected == nullptr) {
      EXPECT_TRUE(result) << text;
      continue;
    }
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().message.find(expected), std::string::npos) << result.error().message;
  }
}

}  // namespace
}  // namespace saccade

// Tests of `saccade illustrate`: documents with images, and invalid input.
#include <algorithm>
#include <set>
#include <sys/stat.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kMarkdown =
    "---\ntitle: x\n---\n# A house\n\nThe cat sits under a tree.  A bird\nflies over the house.\n\n"
    "- a cat in a list\n\n```\na cat and a dog in code\n```\nA red apple lies on the table.\n| cat | dog |\n|---|---|\n| 1 | 2 |\n\n"
    "In no event shall anybody be liable for the use of this.\n\nA boat on the river, and a dog in the boat.";

class IllustrateCli : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    make_collection();
    write("story.md", kMarkdown);
  }
  Json json_of(const std::vector<std::string>& words) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    auto json = parse_json(outcome.out);
    EXPECT_TRUE(json.has_value()) << outcome.out;
    return json.value_or(Json());
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name).value_or(""); }
};

TEST_F(IllustrateCli, MarkdownIsKeptAndEachPictureStandsOnce) {
  const Json json = json_of({"illustrate", "story.md", "-c", "c", "-o", "out.md", "--json"});
  const std::string written = read("out.md");
  std::string rest;
  std::set<std::string> links;
  bool was_picture = false;
  for (size_t at = 0; at < written.size();) {
    const size_t end = std::min(written.find('\n', at), written.size() - 1) + 1;
    const std::string line = written.substr(at, end - at);
    at = end;
    if (line.starts_with("![")) {
      const size_t open = line.find("](");
      const std::string link = line.substr(open + 2, line.find(')', open) - open - 2);
      EXPECT_TRUE(links.insert(link).second) << link;
      EXPECT_TRUE(fs::exists(folder_ / link)) << link;
      // The blank line before it was added; the last paragraph had no line end.
      EXPECT_TRUE(rest.ends_with("\n\n")) << rest;
      rest.pop_back();
      was_picture = true;
      continue;
    }
    // A blank line was added behind it if there was none.
    if (was_picture && line == "\n" && written.substr(at, 1) == "|") continue;
    was_picture = false;
    rest += line;
  }
  if (!rest.empty() && !kMarkdown.ends_with('\n')) rest.pop_back();
  EXPECT_EQ(rest, kMarkdown);

  EXPECT_EQ(json["format"], "markdown");
  EXPECT_EQ(json["output_format"], "markdown");
  EXPECT_EQ(json["visualness"]["method"], "everyday_words");
  EXPECT_EQ(json["visualness"]["threshold_given"], false);
  EXPECT_EQ(json["matching"]["tells"], false);
  EXPECT_THAT(json["matching"]["reason"].get<std::string>(), HasSubstr("too few"));
  ASSERT_EQ(json["images"].size(), links.size());
  ASSERT_GE(links.size(), 2U);
  std::set<int> paragraphs;
  for (const Json& picture : json["images"]) {
    EXPECT_TRUE(links.contains(picture["link"].get<std::string>()));
    EXPECT_TRUE(paragraphs.insert(picture["paragraph"].get<int>()).second);
    const Json& sentence = json["sentences"][picture["sentence"].get<size_t>()];
    EXPECT_EQ(sentence["outcome"], "placed");
    EXPECT_EQ(sentence["visual"], true);
    EXPECT_EQ(json["images"][sentence["image"].get<size_t>()], picture);
  }
  int legal = 0;
  for (const Json& sentence : json["sentences"]) {
    EXPECT_THAT(sentence["text"].get<std::string>(), Not(HasSubstr("list")));
    EXPECT_THAT(sentence["text"].get<std::string>(), Not(HasSubstr("code")));
    if (sentence["text"].get<std::string>().starts_with("In no event")) {
      EXPECT_EQ(sentence["outcome"], "not_visual");
      ++legal;
    }
  }
  EXPECT_EQ(legal, 1);
}

TEST_F(IllustrateCli, OptionsSayHowManyAndWhich) {
  const auto count = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"illustrate", "story.md", "-c", "c", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words)["images"].size();
  };
  const size_t all = count({});
  EXPECT_GE(all, 2U);
  EXPECT_EQ(count({"--at-most", "1"}), 1U);
  EXPECT_GT(count({"--per-paragraph", "2"}), all);
  EXPECT_EQ(count({"--threshold", "1.5"}), 0U);
  EXPECT_EQ(count({"--filter", "width>100"}), 0U);
  EXPECT_THAT(run({"illustrate", "story.md", "-c", "c", "--filter", "width>100"}).err,
              HasSubstr("no image passes the filter; --filter: no image meets width>100"));
  EXPECT_THAT(run({"illustrate", "story.md", "-c", "c", "--filter", "width>1"}).err,
              Not(HasSubstr("no image passes the filter")));
  EXPECT_EQ(count({"--group-above", "-0"}), 1U);  // all are alike
  write("names.txt", "river\n");
  EXPECT_EQ(count({"--objects", "names.txt", "--threshold", "0.01"}), 1U);
  EXPECT_EQ(count({"--min-words", "50"}), 0U);
  write("lexicon.txt", "Word\tBigram\tConc.M\nriver\t0\t5\nboat\t0\t5\ndog\t0\t5\n");
  EXPECT_EQ(count({"--lexicon", "lexicon.txt", "--threshold", "0.1"}), 1U);
  const Json whole = json_of({"illustrate", "story.md", "-c", "c", "--json", "--whole-sentences"});
  for (const Json& sentence : whole["sentences"]) EXPECT_THAT(sentence["phrases"], IsEmpty());
}

TEST_F(IllustrateCli, ATextBecomesAPageAndPicturesCanBeInIt) {
  write("story.txt", "The cat sits under a tree.\n\nx <b> & y\n");
  const Outcome embedded = run({"illustrate", "story.txt", "-c", "c", "-o", "page.html", "--embed"});
  EXPECT_EQ(embedded.code, 0) << embedded.err;
  EXPECT_THAT(embedded.out, HasSubstr("the share of words that the program's everyday words name"));
  EXPECT_THAT(read("page.html"), HasSubstr("<img src=\"data:image/"));
  EXPECT_THAT(read("page.html"), HasSubstr("<p>x &lt;b&gt; &amp; y</p>"));
  EXPECT_THAT(read("page.html"), HasSubstr("<h1>story</h1>"));
  fs::create_directory(folder_ / "elsewhere");
  const Outcome moved = run({"illustrate", "story.md", "-c", "c", "-o", "elsewhere/story.md"});
  EXPECT_EQ(moved.code, 0);
  EXPECT_THAT(moved.err, HasSubstr("another folder than the document's"));
  EXPECT_THAT(read("elsewhere/story.md"), HasSubstr("](../pictures/"));
  const Outcome copied = run({"illustrate", "story.txt", "-c", "c", "-o", "copied.md", "--copy"});
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_THAT(read("copied.md"), HasSubstr("](copied-pictures/"));
  EXPECT_THAT(read("copied.md"), HasSubstr("x &lt;b&gt; &amp; y\n"));
  EXPECT_FALSE(fs::is_empty(folder_ / "copied-pictures"));
  const Outcome stream =
      run({"illustrate", "story.txt", "-c", "c", "-o", "/dev/stdout", "--format", "markdown"});
  EXPECT_EQ(stream.code, 0) << stream.err;
  EXPECT_TRUE(stream.out.starts_with("The cat sits under a tree.\n\n![")) << stream.out;
  EXPECT_TRUE(stream.out.ends_with("\n\nx &lt;b&gt; &amp; y\n")) << stream.out;
}

TEST_F(IllustrateCli, WhatACaptionSaysStaysWords) {
  for (const char* colour : {"red", "green", "blue", "white"}) {
    write(fmt::format("pictures/{}.txt", colour), "\"><script>alert(1)</script>](x) ![y](z)");
  }
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  write("page.html", "<html><body><p>The cat sits under a tree.</p></body></html>");
  for (const auto& [from, to] : {std::pair("page.html", "out.html"), std::pair("story.md", "story.html")}) {
    ASSERT_EQ(run({"illustrate", from, "-c", "c", "-o", to}).code, 0);
    EXPECT_THAT(read(to), HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
    EXPECT_THAT(read(to), Not(HasSubstr("<script")));
  }
  ASSERT_EQ(run({"illustrate", "story.md", "-c", "c", "-o", "out.md"}).code, 0);
  EXPECT_THAT(read("out.md"),
              HasSubstr("![&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\](x) \\!\\[y\\](z)]("));
  ASSERT_EQ(run({"illustrate", "story.md", "-c", "c", "-o", "out2.md", "--alt", "sentence"}).code, 0);
  EXPECT_THAT(read("out2.md"), Not(HasSubstr("script")));
}

TEST_F(IllustrateCli, WhatItRefuses) {
  const auto refused = [&](std::vector<std::string> words, int code, const std::vector<std::string>& parts) {
    words.insert(words.begin(), "illustrate");
    words.insert(words.end(), {"-c", "c"});
    expect_failure(words, code, parts);
  };
  write("there.md", "somebody's");
  refused({"story.md", "-o", "there.md"}, 2, {"there.md is there already", "--overwrite"});
  EXPECT_EQ(read("there.md"), "somebody's");
  EXPECT_EQ(run({"illustrate", "story.md", "-c", "c", "-o", "there.md", "--overwrite"}).code, 0);
  EXPECT_THAT(read("there.md"), HasSubstr("# A house"));
  fs::create_hard_link(folder_ / "story.md", folder_ / "same.md");
  refused({"story.md", "-o", "same.md", "--overwrite"}, 2, {"is the document itself"});
  EXPECT_EQ(read("story.md"), kMarkdown);
  refused({"story.md", "-o", "pictures"}, 2, {"is a folder"});
  refused({"story.md", "-o", "gone/out.md"}, 1, {"no folder"});
  refused({"story.md", "-o", "out.txt"}, 2, {"--format markdown or html"});
  refused({"story.md", "-o", "out.md", "--embed"}, 2, {"--embed is for HTML"});
  refused({"story.md", "--copy"}, 2, {"-o FILE"});
  refused({"story.md", "--visualness", "model"}, 2, {"not trained to tell", "--threshold"});
  write("page.html", "<p>The cat sits under a tree.</p>");
  refused({"page.html", "-o", "out.md"}, 2, {"stays HTML"});
  refused({"gone.md"}, 1, {"gone.md"});
  write("empty.md", "");
  refused({"empty.md"}, 1, {"empty.md is empty"});
  write("binary.txt", std::string("a\0b", 3));
  refused({"binary.txt"}, 1, {"binary.txt", "byte 1 is NUL"});
  write("broken.pdf", "%PDF-1.4\nbroken");
  refused({"broken.pdf"}, 1, {"broken.pdf", "broken"});
  write("sjis.html", "<meta charset=shift_jis><p>a</p>");
  refused({"sjis.html"}, 1, {"shift_jis", "iconv"});
  refused({"story.md", "--min-probability", "1.5"}, 2, {"--min-probability"});
  refused({"story.md", "--filter", "width>"}, 2, {"filter"});
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  refused({"pipe"}, 1, {"pipe"});
}

TEST_F(IllustrateCli, ADocumentThatPicturesNothingStaysAsItIs) {
  const std::string legal = "In no event shall anybody be liable for the use of this.\n";
  write("legal.md", legal);
  const Outcome none = run({"illustrate", "legal.md", "-c", "c", "-o", "out.md"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("visual       0,"));
  EXPECT_EQ(read("out.md"), legal);
  write("code.md", "```\ncode\n```\n");
  const Outcome no_prose = run({"illustrate", "code.md", "-c", "c", "-o", "code_out.md"});
  EXPECT_EQ(no_prose.code, 0);
  EXPECT_THAT(no_prose.err, HasSubstr("no sentences of prose"));
  EXPECT_EQ(read("code_out.md"), "```\ncode\n```\n");
  ASSERT_EQ(run({"collection", "remove", "-c", "c", "--filter", "width>0"}).code, 0);
  const Outcome empty = run({"illustrate", "story.md", "-c", "c", "-o", "empty_out.md"});
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_THAT(empty.err, HasSubstr("no images in the collection"));
  EXPECT_EQ(read("empty_out.md"), kMarkdown);
}

TEST_F(IllustrateCli, OtherEncodingsAreTold) {
  write("latin.md", "The cat sits under a tree in the caf\xE9.\n");
  const Outcome latin = run({"illustrate", "latin.md", "-c", "c", "-o", "latin_out.md"});
  EXPECT_EQ(latin.code, 0);
  EXPECT_THAT(latin.err, HasSubstr("read as Windows-1252"));
  EXPECT_TRUE(read("latin_out.md").starts_with("The cat sits under a tree in the caf\xE9.\n\n!["))
      << read("latin_out.md");
  write("wide.txt", std::string("\xFF\xFE"
                                "A\0 \0c\0a\0t\0 \0s\0i\0t\0s\0 \0h\0e\0r\0e\0.\0\n\0",
                                36));
  const Outcome wide = run({"illustrate", "wide.txt", "-c", "c", "-o", "wide.md"});
  EXPECT_EQ(wide.code, 0) << wide.err;
  EXPECT_THAT(wide.err, HasSubstr("UTF-16"));
  EXPECT_TRUE(read("wide.md").starts_with("A cat sits here.\n\n![")) << read("wide.md");
}

// The starter's collections have match probabilities only with enough captions: here, four cards.
TEST_F(IllustrateCli, TheStarterFindsWhatASentenceNames) {
  for (const char* colour : {"red", "green", "blue", "white"}) {
    write(fmt::format("pictures/{}.txt", colour), fmt::format("a {} square", colour));
  }
  const Outcome indexed = run({"index", "pictures", "-c", "s"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  write("cards.md", "There is a blue square.\n\nThen comes a red square.\n");
  write("names.txt", "square\n");
  const Json json = json_of({"illustrate", "cards.md", "-c", "s", "--objects", "names.txt", "--json"});
  std::vector<std::string> found;
  for (const Json& picture : json["images"]) found.push_back(picture["caption"]);
  EXPECT_THAT(found, testing::ElementsAre("a blue square", "a red square"));
}

}  // namespace
}  // namespace saccade::test

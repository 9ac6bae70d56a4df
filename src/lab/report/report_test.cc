#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/pages/heat.h"
#include "saccade/pages/html.h"
#include "saccade/pages/search_page.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Html, EscapesWhatHasAMeaning) {
  EXPECT_EQ(escape_html(R"(<a href="x" id='y'>&amp;)"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(escape_html("Gr\xC3\xBC\xC3\x9F"
                        "e \xF0\x9F\x90\xA6\n"),
            "Gr\xC3\xBC\xC3\x9F"
            "e \xF0\x9F\x90\xA6\n");
}

TEST(Html, BytesThatAreNotTextAreReplaced) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_html("a\xFFz"), "a" + bad + "z");
  EXPECT_EQ(escape_html("\xC3"), bad);
  EXPECT_EQ(escape_html("\xC0\xBC"), bad + bad);                      // an overlong "<"
  EXPECT_EQ(escape_html("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(escape_html("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // past the last character
  EXPECT_EQ(escape_html(std::string("\0\x1b\x7f", 3)), bad + bad + bad);
  EXPECT_EQ(escape_html("\xC2\x85"), bad);  // a C1 control
}

TEST(Html, UrlsHoldAnyBytes) {
  EXPECT_EQ(file_url("/a b/\"<\xFF.png"), "file:///a%20b/%22%3C%FF.png");
  EXPECT_EQ(data_url("text/plain", ""), "data:text/plain;base64,");
  EXPECT_EQ(data_url("text/plain", "f"), "data:text/plain;base64,Zg==");
  EXPECT_EQ(data_url("text/plain", "fo"), "data:text/plain;base64,Zm8=");
  EXPECT_EQ(data_url("text/plain", "foo"), "data:text/plain;base64,Zm9v");
  EXPECT_EQ(data_url("text/plain", "\xFF\xFE\xFD\xFC"), "data:text/plain;base64,//79/A==");
}

class SearchPage : public testing::Test {
 protected:
  // Returns a square of one colour; alpha is 255 everywhere, or 0 outside a disc.
  std::string picture(const std::string& name, uint8_t grey, bool disc, int side = 400) {
    Image image;
    image.width = image.height = side;
    image.channels = 4;
    image.mode = PixelMode::kRgba;
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const int dx = 2 * x - side;
        const int dy = 2 * y - side;
        const bool inside = !disc || dx * dx + dy * dy < side * side / 2;
        image.pixels.insert(image.pixels.end(), {grey, grey, grey, static_cast<uint8_t>(inside ? 255 : 0)});
      }
    }
    const auto png = encode_png(image);
    EXPECT_TRUE(png.has_value());
    EXPECT_TRUE(write_file_atomic(folder_ / name, *png).has_value());
    return (folder_ / name).string();
  }
  static SearchHit hit(int64_t rank, float score, std::string path, std::string caption) {
    SearchHit result;
    result.rank = rank;
    result.score = score;
    result.item.id = rank;
    result.item.path = std::move(path);
    result.item.caption = std::move(caption);
    result.item.format = "png";
    result.item.width = result.item.height = 400;
    return result;
  }
  std::string page(std::span<const SearchAnswer> answers) {
    ThreadPool pool(2);
    SearchPageOptions options;
    options.collection = "/home/<me>";
    options.pictures = 4;
    auto html = search_page(answers, options, pool);
    EXPECT_TRUE(html.has_value());
    return html.has_value() ? *html : "";
  }

  test::TestFolder folder_;
};

int count(const std::string& text, std::string_view part) {
  int result = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++result;
  return result;
}

TEST_F(SearchPage, ShowsPicturesScoresAndWhatWasRead) {
  SearchAnswer answer;
  answer.query.text = "two <b>birds</b>";
  answer.tokens = TokenCount{5, 2};
  answer.searched = 4;
  answer.hits.push_back(hit(1, 0.31254F, picture("opaque.png", 90, false), "\"><script>alert(1)</script>"));
  answer.hits.push_back(hit(2, 0.25F, picture("black.png", 0, true), ""));
  answer.hits.push_back(hit(3, 0.2F, picture("white.png", 255, true), ""));
  answer.hits.push_back(hit(4, 0.1F, (folder_ / "gone.png").string(), ""));
  answer.hits[0].folded.push_back({hit(9, 0, "/x/copy.png", "").item, 0.31F, true});
  const std::string html = page({&answer, 1});

  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<b>birds")));
  EXPECT_THAT(html, HasSubstr("two &lt;b&gt;birds&lt;/b&gt;"));
  EXPECT_THAT(html, HasSubstr("/home/&lt;me&gt;"));
  EXPECT_THAT(html, HasSubstr("0.313"));
  EXPECT_THAT(html, HasSubstr("first 5 tokens read, the other 2 dropped"));
  EXPECT_THAT(html, HasSubstr("and 1 like it"));
  EXPECT_EQ(count(html, "<li class=\"card\">"), 4);
  EXPECT_EQ(count(html, "src=\"data:image/jpeg;base64,"), 1);  // the opaque one
  EXPECT_EQ(count(html, "src=\"data:image/png;base64,"), 2);
  EXPECT_EQ(count(html, "class=\"thumb light\""), 1);
  EXPECT_EQ(count(html, "class=\"thumb dark\""), 1);
  EXPECT_EQ(count(html, "Cannot be shown: "), 1);
  // Nothing is fetched from elsewhere: every src is data.
  EXPECT_EQ(count(html, "src=\""), count(html, "src=\"data:"));
  EXPECT_EQ(count(html, "url("), 0);
}

TEST_F(SearchPage, SeveralQueriesStandUnderEachOther) {
  std::vector<SearchAnswer> answers(3);
  answers[0].query.text = "first";
  answers[0].hits.push_back(hit(1, 0.5F, picture("a.png", 10, false), ""));
  answers[1].query.images = {{picture("query.png", 200, false)}};
  answers[1].hits.push_back(hit(1, 0.5F, picture("b.png", 60, false, 30), ""));
  answers[2].query.text = "nothing";
  const std::string html = page(answers);
  EXPECT_EQ(count(html, "<section "), 3);
  EXPECT_THAT(html, HasSubstr("href=\"#query-3\""));
  EXPECT_THAT(html, HasSubstr("Like query.png"));
  EXPECT_THAT(html, HasSubstr("No picture to show."));
  EXPECT_EQ(count(html, "src=\"data:"), 3);
}

TEST_F(SearchPage, SaysWhatItIsToldOfThePageAndOfAQuery) {
  std::vector<SearchAnswer> answers(3);
  SearchPageOptions options;
  options.about = "Made for <icons>.";
  options.notes = {"", "Not for this."};  // of the third, none
  ThreadPool pool(1);
  const auto html = search_page(answers, options, pool);
  ASSERT_TRUE(html.has_value());
  EXPECT_EQ(count(*html, "<p>Made for &lt;icons&gt;.</p>"), 1);
  EXPECT_EQ(count(*html, "role=\"note\""), 1);
  EXPECT_GT(html->find("Not for this."), html->find("id=\"query-2\""));
  EXPECT_LT(html->find("Not for this."), html->find("id=\"query-3\""));
}

TEST_F(SearchPage, StopsWhenAsked) {
  std::vector<SearchAnswer> answers(1);
  answers[0].hits.push_back(hit(1, 0.5F, picture("a.png", 10, false), ""));
  std::stop_source source;
  source.request_stop();
  ThreadPool pool(1);
  const auto html = search_page(answers, {}, pool, {}, source.get_token());
  ASSERT_FALSE(html.has_value());
  EXPECT_EQ(html.error().code, ErrorCode::kCancelled);
}

HitExplanation explanation(std::string model, std::vector<WordWeight> words) {
  HitExplanation result;
  result.model = std::move(model);
  result.score_by = "cosine";
  result.score = 0.4F;
  result.words = std::move(words);
  result.method = "legrad";
  result.grid = {2, 2};
  result.map = {0.1F, 0.2F, 0.3F, 0.4F};
  result.box = PictureBox{-0.25F, 0, 1.5F, 1};
  return result;
}

TEST_F(SearchPage, ShadesWordsAndLaysMapsOverPictures) {
  SearchAnswer answer;
  answer.query.text = "a <b> bird";
  answer.searched = 2;
  answer.hits.push_back(hit(1, 0.5F, picture("opaque.png", 90, false), ""));
  answer.hits.push_back(hit(2, 0.4F, picture("black.png", 0, true), ""));
  answer.hits[0].explanations = {explanation("one", {{0, 1, -0.02F}, {3, 4, 0.1F}, {6, 10, 0.2F}})};
  HitExplanation without = explanation("one", {{6, 10, 0.0F}});
  without.map.clear();
  without.no_map = "it is <gone>";
  answer.hits[1].explanations = {without};
  const std::string html = page({&answer, 1});
  EXPECT_THAT(html, HasSubstr("<span class=\"minus\" title=\"0.020 more without it\">a</span> &lt;"));
  EXPECT_THAT(html, HasSubstr("--w:0.50\" title=\"0.100 less without it\">b</span>&gt; <span"));
  EXPECT_THAT(html, HasSubstr("--w:1.00\" title=\"0.200 less without it\">bird</span></p>"));
  EXPECT_EQ(count(html, "class=\"marks heat\""), 1);
  EXPECT_THAT(html, HasSubstr("<image x=\"-100.00\" y=\"0.00\" width=\"600.00\" height=\"400.00\""));
  EXPECT_EQ(count(html, "href=\"data:image/png;base64,"), 1);
  EXPECT_THAT(html, HasSubstr("no map: it is &lt;gone&gt;"));
  EXPECT_THAT(html, HasSubstr("(legrad)"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));

  // With two encoders, there is one image for each, side by side.
  for (SearchHit& each : answer.hits) each.explanations.push_back(explanation("<two>", {{6, 10, 0.1F}}));
  const std::string both = page({&answer, 1});
  EXPECT_EQ(count(both, "<figure>"), 4);
  EXPECT_EQ(count(both, "class=\"marks heat\""), 3);
  EXPECT_THAT(both, HasSubstr("<b>&lt;two&gt;</b>"));
  EXPECT_THAT(both, HasSubstr("class=\"grid wide\""));
  // Without explanations, none are mentioned.
  for (SearchHit& each : answer.hits) each.explanations.clear();
  EXPECT_THAT(page({&answer, 1}), Not(HasSubstr("shaded")));
}

TEST(Heat, IsDarkToBrightAndRefusesOtherShapes) {
  const auto url = heat_url(std::vector<float>{0, 1, 2, 3, 4, 5}, 2, 3);
  ASSERT_TRUE(url);
  EXPECT_EQ(url->rfind("data:image/png;base64,", 0), 0U);
  EXPECT_TRUE(heat_url(std::vector<float>(4), 2, 2));
  EXPECT_FALSE(heat_url(std::vector<float>(4), 2, 3));
  EXPECT_FALSE(heat_url({}, 0, 0));
}

TEST_F(SearchPage, FramesPatchesAndTellsReRankedHitsApart) {
  SearchAnswer answer;
  answer.query.text = "a bird";
  answer.searched = 9;
  answer.late_scored = 3;
  answer.hits.push_back(hit(1, 7.5F, picture("opaque.png", 90, false), ""));
  answer.hits.push_back(hit(2, 2.5F, picture("black.png", 0, true), ""));
  for (SearchHit& each : answer.hits) each.pooled_score = 0.5F;
  TokenMatch met;
  met.token = 3;
  met.id = 812;
  met.dot = 0.75F;
  met.patches = PatchBlock{1, 2, 1, 1};
  met.box = PictureBox{0.5F, 0.25F, 0.25F, 0.25F};
  TokenMatch nowhere;
  nowhere.token = 4;
  answer.hits[0].matches = {met, nowhere};
  const std::string late = page({&answer, 1});
  EXPECT_THAT(late, HasSubstr("<rect x=\"200.0\" y=\"100.0\" width=\"100.0\" height=\"100.0\">"));
  EXPECT_EQ(count(late, "<rect"), 1);
  EXPECT_THAT(late, HasSubstr("viewBox=\"0 0 400 400\""));
  EXPECT_THAT(late, HasSubstr("token 3 (id 812): 0.750, patch 1, 2"));
  EXPECT_THAT(late, HasSubstr("token 4: 0.000</li>"));
  EXPECT_THAT(late, HasSubstr("the best 3 by their rows' mean"));
  EXPECT_THAT(late, HasSubstr("(MaxSim)"));

  answer.reranking = Reranking{"<blip>", "", "match", 2, 1, 1, 0, 0, 0, {}};
  answer.hits[0].retrieval = SearchHit::Retrieval{2, 0.4F};
  answer.hits[0].reranked = true;
  answer.hits[1].retrieval = SearchHit::Retrieval{1, 2.5F};
  answer.hits[1].not_reranked = "gone & lost";
  const std::string reranked = page({&answer, 1});
  EXPECT_THAT(reranked, HasSubstr("1 re-ranked by &lt;blip&gt; (match)"));
  EXPECT_THAT(reranked, HasSubstr("before: rank 2, 0.400\">7.500</b>"));
  EXPECT_THAT(reranked, HasSubstr("not re-ranked: gone &amp; lost\">-</b>"));
}

}  // namespace
}  // namespace saccade::lab

// Tests of the page of generated edits: its contents, and the choice of queries by the seed.
#include "lab/report/edits_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

class EditsPage : public testing::Test {
 protected:
  void SetUp() override {
    Image image{.width = 8, .height = 8, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
    image.pixels.assign(192, 50);
    folder.write("a.png", *encode_png(image));
    GeneratedEdits generated;
    generated.dataset = "edits";
    generated.dataset_hash = "h";
    generated.engine = {{"name", "<own>"}};
    std::string manifest =
        "{\"gallery_image\": \"a.png\", \"id\": \"a\", \"gallery\": \"g\"}\n{\"gallery_image\": \"gone.png\", \"id\": \"b\", "
        "\"gallery\": \"g\"}\n";
    for (int i = 0; i < 10; ++i) {
      const std::string id = fmt::format("q{}", i);
      const std::string text = fmt::format("text &{}", i);
      manifest += dump_json({{"id", id},
                             {"reference", "a"},
                             {"texts", {text}},
                             {"targets", {"b"}},
                             {"gallery", "g"},
                             {"kind", "k"}}) +
                  "\n";
      folder.write(fmt::format("made/{}.png", i), *encode_png(image));
      generated.edits.push_back({id, "g", "a", text, fmt::format("{}.png", i), 8, 8, ""});
    }
    folder.write("made/generated.jsonl", *format_generated_edits(generated));
    dataset = *read_dataset(folder.write("edits.jsonl", manifest));
  }
  std::string page(const EditsPageOptions& options = {}) {
    const auto html = edits_page(dataset, folder / "made", options, pool);
    return html ? *html : html.error().message;
  }
  static int count(const std::string& html, const std::string& part) {
    int found = 0;
    for (size_t at = html.find(part); at != std::string::npos; at = html.find(part, at + 1)) ++found;
    return found;
  }
  const test::TestFolder folder;
  Dataset dataset;
  ThreadPool pool{2};
};

TEST_F(EditsPage, ShowsWhatTheSeedChooses) {
  const std::string all = page();
  EXPECT_EQ(count(all, "<li>"), 10);
  EXPECT_EQ(count(all, "data:image/"), 20);  // the targets' file is gone
  EXPECT_THAT(all, HasSubstr("text &amp;3"));
  EXPECT_THAT(all, HasSubstr("&lt;own&gt;"));
  EXPECT_THAT(all, Not(HasSubstr("<own>")));
  const std::string three = page({.shown = 3, .limits = {}});
  EXPECT_EQ(count(three, "<li>"), 3);
  EXPECT_EQ(three, page({.shown = 3, .limits = {}}));
  EXPECT_NE(three, page({.shown = 3, .seed = 2, .limits = {}}));
}

TEST_F(EditsPage, SaysWhatIsMissing) {
  for (EditQuery& query : dataset.as<EditQueries>().items) query.targets.clear();
  EXPECT_THAT(page(), HasSubstr("no query has both a generated image and a target"));
}

}  // namespace
}  // namespace saccade::lab

#include "saccade/collection/ingest/caption_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(CaptionList, JoinsCaptionsAndResolvesPaths) {
  const auto list = parse_caption_list(
      "{\"image\": \"a.jpg\", \"captions\": [\"one\", \"two\"], \"split\": \"train\"}\r\n\n"
      "{\"image\": \"/b.jpg\", \"captions\": \"three\"}\n"
      "{\"image\": {\"path\": \"0.tar\", \"member\": \"c.jpg\"}, \"captions\": [\"not indexed by a path\"]}\n"
      "{\"image\": \"d.jpg\"}\n"
      "{\"image\": \"e.jpg\", \"caption\": \"five\"}\n"
      "{\"image\": \"f.jpg\", \"caption\": [\"six\", \"seven\"]}\n"
      "{\"image\": \"a.jpg\", \"captions\": [\"four\"]}",
      "folder");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(*list, ElementsAre(Pair("/b.jpg", "three"), Pair("folder/a.jpg", "one; two; four"),
                                 Pair("folder/d.jpg", ""), Pair("folder/e.jpg", "five"),
                                 Pair("folder/f.jpg", "six; seven")));
}

TEST(CaptionList, WritesWhatItReads) {
  const std::vector<std::string> captions = {"a \"quoted\" word", "\xc3\xa9t\xc3\xa9"};
  const auto list = parse_caption_list(caption_list_line("/x/y.png", captions), "elsewhere");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(*list, ElementsAre(Pair("/x/y.png", captions[0] + "; " + captions[1])));
}

TEST(CaptionList, NamesTheLineAtFault) {
  const auto error = [](std::string_view text) {
    const auto list = parse_caption_list(text, "f");
    return list ? std::string("no error") : list.error().message;
  };
  EXPECT_THAT(error("{\"image\": \"a\"}\nnot json"), HasSubstr("line 2"));
  EXPECT_THAT(error("{\"captions\": [\"a\"]}"), HasSubstr("\"image\" is missing"));
  EXPECT_THAT(error("{\"image\": \"a\", \"captions\": [1]}"), HasSubstr("expected strings"));
  EXPECT_THAT(error("{\"image\": \"a\", \"caption\": 1}"), HasSubstr("caption"));
  EXPECT_THAT(error("{\"image\": \"\"}"), HasSubstr("empty"));
}

}  // namespace
}  // namespace saccade

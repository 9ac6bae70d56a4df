#include "lab/eval/visualness/text_parts.h"

#include <gtest/gtest.h>

namespace saccade::lab {
namespace {

std::string repeated_words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "so ";
  return text;
}

TEST(TextParts, DividesByTheStudysLengths) {
  const std::vector<std::string> texts = {
      repeated_words(10), repeated_words(11), repeated_words(19), repeated_words(20), "", repeated_words(40)};
  const auto parts = text_parts(texts, nullptr);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].name, "short");
  EXPECT_EQ((*parts)[0].which, (std::vector<size_t>{0, 4}));
  EXPECT_EQ((*parts)[1].name, "medium");
  EXPECT_EQ((*parts)[1].which, (std::vector<size_t>{1, 2}));
  EXPECT_EQ((*parts)[2].name, "long");
  EXPECT_EQ((*parts)[2].which, (std::vector<size_t>{3, 5}));
}

TEST(TextParts, DividesByNamedObjects) {
  ObjectList objects;
  objects.names = {{"dog"}, {"traffic", "light"}};
  objects.longest = 2;
  const std::vector<std::string> texts = {"a dog", "a dog there", "traffic light", "light", "dog dog so"};
  const auto parts = text_parts(texts, &objects);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 5U);
  EXPECT_EQ((*parts)[3].name, "few objects");
  EXPECT_EQ((*parts)[3].which, (std::vector<size_t>{1, 3}));
  EXPECT_EQ((*parts)[4].name, "many objects");
  EXPECT_EQ((*parts)[4].which, (std::vector<size_t>{0, 2, 4}));
}

}  // namespace
}  // namespace saccade::lab

#include "saccade/core/base64.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Base64, ThereAndBack) {
  // RFC 4648, section 10, and every byte.
  EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(*decode_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(*decode_base64("Zm9vYg"), "foob");
  EXPECT_EQ(*decode_base64(""), "");
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
    EXPECT_EQ(*decode_base64(encode_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text :
       {"Zm9vY", "Zm9v Yg==", "Zm9v\nYg==", "Zm9*", "=", "Zg=", "Zm9vYg===", "<html>", "Zm=v"}) {
    const auto decoded = decode_base64(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code, ErrorCode::kBadData);
  }
}

TEST(Base64, PicturesComeInADataAddressOrAlone) {
  EXPECT_EQ(*decode_picture_text("Zm9vYg=="), "foob");
  EXPECT_EQ(*decode_picture_text("data:image/png;base64,Zm9vYg=="), "foob");
  EXPECT_EQ(*decode_picture_text("data:;base64,Zm9v"), "foo");
  EXPECT_EQ(*decode_picture_text("Zm9v\r\nYmFy\nYg==\n"), "foobarb");
  EXPECT_EQ(*decode_picture_text("data:image/png;base64,\nZm9v\n"), "foo");
  for (const char* text :
       {"", "\n", "data:image/png,foo", "data:image/png;base64,", "data:image/png;base64,*"}) {
    EXPECT_EQ(decode_picture_text(text).error().code, ErrorCode::kBadData) << text;
  }
}

}  // namespace
}  // namespace saccade

#include "saccade/core/ascii.h"

#include <cctype>
#include <clocale>

#include <gtest/gtest.h>

namespace saccade {
namespace {

// The C library's functions in its plain locale are the slow, obvious way.
TEST(Ascii, ClassesAreThoseOfTheCLocale) {
  ASSERT_STREQ(std::setlocale(LC_CTYPE, nullptr), "C");
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    EXPECT_EQ(lower_ascii(c), static_cast<char>(std::tolower(byte))) << byte;
    EXPECT_EQ(is_ascii_digit(c), std::isdigit(byte) != 0) << byte;
    EXPECT_EQ(is_ascii_letter(c), std::isalpha(byte) != 0) << byte;
    EXPECT_EQ(is_ascii_alphanumeric(c), std::isalnum(byte) != 0) << byte;
    EXPECT_EQ(is_ascii_space(c), std::isspace(byte) != 0) << byte;
    EXPECT_EQ(hex_digit(c) >= 0, std::isxdigit(byte) != 0) << byte;
  }
  EXPECT_EQ(lower_ascii("\xC3\x84 BC-9"), "\xC3\x84 bc-9");
}

TEST(Ascii, ComparesInAnyCase) {
  EXPECT_TRUE(equal_in_any_case("Base64", "bASE64"));
  EXPECT_FALSE(equal_in_any_case("base64", "base6"));
  EXPECT_FALSE(equal_in_any_case("@", "`"));  // as far apart as "A" and "a"
  EXPECT_TRUE(starts_in_any_case("<!DOCTYPE html>", "<!doctype"));
  EXPECT_FALSE(starts_in_any_case("<!D", "<!doctype"));
}

TEST(Ascii, AByteOrderMarkIsNoText) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbfone"), "one");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf"), "");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
  EXPECT_EQ(without_byte_order_mark("one\xef\xbb\xbf"), "one\xef\xbb\xbf");
}

TEST(Ascii, Trims) {
  EXPECT_EQ(trim_ascii(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim_ascii(" \n"), "");
  EXPECT_EQ(trim_ascii(""), "");
  EXPECT_EQ(trim_ascii("\va ", " "), "\va");
}

TEST(Ascii, Splits) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split_ascii(std::string_view(" a\t\r\nbc ")), (Parts{"a", "bc"}));
  EXPECT_EQ(split_ascii(std::string_view(" \n")), Parts());
  EXPECT_EQ(split_ascii(std::string_view("a b;;c;"), ";"), (Parts{"a b", "c"}));
}

TEST(Ascii, Lines) {
  const auto lines = [](std::string_view text) {
    std::vector<std::string_view> all;
    for (const std::string_view line : Lines(text)) all.push_back(line);
    return all;
  };
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(lines(""), Parts());
  EXPECT_EQ(lines("a\r\n\nb"), (Parts{"a\r", "", "b"}));
  EXPECT_EQ(lines("a\n"), Parts{"a"});
  EXPECT_EQ(lines("\n\n"), (Parts{"", ""}));
}

TEST(Ascii, PercentEscapes) {
  EXPECT_EQ(percent_encoded("refs/pr/1 \xC3\xA4~"), "refs%2Fpr%2F1%20%C3%A4~");
  EXPECT_EQ(percent_encoded("a/b c", "/"), "a/b%20c");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const std::string escaped = percent_encoded(text);
    if (escaped != text) {
      EXPECT_EQ(percent_escape("x" + escaped, 1), byte);
    }
  }
  EXPECT_EQ(percent_escape("%4a", 0), 0x4A);
  for (const char* wrong : {"", "%", "%4", "%4g", "%g4", "x41"})
    EXPECT_EQ(percent_escape(wrong, 0), -1) << wrong;
}

TEST(Ascii, Hashes) {
  EXPECT_TRUE(is_sha256_text(std::string(64, 'a')));
  EXPECT_FALSE(is_sha256_text(std::string(64, 'A')));
  EXPECT_FALSE(is_sha256_text(std::string(63, 'a')));
}

}  // namespace
}  // namespace saccade

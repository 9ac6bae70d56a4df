// Tests of CSV, tar and JSON records, the formats under the layouts.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/readers/json_records.h"
#include "lab/data/readers/piece_file.h"
#include "lab/data/readers/reader.h"
#include "lab/data/readers/tar.h"
#include "lab/data/test_tar.h"
#include "saccade/core/files/csv.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(std::string_view text, char separator = ',', bool quotes = true) {
  CsvReader reader(text, separator, quotes);
  Rows rows;
  std::vector<std::string> fields;
  for (;;) {
    const auto more = reader.next(fields);
    if (!more) {
      ADD_FAILURE() << more.error().message;
      return rows;
    }
    if (!*more) return rows;
    rows.push_back(fields);
  }
}

TEST(Csv, FieldsQuotesLineEnds) {
  EXPECT_EQ(rows_of("a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n,\n"),
            (Rows{{"a", "b"}, {"1", "x, \"y\"\nz"}, {"", ""}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b"),
            (Rows{{"a", "b"}}));
  EXPECT_EQ(rows_of("a\tb, c\n", '\t'), (Rows{{"a", "b, c"}}));
  EXPECT_EQ(rows_of("5\" nails,\"\"\n"), (Rows{{"5\" nails", ""}}));
  EXPECT_EQ(rows_of("a| \"b\n", '|', false), (Rows{{"a", " \"b"}}));
  EXPECT_EQ(rows_of("a,"), (Rows{{"a", ""}}));
  EXPECT_TRUE(rows_of("").empty());
  EXPECT_TRUE(rows_of("\n\r\n").empty());
}

// The parser's memory is bounded for foreign bytes, however long the file is.
TEST(Csv, FieldsAndRecordsAreBounded) {
  const auto error_of = [](const std::string& text) {
    CsvReader reader(text);
    std::vector<std::string> fields;
    const auto header = reader.next(fields);
    const auto row = header ? reader.next(fields) : header;
    return row ? "" : std::string(name(row.error().code)) + ": " + row.error().message;
  };
  const std::string most(CsvReader::kMaxField, 'x');
  EXPECT_EQ(error_of("a\n\"" + most + "\"\n"), "");
  EXPECT_EQ(error_of("a\n" + most + "\n"), "");
  EXPECT_EQ(error_of("a\n\"" + most + most),
            "limit: line 2: a quoted field of more than 16777216 bytes; is its quote closed?");
  EXPECT_EQ(error_of("a\n\"" + std::string(3 * CsvReader::kMaxField, '"')),
            "limit: line 2: a quoted field of more than 16777216 bytes; is its quote closed?");
  EXPECT_EQ(error_of("a\n" + most + "x\n"), "limit: line 2: a field of 16777217 bytes, limit 16777216");
  EXPECT_EQ(error_of("a\n" + std::string(CsvReader::kMaxFields - 1, ',') + "\n"), "");
  EXPECT_EQ(error_of("a\n" + std::string(CsvReader::kMaxFields, ',') + "\n"),
            "limit: line 2: more than 65536 fields");
}

TEST(Csv, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a,b\n1,\"x\ny", "line 2: a quoted field that does not end"},
      {"a,b\n\"1\n2\"x,3\n", "line 3: text after a quoted field"},
  };
  for (const auto& [text, expected] : kCases) {
    CsvReader reader(text);
    std::vector<std::string> fields;
    ASSERT_TRUE(reader.next(fields).value());
    const auto row = reader.next(fields);
    ASSERT_FALSE(row);
    EXPECT_THAT(row.error().message, HasSubstr(expected));
  }
  CsvReader reader("a\n\"x\ny\"\n\nb\n");
  std::vector<std::string> fields;
  std::vector<int64_t> lines;
  while (reader.next(fields).value()) lines.push_back(reader.line());
  EXPECT_THAT(lines, ElementsAre(1, 2, 5));
}

TEST(Csv, WhatIsWrittenReadsTheSame) {
  const Rows rows = {{"", ""}, {""}, {"a,b", "\"", "\r", "\n"}, {"\xef\xbb\xbf", "x"}, {" a ", "b\tc"}};
  for (const char separator : {',', '\t', '|'}) {
    std::string text;
    for (const auto& row : rows) text += format_csv(row, separator);
    EXPECT_EQ(rows_of(text, separator), rows);
  }
}

Result<std::vector<TarMember>> members_of(const std::string& archive) {
  std::vector<TarMember> members;
  SACCADE_TRY(for_each_tar_member(std::as_bytes(std::span(archive)), [&](const TarMember& member) -> Status {
    members.push_back(member);
    return {};
  }));
  return members;
}

// Another program truncates the file while it is read. With a mapping, this would end the process.
TEST(Tar, AFileThatShrinksIsAnError) {
  const test::TestFolder folder;
  std::string archive;
  for (int i = 0; i < 20; ++i) archive += tar_member(fmt::format("{}.jpg", i), std::string(50'000, 'x'));
  const auto path = folder.write("a.tar", archive + tar_end());
  const auto file = PieceFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  int members = 0;
  const Status read = for_each_tar_member(
      file->size(), [&](int64_t offset, std::span<char> out) { return file->read(offset, out); },
      [&](const TarMember&) -> Status {
        if (++members == 3) std::filesystem::resize_file(path, 60'000);
        return {};
      });
  ASSERT_FALSE(read);
  EXPECT_EQ(members, 3);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_THAT(read.error().message, HasSubstr("another program has shortened it"));
}

TEST(Tar, FindsMembersOfEveryKindOfHeader) {
  const std::string long_name = std::string(150, 'n') + "/" + std::string(40, 'm') + ".jpg";
  const std::string record = fmt::format("path={}\n", long_name);
  std::string archive =
      tar_member("a.jpg", "12345") + tar_member("folder/", "", '5') + tar_member("link", "", '2') +
      tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("cut", "x") +
      tar_member("pax", fmt::format("{} {}", record.size() + 4, record), 'x') + tar_member("cut", "yy") +
      tar_member("g", "52 comment=0123456789012345678901234567890123456789\n", 'g') + tar_member("empty", "");
  std::string prefixed = tar_header("b.jpg", 1);
  prefixed.replace(345, 3, "dir");
  prefixed.replace(148, 8, "        ");
  int64_t sum = 0;
  for (const char c : prefixed) sum += static_cast<unsigned char>(c);
  prefixed.replace(148, 6, fmt::format("{:06o}", sum));
  archive += prefixed + "q" + std::string(511, '\0') + tar_end();
  const auto members = members_of(archive);
  ASSERT_TRUE(members) << members.error().message;
  std::vector<std::string> seen;
  for (const TarMember& member : *members) {
    seen.push_back(member.name + "=" +
                   archive.substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.size)));
  }
  EXPECT_THAT(seen, ElementsAre("a.jpg=12345", long_name + "=x", long_name + "=yy", "empty=", "dir/b.jpg=q"));
}

TEST(Tar, RefusesWhatIsCutShortOrNotTar) {
  const std::string archive =
      tar_member("a.jpg", std::string(700, 'x')) + tar_member("b.jpg", "y") + tar_end();
  ASSERT_TRUE(members_of(archive));
  // The first block of zeros of the end mark is enough.
  for (size_t length = 0; length < archive.size() - 512; ++length) {
    const auto members = members_of(archive.substr(0, length));
    ASSERT_FALSE(members) << length;
    EXPECT_EQ(members.error().code, ErrorCode::kBadData);
  }
  std::string broken = archive;
  broken[3] ^= 1;
  EXPECT_THAT(members_of(broken).error().message, HasSubstr("byte 0: no tar header: its checksum is wrong"));
  EXPECT_EQ(members_of("\x1f\x8b" + archive).error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(members_of(tar_header("big", int64_t{1} << 32) + tar_end()).error().message,
              HasSubstr("has 4294967296 bytes"));
  for (const char* record :
       {"9999 path=x\n", "x path=x\n", "10 path=xyz", "5 a\n", "18 size=12345678a\n", "0 a=b\n"}) {
    EXPECT_FALSE(members_of(tar_member("pax", record, 'x') + tar_member("a", "b") + tar_end())) << record;
  }
  EXPECT_FALSE(members_of(tar_member("long", "name", 'L') + tar_end()));  // of nothing
  std::string huge = tar_header("huge", 0);
  huge.replace(124, 12, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  EXPECT_FALSE(members_of(huge + tar_end()));
}

TEST(JsonRecords, WalksAndNumbersRecords) {
  std::vector<std::string> seen;
  const auto note = [&](int64_t number, std::string_view text) -> Status {
    seen.push_back(fmt::format("{}:{}", number, text));
    return {};
  };
  ASSERT_TRUE(for_each_element(R"( [ {"a": "]}\""}, [1,[2]] ,"x", -1e5,null ] )", note));
  EXPECT_THAT(seen, ElementsAre(R"(1:{"a": "]}\""})", "2:[1,[2]]", "3:\"x\"", "4:-1e5", "5:null"));
  EXPECT_TRUE(for_each_element("[]", note));
  for (const char* wrong : {"", "{}", "[1 2]", "[1,]", "[1", "[1]x", "[\"a]", "[{]", "[,1]", "[[}"}) {
    const Status status = for_each_element(wrong, [](int64_t, std::string_view text) -> Status {
      SACCADE_ASSIGN([[maybe_unused]] const Json json, parse_json(text));
      return {};
    });
    EXPECT_FALSE(status) << wrong;
  }
  const auto outline = outline_json("\xef\xbb\xbf{\"a\": [1], \"b\": {\"c\": 2}}\n{}");
  ASSERT_TRUE(outline);
  EXPECT_TRUE(outline->more);
  EXPECT_EQ(outline->member("a"), "[1]");
  EXPECT_TRUE(has_keys(outline->member("b"), {"c"}));
  EXPECT_FALSE(outline_json("{\"a\": "));
  EXPECT_FALSE(outline_json("a,b"));
}

TEST(ByNumber, CountsDigitsAsNumbers) {
  EXPECT_TRUE(by_number("2.tar", "10.tar"));
  EXPECT_FALSE(by_number("10.tar", "2.tar"));
  EXPECT_TRUE(by_number("a2b9", "a2b10"));
  EXPECT_TRUE(by_number("01", "1") != by_number("1", "01"));
  EXPECT_TRUE(by_number("a", "ab"));
  EXPECT_FALSE(by_number("a", "a"));
}

}  // namespace
}  // namespace saccade::lab::data

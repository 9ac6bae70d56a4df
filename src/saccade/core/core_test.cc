#include <array>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/half.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/test_allocations.h"
#include "saccade/core/test_folder.h"
#include "saccade/core/untrusted_json.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

size_t entries(const test::TestFolder& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

Result<int> number_or_error(bool good) {
  if (!good) return fail(ErrorCode::kBadData, "schema version {}, this program reads up to {}", 9, 3);
  return 7;
}
Result<int> one_more(bool good) {
  SACCADE_ASSIGN(const int number, number_or_error(good).in("catalog"));
  return number + 1;
}
Status both(bool good) {
  SACCADE_TRY(number_or_error(true));
  SACCADE_TRY(one_more(good).in("open collection photos"));
  return {};
}

TEST(Error, GainsContextOnTheWayUp) {
  EXPECT_EQ(one_more(true).value(), 8);
  EXPECT_TRUE(both(true));
  const Status status = both(false);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kBadData);
  EXPECT_EQ(status.error().message,
            "open collection photos: catalog: schema version 9, this program reads up to 3");
  EXPECT_EQ(status.error().in("open collection photos").message, status.error().message);
  EXPECT_EQ(status.error().in("open").message, "open: " + status.error().message);
  EXPECT_EQ(without_context(status.error(), "open collection photos").message,
            "catalog: schema version 9, this program reads up to 3");
  EXPECT_EQ(without_context(status.error(), "open").message, status.error().message);
}

TEST(Error, CodesMapToNamesExitCodesAndStatuses) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const auto kind = static_cast<ErrorCode>(code);
    names.insert(name(kind));
    EXPECT_EQ(error_code_of(name(kind)), kind);
    EXPECT_EQ(exit_code(kind), kind == ErrorCode::kUsage ? 2 : 1);
    EXPECT_GE(http_status(kind), 400);
  }
  EXPECT_EQ(names.size(), 9U);
  EXPECT_EQ(error_code_of("lost"), ErrorCode::kInternal);
  EXPECT_EQ(name(ErrorCode::kNotFound), "not_found");
  EXPECT_EQ(http_status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(http_status(ErrorCode::kCancelled), 503);
  EXPECT_EQ(name(ErrorCode::kInternal), "internal");
  const Status missing = fail_errno(ENOENT, "/a/b");
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, "/a/b: No such file or directory");
  EXPECT_EQ(Status(fail_errno(EACCES, "x")).error().code, ErrorCode::kIo);
}

// Computes the value of a binary16 by the standard's formula.
double fp16_value(uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryFp16BothWays) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = fp16_to_float(half);
    if (std::isnan(fp16_value(half))) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(fp16_to_float(float_to_fp16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), fp16_value(half)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(float_to_fp16(value), half) << bits;
  }
}

TEST(Half, Fp16RoundsToNearestEven) {
  // Between neighbors: the midpoint rounds to the even one, the floats beside it to the nearer.
  for (uint16_t low = 0; low < 0x7c00; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    // Infinity stands for 2^16 here.
    const double above = high == 0x7c00 ? 65536.0 : fp16_value(high);
    const auto middle = static_cast<float>((fp16_value(low) + above) / 2);  // exact: 12 bits
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(float_to_fp16(middle), even) << low;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 1e9F)), high) << low;
    ASSERT_EQ(float_to_fp16(-middle), even | 0x8000) << low;
  }
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Half, Bf16) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = bf16_to_float(half);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(float_to_bf16(value), half) << bits;
    if (std::isinf(value)) continue;
    // The midpoint rounds to the even one, also for denormals.
    const uint32_t wide = bits << 16;
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(wide | 0x8000U)), half + (half & 1)) << bits;
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(wide | 0x7fffU)), half) << bits;
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(wide | 0x8001U)), half + 1) << bits;
  }
  // A NaN with a payload only in the lower half must not become infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

// Bytes of anonymous and writable memory, which RLIMIT_DATA counts.
rlim_t memory_now() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) << 10;
  }
  return 0;
}

TEST(Json, MemoryThatIsNotThereIsNoFaultOfTheText) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers' shadow memory leaves no room for a limit";
#endif
  std::string text = "[";
  for (int i = 0; i < 2'000'000; ++i) text += "{},";
  text += "{}]";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit little{memory_now() + (rlim_t{8} << 20), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &little), 0);
  const auto json = parse_json(text);
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kLimit);
  EXPECT_THAT(json.error().message, HasSubstr("no memory for 6000004 bytes of JSON"));
  EXPECT_TRUE(parse_json(text));
}

TEST(Json, FieldsNameWhatIsWrong) {
  const Json json = *parse_json(R"({"size": 224, "mean": 0.5, "name": "clip", "flag": true, "none": null,
                                    "big": 3000000000, "huge": 18446744073709551615, "minus": -1, "far": 1e300})");
  EXPECT_EQ(member(json, "size"), 224);
  EXPECT_TRUE(member(json, "side").is_null());
  EXPECT_TRUE(member(json["size"], "size").is_null());
  EXPECT_EQ(json_field<int>(json, "size").value(), 224);
  EXPECT_EQ(json_field<float>(json, "mean").value(), 0.5F);
  EXPECT_EQ(json_field<float>(json, "size").value(), 224.0F);
  EXPECT_EQ(json_field<std::string>(json, "name").value(), "clip");
  EXPECT_TRUE(json_field<bool>(json, "flag").value());
  EXPECT_EQ(json_field<int64_t>(json, "big").value(), 3'000'000'000);
  EXPECT_EQ(json_field<uint64_t>(json, "huge").value(), UINT64_MAX);
  EXPECT_EQ(json_field<int>(json, "minus").value(), -1);
  EXPECT_EQ(json_field_or<int>(json, "absent", 5).value(), 5);
  EXPECT_EQ(json_field_or<int>(json, "none", 5).value(), 5);
  EXPECT_EQ(json_field_or<int>(json, "size", 5).value(), 224);

  const auto message = [](const auto& result) {
    return result ? std::string("good") : result.error().message;
  };
  EXPECT_EQ(message(json_field<int>(json, "absent")), "\"absent\" is missing");
  EXPECT_EQ(message(json_field<int>(json, "name")),
            "\"name\" is a string (\"clip\"), expected a whole number");
  EXPECT_EQ(message(json_field<int>(json, "mean")), "\"mean\" is a number (0.5), expected a whole number");
  EXPECT_EQ(message(json_field<int>(json, "big")),
            "\"big\" is a number (3000000000), expected a whole number");
  EXPECT_NE(message(json_field<int64_t>(json, "huge")), "good");
  EXPECT_NE(message(json_field<uint64_t>(json, "minus")), "good");
  EXPECT_NE(message(json_field<uint32_t>(json, "minus")), "good");
  EXPECT_NE(message(json_field<float>(json, "far")), "good");
  EXPECT_EQ(json_field<double>(json, "far").value(), 1e300);
  EXPECT_EQ(message(json_field<bool>(json, "size")), "\"size\" is a number (224), expected true or false");
  EXPECT_EQ(message(json_field<std::string>(json, "none")), "\"none\" is null (null), expected a string");
  EXPECT_EQ(message(json_field_or<int>(json, "name", 1)), message(json_field<int>(json, "name")));
  EXPECT_THAT(message(json_field<int>(Json::array({1}), "x")), HasSubstr("\"x\" is an array ([1])"));
  EXPECT_LT(message(json_field<int>(Json{{"x", std::string(10'000, 'y')}}, "x")).size(), 200U);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const std::string text : {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "1 2", "\"\xff\"", "[1e999]",
                                 "{'a':1}", "\"\\ud800\"", "[1]x", "// note\n1", "NaN", "\"tab\there\""}) {
    const auto json = parse_json(text);
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code, ErrorCode::kBadData) << text;
    EXPECT_THAT(json.error().message, HasSubstr("not JSON at byte")) << text;
  }
  EXPECT_EQ(parse_json("[1, 2 3]").error().message, "not JSON at byte 7");
  EXPECT_EQ(parse_json("[\"caf\xe9\"]").error().message, "not JSON at byte 7: it is not UTF-8");
  EXPECT_EQ(parse_json(std::string_view("\xff\xfe[\0]\0", 6)).error().message,
            "not JSON: a zero byte at offset 3; it is UTF-16, and UTF-8 is expected");
}

// A zero byte does not end the text.
TEST(Json, RefusesWhatStandsBehindAZeroByte) {
  using namespace std::string_literals;
  for (const std::string& text : {"[1]\0]"s, "[1]\0"s, "\0[1]"s}) {
    const auto json = parse_json(text);
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code, ErrorCode::kBadData);
    EXPECT_NE(json.error().message.find("a zero byte"), std::string::npos) << json.error().message;
  }
}

TEST(Json, KeepsOrderAndValues) {
  const std::string text = R"({"z":[1,-2,2.5,true,null,"é"],"a":{"b":{}},"m":[]})";
  EXPECT_EQ(dump_json(*parse_json(text)), text);
  EXPECT_EQ(*parse_json("3"), Json(3));
  EXPECT_EQ(dump_json(Json("\xff")), "\"\ufffd\"");
}

TEST(Json, RefusesRepeatedKeysAndDeepNesting) {
  EXPECT_EQ(parse_json(R"({"a": 1, "b": {"c": 1, "d": 2, "c": 3}})").error().message,
            "key \"c\" twice in one object");
  EXPECT_TRUE(parse_json(R"({"a": 1, "b": {"a": 1}})"));
  for (const char* brackets : {"[]", "{}"}) {
    const auto nested = [&](size_t depth) {
      std::string text;
      for (size_t i = 1; i < depth; ++i) text += brackets[0] == '[' ? "[" : "{\"a\":";
      return text + brackets[0] + std::string(depth, brackets[1]);
    };
    EXPECT_TRUE(parse_json(nested(200)));
    EXPECT_THAT(parse_json(nested(201)).error().message, HasSubstr("nested deeper than 200 levels"));
    EXPECT_FALSE(parse_json(nested(1'000'000)));
  }
}

// The process ends here if the destructor takes memory.
TEST(UntrustedJson, IsFreedWhereThereIsNoMemory) {
  for (const char* text : {"[]", "[1,[2,[3,\"a text that is too long to lie in its string itself\"],{}]]",
                           R"({"a":{"b":[{"c":[]},{}]},"d":[[[[]]]]})"}) {
    auto parsed = parse_json(text);
    ASSERT_TRUE(parsed);
    {
      const UntrustedJson json(*std::move(parsed));
      EXPECT_EQ(dump_json(json), text);
      test::allocations_left = 0;
    }
    test::allocations_left = -1;
  }
  UntrustedJson json(Json::array({1, Json::array({2})}));
  const UntrustedJson moved(std::move(json));
  EXPECT_EQ(dump_json(moved), "[1,[2]]");
}

TEST(Json, LargeObjectsAreQuick) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"key{}\":{},", i, i);
  text.back() = '}';
  const auto json = parse_json(text);  // quadratic, this is minutes
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 200'000U);
}

TEST(Files, ReadsWithinLimitsOnly) {
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "a", "hello"));
  EXPECT_EQ(read_file(folder / "a").value(), "hello");
  EXPECT_EQ(read_file(folder / "a", 5).value(), "hello");
  const auto large = read_file(folder / "a", 4);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kLimit);
  EXPECT_THAT(large.error().message, HasSubstr("a: 5 bytes, limit 4"));
  ASSERT_TRUE(write_file_atomic(folder / "empty", ""));
  EXPECT_EQ(read_file(folder / "empty").value(), "");
  EXPECT_TRUE(MappedFile::open(folder / "empty")->bytes().empty());
  // Files that do not report their length.
  EXPECT_THAT(read_file("/proc/self/status").value(), HasSubstr("Name:"));
  EXPECT_EQ(read_file("/proc/self/status", 10).error().code, ErrorCode::kLimit);
}

TEST(Files, FoldersAreMadeWithThoseAboveThem) {
  const test::TestFolder folder;
  const mode_t mask = ::umask(027);
  const Status made = make_folders(folder / "a/b");
  ::umask(mask);
  ASSERT_TRUE(made) << made.error().message;
  for (const char* name : {"a", "a/b"}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(fs::is_directory(folder / name));
    EXPECT_EQ(fs::status(folder / name).permissions(), fs::perms{0750}) << "the process's umask decides";
  }
  fs::permissions(folder / "a", fs::perms{0700});
  EXPECT_TRUE(make_folders(folder / "a"));
  EXPECT_TRUE(make_folders(folder / "a/b/"));
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms{0700})
      << "a folder that is there stays as it is";
}

TEST(Files, AFileInPlaceOfAFolderIsNamed) {
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "file", "x"));
  for (const char* name : {"file", "file/c", "file/c/d"}) {
    SCOPED_TRACE(name);
    const Status made = make_folders(folder / name);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kIo);
    EXPECT_THAT(made.error().message, HasSubstr((folder / name).string() + ": make folder: Not a directory"));
    EXPECT_EQ(read_file(folder / "file").value(), "x");
  }
}

TEST(Files, OnlyRegularFilesAreRead) {
  const test::TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_TRUE(write_file_atomic(folder / "file", "x"));
  const auto check = [](const auto& result, ErrorCode code, const char* text) {
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_THAT(result.error().message, HasSubstr(text));
  };
  const std::tuple<fs::path, ErrorCode, const char*> cases[] = {
      {folder / "missing", ErrorCode::kNotFound, "missing: No such file or directory"},
      {folder / "file" / "below", ErrorCode::kNotFound, "Not a directory"},
      {folder / ".", ErrorCode::kBadData, "a folder, not a file"},
      {folder / "pipe", ErrorCode::kBadData, "a device, pipe or socket, not a file"},
      {"/dev/zero", ErrorCode::kBadData, "a device, pipe or socket, not a file"},
  };
  for (const auto& [path, code, text] : cases) {
    check(read_file(path), code, text);
    check(MappedFile::open(path), code, text);
    check(sha256_file(path), code, text);
    check(read_json(path), code, text);
  }
}

TEST(Files, MappedFilesMove) {
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "a", "first"));
  ASSERT_TRUE(write_file_atomic(folder / "b", "second one"));
  MappedFile a = *MappedFile::open(folder / "a");
  a = *MappedFile::open(folder / "b");
  const MappedFile moved = std::move(a);
  EXPECT_EQ(moved.bytes().size(), 10U);
  EXPECT_EQ(std::to_integer<char>(moved.bytes()[0]), 's');
}

TEST(Files, AtomicWriteReplacesAndKeepsThePermissionsOfNewFiles) {
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "a", "old"));
  ASSERT_TRUE(write_file_atomic(folder / "a", "new"));
  EXPECT_EQ(read_file(folder / "a").value(), "new");
  EXPECT_EQ(entries(folder), 1U);
  const int plain = ::open((folder / "plain").c_str(), O_CREAT | O_WRONLY, 0666);
  ::close(plain);
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::status(folder / "plain").permissions());
}

TEST(Files, AbandonedAtomicFilesVanish) {
  const test::TestFolder folder;
  {
    auto file = AtomicFile::create(folder / "a");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("half"));
    const AtomicFile moved = *std::move(file);
    EXPECT_EQ(entries(folder), 1U);
  }
  EXPECT_EQ(entries(folder), 0U);
  // Two concurrent writers of one name have separate temporary files.
  auto first = AtomicFile::create(folder / "a");
  auto second = AtomicFile::create(folder / "a");
  ASSERT_TRUE(first && second && first->write("1") && second->write("2"));
  ASSERT_TRUE(second->commit() && first->commit());
  EXPECT_EQ(read_file(folder / "a").value(), "1");
  EXPECT_EQ(entries(folder), 1U);
}

TEST(Files, AFailedWriteLeavesTheOldFile) {
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "a", "old"));
  EXPECT_EQ(write_file_atomic(folder / "missing" / "a", "x").error().code, ErrorCode::kNotFound);
  fs::create_directory(folder / "taken");
  EXPECT_THAT(write_file_atomic(folder / "taken", "x").error().message, HasSubstr("taken: a folder"));

  // A limit on file sizes simulates a full disk.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit low = before;
  low.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status status = write_file_atomic(folder / "a", std::string(5000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("a: write: File too large"));
  EXPECT_EQ(read_file(folder / "a").value(), "old");
  EXPECT_EQ(entries(folder), 2U);  // "a" and "taken"
}

TEST(Files, PlainNamesAreOneFiles) {
  for (const char* name : {"a", "...", "a b.safetensors", "\xff"})
    EXPECT_TRUE(is_plain_file_name(name)) << name;
  for (const char* name : {"", ".", "..", "a/b", "/", "../a"}) EXPECT_FALSE(is_plain_file_name(name)) << name;
  EXPECT_FALSE(is_plain_file_name(std::string_view("a\0b", 3)));
}

TEST(Files, LinksStayAndTheirTargetsAreWritten) {
  const test::TestFolder folder;
  fs::create_directory(folder / "there");
  ASSERT_TRUE(write_file_atomic(folder / "there/a", "old"));
  fs::create_symlink("there/a", folder / "link");
  fs::create_symlink(folder / "link", folder / "second");
  for (const char* name : {"link", "second"}) {
    ASSERT_TRUE(write_file_atomic(folder / name, name));
    EXPECT_TRUE(fs::is_symlink(folder / name));
    EXPECT_FALSE(fs::is_symlink(folder / "there/a"));
    EXPECT_EQ(read_file(folder / "there/a").value(), name);
  }
  // Links to a file that does not exist yet, and to a missing folder.
  fs::create_symlink("there/b", folder / "dangling");
  ASSERT_TRUE(write_file_atomic(folder / "dangling", "new"));
  EXPECT_EQ(read_file(folder / "there/b").value(), "new");
  fs::create_symlink("missing/b", folder / "nowhere");
  EXPECT_EQ(write_file_atomic(folder / "nowhere", "new").error().code, ErrorCode::kNotFound);
  fs::create_symlink("loop", folder / "loop");
  const Status looped = write_file_atomic(folder / "loop", "new");
  ASSERT_FALSE(looped);
  EXPECT_THAT(looped.error().message, HasSubstr("loop: "));
  EXPECT_TRUE(fs::is_symlink(folder / "loop"));
  fs::create_directory_symlink("there", folder / "folder");
  EXPECT_THAT(write_file_atomic(folder / "folder", "new").error().message, HasSubstr("a folder"));
  EXPECT_EQ(entries(folder), 7U);
}

// Renaming over them would replace them by a regular file.
TEST(Files, DevicesAndPipesAreWrittenTo) {
  ASSERT_TRUE(write_file_atomic("/dev/null", "gone"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  const test::TestFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  const std::string large(1 << 20, 'x');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    const Descriptor end(::open(pipe.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> block{};
    for (ssize_t n = 0; (n = ::read(end.get(), block.data(), block.size())) > 0;) {
      got.append(block.data(), static_cast<size_t>(n));
    }
  });
  const Status written = write_file_atomic(folder / "link", large);
  reader.join();
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(got, large);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(folder), 2U);
}

// Like a shell's redirection: writing begins at the open file's current position.
TEST(Files, TheProcessesOwnOpenFilesAreWrittenFromWhereTheyStand) {
  const test::TestFolder folder;
  const Descriptor open_file(::open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  const std::string name = fmt::format("/dev/fd/{}", open_file.get());
  ASSERT_EQ(::write(open_file.get(), "before ", 7), 7);
  ASSERT_TRUE(write_file_atomic(name, "page "));
  fs::create_symlink(name, folder / "link.safetensors");
  ASSERT_TRUE(write_file_atomic(folder / "link.safetensors", "rows "));
  ASSERT_EQ(::write(open_file.get(), "after", 5), 5);
  EXPECT_EQ(read_file(folder / "out").value(), "before page rows after");
  // Descriptors that are not open for writing, or not open at all.
  const Descriptor reading(::open((folder / "out").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(write_file_atomic(fmt::format("/proc/self/fd/{}", reading.get()), "x"));
  EXPECT_FALSE(write_file_atomic("/dev/fd/987654", "x"));
  EXPECT_EQ(read_file(folder / "out").value(), "before page rows after");
}

TEST(Sha256, KnownVectors) {
  // FIPS 180-4's examples.
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  const std::string expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  EXPECT_EQ(sha256_hex(million), expected);
  Sha256 pieces;
  for (size_t i = 0; i < million.size(); i += 999) pieces.update(std::string_view(million).substr(i, 999));
  Sha256 moved = std::move(pieces);
  EXPECT_EQ(moved.hex(), expected);
  const test::TestFolder folder;
  ASSERT_TRUE(write_file_atomic(folder / "a", million));
  EXPECT_EQ(sha256_file(folder / "a").value(), expected);
}

}  // namespace
}  // namespace saccade

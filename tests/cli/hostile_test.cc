// Tests of hostile images: each gives one line in the list of failures, and the run continues.
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/decode/hostile_pictures.h"
#include "saccade/image/image_codec.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HostilePictures : public ProgramTest {
 protected:
  // Copies the program below the test's folder, with its decoder at `decoder` unless that is empty.
  RunOptions installed(const std::string& decoder) const {
    const std::filesystem::path program = SACCADE_PROGRAM;
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::copy_file(program, folder_ / "bin" / "saccade");
    if (!decoder.empty()) {
      std::filesystem::create_directories((folder_ / decoder).parent_path());
      std::filesystem::copy_file(program.parent_path() / "saccade-decode", folder_ / decoder);
    }
    return {.program = (folder_ / "bin" / "saccade").string()};
  }
};

TEST_F(HostilePictures, AreFailuresOfARunThatGoesOn) {
  picture("p/a.png", 200, 30, 30);
  picture("p/z.png", 30, 30, 200);
  write("p/entity.svg", svg_with_repeated_entity());
  write("p/packed.svgz", gzip_bomb("<svg xmlns='http://www.w3.org/2000/svg'>", 3000, "</svg>"));
  write("p/within.svg", svg_with_picture("image/png", flat_png(20'000, 20'000)));
  write("p/cut_within.svg", svg_with_picture("image/png", flat_png(90, 90).substr(0, 60)));
  write("p/groups.svg", svg_of_nested_groups(20));  // librsvg itself refuses more than 50 layers since 2.60
  write("p/noise.svg", svg_of_noise(1000));
  const auto jpeg = encode_jpeg(Image{16, 16, 3, PixelMode::kRgb, std::vector<uint8_t>(768, 99)});
  ASSERT_TRUE(jpeg);
  write("p/scans.jpg", with_empty_scans(*jpeg, 5000));
  const std::vector<std::string> command = {"index",         "p",   "-c",    "c", "-m", "model",
                                            "--max-seconds", "0.5", "--json"};

  const Outcome first = run(command);
  EXPECT_EQ(first.code, 3) << first.err;
  EXPECT_THAT(first.err, Not(HasSubstr("warning"))) << first.err;
  const Json report = json_of(first);
  EXPECT_EQ(report["added"], 2);
  EXPECT_EQ(report["failed"].size(), 7U) << first.out;
  for (const Json& failure : report["failed"]) {
    const bool cut = failure["path"].get<std::string>().find("cut_within") != std::string::npos;
    EXPECT_EQ(failure["code"], cut ? "bad_data" : "limit") << failure;
  }
  // As after other failures, a plain second run has nothing new to do, and they can be retried.
  const Outcome second = run(command);
  EXPECT_TRUE(second.code == 0 || second.code == 3) << second.err;
  EXPECT_EQ(json_of(second)["unchanged"], 2);
  EXPECT_EQ(json_of(second)["added"], 0);
  std::vector<std::string> again = command;
  again.emplace_back("--retry-failed");
  const Outcome retried = run(again);
  EXPECT_EQ(retried.code, 3) << retried.err;
  EXPECT_EQ(json_of(retried)["failed"].size(), 7U) << retried.out;
  EXPECT_EQ(run({"collection", "verify", "-c", "c", "--deep"}).code, 0);

  // Tests other commands that read images.
  const Outcome search = run({"search", "-c", "c", "--image", "p/entity.svg"});
  EXPECT_EQ(search.code, 1);
  expect_one_line(search);
  EXPECT_THAT(search.err, HasSubstr("entities"));
  const Outcome embed = run({"embed", "--images", "p/scans.jpg", "p/a.png", "-m", "model", "-o", "x.npy"});
  EXPECT_EQ(embed.code, 3) << embed.err;
}

// Ctrl-C during the decoding of an image that would never end works at once, and the image is not stored as
// broken.
TEST_F(HostilePictures, CtrlCDoesNotWaitForThem) {
  write("p/groups.svg", svg_of_nested_groups(20));
  // Decoding begins soon after the collection exists, even if the program starts slowly.
  std::optional<std::chrono::steady_clock::time_point> begun;
  picture("p/a.png", 200, 30, 30);
  const Outcome stopped = run({"index", "p", "-c", "c", "-m", "model", "--max-seconds", "0", "--json"},
                              {.terminal_errors = true, .stop_when = [&](std::string_view) {
                                 const auto now = std::chrono::steady_clock::now();
                                 if (!begun && std::filesystem::exists(folder_ / "c")) begun = now;
                                 return begun && now - *begun > std::chrono::seconds(3 * kSlower);
                               }});
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("the same command resumes"));
  EXPECT_EQ(json_of(stopped)["failed"].size(), 0U) << stopped.out;
  const Outcome next = run({"index", "p", "-c", "c", "-m", "model", "--max-seconds", "0.5", "--json"});
  EXPECT_EQ(next.code, 3) << next.err;
  EXPECT_EQ(json_of(next)["skipped_failed"], 0);
  EXPECT_EQ(json_of(next)["failed"].size(), 1U);
}

TEST_F(HostilePictures, TheDecoderIsFoundWhereItIsInstalled) {
  picture("p/a.png", 200, 30, 30);
  const Outcome outcome =
      run({"index", "p", "-c", "c", "-m", "model"}, installed("libexec/saccade/saccade-decode"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("warning"))) << outcome.err;
}

TEST_F(HostilePictures, WithoutADecoderThatIsSaidOnce) {
  picture("p/a.png", 200, 30, 30);
  picture("p/b.png", 30, 200, 30);
  std::filesystem::copy_file(std::filesystem::path(kSourceDir) / "tests/data/pictures/gradient_23x17.heic",
                             folder_ / "p/c.heic");
  const RunOptions alone = installed("");
  const Outcome outcome = run({"index", "p", "-c", "c", "-m", "model"}, alone);
  // HEIC waits for its decoder, and is tried again once that is installed.
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("decoded by saccade-decode alone"));
  EXPECT_EQ(run({"index", "p", "-c", "c", "-m", "model"}).code, 0);
  std::filesystem::remove(folder_ / "p/c.heic");
  const std::string_view err = outcome.err;
  const size_t said = err.find("no saccade-decode beside this program");
  ASSERT_NE(said, std::string_view::npos) << err;
  EXPECT_EQ(err.find("no saccade-decode", said + 1), std::string_view::npos) << err;
  // Another program in its place is not accepted as a decoder.
  write("bin/saccade-decode", "#!/bin/sh\necho something else >&2\n");
  std::filesystem::permissions(folder_ / "bin" / "saccade-decode", std::filesystem::perms::owner_all);
  const Outcome other = run({"index", "p", "-c", "d", "-m", "model"}, alone);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("is not the decoder of this program: something else"));
}

}  // namespace
}  // namespace saccade::test

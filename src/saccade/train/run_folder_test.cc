// What a run folder and the state in it may hold: a training's own goes on, anything else is refused and
// stays.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "saccade/train/test_shapes.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::SmallData;
using test::train;

Error refusal_of(const DualTrainingOptions& options) {
  const auto report = train_dual(options, {}, {});
  EXPECT_FALSE(report);
  return report ? Error{} : report.error();
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// Every file below `folder` and what it holds; folders with nothing.
std::map<std::string, std::string> content_below(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    content[entry.path().string()] = entry.is_regular_file() ? read(entry.path()) : "";
  }
  return content;
}

TEST(RunFolder, OfOthersIsLeftAlone) {
  const SmallData data;
  DualTrainingOptions options = data.options("foreign");
  options.cache.clear();  // below the run folder
  data.folder().write("foreign/model/model.safetensors", "somebody's weights");
  auto before = content_below(options.run);
  const Error error = refusal_of(options);
  EXPECT_EQ(error.code, ErrorCode::kUsage);
  expect_in("foreign: not a training's, and not empty (it holds \"model\")", error.message);
  EXPECT_EQ(content_below(options.run), before);
  options.dry_run = true;
  EXPECT_EQ(refusal_of(options).code, ErrorCode::kUsage);
  options.dry_run = false;

  for (const char* run : {R"({"kind": "retrieval"})", "[]", R"({"kind": ["train dual"]})"}) {
    data.folder().write("foreign/run.json", run);
    before = content_below(options.run);
    EXPECT_EQ(refusal_of(options).code, ErrorCode::kMismatch) << run;
    EXPECT_EQ(content_below(options.run), before);
  }
  options.run = data.folder().write("file", "not a folder");
  expect_in("file", refusal_of(options).message);
  EXPECT_EQ(read(options.run), "not a folder");
}

TEST(RunFolder, WithWhatACutOffStartLeftIsTaken) {
  const SmallData data;
  for (const char* cache : {"", "pictures"}) {
    DualTrainingOptions options = data.options(fmt::format("cut-off-{}", cache));
    options.steps = 0;
    options.cache = *cache == '\0' ? fs::path() : options.run / cache;
    fs::create_directories(*cache == '\0' ? options.run / "cache" : options.cache);
    data.folder().write(options.run / "lock", "1234567");
    data.folder().write(options.run / "run.json.tmp-1234567-0", R"({"kind")");
    EXPECT_TRUE(train(options).finished) << cache;
  }
}

}  // namespace
}  // namespace saccade

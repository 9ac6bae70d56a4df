// Test helper: videos of plain colours, made by ffmpeg.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "saccade/core/process/limited_process.h"
#include "saccade/image/decode/video.h"

namespace saccade::test {

// Writes one colour after the other, two seconds each: as many scenes. 64 x 48, 10 frames a second.
inline void make_video(const VideoTools& tools, const std::filesystem::path& file,
                       const std::vector<std::string>& colours) {
  std::vector<std::string> arguments = {"-nostdin", "-v", "error", "-y"};
  std::string joined;
  for (size_t i = 0; i < colours.size(); ++i) {
    arguments.insert(arguments.end(), {"-f", "lavfi", "-i", "color=" + colours[i] + ":s=64x48:d=2:r=10"});
    joined += fmt::format("[{}]", i);
  }
  arguments.insert(arguments.end(),
                   {"-filter_complex", fmt::format("{}concat=n={}:v=1", joined, colours.size()), "-c:v",
                    "mpeg4", "-bitexact", file.string()});
  const auto made = run_limited(tools.ffmpeg, arguments, {.memory_bytes = int64_t{8} << 30});
  ASSERT_TRUE(made && made->code == 0) << (made ? made->errors : made.error().message);
}

}  // namespace saccade::test

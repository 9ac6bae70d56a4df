#include "saccade/image/decode/process/decoder_versions.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(DecoderVersions, AreBuildIdsOfWhatIsLoaded) {
  const auto versions = decoder_versions();
  for (const char* library : {"libvips.so", "libjpeg.so", "libpng16.so", "librsvg-2.so"}) {
    const auto found = versions.lower_bound(library);
    ASSERT_TRUE(found != versions.end() && found->first.starts_with(library)) << library;
    EXPECT_GE(found->second.size(), 16U) << found->second;
    EXPECT_EQ(found->second.find_first_not_of("0123456789abcdef"), std::string::npos) << found->second;
  }
  EXPECT_FALSE(versions.contains("libc.so.6"));
  EXPECT_EQ(decoder_versions(), versions);
}

}  // namespace
}  // namespace saccade

// Devices that are refused. lab/train/device/torch_library_test.cc tests the embeddings of a device in
// builds with libtorch.
#include <gmock/gmock.h>

#include "saccade/model/device/device_name.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using test::golden;
using testing::AllOf;
using testing::HasSubstr;

TEST(Device, NamesAreCheckedWhole) {
  for (const char* name : {"cpu", "", "cuda", "cuda:0", "cuda:1", "cuda:15", "torch-cpu"}) {
    EXPECT_TRUE(check_device_name(name)) << name;
  }
  for (const char* name :
       {"gpu", "CUDA", "cuda:", "cuda1", "cuda:x", "cuda:1x", "cuda:100", "cuda: 1", "mps", "cpu:0"}) {
    const Status checked = check_device_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, ErrorCode::kUsage);
    EXPECT_THAT(checked.error().message, HasSubstr(std::string("\"") + name + "\", expected cpu, cuda"));
  }
}

std::string refusal_of(const std::string& checkpoint, const BackendOptions& options) {
  const auto encoder = load_encoder(golden(checkpoint), options);
  if (encoder) return "loaded";
  EXPECT_EQ(encoder.error().code, ErrorCode::kUnsupported) << encoder.error().message;
  EXPECT_EQ(encoder.error().message.find('\n'), std::string::npos);
  return encoder.error().message;
}

TEST(Device, OtherFamiliesAreRefusedByName) {
  for (const auto& [checkpoint, family] :
       {std::pair("siglip", "siglip"), std::pair("blip2-itm", "blip-2"), std::pair("jina-clip", "jina_clip"),
        std::pair("align", "align")}) {
    EXPECT_THAT(
        refusal_of(checkpoint, {.device = "cuda"}),
        AllOf(HasSubstr("device cuda: family " + std::string(family) + " is encoded on the processor alone"),
              HasSubstr("family clip")))
        << checkpoint;
  }
  EXPECT_THAT(refusal_of("clip-resnet", {.device = "cuda"}), HasSubstr("convolutions (ResNet)"));
}

// A server and a training ask before they load, and take the processor instead.
TEST(Device, WhatRunsOnOneIsKnownWithoutIt) {
  EXPECT_TRUE(check_runs_on_device(golden("clip-gelu"), {.device = "cuda"}));
  EXPECT_TRUE(
      check_runs_on_device(golden("open_clip-gelu"), {.precision = Precision::kBf16, .device = "cuda"}));
  for (const char* name : {"siglip", "clip-resnet"}) {
    const Status runs = check_runs_on_device(golden(name), {.device = "cuda"});
    ASSERT_FALSE(runs) << name;
    EXPECT_EQ(runs.error().code, ErrorCode::kUnsupported);
  }
}

TEST(Device, Int8IsRefused) {
  EXPECT_THAT(
      refusal_of("clip-gelu", {.precision = Precision::kInt8, .device = "cuda:1"}),
      HasSubstr("device cuda:1: precision int8 is computed on the processor alone; use fp32 or bf16"));
}

TEST(Device, AnUnknownOneIsRefusedBeforeWeightsAreRead) {
  const auto encoder = load_encoder(golden("clip-gelu"), {.device = "tpu"});
  ASSERT_FALSE(encoder);
  EXPECT_EQ(encoder.error().code, ErrorCode::kUsage);
}

TEST(Device, TheProcessorIsTheDefaultAndIsNamed) {
  for (const BackendOptions& options : {BackendOptions{}, BackendOptions{.device = ""}}) {
    const auto encoder = load_encoder(golden("clip-gelu"), options);
    ASSERT_TRUE(encoder) << encoder.error().message;
    EXPECT_EQ((*encoder)->info().device, "cpu");
  }
}

}  // namespace
}  // namespace saccade

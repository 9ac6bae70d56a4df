#include "saccade/core/cpu.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <gtest/gtest.h>

namespace saccade {
namespace {

struct Kernel {
  std::string_view name;
  CpuLevel level;
};

TEST(Cpu, PortableKernelsRunEverywhereAndLevelsIncludeLowerOnes) {
  EXPECT_TRUE(cpu_has(CpuLevel::kPortable));
  const CpuLevel ladder[] = {CpuLevel::kAmx,    CpuLevel::kAvx512Bf16, CpuLevel::kAvx512Vnni,
                             CpuLevel::kAvx512, CpuLevel::kAvx2,       CpuLevel::kPortable};
  for (size_t i = 0; i + 1 < std::size(ladder); ++i) {
    EXPECT_TRUE(!cpu_has(ladder[i]) || cpu_has(ladder[i + 1])) << cpu_level_name(ladder[i]);
  }
  EXPECT_TRUE(!cpu_has(CpuLevel::kAvxVnni) || cpu_has(CpuLevel::kAvx2));
  EXPECT_TRUE(!cpu_has(CpuLevel::kI8mm) || cpu_has(CpuLevel::kDotProd));
  EXPECT_TRUE(!cpu_has(CpuLevel::kDotProd) || cpu_has(CpuLevel::kNeon));
}

TEST(Cpu, AFamilyIsWhatRunsHereInItsOrder) {
  EXPECT_FALSE(cpu_has(CpuLevel::kAvx2) && cpu_has(CpuLevel::kNeon));
  const auto kernels = kernels_for_cpu<Kernel>({{"fast", CpuLevel::kAmx}, {"slow", CpuLevel::kPortable}});
  ASSERT_EQ(kernels.size(), cpu_has(CpuLevel::kAmx) ? 2U : 1U);
  EXPECT_EQ(kernels.back().name, "slow");
}

#if defined(__x86_64__)
TEST(Cpu, WhatTheCompilerKnowsOfTheProcessorIsTheSame) {
  EXPECT_EQ(cpu_has(CpuLevel::kAvx512),
            __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                __builtin_cpu_supports("fma") != 0);
}
#elif defined(__aarch64__)
TEST(Cpu, LevelsAreWhatTheSystemSaysOfTheProcessor) {
  const bool dotprod = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  EXPECT_TRUE(cpu_has(CpuLevel::kNeon));
  EXPECT_EQ(cpu_has(CpuLevel::kDotProd), dotprod);
  EXPECT_EQ(cpu_has(CpuLevel::kI8mm), dotprod && (::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0);
}
#endif

TEST(Cpu, LevelsHaveNames) {
  EXPECT_EQ(cpu_level_name(CpuLevel::kPortable), "portable");
  EXPECT_EQ(cpu_level_name(CpuLevel::kAvx512Vnni), "avx512_vnni");
  EXPECT_EQ(cpu_level_name(CpuLevel::kAmx), "amx");
  EXPECT_EQ(cpu_level_name(CpuLevel::kNeon), "neon");
  EXPECT_EQ(cpu_level_name(CpuLevel::kI8mm), "i8mm");
}

}  // namespace
}  // namespace saccade

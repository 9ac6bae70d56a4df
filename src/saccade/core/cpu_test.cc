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

// A system that denies the tiles' registers, such as a container's filter of system calls, leaves the kernels of AVX-512.
TEST(Cpu, TilesThatTheSystemDeniesAreLeftOut) {
  constexpr auto kLevel = [](CpuLevel level) { return 1U << static_cast<unsigned>(level); };
  const uint32_t all = kLevel(CpuLevel::kPortable) | kLevel(CpuLevel::kAvx512Vnni) | kLevel(CpuLevel::kAmx);
  static int asked = 0;
  asked = 0;
  const auto deny = [] {
    ++asked;
    return false;
  };
  const auto grant = [] {
    ++asked;
    return true;
  };
  const auto names = [](const CpuLevels& levels) {
    std::vector<std::string_view> found;
    for (const Kernel& kernel : kernels_for_cpu<Kernel>({{"tiles", CpuLevel::kAmx},
                                                         {"vnni", CpuLevel::kAvx512Vnni},
                                                         {"bf16", CpuLevel::kAvx512Bf16},
                                                         {"portable", CpuLevel::kPortable}},
                                                        [&](CpuLevel level) { return levels.has(level); })) {
      found.push_back(kernel.name);
    }
    return found;
  };
  using Names = std::vector<std::string_view>;
  const CpuLevels denied(all, deny);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(names(denied), (Names{"vnni", "portable"}));
  EXPECT_EQ(names(denied), (Names{"vnni", "portable"}));
  EXPECT_EQ(asked, 1) << "the answer is kept";
  EXPECT_EQ(names(CpuLevels(all, grant)), (Names{"tiles", "vnni", "portable"}));
  EXPECT_EQ(asked, 2);
  // A processor without tiles is not asked for them.
  EXPECT_EQ(names(CpuLevels(all & ~kLevel(CpuLevel::kAmx), grant)), (Names{"vnni", "portable"}));
  EXPECT_EQ(asked, 2);
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

#include "saccade/core/cpu.h"

#include <array>
#include <cstdlib>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace saccade {
namespace {

constexpr std::array<std::string_view, 10> kNames = {
    "portable", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon", "dotprod", "i8mm"};

// Bits of the levels of this architecture.
constexpr uint32_t kArmLevels = 7U << static_cast<unsigned>(CpuLevel::kNeon);
#if defined(__aarch64__)
constexpr uint32_t kOwnLevels = 1U | kArmLevels;
#else
constexpr uint32_t kOwnLevels = ~kArmLevels;
#endif

#if defined(__x86_64__)
// Reads a bit of CPUID leaf 7, which __builtin_cpu_supports does not know in all compilers.
bool cpuid_bit(unsigned subleaf, char where, unsigned bit) {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, subleaf, &a, &b, &c, &d) == 0) return false;
  return ((where == 'a' ? a : d) >> bit & 1U) != 0;
}

// Reads the bit of F16C, which clang 14's __builtin_cpu_supports does not know.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#endif

// Linux grants the tiles' registers to a process that asks (Documentation/arch/x86/xstate.rst).
bool system_grants_tiles() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Returns a mask in which bit l is set if kernels of level l run here.
uint32_t detect() {
  uint32_t levels = 1;
  [[maybe_unused]] const auto add = [&levels](CpuLevel level) {
    levels |= 1U << static_cast<unsigned>(level);
  };
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
  if (!avx2) return levels;
  add(CpuLevel::kAvx2);
  if (cpuid_bit(1, 'a', 4)) add(CpuLevel::kAvxVnni);
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (!avx512) return levels;
  add(CpuLevel::kAvx512);
  if (__builtin_cpu_supports("avx512vnni") == 0) return levels;
  add(CpuLevel::kAvx512Vnni);
  if (!cpuid_bit(1, 'a', 5)) return levels;
  add(CpuLevel::kAvx512Bf16);
  // amx_bf16, amx_tile and amx_int8.
  if (cpuid_bit(0, 'd', 22) && cpuid_bit(0, 'd', 24) && cpuid_bit(0, 'd', 25)) add(CpuLevel::kAmx);
#elif defined(__aarch64__)
  add(CpuLevel::kNeon);
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return levels;
  add(CpuLevel::kDotProd);
#ifdef HWCAP2_I8MM  // not in headers of Linux before 5.10
  if ((::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) add(CpuLevel::kI8mm);
#endif
#endif
  return levels;
}

uint32_t wanted() {
  const uint32_t levels = detect();
  const char* named = std::getenv("SACCADE_CPU");
  if (named == nullptr) return levels;
  for (size_t level = 0; level < kNames.size(); ++level) {
    const bool own = (kOwnLevels >> level & 1U) != 0;
    if (own && kNames[level] == named) return levels & ((2U << level) - 1);
  }
  return levels;
}

}  // namespace

std::string_view cpu_level_name(CpuLevel level) {
  return kNames[static_cast<size_t>(level)];
}

bool CpuLevels::has(CpuLevel level) const {
  if ((levels_ >> static_cast<unsigned>(level) & 1U) == 0) return false;
  if (level != CpuLevel::kAmx) return true;
  std::call_once(asked_, [this] { granted_ = grants_tiles_(); });
  return granted_;
}

bool cpu_has(CpuLevel level) {
  static const CpuLevels kLevels(wanted(), system_grants_tiles);
  return kLevels.has(level);
}

}  // namespace saccade

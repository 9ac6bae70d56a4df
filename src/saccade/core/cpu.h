// Instruction sets of this processor: every kernel family chooses by this one list at run time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <vector>

namespace saccade {

// Sets of instructions that kernels are written for. Each x86-64 set but kAvxVnni includes the ones before it, and so
// does each arm64 set.
enum class CpuLevel : uint8_t {
  kPortable,    // plain C++
  kAvx2,        // AVX2, FMA and F16C
  kAvxVnni,     // AVX2 with 8-bit dot products (VEX encoded), on processors without AVX-512 too
  kAvx512,      // AVX-512 F, BW, DQ and VL
  kAvx512Vnni,  // and 8-bit dot products
  kAvx512Bf16,  // and bfloat16 dot products
  kAmx,         // and tiles of 8-bit integers and bfloat16, which the system has granted to this process
  kNeon,        // arm64: NEON, which every processor has
  kDotProd,     // and 8-bit dot products
  kI8mm,        // and products of 8-bit matrices
};

// Compiles a function for an arm64 set. Undefined where the compiler has no such attribute (clang before 16): kernels
// for these sets are then left out.
#if defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16)
#define SACCADE_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#define SACCADE_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#endif

// Returns the name of a level: "portable", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon",
// "dotprod", "i8mm".
std::string_view cpu_level_name(CpuLevel level);

// Levels that a process may use. Thread-safe.
class CpuLevels {
 public:
  // levels: bit l is set if the processor runs kernels of level l. grants_tiles: asks the system for the registers of kAmx.
  // The first call of has(kAmx) calls it, and its answer is kept.
  CpuLevels(uint32_t levels, bool (*grants_tiles)()) : levels_(levels), grants_tiles_(grants_tiles) {}
  // Returns true if the processor runs kernels of that level and the system grants what they need.
  [[nodiscard]] bool has(CpuLevel level) const;

 private:
  uint32_t levels_;
  bool (*grants_tiles_)();
  mutable std::once_flag asked_;
  mutable bool granted_ = false;
};

// Returns true if this processor runs kernels of that level, and the environment variable SACCADE_CPU, which names the
// highest level to use, does not forbid it. A level of another architecture forbids nothing. Cost: a look-up; thread-safe.
bool cpu_has(CpuLevel level);

// Returns the kernels of a family that this processor runs, in the order given, which is fastest first. `Kernel` has
// members `name` and `level`. has: tells which levels there are; of another processor in tests.
template <typename Kernel, typename Has = bool (*)(CpuLevel)>
std::vector<Kernel> kernels_for_cpu(std::initializer_list<Kernel> family, const Has& has = cpu_has) {
  std::vector<Kernel> runnable;
  for (const Kernel& kernel : family) {
    if (has(kernel.level)) runnable.push_back(kernel);
  }
  return runnable;
}

}  // namespace saccade

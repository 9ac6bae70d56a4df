// Macro for a loop that must be unrolled because its operands live in registers. Internal to this module.
#pragma once

#if defined(__clang__)
#define SACCADE_UNROLL _Pragma("unroll")
#else
#define SACCADE_UNROLL _Pragma("GCC unroll 16")
#endif

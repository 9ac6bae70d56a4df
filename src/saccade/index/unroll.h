// A loop that must be unrolled, because what it runs over lives in registers;
// not for use outside this module.
#pragma once

#if defined(__clang__)
#define SACCADE_UNROLL _Pragma("unroll")
#else
#define SACCADE_UNROLL _Pragma("GCC unroll 16")
#endif

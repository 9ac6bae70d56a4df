// Declarations shared by the fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Runs one input; libFuzzer and replay_main.cc call it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Checks a property of the answer in every build: a fuzzer that only waits for crashes finds little.
#define FUZZ_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

// Declarations shared by the fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "saccade/core/random.h"

// Runs one input. Each fuzzer defines it; fuzz_entry.cc calls it.
int fuzz_input(const uint8_t* data, size_t size);

// Changes an input in a way that its format allows, if a fuzzer defines it: libFuzzer's own changes, of bytes, are made
// beside it. What is longer than libFuzzer wants is cut off. Must be a function of its arguments alone.
[[gnu::weak]] std::string fuzz_mutate(std::string input, saccade::SplitMix& random);

// Checks a property of the answer in every build: a fuzzer that only waits for crashes finds little.
#define FUZZ_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

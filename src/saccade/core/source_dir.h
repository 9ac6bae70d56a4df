// For tests, benchmarks and fuzzers: the folder of the source tree they were built from. A constant of
// one small file rather than a definition for all: a path in a command line is one that no other
// clone's compiler cache can answer.
#pragma once

namespace saccade::test {

extern const char* const kSourceDir;

}  // namespace saccade::test

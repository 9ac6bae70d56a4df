// Folder of the source tree, for tests, benchmarks and fuzzers built from it. It is a constant in one small
// file rather than a global definition, because a path in a compiler command line defeats compiler caches
// shared between clones.
#pragma once

namespace saccade::test {

extern const char* const kSourceDir;

}  // namespace saccade::test

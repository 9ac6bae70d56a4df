// Simulates a lack of memory in the tests of core.
#pragma once

#include <cstdint>

namespace saccade::test {

// Number of further allocations granted to the thread; -1 means unlimited. Defined with the operators that count them.
extern thread_local int64_t allocations_left;

}  // namespace saccade::test

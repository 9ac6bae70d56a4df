// What libFuzzer calls (https://llvm.org/docs/LibFuzzer.html), and in other builds replay_main.cc: runs an input, and looks
// for slow ones where SACCADE_FUZZ_SLOW=MILLISECONDS:NANOSECONDS is set. An input is too slow then if it takes more time of the
// processor than so many milliseconds and so many nanoseconds a byte, three times in a row. How long an input took for its
// length counts as coverage, so that libFuzzer looks for slower ones.
#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>

#include "fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

struct SlowBound {
  double constant = 0;  // nanoseconds; 0: nobody asks
  double per_byte = 0;
};

SlowBound slow_bound() {
  SlowBound bound;
  const char* text = std::getenv("SACCADE_FUZZ_SLOW");
  if (text == nullptr || *text == '\0') return bound;
  if (std::sscanf(text, "%lf:%lf", &bound.constant, &bound.per_byte) != 2) {
    std::fprintf(stderr, "SACCADE_FUZZ_SLOW is MILLISECONDS:NANOSECONDS, not \"%s\"\n", text);
    std::exit(2);
  }
  bound.constant *= 1e6;
  return bound;
}

double processor_nanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Read by libFuzzer as coverage.
[[gnu::section("__libfuzzer_extra_counters"), gnu::used]] uint8_t slow_counters[64];

double timed(const uint8_t* data, size_t size) {
  const double before = processor_nanoseconds();
  fuzz_input(data, size);
  return processor_nanoseconds() - before;
}

void look_for_slow(const SlowBound& bound, const uint8_t* data, size_t size) {
  const double allowed = bound.constant + bound.per_byte * static_cast<double>(size);
  double took = timed(data, size);
  // 1 for 1/32 of what is allowed, doubled with each counter.
  const auto share = static_cast<uint64_t>(took * 32 / allowed);
  slow_counters[std::min<size_t>(std::bit_width(share), std::size(slow_counters) - 1)] = 1;
  for (int again = 0; again < 2 && took > allowed; ++again) took = std::min(took, timed(data, size));
  if (took <= allowed) return;
  std::fprintf(stderr, "too slow: %zu bytes took %.1f ms, allowed are %.1f\n", size, took / 1e6,
               allowed / 1e6);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SlowBound bound = slow_bound();
  if (bound.constant > 0) {
    look_for_slow(bound, data, size);
  } else {
    fuzz_input(data, size);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  saccade::SplitMix random(seed);
  if (fuzz_mutate == nullptr || random.below(4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string changed = fuzz_mutate(std::string(reinterpret_cast<const char*>(data), size), random);
  changed.resize(std::min(changed.size(), max_size));
  if (changed.empty()) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

// Replays a fuzzer's corpus: every file of the named folders, ordered by name. An empty or missing corpus is
// a failure, since it would always pass.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <malloc.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/files/files.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

// In libFuzzer's place: a few bytes are changed, doubled or left out.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  saccade::SplitMix random(size == 0 ? 1 : size * 257 + data[size / 2]);
  const auto place = [&] { return size == 0 ? 0 : random.below(static_cast<uint32_t>(size)); };
  for (int i = 0; i < 3 && size > 0; ++i) data[place()] ^= static_cast<uint8_t>(1U << random.below(8));
  if (random.below(2) == 0 && size > 1) {
    const size_t at = place();
    std::copy(data + at + 1, data + size, data + at);
    return size - 1;
  }
  if (size < max_size) data[size++] = static_cast<uint8_t>(random.below(256));
  return size;
}

namespace {

constexpr int kChanges = 25;  // of each file
constexpr size_t kMostBytes = 1 << 16;

void run(std::string_view input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Each change is one of the input before, so that they go farther and farther from the file.
void run_changes(const std::string& input) {
  std::string changed = input;
  for (unsigned int seed = 1; seed <= kChanges; ++seed) {
    if (changed.size() > kMostBytes) return;
    const size_t size = changed.size();
    changed.resize(kMostBytes);
    changed.resize(
        LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t*>(changed.data()), size, kMostBytes, seed));
    run(changed);
  }
}

double milliseconds_of(std::string_view input) {
  timespec before{};
  timespec after{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  run(input);
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  return static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
         static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e6;
}

// One piece of an input so often that the whole has so many bytes.
std::string stretched(const std::string& input, size_t begin, size_t length, size_t bytes) {
  const std::string piece = input.substr(begin, length);
  std::string text = input.substr(0, begin);
  while (text.size() + input.size() < bytes) text += piece;
  return text + input.substr(begin);
}

// Four times the length may take eight times as long (four, and what caches and measuring add), where it takes long
// enough to be measured at all. False, with the input's description, where it takes more.
bool grows_as_it_should(const std::filesystem::path& file, const std::string& input, size_t begin,
                        size_t length) {
  constexpr size_t kLong = 1 << 18;
  constexpr double kShortMilliseconds = 60;
  double long_one = milliseconds_of(stretched(input, begin, length, kLong));
  if (long_one < kShortMilliseconds) return true;
  double short_one = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    short_one = milliseconds_of(stretched(input, begin, length, kLong / 4));
    if (attempt > 0) long_one = std::min(long_one, milliseconds_of(stretched(input, begin, length, kLong)));
    if (long_one < 8 * short_one) return true;
  }
  std::fprintf(
      stderr,
      "%s with bytes %zu to %zu repeated: %zu bytes take %.1f ms, a quarter of them %.1f: time grows faster "
      "than length\n",
      file.c_str(), begin, begin + length, kLong, long_one, short_one);
  return false;
}

// Pieces of different lengths at places spread over the input; one sign alone is the most telling. The first that takes too
// long is enough: others like it would take hours.
bool grows_as_it_should(const std::filesystem::path& file, const std::string& input) {
  saccade::SplitMix random(input.size());
  for (int i = 0; i < 12 && !input.empty(); ++i) {
    const size_t begin = random.below(static_cast<uint32_t>(input.size()));
    const size_t length = 1 + (i % 2 == 0 ? 0 : random.below(12));
    if (!grows_as_it_should(file, input, begin, std::min(length, input.size() - begin))) return false;
  }
  return true;
}

std::optional<std::vector<std::filesystem::path>> files_of(int argc, char** argv, int first) {
  std::vector<std::filesystem::path> files;
  for (int i = first; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error))
      files.push_back(entry.path());
    if (error) std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
  }
  if (files.empty()) {
    std::fprintf(stderr, "nothing to replay\n");
    return std::nullopt;
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const bool growth = argc > 1 && std::string_view(argv[1]) == "--growth";
  const auto files = files_of(argc, argv, growth ? 2 : 1);
  if (!files) return 1;
  // The allocator keeps what is freed: the cost of new pages would count against long inputs alone.
  if (growth) {
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }
  for (const auto& file : *files) {
    const auto content = saccade::read_file(file);
    if (!content) {
      std::fprintf(stderr, "%s\n", content.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", file.c_str());  // the last one printed is the one that crashed
    std::fflush(stdout);
    if (growth) {
      if (!grows_as_it_should(file, *content)) return 1;
    } else {
      run(*content);
      run_changes(*content);
    }
  }
  return 0;
}

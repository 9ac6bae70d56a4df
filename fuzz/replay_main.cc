// Replays a fuzzer's corpus: every file of the named folders, ordered by name. An empty or missing corpus is
// a failure, since it would always pass.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/files/files.h"

#include "fuzz.h"

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error))
      files.push_back(entry.path());
    if (error) std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const auto content = saccade::read_file(file);
    if (!content) {
      std::fprintf(stderr, "%s\n", content.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", file.c_str());  // the last one printed is the one that crashed
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content->data()), content->size());
  }
  if (files.empty()) std::fprintf(stderr, "nothing to replay\n");
  return files.empty() ? 1 : 0;
}

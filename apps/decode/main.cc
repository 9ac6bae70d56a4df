// saccade-decode: the process in which pictures are decoded, started by saccade (image/decode/process/decoder_process.h).
#include <cstdio>
#include <exception>
#include <string>
#include <unistd.h>
#include <vector>

#include "saccade/image/decode/process/decoder_process.h"

int main(int argc, char** argv) {
  try {
    std::string problem;
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    saccade::DecoderReaders readers{.facts = saccade::read_facts};
#ifdef SACCADE_HAS_RAW
    readers.raw = saccade::read_raw;
#endif
    const int code = saccade::run_decoder_process(arguments, readers, problem);
    if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
    ::_exit(code);  // libvips' closing down is of no use any more
  } catch (const std::exception& error) {
    std::fprintf(stderr, "saccade-decode: %s\n", error.what());
  }
  ::_exit(1);
}

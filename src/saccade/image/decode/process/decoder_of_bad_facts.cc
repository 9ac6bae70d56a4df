// A decoder for tests, whose reader of facts does what the picture's bytes say: "ends" or "spins".
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "saccade/image/decode/process/decoder_process.h"

int main(int argc, char** argv) {
  const saccade::DecoderReaders readers{.facts = [](std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.find("ends") != std::string_view::npos) std::abort();
    volatile bool spins = text.find("spins") != std::string_view::npos;
    while (spins) {
    }
    saccade::PictureFacts facts;
    facts.title = "read";
    return facts;
  }};
  std::string problem;
  ::_exit(saccade::run_decoder_process(std::vector<std::string>(argv + 1, argv + argc), readers, problem));
}

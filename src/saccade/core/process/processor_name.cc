#include "saccade/core/process/processor_name.h"

#include <cstdint>

#include "saccade/core/files/files.h"

namespace saccade {

std::string processor_name() {
  const auto text = read_file("/proc/cpuinfo", int64_t{64} << 20);
  if (!text) return {};
  const size_t line = text->find("model name");
  if (line == std::string::npos) return {};
  const size_t colon = text->find(':', line);
  const size_t end = text->find('\n', line);
  if (colon == std::string::npos || end == std::string::npos || colon + 2 > end) return {};
  return text->substr(colon + 2, end - colon - 2);
}

}  // namespace saccade

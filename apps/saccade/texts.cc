#include "texts.h"

#include <algorithm>

#include "saccade/core/files.h"

namespace saccade::app {

Result<std::vector<std::string>> read_texts(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const std::string text, read_file(path));
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    texts.push_back(std::move(line));
    begin = end + 1;
  }
  if (texts.empty()) return fail(ErrorCode::kBadData, "{} is empty, expected a text a line", path.string());
  return texts;
}

}  // namespace saccade::app

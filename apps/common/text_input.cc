#include "text_input.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "saccade/core/files/files.h"

namespace saccade::app {

Result<std::vector<std::string>> read_texts(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  SACCADE_ASSIGN(const std::string text, path == "-" ? read_stdin(kMostBytes) : read_file(path));
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    texts.push_back(std::move(line));
    begin = end + 1;
  }
  if (texts.empty())
    return fail(ErrorCode::kBadData, "{} is empty, expected a text a line",
                path == "-" ? "standard input" : path.string());
  return texts;
}

namespace {

// 0 at the end.
Result<size_t> read_some(int file, const std::string& name, std::vector<char>& block) {
  for (;;) {
    const ssize_t got = ::read(file, block.data(), block.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return fail_errno(errno, "read " + name);
  }
}

// Returns true if a read will not wait.
bool is_readable(int file) {
  pollfd watched{file, POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

}  // namespace

Result<std::string> read_stdin(int64_t most_bytes) {
  std::string text;
  std::vector<char> block(1 << 16);
  for (;;) {
    SACCADE_ASSIGN(const size_t got, read_some(STDIN_FILENO, "standard input", block));
    if (got == 0) return text;
    text.append(block.data(), got);
    if (std::ssize(text) > most_bytes) {
      return fail(ErrorCode::kLimit, "standard input has more than {} bytes", most_bytes);
    }
  }
}

Result<LineSource> LineSource::open(const std::filesystem::path& path) {
  if (path == "-") return LineSource(std::make_shared<const int>(STDIN_FILENO), "standard input");
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail_errno(errno, path.string());
  return LineSource(std::shared_ptr<const int>(new int(file),
                                               [](const int* held) {
                                                 ::close(*held);
                                                 delete held;
                                               }),
                    path.string());
}

std::optional<std::string> LineSource::take_line() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos && (!ended_ || buffer_.empty())) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

Result<std::vector<std::string>> LineSource::next_lines(size_t most) {
  constexpr size_t kLongest = size_t{1} << 20;
  std::vector<char> block(1 << 16);
  std::vector<std::string> lines;
  for (;;) {
    while (lines.size() < most) {
      std::optional<std::string> line = take_line();
      if (!line) break;
      lines.push_back(*std::move(line));
    }
    if (lines.size() == most || ended_) return lines;
    // An error behind lines is met again by the next call.
    const bool too_long = buffer_.size() > kLongest;
    if (!lines.empty() && (too_long || !is_readable(*file_))) return lines;
    if (too_long) return fail(ErrorCode::kLimit, "{}: a line of more than {} bytes", name_, kLongest);
    const auto got = read_some(*file_, name_, block);
    if (!got && !lines.empty()) return lines;
    if (!got) return fail(got.error());
    buffer_.append(block.data(), *got);
    ended_ = *got == 0;
  }
}

}  // namespace saccade::app

#include "text_input.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "saccade/core/ascii.h"

namespace saccade::app {

namespace {

std::string name_of(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

// A descriptor of standard input for "-", else of the file, pipe or device.
Result<std::shared_ptr<const int>> open_input(const std::filesystem::path& path) {
  if (path == "-") return std::make_shared<const int>(STDIN_FILENO);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail_errno(errno, path.string());
  std::shared_ptr<const int> held(new int(file), [](const int* number) {
    ::close(*number);
    delete number;
  });
  struct stat info {};
  if (::fstat(file, &info) != 0) return fail_errno(errno, path.string());
  if (S_ISDIR(info.st_mode)) return fail(ErrorCode::kBadData, "{}: a folder, not a file", path.string());
  return held;
}

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

Result<std::string> read_input(const std::filesystem::path& path, int64_t most_bytes) {
  SACCADE_ASSIGN(const std::shared_ptr<const int> file, open_input(path));
  const std::string name = name_of(path);
  std::string text;
  std::vector<char> block(1 << 16);
  for (;;) {
    SACCADE_ASSIGN(const size_t got, read_some(*file, name, block));
    if (got == 0) return text;
    text.append(block.data(), got);
    if (std::ssize(text) > most_bytes) {
      return fail(ErrorCode::kLimit, "{} has more than {} bytes", name, most_bytes);
    }
  }
}

Result<std::vector<std::string>> read_texts(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  SACCADE_ASSIGN(std::string text, read_input(path, kMostBytes));
  if (const size_t nul = text.find('\0'); nul != std::string::npos) {
    return fail(ErrorCode::kBadData,
                "{}: byte {} is NUL, as in a binary file or in UTF-16; expected lines of UTF-8",
                name_of(path), nul);
  }
  std::vector<std::string> texts;
  for (std::string_view line : Lines(without_byte_order_mark(text))) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    texts.emplace_back(line);
  }
  if (texts.empty()) return fail(ErrorCode::kBadData, "{} is empty, expected a text a line", name_of(path));
  return texts;
}

Result<LineSource> LineSource::open(const std::filesystem::path& path) {
  SACCADE_ASSIGN(std::shared_ptr<const int> file, open_input(path));
  return LineSource(std::move(file), name_of(path));
}

std::optional<std::string> LineSource::take_line() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos && (!ended_ || buffer_.empty())) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (std::exchange(first_, false)) line = std::string(without_byte_order_mark(line));
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

#include "print/terminal.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <span>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"

#include "print/sixel.h"

namespace saccade::app {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the protocol that the environment names; `nullopt` if it names none.
std::optional<PictureProtocol> protocol_from_environment() {
  const std::string program = variable("TERM_PROGRAM");
  // Inside tmux and screen neither reaches the terminal; of sixels tmux speaks for itself.
  if (variable("TERM").starts_with("screen") && variable("TMUX").empty()) return PictureProtocol::kOff;
  if (!variable("TMUX").empty()) return std::nullopt;
  if (!variable("KITTY_WINDOW_ID").empty() || variable("TERM") == "xterm-kitty" || program == "ghostty") {
    return PictureProtocol::kKitty;
  }
  if (program == "iTerm.app" || program == "WezTerm" || variable("LC_TERMINAL") == "iTerm2") {
    return PictureProtocol::kIterm2;
  }
  return std::nullopt;
}

// The terminal's answer to "what are you?" (DA1, https://vt100.net/docs/vt510-rm/DA1.html):
// "\x1b[?62;4;22c", where 4 is for sixels. Empty where none comes in time, and where something was typed
// ahead, which belongs to somebody else.
std::string device_attributes() {
  constexpr int kMostMilliseconds = 500;
  const Descriptor terminal(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  // A background job that changes the terminal's mode is stopped for it.
  if (terminal.get() < 0 || tcgetpgrp(terminal.get()) != getpgrp()) return {};
  int waiting = 0;
  termios before{};
  if (ioctl(terminal.get(), FIONREAD, &waiting) != 0 || waiting > 0) return {};
  if (tcgetattr(terminal.get(), &before) != 0) return {};
  termios plain = before;
  plain.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  plain.c_cc[VMIN] = 0;
  plain.c_cc[VTIME] = 0;
  if (tcsetattr(terminal.get(), TCSANOW, &plain) != 0) return {};
  constexpr std::string_view kQuestion = "\x1b[c";
  std::string answer;
  if (::write(terminal.get(), kQuestion.data(), kQuestion.size()) == static_cast<ssize_t>(kQuestion.size())) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kMostMilliseconds);
    while (!answer.ends_with('c') && answer.size() < 100) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ready{terminal.get(), POLLIN, 0};
      char c = 0;
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0 ||
          ::read(terminal.get(), &c, 1) != 1) {
        break;
      }
      answer += c;
    }
  }
  tcsetattr(terminal.get(), TCSANOW, &before);
  return answer;
}

bool draws_sixels() {
  const std::string answer = device_attributes();
  constexpr std::string_view kBegin = "\x1b[?";
  if (!answer.starts_with(kBegin) || !answer.ends_with('c')) return false;
  const std::string attributes = ";" + answer.substr(kBegin.size(), answer.size() - kBegin.size() - 1) + ";";
  // The first says what kind of terminal it is: 4 is none of those that draw.
  return attributes.find(";4;", 1) != std::string::npos;
}

// Encodes a path for a file: URI (RFC 3986). All other characters become %XX, so that no name ends the
// sequence.
std::string uri_path(std::string_view path) {
  return percent_encoded(path, "/");
}

}  // namespace

std::span<const EnumName<PictureProtocol>> enum_names(PictureProtocol) {
  static constexpr std::array<EnumName<PictureProtocol>, 4> kWords{{{PictureProtocol::kOff, "off"},
                                                                    {PictureProtocol::kKitty, "kitty"},
                                                                    {PictureProtocol::kIterm2, "iterm2"},
                                                                    {PictureProtocol::kSixel, "sixel"}}};
  return kWords;
}

Terminal terminal_of_output(std::optional<PictureProtocol> chosen) {
  const std::string term = variable("TERM");
  Terminal terminal;
  if (isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb") {
    terminal.colour = variable("NO_COLOR").empty();
    terminal.links = true;
    if (!chosen) chosen = protocol_from_environment();
    if (!chosen)
      chosen = has_sixel_library() && draws_sixels() ? PictureProtocol::kSixel : PictureProtocol::kOff;
  }
  terminal.pictures = chosen.value_or(PictureProtocol::kOff);
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_ypixel >= 4 * size.ws_row) {
    terminal.line_height = size.ws_ypixel / size.ws_row;
  }
  return terminal;
}

std::string dimmed(std::string_view text, const Terminal& terminal) {
  return terminal.colour && !text.empty() ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::string bold(std::string_view text, const Terminal& terminal) {
  return terminal.colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string file_link(std::string_view shown, std::string_view path, const Terminal& terminal) {
  if (!terminal.links) return std::string(shown);
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("\x1b]8;;file://{}{}\x1b\\{}\x1b]8;;\x1b\\", uri_path(host.data()), uri_path(path),
                     shown);
}

std::string inline_picture(std::string_view bytes, int rows, PictureProtocol protocol) {
  const std::string encoded = encode_base64(bytes);
  if (protocol == PictureProtocol::kIterm2) {
    return fmt::format("\x1b]1337;File=inline=1;size={};height={};preserveAspectRatio=1:{}\x07\n",
                       bytes.size(), rows, encoded);
  }
  // a=T: show it; f=100: a PNG; q=2: answer nothing; in parts of 4096 bytes at most, m=1 where more come.
  constexpr size_t kPart = 4096;
  std::string text;
  for (size_t at = 0; at < encoded.size(); at += kPart) {
    const bool more = at + kPart < encoded.size();
    text += fmt::format("\x1b_G{}m={};{}\x1b\\", at == 0 ? fmt::format("a=T,f=100,q=2,r={},", rows) : "q=2,",
                        more ? 1 : 0, std::string_view(encoded).substr(at, kPart));
  }
  return text + "\n";
}

}  // namespace saccade::app

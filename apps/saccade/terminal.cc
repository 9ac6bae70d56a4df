#include "terminal.h"

#include <array>
#include <cstdlib>
#include <span>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/base64.h"

namespace saccade::app {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

PictureProtocol protocol_from_environment() {
  const std::string program = variable("TERM_PROGRAM");
  // Inside tmux and screen neither reaches the terminal.
  if (!variable("TMUX").empty() || variable("TERM").starts_with("screen")) return PictureProtocol::kOff;
  if (!variable("KITTY_WINDOW_ID").empty() || variable("TERM") == "xterm-kitty" || program == "ghostty") {
    return PictureProtocol::kKitty;
  }
  if (program == "iTerm.app" || program == "WezTerm" || variable("LC_TERMINAL") == "iTerm2") {
    return PictureProtocol::kIterm2;
  }
  return PictureProtocol::kOff;
}

// What may stand in a file: URI as it is (RFC 3986); all else as %XX, so that no name ends the sequence.
std::string uri_path(std::string_view path) {
  std::string uri;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

}  // namespace

std::span<const EnumWord<PictureProtocol>> enum_words(PictureProtocol) {
  static constexpr std::array<EnumWord<PictureProtocol>, 3> kWords{{{PictureProtocol::kOff, "off"},
                                                                    {PictureProtocol::kKitty, "kitty"},
                                                                    {PictureProtocol::kIterm2, "iterm2"}}};
  return kWords;
}

Terminal terminal_of_output() {
  const std::string term = variable("TERM");
  if (isatty(STDOUT_FILENO) != 1 || term.empty() || term == "dumb") return {};
  return {.colour = variable("NO_COLOR").empty(), .links = true, .pictures = protocol_from_environment()};
}

std::string dimmed(std::string_view text, const Terminal& terminal) {
  return terminal.colour ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
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

#include "saccade/serve/http/passed_socket.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace saccade::serve {

Result<PassedSocket> listening_socket(int socket) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    return fail(ErrorCode::kUsage, "descriptor {} is no socket that listens", socket);
  }
  sockaddr_storage address = {};
  size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return fail_errno(errno, fmt::format("descriptor {}", socket));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  PassedSocket found;
  found.socket = socket;
  if (address.ss_family == AF_INET) {
    sockaddr_in four = {};
    std::memcpy(&four, &address, sizeof(four));
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    found.port = ntohs(four.sin_port);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 six = {};
    std::memcpy(&six, &address, sizeof(six));
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    found.port = ntohs(six.sin6_port);
  } else {
    return fail(ErrorCode::kUsage, "descriptor {} is no socket of TCP", socket);
  }
  found.address = text.data();
  return found;
}

Result<std::optional<PassedSocket>> passed_socket() {
  constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): said above
    return std::string(value == nullptr ? "" : value);
  };
  const std::string process = variable("LISTEN_PID");
  const std::string count = variable("LISTEN_FDS");
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  // Meant for another process, whose environment this one has.
  if (count.empty() || process != std::to_string(::getpid())) return std::nullopt;
  if (count != "1") return fail(ErrorCode::kUsage, "{} sockets were passed, expected one", count);
  SACCADE_ASSIGN(PassedSocket passed, listening_socket(kFirst).in("the socket that was passed"));
  ::fcntl(kFirst, F_SETFD, FD_CLOEXEC);
  return passed;
}

}  // namespace saccade::serve

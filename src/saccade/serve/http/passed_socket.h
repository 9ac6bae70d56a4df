// Socket that a service manager has opened for this process, by systemd's protocol (sd_listen_fds(3)).
// Connections wait rather than fail while the server starts, and a port below 1024 requires no privileges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "saccade/core/error.h"

namespace saccade::serve {

struct PassedSocket {
  int socket = -1;
  std::string address;  // as HttpServerOptions has it
  uint16_t port = 0;
};

// Returns the properties of a listening socket. kUsage for a descriptor that is no TCP socket.
Result<PassedSocket> listening_socket(int socket);

// Returns the socket that LISTEN_FDS passed to this process; `nullopt` if there is none. Removes LISTEN_*
// from the environment, and marks the socket to be closed in child programs. kUsage for several, and as
// above. Must not be called while other threads read the environment.
Result<std::optional<PassedSocket>> passed_socket();

}  // namespace saccade::serve

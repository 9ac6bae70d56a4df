// File descriptors of a server: how many connections and workers a process may have with those that it gets.
#pragma once

#include <cstdint>

#include "saccade/core/error.h"
#include "saccade/serve/http/http_server.h"

namespace saccade::serve {

// Returns the maximum number of descriptors that a server uses. Each connection needs a socket and a file
// that is sent. Each refused connection needs a socket. Files that workers open are added.
int64_t wanted_descriptors(const HttpServerOptions& options);

// Lowers connections, refusals and workers until `free` descriptors suffice for them. This includes files
// that workers open, which must succeed at any number of connections. kLimit if there are too few for any.
Status fit_to_descriptors(int64_t free, HttpServerOptions& options);

// Returns the number of descriptors that this process has open; 0 where the system does not say.
int64_t open_descriptors();

}  // namespace saccade::serve

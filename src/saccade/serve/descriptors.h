// File descriptors of a server: how many connections and workers a process may have with those that it gets.
#pragma once

#include <cstdint>

#include "saccade/core/error.h"
#include "saccade/serve/http/http_server.h"

namespace saccade::serve {

// Returns the number of descriptors that a server takes at most: for each connection a socket and a file that
// is sent, for each connection that is refused a socket, and those of files that workers open.
int64_t wanted_descriptors(const HttpServerOptions& options);

// Lowers connections, refusals and workers until `free` descriptors are enough for them, files that workers
// open included: these must open whatever connections there are. kLimit where there are too few for any.
Status fit_to_descriptors(int64_t free, HttpServerOptions& options);

// Returns the number of descriptors that this process has open; 0 where the system does not say.
int64_t open_descriptors();

}  // namespace saccade::serve

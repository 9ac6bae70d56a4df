// Fetches a URL that somebody else chose, such as a client or a table of images.
//
// The caller resolves and permits each host, and the connection uses only the addresses that it returned, so a
// name cannot change between check and use. Redirects are followed one by one, each permitted like the first
// URL. No credentials, cookies or proxies of the environment are used.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/hub/http_client.h"

namespace saccade::hub {

struct GuardedFetch {
  int64_t max_bytes = int64_t{64} << 20;  // maximum size of an answer
  double seconds = 10;                    // time limit of a fetch, redirects included
  int redirects = 3;                      // maximum number of redirects
  // Returns the IP addresses of a URL's host that may be connected to, all of them checked, or the reason why
  // it is not fetched. Only http and https URLs without a user and a zone come here.
  std::function<Result<std::vector<std::string>>(const UrlParts& url)> permit;
  // Waits for the turn of a redirect's request, within a limit of requests per second. The time does not count
  // against `seconds`. May be empty.
  std::function<Status()> before_redirect = {};
};

// Fetches a URL and returns the first answer that is no redirect, of any status. Errors: kBadData for an
// invalid URL or a broken answer; kUnsupported for a URL that is not permitted and for too many redirects;
// kLimit for an answer that is too large or too late; kCancelled after a stop request. Thread-safe if the
// functions of `fetch` are.
HttpResult fetch_guarded(std::string url, const GuardedFetch& fetch, const std::stop_token& stop);

// Returns the IP addresses of a host by the system's resolver, as text. Blocks, and cannot be stopped.
// kBadData if none is known; kIo if the resolver failed for now.
Result<std::vector<std::string>> resolve_host(const std::string& host);

}  // namespace saccade::hub

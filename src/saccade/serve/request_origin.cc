#include "saccade/serve/request_origin.h"

#include <string>

#include "saccade/core/ascii.h"
#include "saccade/hub/address_range.h"

namespace saccade::serve {
namespace {

struct HostAndPort {
  std::string host;  // in lower case; an address of IPv6 in its brackets
  std::string port;  // empty if it is not said

  bool operator==(const HostAndPort&) const = default;
};

HostAndPort host_and_port(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return {lower_ascii(text), ""};
  return {lower_ascii(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

// Compares an Origin header, "https://host:port", with the Host header. A port that is not said is the
// scheme's own, in both: a proxy with TLS may stand between, so that the origin's scheme is the one that counts.
bool is_own_origin(std::string_view origin, std::string_view host) {
  const size_t slashes = origin.find("://");
  if (slashes == std::string_view::npos || host.empty()) return false;  // "null" is sent by sandboxed pages
  const std::string scheme = lower_ascii(origin.substr(0, slashes));
  const std::string_view usual = scheme == "https" ? "443" : scheme == "http" ? "80" : "";
  HostAndPort from = host_and_port(origin.substr(slashes + 3));
  HostAndPort own = host_and_port(host);
  for (HostAndPort* side : {&from, &own}) {
    if (side->port.empty()) side->port = usual;
  }
  return from == own;
}

}  // namespace

bool names_loopback(std::string_view host) {
  std::string name = host_and_port(host).host;
  if (name == "localhost") return true;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  return hub::is_loopback(name);
}

bool is_of_another_page(const HttpRequest& request, bool opened_by_link) {
  if (const auto site = request.header("sec-fetch-site")) {
    if (*site == "same-origin" || *site == "none") return false;
    const bool reads = request.method == "GET" || request.method == "HEAD";
    return !(opened_by_link && reads && request.header("sec-fetch-mode") == "navigate" &&
             request.header("sec-fetch-dest") == "document");
  }
  const auto origin = request.header("origin");
  return origin && !is_own_origin(*origin, request.header("host").value_or(""));
}

}  // namespace saccade::serve

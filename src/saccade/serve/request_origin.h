// Checks against web pages of other sites: a browser sends requests for every page it shows, and this server
// may be reachable only from that browser's machine or network.
#pragma once

#include <string_view>

#include "saccade/serve/http/http.h"

namespace saccade::serve {

// Returns true if a Host header ("localhost:7700", "[::1]", "127.0.0.1") names this machine's loopback
// interface. Another name may have been pointed here by a page of another site (DNS rebinding).
bool names_loopback(std::string_view host);

// Returns true if a browser sent the request for a page of another site, by Sec-Fetch-Site, or by Origin
// where that is missing. Sec-Fetch-Site is sent to https addresses and to localhost alone; Origin is not sent
// for images and links.
//
// `opened_by_link`: the path is made to be opened from anywhere, as the page itself is. A link on another
// site may then lead to it, but no script or frame of that site may load it.
bool is_of_another_page(const HttpRequest& request, bool opened_by_link);

}  // namespace saccade::serve

// Tests of the requests that a browser may send on behalf of a page.
#include "saccade/serve/request_origin.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/hub/address_range.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

TEST(RequestOrigin, LoopbackIsToldByItsAddressInAnySpelling) {
  for (const char* own : {"localhost", "localhost:7700", "LocalHost", "127.0.0.1", "127.1.2.3:80", "[::1]",
                          "[::1]:7700", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]:7700", "[::FFFF:7f00:1]"}) {
    EXPECT_TRUE(names_loopback(own)) << own;
  }
  for (const char* other : {"", "nas", "127.0.0.1.evil.example", "127.evil.example", "localhost.evil.example",
                            "[::ffff:10.0.0.1]", "[::2]", "[::1", "10.0.0.1", "::1"}) {
    EXPECT_FALSE(names_loopback(other)) << other;
  }
  EXPECT_TRUE(hub::is_loopback("::ffff:127.0.0.1"));
  EXPECT_FALSE(hub::is_loopback("::"));
  EXPECT_FALSE(hub::is_loopback("0.0.0.0"));
  EXPECT_FALSE(hub::is_loopback("::ffff:192.168.0.1"));
}

TEST(RequestOrigin, AnOriginIsItsHostAndPort) {
  const auto is_other = [](const std::string& host, const std::string& origin) {
    HttpRequest request;
    request.method = "DELETE";
    request.headers = {{"origin", origin}};
    if (!host.empty()) request.headers.emplace_back("host", host);
    return is_of_another_page(request, false);
  };
  EXPECT_FALSE(is_other("nas:8080", "http://nas:8080"));
  EXPECT_FALSE(is_other("nas", "http://nas"));
  EXPECT_FALSE(is_other("nas", "http://nas:80"));
  EXPECT_FALSE(is_other("nas:80", "http://nas"));
  EXPECT_FALSE(is_other("nas", "https://nas"));  // behind a proxy with TLS
  EXPECT_FALSE(is_other("nas:443", "https://nas"));
  EXPECT_FALSE(is_other("NAS:8080", "http://nas:8080"));
  EXPECT_FALSE(is_other("[::1]:7700", "http://[::1]:7700"));
  EXPECT_TRUE(is_other("nas", "http://nas:8080"));
  EXPECT_TRUE(is_other("nas:8080", "http://nas"));
  EXPECT_TRUE(is_other("nas:8080", "http://nas:80801"));
  EXPECT_TRUE(is_other("nas:80", "https://nas"));
  EXPECT_TRUE(is_other("[::1]:7700", "http://[::1]:7701"));
  EXPECT_TRUE(is_other("nas", "null"));
  EXPECT_TRUE(is_other("", "http://nas"));
  EXPECT_TRUE(is_other("nas", "http://evil.example"));
}

class OtherPages : public ServingTest {
 protected:
  [[nodiscard]] int status(const std::string& path, const std::vector<NamedValue>& headers) const {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.query = {{"q", "red"}, {"explain", "true"}};
    if (path != "/api/search") request.query.clear();
    request.headers = headers;
    return ask(request).status;
  }
};

TEST_F(OtherPages, MayNotAskForWorkEitherAndMayLeadToThePage) {
  const std::string search = "/api/search";
  EXPECT_EQ(status(search, {}), 200);
  EXPECT_EQ(status(search, {{"sec-fetch-site", "same-origin"}}), 200);
  EXPECT_EQ(status(search, {{"sec-fetch-site", "none"}}), 200);
  EXPECT_EQ(status(search, {{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(status(search, {{"sec-fetch-site", "same-site"}}), 403);  // another port of this machine
  EXPECT_EQ(status(search, {{"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status("/api/collections/my pictures/images/1/thumbnail", {{"sec-fetch-site", "cross-site"}}),
            403);
  const std::vector<NamedValue> link = {
      {"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}};
  EXPECT_EQ(status("/", link), 200);
  EXPECT_EQ(status(search, link), 403);
  std::vector<NamedValue> frame = link;
  frame.back().second = "iframe";
  EXPECT_EQ(status("/", frame), 403);
  EXPECT_EQ(status("/page.js", {{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "no-cors"}}), 403);
}

}  // namespace
}  // namespace saccade::serve

#include "saccade/hub/guarded_fetch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <netdb.h>
#include <sys/socket.h>
#include <utility>

namespace saccade::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxUrlBytes = 8192;

tl::unexpected<HttpFailure> failed(Error error) {
  return tl::unexpected(HttpFailure{.error = std::move(error)});
}

template <typename... Args>
tl::unexpected<HttpFailure> failed(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return failed(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Sends the request for one URL, without following a redirect.
HttpResult ask(const UrlParts& url, const GuardedFetch& fetch, Clock::time_point end,
               const std::stop_token& stop) {
  if (url.scheme != "http" && url.scheme != "https") {
    return failed(ErrorCode::kUnsupported, "\"{}\": images are fetched by http and https alone", url.scheme);
  }
  if (url.has_user || url.has_zone) {
    return failed(ErrorCode::kUnsupported, "an address with a {}: none is fetched",
                  url.has_user ? "user or password" : "zone");
  }
  HttpRequest request;
  request.url = url.url;
  request.max_body = fetch.max_bytes;
  auto addresses = fetch.permit(url);
  if (!addresses) return failed(std::move(addresses).error());
  // Without an address the client would resolve the name itself.
  if (addresses->empty()) return failed(ErrorCode::kBadData, "no address is known of {}", url.host);
  request.addresses = *std::move(addresses);
  const auto slow = [&] {
    HttpFailure failure{
        .error = {ErrorCode::kLimit, fmt::format("{} did not send it within {} s", url.host, fetch.seconds)}};
    failure.passing = failure.late = true;
    return tl::unexpected(std::move(failure));
  };
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  if (left.count() <= 0) return slow();
  HttpOptions limits;
  limits.time_limit = left;
  limits.connect_limit = std::min(limits.connect_limit, left);
  auto session = HttpSession::open(limits);
  if (!session) return failed(std::move(session).error());
  HttpResult reply = session->send(request, nullptr, stop);
  if (reply) return reply;
  HttpFailure failure = std::move(reply).error();
  if (failure.late) return slow();
  if (failure.error.code == ErrorCode::kIo) failure.error.code = ErrorCode::kBadData;
  failure.error = failure.error.in(url.host);
  return tl::unexpected(std::move(failure));
}

}  // namespace

HttpResult fetch_guarded(std::string url, const GuardedFetch& fetch, const std::stop_token& stop) {
  auto end = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(fetch.seconds));
  bool secure = false;
  for (int redirects = 0;; ++redirects) {
    if (url.size() > kMaxUrlBytes) {
      return failed(ErrorCode::kLimit, "an address of {} bytes, at most {} are taken", url.size(),
                    kMaxUrlBytes);
    }
    auto parts = url_parts(url);
    if (!parts) return failed(std::move(parts).error());
    if (secure && parts->scheme != "https") {
      return failed(ErrorCode::kUnsupported, "a redirect from https to {} is not followed", parts->scheme);
    }
    secure = parts->scheme == "https";
    HttpResult reply = ask(*parts, fetch, end, stop);
    if (!reply) {
      if (redirects > 0) reply.error().error = reply.error().error.in("redirected");
      return reply;
    }
    if (!is_redirect(reply->status)) return reply;
    if (redirects == fetch.redirects) {
      return failed(ErrorCode::kUnsupported, "more than {} redirects", fetch.redirects);
    }
    if (reply->header("location").empty())
      return failed(ErrorCode::kBadData, "{} redirects to nowhere", parts->host);
    auto next = resolve_url(parts->url, std::string(reply->header("location"))).in("redirected");
    if (!next) return failed(std::move(next).error());
    url = *std::move(next);
    if (fetch.before_redirect) {
      const auto asked = Clock::now();
      if (Status turn = fetch.before_redirect(); !turn) return failed(std::move(turn).error());
      end += Clock::now() - asked;
    }
  }
}

Result<std::vector<std::string>> resolve_host(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failure == EAI_AGAIN) {
    return fail(ErrorCode::kIo, "no address is known of {} for now: the name server does not answer", host);
  }
  if (failure != 0) return fail(ErrorCode::kBadData, "no address is known of {}", host);
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace saccade::hub

#include "saccade/serve/files/remote_pictures.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <future>
#include <optional>
#include <semaphore>
#include <stop_token>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/seconds_since.h"
#include "saccade/hub/address_range.h"
#include "saccade/hub/guarded_fetch.h"
#include "saccade/hub/http_client.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace saccade::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using hub::AddressRange;
using hub::ip_address;
using hub::IpAddress;
using hub::is_public;

constexpr auto kLook = std::chrono::milliseconds(50);

// One that the operator has named.
struct Host {
  std::string name;                   // in lower case; an IPv6 address without brackets
  bool below = false;                 // the names below it, not its own
  uint16_t port = 0;                  // 0: that of the scheme
  std::optional<AddressRange> range;  // nothing: public

  [[nodiscard]] bool is(const hub::UrlParts& url) const {
    const uint16_t own_port = url.scheme == "https" ? 443 : 80;
    if (url.port != (port != 0 ? port : own_port)) return false;
    return below ? url.host.size() > name.size() + 1 && url.host.ends_with("." + name) : url.host == name;
  }
  [[nodiscard]] bool may_be(const IpAddress& address) const {
    return range ? range->contains(address) : is_public(address);
  }
};

Result<Host> host_of(std::string_view entry) {
  const auto wrong = [&] {
    return fail(ErrorCode::kUsage,
                "\"{}\" names no host: pictures.example, *.pictures.example, pictures.example:8080 and "
                "pictures.lan:9000=10.0.0.0/8 do",
                entry);
  };
  Host host;
  std::string_view text = entry;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    SACCADE_ASSIGN(host.range, AddressRange::parse(text.substr(equals + 1)).in(entry));
    // Whole families of addresses are no network of anybody's, and one of them lies within the other.
    const bool all_v4 =
        host.range->contains(*ip_address("0.0.0.0")) && host.range->contains(*ip_address("255.255.255.255"));
    if (all_v4 || host.range->bits() < (host.range->is_v4() ? 96 + 8 : 7)) {
      return fail(ErrorCode::kUsage, "{}: a range so wide that it checks nothing", entry);
    }
    text = text.substr(0, equals);
  }
  const bool bracketed = text.starts_with('[');
  const size_t close = text.find(']');
  if (bracketed && close == std::string_view::npos) return wrong();
  const size_t colon = text.find(':', bracketed ? close : 0);
  if (colon != std::string_view::npos) {
    const std::string_view port = text.substr(colon + 1);
    const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), host.port);
    if (error != std::errc() || rest != port.data() + port.size() || host.port == 0) return wrong();
    text = text.substr(0, colon);
  }
  if (bracketed) {
    if (!text.ends_with(']') || !ip_address(text.substr(1, text.size() - 2))) return wrong();
    text = text.substr(1, text.size() - 2);
  } else {
    host.below = text.starts_with("*.");
    if (host.below) text = text.substr(2);
    const bool plain = std::ranges::all_of(
        text, [](char c) { return is_ascii_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
    if (text.empty() || !plain || text.starts_with('.') || text.ends_with('.')) return wrong();
  }
  host.name = lower_ascii(text);
  return host;
}

}  // namespace

struct RemotePictures::State {
  State(RemoteOptions given, std::vector<Host> named, Metrics& counted)
      : options(std::move(given)),
        hosts(std::move(named)),
        metrics(counted),
        turns(options.at_a_time),
        threads(static_cast<size_t>(options.at_a_time)) {}

  // Returns the IP addresses of the image's host, each of which may be connected to.
  [[nodiscard]] Result<std::vector<std::string>> addresses_of(const hub::UrlParts& url) const;
  [[nodiscard]] Result<std::string> fetch(std::string address, const std::stop_token& stop) const;
  // Fetches one address, with metrics. room: bytes that the request's images may still have together. It is
  // below 0 once one had more, and none is fetched from then on.
  [[nodiscard]] Result<std::string> fetch_one(const std::string& address, std::atomic<int64_t>& room,
                                              const std::stop_token& stop) const;

  const RemoteOptions options;
  const std::vector<Host> hosts;
  Metrics& metrics;
  std::counting_semaphore<> turns;  // of requests
  asio::thread_pool threads;        // last: what runs on them needs the rest
};

Result<std::vector<std::string>> RemotePictures::State::addresses_of(const hub::UrlParts& url) const {
  const auto host = std::ranges::find_if(hosts, [&](const Host& one) { return one.is(url); });
  if (host == hosts.end()) {
    return fail(ErrorCode::kUnsupported,
                "{}:{} is none of the hosts that this server fetches images from: send the image itself, as "
                "data:image/...;base64,...",
                url.host, url.port);
  }
  SACCADE_ASSIGN(std::vector<std::string> addresses,
                 options.resolve ? options.resolve(url.host) : hub::resolve_host(url.host));
  if (addresses.empty()) return fail(ErrorCode::kBadData, "no address is known of {}", url.host);
  // One that may not be asked among others is no accident to work around.
  for (const std::string& address : addresses) {
    const auto number = ip_address(address);
    if (!number || !host->may_be(*number)) {
      return fail(ErrorCode::kUnsupported, "{} has an address that this server does not ask: {}", url.host,
                  host->range ? "it is outside of the range that was named" : "it is not public");
    }
  }
  return addresses;
}

Result<std::string> RemotePictures::State::fetch(std::string address, const std::stop_token& stop) const {
  hub::GuardedFetch guarded;
  guarded.max_bytes = options.most_bytes;
  guarded.seconds = options.seconds;
  guarded.redirects = options.redirects;
  std::string host;  // the last one that was asked
  guarded.permit = [&](const hub::UrlParts& url) {
    host = url.host;
    return addresses_of(url);
  };
  hub::HttpResult reply = hub::fetch_guarded(std::move(address), guarded, stop);
  if (!reply) return fail(std::move(reply).error().error);
  if (reply->status != 200) {
    return fail(ErrorCode::kBadData, "{} answers with status {}", host, reply->status);
  }
  if (reply->body.empty()) return fail(ErrorCode::kBadData, "{} sends nothing", host);
  return std::move(reply->body);
}

Result<std::string> RemotePictures::State::fetch_one(const std::string& address, std::atomic<int64_t>& room,
                                                     const std::stop_token& stop) const {
  const auto start = Clock::now();
  Result<std::string> bytes = fail(ErrorCode::kCancelled, "nobody waits for it");
  try {
    if (!stop.stop_requested() && room >= 0) bytes = fetch(address, stop);
    if (bytes) room -= std::ssize(*bytes);
    if (room < 0)
      bytes = fail(ErrorCode::kLimit, "images of more than {} bytes together", options.most_bytes);
  } catch (const std::exception& error) {  // no memory
    bytes = fail(ErrorCode::kInternal, "fetch: {}", error.what());
  }
  metrics.spent("fetch", seconds_since(start));
  if (bytes) {
    metrics.happened("image fetched");
  } else if (bytes.error().code == ErrorCode::kUnsupported) {
    metrics.happened("image fetch refused");
  } else {
    metrics.happened("image fetch failed");
  }
  return bytes;
}

RemotePictures::RemotePictures(std::unique_ptr<State> state) : state_(std::move(state)) {}

RemotePictures::~RemotePictures() {
  state_->threads.stop();
  state_->threads.join();
}

Result<std::unique_ptr<RemotePictures>> RemotePictures::open(RemoteOptions options, Metrics& metrics) {
  std::vector<Host> hosts;
  for (const std::string& entry : options.hosts) {
    SACCADE_ASSIGN(Host host, host_of(entry));
    hosts.push_back(std::move(host));
  }
  SACCADE_TRY(hub::HttpSession::open({}));
  return std::unique_ptr<RemotePictures>(
      new RemotePictures(std::make_unique<State>(std::move(options), std::move(hosts), metrics)));
}

RemoteRequest::RemoteRequest(RemotePictures& pictures, std::function<bool()> gone)
    : state_(*pictures.state_),
      gone_(std::move(gone)),
      room_(std::make_shared<std::atomic<int64_t>>(state_.options.most_bytes)) {}

RemoteRequest::~RemoteRequest() {
  if (has_turn_) state_.turns.release();
}

std::vector<Result<std::string>> RemoteRequest::fetch(std::span<const std::string> addresses) {
  std::vector<Result<std::string>> fetched;
  const auto given_up = [&] {
    fetched.emplace_back(
        fail(ErrorCode::kCancelled, "waited too long for images from elsewhere: try again in a second"));
  };
  // Held until the request has been answered: so long its pictures take memory.
  while (!has_turn_) {
    has_turn_ = state_.turns.try_acquire_for(kLook);
    if (!has_turn_ && gone_()) {
      given_up();
      return fetched;
    }
  }
  std::stop_source stop;
  // Tasks share what they use: one whose host's name is being resolved outlives this call.
  using Task = std::packaged_task<Result<std::string>()>;
  std::vector<std::future<Result<std::string>>> coming;
  for (const std::string& address : addresses) {
    const auto task =
        std::make_shared<Task>([state = &state_, address, room = room_, token = stop.get_token()] {
          return state->fetch_one(address, *room, token);
        });
    coming.push_back(task->get_future());
    asio::post(state_.threads, [task] { (*task)(); });
  }
  for (std::future<Result<std::string>>& one : coming) {
    while (one.wait_for(kLook) != std::future_status::ready && !gone_()) {
    }
    if (one.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      given_up();
      break;
    }
    fetched.push_back(one.get());
    if (!fetched.back()) break;
  }
  stop.request_stop();
  return fetched;
}

}  // namespace saccade::serve

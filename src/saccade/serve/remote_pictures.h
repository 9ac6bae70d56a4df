// Pictures that clients give by address: fetched from hosts that the operator has named, and from no others.
//
// A host's name is resolved once, every address that it stands for has to be one that may be asked, and it is
// one of these that is connected to. Redirects are followed one by one, each looked at as the first address.
// Nothing of the client's or of the environment goes along: no credentials, no cookies, no proxy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/serve/metrics.h"

namespace saccade::serve {

struct RemoteOptions {
  // "HOST", "*.HOST" (the names below it), "HOST:PORT", "[::1]:PORT"; without a port http's and https's own.
  // Behind "=" the range of its addresses ("pictures.lan:9000=10.0.0.0/8"), else these have to be public.
  std::vector<std::string> hosts;
  int64_t most_bytes = int64_t{64} << 20;  // of all pictures of a request together
  double seconds = 10;                     // for one picture, redirects included
  int redirects = 3;
  int at_a_time =
      8;  // pictures that are fetched, and likewise requests that have fetched some and are at hand
  // The addresses of a name, as numbers. Nothing sets it but tests; empty: the system's.
  std::function<Result<std::vector<std::string>>(const std::string& host)> resolve = {};
};

class RemotePictures {
 public:
  // kUsage for a host that is none, or whose range is wider than any network of its own (8 bits, of IPv6 7);
  // kUnsupported where libcurl is not installed.
  static Result<std::unique_ptr<RemotePictures>> open(RemoteOptions options, Metrics& metrics);
  RemotePictures(const RemotePictures&) = delete;
  RemotePictures& operator=(const RemotePictures&) = delete;
  // Nobody may be fetching. Waits for names that are being resolved.
  ~RemotePictures();

 private:
  friend class RemoteRequest;
  struct State;
  explicit RemotePictures(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Fetches of one request. Not thread-safe.
class RemoteRequest {
 public:
  // gone: whether nobody waits any more; asked now and then.
  RemoteRequest(RemotePictures& pictures, std::function<bool()> gone);
  RemoteRequest(const RemoteRequest&) = delete;
  RemoteRequest& operator=(const RemoteRequest&) = delete;
  ~RemoteRequest();

  // The bytes of each, in their order, up to the first that failed, whose error is the last. Several are
  // fetched at a time, on threads of their own. kBadData for an address that is none and where the host does
  // not send a picture's bytes; kUnsupported for one that may not be asked; kLimit for what is too large or
  // too slow; kCancelled where gone() says so.
  std::vector<Result<std::string>> fetch(std::span<const std::string> addresses);

 private:
  RemotePictures::State& state_;
  const std::function<bool()> gone_;
  bool has_turn_ = false;
  const std::shared_ptr<std::atomic<int64_t>> room_;  // bytes that its pictures may still have
};

}  // namespace saccade::serve

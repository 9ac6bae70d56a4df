// Images that clients give by address, fetched from hosts that the operator has named, and from no others.
//
// A host's name is resolved once. All of its addresses must be permitted, and the connection uses one of
// them. Redirects are followed one by one, each checked like the first address. No credentials, cookies or
// proxy of the client or of the environment are used.
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
  // Opens the fetcher. kUsage for an invalid host, or one whose range is too wide for a single network (8
  // bits, or 7 for IPv6); kUnsupported if libcurl is not installed.
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

  // Fetches the bytes of each, in order, up to the first that failed, whose error is the last. Several are
  // fetched at a time, on separate threads. kBadData for an invalid address and if the host does not send an
  // image's bytes; kUnsupported for one that is not permitted; kLimit if it is too large or too slow;
  // kCancelled if gone() returns true.
  std::vector<Result<std::string>> fetch(std::span<const std::string> addresses);

 private:
  RemotePictures::State& state_;
  const std::function<bool()> gone_;
  bool has_turn_ = false;
  const std::shared_ptr<std::atomic<int64_t>> room_;  // bytes that its pictures may still have
};

}  // namespace saccade::serve

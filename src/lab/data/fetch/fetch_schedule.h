// Order of requests within limits of rate and of connections to one host, and resolved names. Internal to the
// module.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::lab::data {

struct FetchLimits {
  double rate = 0;           // maximum number of requests per second; 0: no limit
  double host_rate = 0;      // ... to one host; 0: no limit
  int host_connections = 8;  // maximum number of simultaneous requests to one host
};

// One row's request.
struct FetchJob {
  int64_t row = 0;
  int tries = 0;  // requests so far
  std::string host = {};
  std::string url = {};
};

// Hands out requests that may start now. Hosts take turns, so a slow one does not hold up the others.
// Thread-safe.
class FetchSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FetchSchedule(const FetchLimits& limits) : limits_(limits) {}

  void add(FetchJob job, Clock::time_point not_before = {});
  // Waits for a request that may start; nullopt after a stop request. finish() must follow.
  std::optional<FetchJob> take(const std::stop_token& stop);
  // Marks a request of that host as done.
  void finish(const std::string& host);
  // Starts no request to the host before `when`.
  void hold(const std::string& host, Clock::time_point when);
  // Waits until one more request may start, of any host. kCancelled after a stop request.
  Status turn(const std::stop_token& stop);

 private:
  struct Waiting {
    FetchJob job;
    Clock::time_point not_before;
  };
  struct Host {
    std::deque<Waiting> jobs;
    int active = 0;
    Clock::time_point next;  // of its rate, and of hold()
  };

  std::optional<FetchJob> ready(Clock::time_point now, Clock::time_point& next);

  const FetchLimits limits_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Host> hosts_;
  std::string last_;        // host that had the last turn
  Clock::time_point next_;  // of the rate of all requests
};

// Addresses of names, resolved on threads of their own, so that a name server that does not answer delays neither
// a stop request nor a time limit. Answers are kept for a minute. Thread-safe.
class HostNames {
 public:
  using Resolve = std::function<Result<std::vector<std::string>>(const std::string& host)>;

  explicit HostNames(Resolve resolve);
  // Errors: those of `resolve`; kIo after `limit`; kCancelled after a stop request.
  Result<std::vector<std::string>> addresses(const std::string& host, std::chrono::milliseconds limit,
                                             const std::stop_token& stop);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with lookups, which may outlive this object
};

}  // namespace saccade::lab::data

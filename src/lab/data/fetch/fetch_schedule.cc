#include "lab/data/fetch/fetch_schedule.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace saccade::lab::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kKept = std::chrono::seconds(60);
constexpr size_t kMostNames = 50'000;
constexpr int kMostLookups = 512;

Clock::duration interval(double rate) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
}

}  // namespace

void FetchSchedule::add(FetchJob job, Clock::time_point not_before) {
  const std::lock_guard lock(mutex_);
  Host& host = hosts_[job.host];
  host.jobs.push_back({std::move(job), not_before});
  changed_.notify_one();
}

// Returns a request that may start; else sets `next` to the earliest time at which one may.
std::optional<FetchJob> FetchSchedule::ready(Clock::time_point now, Clock::time_point& next) {
  if (limits_.rate > 0 && next_ > now) {
    next = std::min(next, next_);
    return std::nullopt;
  }
  auto at = hosts_.upper_bound(last_);
  for (size_t i = 0; i < hosts_.size(); ++i, ++at) {
    if (at == hosts_.end()) at = hosts_.begin();
    Host& host = at->second;
    if (host.jobs.empty() || host.active >= limits_.host_connections) continue;
    if (host.next > now) {
      next = std::min(next, host.next);
      continue;
    }
    const auto job = std::find_if(host.jobs.begin(), host.jobs.end(),
                                  [&](const Waiting& each) { return each.not_before <= now; });
    if (job == host.jobs.end()) {
      for (const Waiting& each : host.jobs) next = std::min(next, each.not_before);
      continue;
    }
    FetchJob taken = std::move(job->job);
    host.jobs.erase(job);
    ++host.active;
    if (limits_.host_rate > 0) host.next = now + interval(limits_.host_rate);
    if (limits_.rate > 0) next_ = std::max(next_, now) + interval(limits_.rate);
    last_ = at->first;
    return taken;
  }
  return std::nullopt;
}

std::optional<FetchJob> FetchSchedule::take(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    if (auto job = ready(now, next)) {
      changed_.notify_one();
      return job;
    }
    changed_.wait_until(lock, stop, next, [] { return false; });
  }
  return std::nullopt;
}

void FetchSchedule::finish(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const auto at = hosts_.find(host);
  if (at == hosts_.end()) return;
  --at->second.active;
  if (at->second.active == 0 && at->second.jobs.empty() && at->second.next <= Clock::now()) hosts_.erase(at);
  changed_.notify_one();
}

void FetchSchedule::hold(const std::string& host, Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  Host& held = hosts_[host];
  held.next = std::max(held.next, when);
}

Status FetchSchedule::turn(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    if (limits_.rate <= 0) return {};
    if (next_ <= now) {
      next_ = std::max(next_, now) + interval(limits_.rate);
      return {};
    }
    const auto until = next_;
    changed_.wait_until(lock, stop, until, [] { return false; });
  }
  return fail(ErrorCode::kCancelled, "stopped");
}

struct HostNames::State {
  struct Name {
    std::optional<Result<std::vector<std::string>>> found;  // nullopt: a lookup is on its way
    Clock::time_point when;
  };
  Resolve resolve;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::map<std::string, Name> names;
  int lookups = 0;
};

HostNames::HostNames(Resolve resolve) : state_(std::make_shared<State>()) {
  state_->resolve = std::move(resolve);
}

Result<std::vector<std::string>> HostNames::addresses(const std::string& host,
                                                      std::chrono::milliseconds limit,
                                                      const std::stop_token& stop) {
  const auto end = Clock::now() + limit;
  std::unique_lock lock(state_->mutex);
  for (;;) {
    const auto at = state_->names.find(host);
    const bool fresh =
        at != state_->names.end() && (!at->second.found || Clock::now() - at->second.when < kKept);
    if (fresh && at->second.found) return *at->second.found;
    if (!fresh && state_->lookups < kMostLookups) {
      if (state_->names.size() >= kMostNames) {
        std::erase_if(state_->names, [](const auto& each) { return each.second.found.has_value(); });
      }
      state_->names[host] = {};
      ++state_->lookups;
      try {
        std::thread([state = state_, host] {
          Result<std::vector<std::string>> found = fail(ErrorCode::kInternal, "resolve {}: no memory", host);
          try {
            found = state->resolve(host);
          } catch (const std::exception& error) {
            found = fail(ErrorCode::kInternal, "resolve {}: {}", host, error.what());
          }
          const std::lock_guard own(state->mutex);
          // A failure for now is not kept, so that the next request asks again.
          const bool passing = !found && found.error().code == ErrorCode::kIo;
          state->names[host] = {std::move(found),
                                passing ? Clock::now() - kKept + std::chrono::seconds(1) : Clock::now()};
          --state->lookups;
          state->changed.notify_all();
        }).detach();
      } catch (const std::exception& error) {
        state_->names.erase(host);
        --state_->lookups;
        return fail(ErrorCode::kIo, "resolve {}: {}", host, error.what());
      }
    }
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    if (Clock::now() >= end) return fail(ErrorCode::kIo, "the name server does not answer about {}", host);
    state_->changed.wait_until(lock, stop, std::min(end, Clock::now() + std::chrono::milliseconds(200)),
                               [] { return false; });
  }
}

}  // namespace saccade::lab::data

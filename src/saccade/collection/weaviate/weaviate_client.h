// Client of a Weaviate cluster over REST and GraphQL. Requests that do not reach a node, or that it cannot answer now, go
// to the next node, and are repeated after a wait. Every request has the same effect if it is repeated.
//
// The key is read from the environment variable SACCADE_WEAVIATE_KEY, or from the file that SACCADE_WEAVIATE_KEY_FILE
// names. It is sent to the endpoints of the address alone.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/weaviate/address.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/hub/http_client.h"
#include "saccade/hub/settings.h"

namespace saccade::weaviate {

// Rounds over all endpoints, the waits between them, which double each time, and the time in which a node must answer.
struct Retry {
  int rounds = 3;
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds longest_wait{10'000};
  std::chrono::seconds silence_limit{20};
};
inline constexpr Retry kReading;  // 0.6 seconds of waits
// 32 seconds of waits: a node may be starting again.
inline constexpr Retry kWriting{.rounds = 9, .silence_limit = std::chrono::seconds(60)};

struct ClientOptions {
  std::string key;                     // empty: none is sent
  std::filesystem::path certificates;  // empty: the system's
  Retry reading = kReading;
  Retry writing = kWriting;
};
// Reads the key and the certificates from the environment. kIo for a file that cannot be read, kBadData for a key that
// cannot be sent.
Result<ClientOptions> client_options(const hub::Environment& environment);

// Thread-safe.
class Client {
 public:
  Client(Address address, ClientOptions options)
      : address_(std::move(address)), options_(std::move(options)) {}

  struct Request {
    std::string method = "GET";
    std::string path = {};          // "/v1/meta"
    std::optional<Json> body = {};  // sent as JSON
    bool writes = false;            // repeated longer
    bool may_lack = false;          // status 404 is an answer, of which the result is null
    std::stop_token stop = {};      // ends waits, and requests that do not write
  };
  // Sends a request and returns the JSON of a successful answer; null if it has none. kIo with the
  // reason if no node answers, and for a missing or refused key; kBadData with the engine's message for what it refuses.
  Result<Json> call(const Request& request) const;
  // Asks GraphQL, and returns "data". An answer with errors is kIo if they say that a node or shard does not answer now, else
  // kBadData.
  Result<Json> ask(std::string query) const;

  [[nodiscard]] const Address& address() const { return address_; }

 private:
  Result<hub::HttpSession> take_session(bool writes) const;
  void give_back(hub::HttpSession session, bool writes) const;

  Address address_;
  ClientOptions options_;
  mutable std::mutex mutex_;
  mutable std::vector<hub::HttpSession> free_to_read_;
  mutable std::vector<hub::HttpSession> free_to_write_;
  mutable std::atomic<size_t> next_ = 0;  // endpoint to ask first
};

// Returns a text as a GraphQL string with its quotes.
std::string graphql_string(std::string_view text);

}  // namespace saccade::weaviate

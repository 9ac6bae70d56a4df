// Test HTTP server on loopback with scripted replies, valid or not. Uses plain sockets, one thread per
// connection and one request per connection; the system chooses the port.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace saccade::test {

struct ServerRequest {
  std::string method;
  std::string path;                            // with its query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  [[nodiscard]] std::string header(const std::string& name) const;
  // Returns the parts of multipart/form-data: name -> content. A file's name is under "NAME filename", its
  // type under "NAME type".
  [[nodiscard]] std::map<std::string, std::string> form() const;
};

struct ServerReply {
  int status = 200;
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool no_length = false;  // the body ends where the connection ends
  bool no_answer = false;  // the connection ends before a byte
  int64_t cut_after = -1;  // ... after so many bytes of the body
  int wait_ms = 0;         // before the answer, unless the other end goes
  bool hold = false;       // after what is sent, the connection stays until the other end goes
};

class TestServer {
 public:
  using Handler = std::function<ServerReply(const ServerRequest&)>;
  // Starts the server. The handler is called from the connections' threads, one at a time. It may call
  // requests().
  explicit TestServer(Handler handler);
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer();

  [[nodiscard]] std::string endpoint() const;  // http://127.0.0.1:PORT
  // Returns all requests so far, in order of arrival.
  [[nodiscard]] std::vector<ServerRequest> requests() const;
  // Returns the maximum number of concurrent requests.
  [[nodiscard]] int most_at_a_time() const { return most_; }

 private:
  void serve();
  void answer(int connection);

  // Waits until the peer of a connection disconnects, or until the timeout.
  [[nodiscard]] bool is_gone_within(int connection, int milliseconds) const;

  Handler handler_;
  std::mutex handling_;
  int descriptor_ = -1;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<ServerRequest> requests_;
  std::vector<std::thread> connections_;
  std::atomic<bool> closing_ = false;
  std::atomic<int> now_ = 0;
  std::atomic<int> most_ = 0;
};

}  // namespace saccade::test

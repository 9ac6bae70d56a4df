// For tests: a hub on loopback, and what may go wrong with one. Plain sockets, a thread a connection, a
// request a connection; the port is the system's choice.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace saccade::test {

struct HubRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case

  [[nodiscard]] std::string header(const std::string& name) const;
};

struct HubReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // Content-Length is added
  std::string body;
  int64_t cut_after = -1;  // the connection ends after so many bytes of the body
  bool no_length = false;  // the body ends where the connection ends
  bool no_answer = false;  // the connection ends before a byte
  bool hold = false;       // after what is sent, the connection stays until the other end goes
};

// A file as a hub keeps it: large ones by SHA-256 and on another host, small ones by git's SHA-1.
struct HubFile {
  std::string content;
  bool large = false;
};

struct HubModel {
  std::string commit;
  std::map<std::string, HubFile> files;
  bool gated = false;  // for all without the token "good"
};

// What a file is named by.
std::string hub_hash(const HubFile& file);

class TestHub {
 public:
  TestHub();
  TestHub(const TestHub&) = delete;
  TestHub& operator=(const TestHub&) = delete;
  ~TestHub();

  // http://127.0.0.1:PORT, and the same of the host that large files are on.
  [[nodiscard]] std::string endpoint() const;
  [[nodiscard]] std::string storage() const;

  // Not while requests are answered. "OWNER/NAME"; every model has its branch main only.
  std::map<std::string, HubModel> models;
  // Asked for every request, of both hosts, before it is answered: an answer to give instead. `ordinary` is
  // what would be answered.
  std::function<std::optional<HubReply>(const HubRequest&, const HubReply& ordinary)> instead;

  // All requests so far, in the order they came.
  [[nodiscard]] std::vector<HubRequest> requests() const;
  // How many were for paths with `part` in them, by GET.
  [[nodiscard]] int gets(const std::string& part) const;

 private:
  struct Listener {
    int descriptor = -1;
    int port = 0;
    std::thread thread;
  };
  void open(Listener& listener);
  void serve(Listener& listener);
  void answer(int connection);
  [[nodiscard]] HubReply ordinary(const HubRequest& request) const;
  [[nodiscard]] HubReply model_reply(const HubRequest& request) const;
  [[nodiscard]] HubReply file_reply(const HubRequest& request, const HubModel& model,
                                    const std::string& file) const;

  Listener hub_;
  Listener storage_;
  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
  std::vector<std::thread> connections_;
  std::atomic<bool> closing_ = false;
};

}  // namespace saccade::test

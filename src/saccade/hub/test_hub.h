// Test hub on loopback with configurable failures.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "saccade/hub/test_server.h"

namespace saccade::test {

using HubRequest = ServerRequest;
using HubReply = ServerReply;

// File of a hub: large ones are named by SHA-256 and on another host, small ones by git's SHA-1.
struct HubFile {
  std::string content;
  bool large = false;
};

struct HubModel {
  std::string commit;
  std::map<std::string, HubFile> files;
  bool gated = false;  // true if it requires the token "good"
};

// Returns the content hash that names a file.
std::string hub_hash(const HubFile& file);

class TestHub {
 public:
  TestHub();

  // Return http://127.0.0.1:PORT, and the same for the host of large files.
  [[nodiscard]] std::string endpoint() const;
  [[nodiscard]] std::string storage() const;

  // Models by "OWNER/NAME"; each has only the branch main. Must not be changed while requests are answered.
  std::map<std::string, HubModel> models;
  // Function called for every request to both hosts before it is answered; it may return another reply.
  // `ordinary` is the default reply.
  std::function<std::optional<HubReply>(const HubRequest&, const HubReply& ordinary)> instead;

  // Returns all requests so far, in order of arrival.
  [[nodiscard]] std::vector<HubRequest> requests() const;
  // Returns the number of GET requests for paths that contain `part`.
  [[nodiscard]] int gets(const std::string& part) const;

 private:
  HubReply answer(const HubRequest& request);
  [[nodiscard]] HubReply ordinary(const HubRequest& request) const;
  [[nodiscard]] HubReply model_reply(const HubRequest& request) const;
  [[nodiscard]] HubReply file_reply(const HubRequest& request, const HubModel& model,
                                    const std::string& file) const;

  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
  // The servers come after the state that their replies use.
  TestServer hub_;
  TestServer storage_;
};

}  // namespace saccade::test

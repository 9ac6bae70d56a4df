// Client of a hub with Hugging Face's HTTP API. It lists a model's files, gets their sizes and hashes, and
// downloads them. It follows redirects, retries transient failures, and explains refusals.
//
//   GET  /api/models/OWNER/NAME/revision/REVISION   {"sha": COMMIT, "siblings": [{"rfilename": FILE}, ...]}
//   HEAD /OWNER/NAME/resolve/COMMIT/FILE            X-Linked-Etag or ETag: the content's hash
//                                                   (content_hash.h);
//                                                   X-Linked-Size or Content-Length: its bytes
//   GET  the same                                   the content, as a rule by way of a redirect
//                                                   to another host
//
// The token is sent only to the endpoint's own origin. Errors name the path of the request, but not other
// hosts that a redirect led to.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/hub/content_hash.h"
#include "saccade/hub/http_client.h"
#include "saccade/hub/name.h"
#include "saccade/hub/partial_file.h"
#include "saccade/hub/settings.h"

namespace saccade::hub {

struct RetryPolicy {
  int tries = 5;                                    // in a row without anything coming of them
  std::chrono::milliseconds first_wait{1'000};      // doubled each time, unless the hub says how long
  std::chrono::milliseconds longest_wait{310'000};  // hubs count requests in windows of five minutes
};

struct RemoteModel {
  std::string commit;
  std::vector<std::string> files;
};

struct RemoteFile {
  std::string name;
  int64_t size = 0;
  std::string hash;  // hash_kind says which
  HashKind kind = HashKind::kGit;
};

// Client for use by one thread at a time. A stop request ends any call, including its waits, with kCancelled.
class Client {
 public:
  static Result<Client> open(const Settings& settings, const RetryPolicy& retry, std::stop_token stop,
                             const HttpOptions& http = {});

  Result<RemoteModel> model(const ModelName& name);
  // Returns the size and hash of `file`, one of the model's files.
  Result<RemoteFile> file(const ModelName& name, const std::string& commit, const std::string& file);
  // Downloads the missing bytes of the file and appends them to `partial`. Continues after any number of
  // broken connections, as long as more bytes arrive. Calls `progress` after every piece. Returns kMismatch
  // if there are more bytes than expected.
  Status fetch(const ModelName& name, const std::string& commit, const RemoteFile& file, PartialFile& partial,
               const std::function<void()>& progress);

 private:
  struct Question;
  Client(Settings settings, const RetryPolicy& retry, std::stop_token stop, HttpSession session,
         std::string origin);
  Result<HttpReply> ask(const Question& question);
  HttpResult ask_once(const Question& question);
  Result<HttpRequest> request_for(const Question& question, const std::string& url) const;
  [[nodiscard]] Error refusal(const Question& question, const HttpReply& reply, int tries) const;

  Settings settings_;
  RetryPolicy retry_;
  std::stop_token stop_;
  HttpSession session_;
  std::string origin_;  // origin of the endpoint
  bool heard_ = false;  // the endpoint has answered before
};

// Returns the wait requested by a reply with status "too many requests" or "unavailable", or nullopt. Reads
// Retry-After in seconds or as a date, or RateLimit's t= (draft-ietf-httpapi-ratelimit-headers).
std::optional<std::chrono::milliseconds> asked_wait(const HttpReply& reply);

}  // namespace saccade::hub

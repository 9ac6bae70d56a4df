#include "saccade/hub/test_hub.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "saccade/core/json.h"
#include "saccade/hub/content_hash.h"

namespace saccade::test {
namespace {

HubReply refused(int status, const std::string& code) {
  HubReply reply;
  reply.status = status;
  reply.headers = {{"X-Error-Code", code}};
  reply.body = "{\"error\": \"refused\"}";
  return reply;
}

// Returns the content, or the part requested by a Range.
HubReply content_reply(const HubRequest& request, const std::string& content) {
  HubReply reply;
  reply.body = content;
  const std::string range = request.header("range");
  if (!range.starts_with("bytes=")) return reply;
  size_t begin = 0;
  std::from_chars(range.data() + 6, range.data() + range.size(), begin);
  if (begin >= content.size()) return refused(416, "");
  reply.status = 206;
  reply.body = content.substr(begin);
  reply.headers.emplace_back("Content-Range",
                             fmt::format("bytes {}-{}/{}", begin, content.size() - 1, content.size()));
  return reply;
}

}  // namespace

std::string hub_hash(const HubFile& file) {
  hub::ContentHash hash(file.large ? hub::HashKind::kSha256 : hub::HashKind::kGit,
                        static_cast<int64_t>(file.content.size()));
  hash.update(std::as_bytes(std::span(file.content)));
  return hash.hex();
}

TestHub::TestHub()
    : hub_([this](const HubRequest& request) { return answer(request); }),
      storage_([this](const HubRequest& request) { return answer(request); }) {}

HubReply TestHub::answer(const HubRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  HubReply reply = ordinary(request);
  if (instead) {
    if (auto other = instead(request, reply)) reply = std::move(*other);
  }
  return reply;
}

std::string TestHub::endpoint() const {
  return hub_.endpoint();
}
std::string TestHub::storage() const {
  return storage_.endpoint();
}

std::vector<HubRequest> TestHub::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int TestHub::gets(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [&](const HubRequest& request) {
    return request.method == "GET" && request.path.find(part) != std::string::npos;
  }));
}

HubReply TestHub::ordinary(const HubRequest& request) const {
  // The other host serves contents by hash, without authorization.
  if (request.path.starts_with("/storage/")) {
    for (const auto& [name, model] : models) {
      for (const auto& [file_name, file] : model.files) {
        if (request.path == "/storage/" + hub_hash(file)) return content_reply(request, file.content);
      }
    }
    return refused(404, "");
  }
  return model_reply(request);
}

HubReply TestHub::model_reply(const HubRequest& request) const {
  std::string path = request.path;
  const bool api = path.starts_with("/api/models/");
  path = path.substr(api ? sizeof("/api/models/") - 1 : 1);
  const std::string between = api ? "/revision/" : "/resolve/";
  const size_t at = path.find(between);
  const auto found = models.find(path.substr(0, at));
  // Like the real hub, so that private models cannot be distinguished from missing ones.
  const bool signed_in = request.header("authorization") == "Bearer good";
  if (found == models.end()) return refused(signed_in ? 404 : 401, "RepoNotFound");
  const HubModel& model = found->second;
  if (at == std::string::npos) return refused(404, "");
  if (model.gated && !signed_in) {
    return refused(request.header("authorization").empty() ? 401 : 403, "GatedRepo");
  }
  const std::string rest = path.substr(at + between.size());
  const std::string revision = rest.substr(0, rest.find('/'));
  if (revision != "main" && revision != model.commit) return refused(404, "RevisionNotFound");
  if (!api) return file_reply(request, model, rest.substr(revision.size() + 1));
  Json siblings = Json::array();
  for (const auto& [name, file] : model.files) siblings.push_back({{"rfilename", name}});
  HubReply reply;
  reply.body = dump_json({{"sha", model.commit}, {"siblings", siblings}});
  return reply;
}

HubReply TestHub::file_reply(const HubRequest& request, const HubModel& model,
                             const std::string& file) const {
  const auto found = model.files.find(file);
  if (found == model.files.end()) return refused(404, "EntryNotFound");
  const std::string hash = hub_hash(found->second);
  HubReply reply;
  if (found->second.large) {
    reply.status = 302;
    reply.headers = {{"Location", storage() + "/storage/" + hash},
                     {"X-Linked-Etag", "\"" + hash + "\""},
                     {"X-Linked-Size", fmt::format("{}", found->second.content.size())},
                     {"ETag", "\"of the pointer\""}};
    reply.body = "Found";
  } else {
    reply = content_reply(request, found->second.content);
    reply.headers.emplace_back("ETag", "W/\"" + hash + "\"");
  }
  reply.headers.emplace_back("X-Repo-Commit", model.commit);
  return reply;
}

}  // namespace saccade::test

#include "saccade/hub/test_hub.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <charconv>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/json.h"
#include "saccade/hub/content_hash.h"

namespace saccade::test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The head of a request: up to the empty line.
std::optional<HubRequest> read_request(int connection) {
  std::string text;
  std::array<char, 4096> block{};
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::recv(connection, block.data(), block.size(), 0);
    if (got <= 0 || text.size() > (1U << 20)) return {};
    text.append(block.data(), static_cast<size_t>(got));
  }
  HubRequest request;
  size_t at = text.find("\r\n");
  const std::string first = text.substr(0, at);
  const size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.path = first.substr(space + 1, first.rfind(' ') - space - 1);
  for (;;) {
    const size_t begin = at + 2;
    at = text.find("\r\n", begin);
    if (at == begin) return request;
    const std::string line = text.substr(begin, at - begin);
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) request.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

HubReply refused(int status, const std::string& code) {
  HubReply reply;
  reply.status = status;
  reply.headers = {{"X-Error-Code", code}};
  reply.body = "{\"error\": \"refused\"}";
  return reply;
}

// The content, or the part of it that a Range asks for.
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

std::string HubRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string hub_hash(const HubFile& file) {
  hub::ContentHash hash(file.large ? hub::HashKind::kSha256 : hub::HashKind::kGit,
                        static_cast<int64_t>(file.content.size()));
  hash.update(std::as_bytes(std::span(file.content)));
  return hash.hex();
}

TestHub::TestHub() {
  open(hub_);
  open(storage_);
}

TestHub::~TestHub() {
  closing_ = true;
  for (Listener* listener : {&hub_, &storage_}) {
    ::shutdown(listener->descriptor, SHUT_RDWR);
    listener->thread.join();
    ::close(listener->descriptor);
  }
  for (std::thread& connection : connections_) connection.join();
}

void TestHub::open(Listener& listener) {
  listener.descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.descriptor, generic, size) != 0 || ::listen(listener.descriptor, 16) != 0 ||
      ::getsockname(listener.descriptor, generic, &size) != 0) {
    throw std::runtime_error("no port on loopback for the test's hub");
  }
  listener.port = ntohs(address.sin_port);
  listener.thread = std::thread([this, &listener] { serve(listener); });
}

void TestHub::serve(Listener& listener) {
  while (!closing_) {
    pollfd waiting{.fd = listener.descriptor, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 100) <= 0) continue;
    const int connection = ::accept4(listener.descriptor, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const std::lock_guard lock(mutex_);
    connections_.emplace_back([this, connection] { answer(connection); });
  }
}

void TestHub::answer(int connection) {
  if (const auto request = read_request(connection)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    HubReply reply = ordinary(*request);
    if (instead) {
      if (auto other = instead(*request, reply)) reply = std::move(*other);
    }
    if (!reply.no_answer) {
      std::string head = fmt::format("HTTP/1.1 {} Status\r\nConnection: close\r\n", reply.status);
      for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
      if (!reply.no_length) head += fmt::format("Content-Length: {}\r\n", reply.body.size());
      send_all(connection, head + "\r\n");
      if (request->method != "HEAD") {
        const auto length = reply.cut_after >= 0 ? static_cast<size_t>(reply.cut_after) : reply.body.size();
        send_all(connection, std::string_view(reply.body).substr(0, length));
        char byte = 0;
        while (reply.hold && !closing_) {
          pollfd waiting{.fd = connection, .events = POLLIN, .revents = 0};
          if (::poll(&waiting, 1, 100) > 0 && ::recv(connection, &byte, 1, 0) <= 0) break;
        }
      }
    }
  }
  ::shutdown(connection, SHUT_RDWR);
  ::close(connection);
}

std::string TestHub::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", hub_.port);
}
std::string TestHub::storage() const {
  return fmt::format("http://127.0.0.1:{}", storage_.port);
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
  // The other host: contents by their hash, whoever asks.
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
  // As the real one does, so that private models cannot be told from none.
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

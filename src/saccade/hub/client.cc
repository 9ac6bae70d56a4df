#include "saccade/hub/client.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/core/json.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/hub/curl_support.h"

namespace saccade::hub {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxRedirects = 10;
constexpr int64_t kMaxSize = int64_t{1} << 46;  // 64 TiB: past anything a disk here holds

// Parses an integer without any other text.
std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return {};
  return value;
}

std::string clean_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

// Checks the first and the last number of "bytes 100-199/200".
bool range_is(std::string_view header, int64_t begin, int64_t size) {
  return header == fmt::format("bytes {}-{}/{}", begin, size - 1, size);
}

}  // namespace

std::optional<milliseconds> asked_wait(const HttpReply& reply) {
  constexpr int64_t kMost = 1'000'000'000;
  const std::string after(reply.header("retry-after"));
  if (const auto seconds = whole(after)) return milliseconds(1000 * std::min(*seconds, kMost));
  if (!after.empty() && load_curl()) {
    const time_t when = curl_getdate(after.c_str(), nullptr);
    if (when != -1) return milliseconds(1000 * std::clamp<int64_t>(when - std::time(nullptr), 0, kMost));
  }
  const std::string_view limit = reply.header("ratelimit");
  const size_t at = limit.find(";t=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = limit.substr(at + 3);
  const auto seconds = whole(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!seconds) return {};
  return milliseconds(1000 * std::min(*seconds, kMost));
}

// Request to the endpoint, with its retries.
struct Client::Question {
  const ModelName* model;
  std::string path;  // at the endpoint, "/..."
  std::string file;  // file that it concerns; empty for the model
  bool head = false;
  const HttpSink* sink = nullptr;
  std::function<int64_t()> from = {};  // the byte to begin at
};

Client::Client(Settings settings, const RetryPolicy& retry, std::stop_token stop, HttpSession session,
               std::string origin)
    : settings_(std::move(settings)),
      retry_(retry),
      stop_(std::move(stop)),
      session_(std::move(session)),
      origin_(std::move(origin)) {}

Result<Client> Client::open(const Settings& settings, const RetryPolicy& retry, std::stop_token stop,
                            const HttpOptions& http) {
  SACCADE_ASSIGN(std::string origin, origin_of(settings.endpoint).in(settings.endpoint));
  HttpOptions options = http;
  options.certificates = settings.certificates;
  SACCADE_ASSIGN(HttpSession session, HttpSession::open(options));
  return Client(settings, retry, std::move(stop), std::move(session), std::move(origin));
}

Result<HttpRequest> Client::request_for(const Question& question, const std::string& url) const {
  HttpRequest request;
  request.url = url;
  request.head = question.head;
  // Sizes and ranges are of the content itself.
  request.headers.emplace_back("Accept-Encoding: identity");
  SACCADE_ASSIGN(const std::string origin, origin_of(url));
  if (!settings_.token.empty() && origin == origin_)
    request.headers.push_back("Authorization: Bearer " + settings_.token);
  const int64_t from = question.from ? question.from() : 0;
  if (from > 0) request.headers.push_back(fmt::format("Range: bytes={}-", from));
  return request;
}

// Follows redirects and returns the last reply. A HEAD request prefers the hub's own description of the
// redirect's target, if it gives one.
HttpResult Client::ask_once(const Question& question) {
  std::string url = settings_.endpoint + question.path;
  HttpReply first;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    const Result<HttpRequest> request = request_for(question, url);
    if (!request) return tl::unexpected(HttpFailure{request.error()});
    HttpResult reply = session_.send(*request, question.sink, stop_);
    if (!reply) {
      HttpFailure& failure = reply.error();
      const bool network = failure.passing || !failure.connected;  // and not what was done with the bytes
      if (redirects > 0 && network) failure.error = failure.error.in("where it is redirected to");
      return reply;
    }
    heard_ = true;
    // The hub's description of a file may come with any step, usually with the first.
    for (const char* name : {"x-linked-etag", "x-linked-size", "x-repo-commit"}) {
      if (reply->header(name).empty() && !first.header(name).empty())
        reply->headers[name] = first.headers[name];
    }
    if (!is_redirect(reply->status) || (question.head && !reply->header("x-linked-etag").empty()))
      return reply;
    first = *reply;
    Result<std::string> next = resolve_url(url, std::string(reply->header("location")));
    if (!next || reply->header("location").empty()) {
      return tl::unexpected(
          HttpFailure{Error{ErrorCode::kBadData, "redirected to an address that is not a URL"}});
    }
    if (url.starts_with("https:") && !next->starts_with("https:")) {
      return tl::unexpected(
          HttpFailure{Error{ErrorCode::kBadData, "redirected from https to an open address"}});
    }
    url = *next;
  }
  return tl::unexpected(
      HttpFailure{Error{ErrorCode::kBadData, fmt::format("redirected more than {} times", kMaxRedirects)}});
}

Result<HttpReply> Client::ask(const Question& question) {
  const std::string asked = fmt::format("{} {}", question.head ? "HEAD" : "GET", question.path);
  const auto mark = [&] { return question.from ? question.from() : 0; };
  milliseconds time = retry_.first_wait;
  for (int tries = 1;; ++tries) {
    const int64_t before = mark();
    HttpResult reply = ask_once(question);
    if (reply && reply->status / 100 <= 3) return std::move(*reply);
    if (mark() > before) {
      tries = 1;
      time = retry_.first_wait;
    }
    std::optional<milliseconds> asked_time;
    if (reply) {
      if (!is_passing(reply->status) || tries >= retry_.tries) return fail(refusal(question, *reply, tries));
      asked_time = asked_wait(*reply);
      if (asked_time > retry_.longest_wait) return fail(refusal(question, *reply, tries));
    } else {
      const HttpFailure& failure = reply.error();
      if (failure.error.code == ErrorCode::kCancelled) return fail(failure.error);
      const bool passing = failure.passing || (!failure.connected && heard_);
      if (!passing || tries >= retry_.tries) {
        const Error error = failure.error.in(asked);
        return fail(failure.connected ? error : error.in(settings_.endpoint));
      }
    }
    SACCADE_TRY(stoppable_wait(asked_time.value_or(std::min(time, retry_.longest_wait)), stop_));
    time *= 2;
  }
}

Error Client::refusal(const Question& question, const HttpReply& reply, int tries) const {
  const std::string asked =
      fmt::format("{} {}: status {}", question.head ? "HEAD" : "GET", question.path, reply.status);
  const std::string what = question.model->text();
  const std::string_view code = reply.header("x-error-code");
  const std::string give = "give a token that may read it (HF_TOKEN, --token-file)";
  const auto error = [&](ErrorCode kind, const std::string& text) {
    return Error{kind, fmt::format("{} ({})", text, asked)};
  };
  if ((reply.status == 401 || reply.status == 403) && code == "GatedRepo") {
    return error(
        ErrorCode::kNotFound,
        settings_.token.empty()
            ? fmt::format("{} is gated: accept its conditions on its page at {}, then {}", what,
                          settings_.endpoint, give)
            : fmt::format("{} is gated, and the token's owner has no access: ask for it on its page at {}",
                          what, settings_.endpoint));
  }
  if (reply.status == 401 || reply.status == 403) {
    return error(
        ErrorCode::kNotFound,
        settings_.token.empty()
            ? fmt::format("{} has no {}, or keeps it private: check the name, or {}", settings_.endpoint,
                          what, give)
            : fmt::format("{} refuses the token for {}, or has no such model", settings_.endpoint, what));
  }
  if (reply.status == 404 || reply.status == 410) {
    if (code == "RevisionNotFound") {
      return error(ErrorCode::kNotFound, fmt::format("{} has no revision {}", question.model->repository(),
                                                     question.model->revision_or_default()));
    }
    if (!question.file.empty())
      return error(ErrorCode::kNotFound, fmt::format("{} has no file {}", what, question.file));
    return error(ErrorCode::kNotFound, fmt::format("{} has no {}", settings_.endpoint, what));
  }
  if (reply.status == 416) {
    return error(ErrorCode::kMismatch, fmt::format("{} ends before the size that {} says it has",
                                                   question.file, settings_.endpoint));
  }
  if (reply.status == 429) {
    const auto time = asked_wait(reply);
    return error(ErrorCode::kLimit,
                 fmt::format("{} has had too many requests: try again {}", settings_.endpoint,
                             time ? fmt::format("in {} seconds", time->count() / 1000) : "later"));
  }
  if (reply.status >= 500) {
    return error(ErrorCode::kIo, fmt::format("{} fails at the moment ({} of {} tries)", settings_.endpoint,
                                             tries, retry_.tries));
  }
  return error(ErrorCode::kIo, fmt::format("{} gives an answer that makes no sense", settings_.endpoint));
}

Result<RemoteModel> Client::model(const ModelName& name) {
  Question question{.model = &name,
                    .path = fmt::format("/api/models/{}/{}/revision/{}", name.owner, name.name,
                                        percent_encoded(name.revision_or_default())),
                    .file = {}};
  SACCADE_ASSIGN(const HttpReply reply, ask(question));
  const std::string where = "GET " + question.path;
  SACCADE_ASSIGN(const Json json, parse_json(reply.body).in(where));
  RemoteModel model;
  SACCADE_ASSIGN(model.commit, json_field<std::string>(json, "sha").in(where));
  if (!is_commit(model.commit))
    return fail(ErrorCode::kBadData, "{}: \"sha\" is \"{}\", not a commit", where,
                model.commit.substr(0, 80));
  if (is_commit(name.revision) && model.commit != name.revision) {
    return fail(ErrorCode::kMismatch, "{}: the hub answers with commit {}, asked for {}", where, model.commit,
                name.revision);
  }
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array())
    return fail(ErrorCode::kBadData, "{}: no list of files (\"siblings\")", where);
  for (const Json& sibling : *siblings) {
    SACCADE_ASSIGN(model.files.emplace_back(), json_field<std::string>(sibling, "rfilename").in(where));
  }
  return model;
}

namespace {

std::string resolve_path(const ModelName& name, const std::string& commit, const std::string& file) {
  return fmt::format("/{}/{}/resolve/{}/{}", name.owner, name.name, commit, percent_encoded(file, "/"));
}

}  // namespace

Result<RemoteFile> Client::file(const ModelName& name, const std::string& commit, const std::string& file) {
  const Question question{
      .model = &name, .path = resolve_path(name, commit, file), .file = file, .head = true};
  SACCADE_ASSIGN(const HttpReply reply, ask(question));
  const std::string where = "HEAD " + question.path;
  const std::string_view of = reply.header("x-repo-commit");
  if (!of.empty() && of != commit) {
    return fail(ErrorCode::kMismatch, "{}: of commit {}, asked for {}", where, of.substr(0, 80), commit);
  }
  RemoteFile result;
  result.name = file;
  const std::string_view linked = reply.header("x-linked-etag");
  result.hash = clean_etag(linked.empty() ? reply.header("etag") : linked);
  SACCADE_ASSIGN(result.kind, hash_kind(result.hash).in(where));
  const std::string_view size =
      reply.header("x-linked-size").empty() ? reply.header("content-length") : reply.header("x-linked-size");
  const auto bytes = whole(size);
  if (!bytes || *bytes > kMaxSize)
    return fail(ErrorCode::kBadData, "{}: says it has \"{}\" bytes", where, size.substr(0, 80));
  result.size = *bytes;
  return result;
}

Status Client::fetch(const ModelName& name, const std::string& commit, const RemoteFile& file,
                     PartialFile& partial, const std::function<void()>& progress) {
  HttpSink sink;
  sink.begin = [&](const HttpReply& head) -> Status {
    if (partial.filled() == 0 && head.status == 200) return {};
    if (head.status == 206 && range_is(head.header("content-range"), partial.filled(), partial.size()))
      return {};
    // The server ignored the range: start from the beginning.
    if (head.status == 200) return partial.restart();
    return fail(ErrorCode::kBadData, "asked for bytes from {} of {}, got \"{}\"", partial.filled(),
                partial.size(), head.header("content-range").substr(0, 80));
  };
  sink.write = [&](std::span<const std::byte> bytes) -> Status {
    SACCADE_TRY(partial.append(bytes));
    if (progress) progress();
    return {};
  };
  const Question question{.model = &name,
                          .path = resolve_path(name, commit, file.name),
                          .file = file.name,
                          .head = false,
                          .sink = &sink,
                          .from = [&partial] { return partial.filled(); }};
  // A body may end early without a connection error: continue where it stopped, as long as more bytes arrive.
  while (partial.filled() < partial.size()) {
    const int64_t before = partial.filled();
    SACCADE_TRY(ask(question));
    if (partial.filled() <= before) break;
  }
  return {};
}

}  // namespace saccade::hub

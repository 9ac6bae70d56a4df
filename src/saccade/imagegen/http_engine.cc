#include "saccade/imagegen/http_engine.h"

#include <algorithm>

#include "saccade/core/ascii.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/image/decode/square.h"

namespace saccade {
namespace {

using std::chrono::milliseconds;

constexpr int kMostSide = 1024;  // maximum side of a reference without a requested size
constexpr size_t kMostSaid = 300;
constexpr std::chrono::seconds kTellSilence{2};

bool is_passing(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504 || status == 529;
}

int64_t size_of(const hub::HttpRequest& request) {
  auto size = static_cast<int64_t>(request.body ? request.body->size() : 0);
  for (const hub::HttpFormPart& part : request.form) size += static_cast<int64_t>(part.content.size());
  return size;
}

bool looks_like_html(std::string_view body) {
  const std::string_view start = trim_ascii(body, " \t\r\n");
  return starts_in_any_case(start, "<!doctype") || starts_in_any_case(start, "<html") ||
         starts_in_any_case(start, "<head");
}

// Shortens a text to one line without control characters.
std::string short_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMostSaid)) {
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  if (text.size() > kMostSaid) line += "...";
  return line;
}

std::string text_in(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    for (const char* key : {"message", "detail", "error", "msg", "type"}) {
      if (const auto found = value.find(key); found != value.end()) {
        std::string text = text_in(*found);
        if (!text.empty()) return text;
      }
    }
  }
  if (value.is_array() && !value.empty()) return text_in(value.front());
  return {};
}

}  // namespace

std::string said_in(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return "nothing";
  if (looks_like_html(body)) return "a page of HTML";
  if (const auto json = parse_json(body)) {
    for (const char* key : {"error", "detail", "errors", "message"}) {
      if (!json->is_object()) break;
      const auto found = json->find(key);
      if (found == json->end()) continue;
      // AUTOMATIC1111 puts the exception's class in "error" and its message elsewhere.
      std::string text = text_in(*found);
      if (std::string_view(key) == "error" && found->is_string()) {
        for (const char* more : {"detail", "errors"}) {
          const std::string other = json->contains(more) ? text_in((*json)[more]) : std::string();
          if (!other.empty()) text += ": " + other;
          if (!other.empty()) break;
        }
      }
      if (!text.empty()) return short_line(text);
    }
  }
  return short_line(body);
}

std::string prompted(const std::string& prompt, const std::string& text) {
  constexpr std::string_view kPlace = "{text}";
  std::string said;
  for (size_t begin = 0;;) {
    const size_t place = prompt.find(kPlace, begin);
    said += prompt.substr(begin, place == std::string::npos ? place : place - begin);
    if (place == std::string::npos) return said;
    said += text;
    begin = place + kPlace.size();
  }
}

hub::HttpRequest json_request(std::string path, const Json& json) {
  hub::HttpRequest request;
  request.url = std::move(path);
  request.headers = {"Content-Type: application/json"};
  request.body = dump_json(json);
  return request;
}

Result<std::unique_ptr<EngineCaller>> EngineCaller::open(const ImageEngineOptions& options,
                                                         std::string authorization) {
  std::unique_ptr<EngineCaller> caller(new EngineCaller(options));
  SACCADE_ASSIGN(caller->options_.endpoint, hub::clean_endpoint(options.endpoint).in("--endpoint"));
  SACCADE_ASSIGN(caller->origin_, hub::origin_of(caller->options_.endpoint).in(options.endpoint));
  caller->authorization_ = std::move(authorization);
  return caller;
}

std::optional<Error> EngineCaller::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

tl::unexpected<Error> EngineCaller::end(Error error) {
  const std::lock_guard lock(mutex_);
  if (!over_) over_ = error;
  return fail(std::move(error));
}

Result<hub::HttpSession> EngineCaller::take_session() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      hub::HttpSession session = std::move(free_.back());
      free_.pop_back();
      return session;
    }
  }
  hub::HttpOptions http;
  http.silence_limit = options_.silence;
  http.certificates = options_.certificates;
  return hub::HttpSession::open(http);
}

void EngineCaller::give_back(hub::HttpSession session) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(session));
}

Status EngineCaller::count(const hub::HttpRequest& request, Counted counted) {
  if (options_.max_bytes > 0 && bytes_ + size_of(request) > options_.max_bytes) {
    return end({ErrorCode::kLimit,
                fmt::format("the bound of {} bytes is reached, there and back", options_.max_bytes)});
  }
  if (counted == Counted::kYes) {
    const int64_t before = requests_.fetch_add(1);
    if (options_.max_requests > 0 && before >= options_.max_requests) {
      --requests_;
      return end(
          {ErrorCode::kLimit, fmt::format("the bound of {} requests is reached", options_.max_requests)});
    }
  }
  bytes_ += size_of(request);
  return {};
}

Result<hub::HttpReply> EngineCaller::call(hub::HttpRequest request, const std::stop_token& stop,
                                          Counted counted) {
  const std::string path = request.url;
  const bool below = path.starts_with('/');
  if (below) request.url = options_.endpoint + path;
  const bool sends = request.body || !request.form.empty();
  const std::string asked =
      fmt::format("{} {}", sends ? "POST" : "GET", below ? path : "an address it names");
  request.max_body = options_.max_answer;
  SACCADE_ASSIGN(const std::string origin, hub::origin_of(request.url).in(asked));
  if (!authorization_.empty() && origin == origin_) {
    request.headers.push_back("Authorization: " + authorization_);
  }
  milliseconds time = options_.retry.first_wait;
  for (int tries = 1;; ++tries) {
    if (const auto ended = over()) return fail(*ended);
    SACCADE_TRY(count(request, counted));
    SACCADE_ASSIGN(hub::HttpSession session, take_session());
    hub::HttpResult reply = session.send(request, nullptr, stop);
    give_back(std::move(session));
    std::optional<milliseconds> asked_time;
    const bool last = tries >= options_.retry.tries;
    if (reply) {
      heard_ = true;
      bytes_ += static_cast<int64_t>(reply->body.size());
      if (reply->status / 100 == 2) return std::move(*reply);
      const std::string said = fmt::format("{}: status {}: {}", asked, reply->status, said_in(reply->body));
      if (below && (reply->status == 401 || reply->status == 403)) {
        return end(
            {ErrorCode::kNotFound, fmt::format("{}: the key is refused or missing (SACCADE_ENGINE_KEY): {}",
                                               options_.endpoint, said)});
      }
      if (below && counted == Counted::kYes && (reply->status == 404 || reply->status == 405)) {
        return end(
            {ErrorCode::kNotFound, fmt::format("{}: no such engine is there: {}", options_.endpoint, said)});
      }
      asked_time = hub::asked_wait(*reply);
      if (!is_passing(reply->status) || last || asked_time > options_.retry.longest_wait) {
        return fail(reply->status == 429 ? ErrorCode::kLimit : ErrorCode::kIo, "{}", said);
      }
    } else {
      const hub::HttpFailure& failure = reply.error();
      if (failure.error.code == ErrorCode::kCancelled) return fail(failure.error);
      const bool passing = failure.passing || (!failure.connected && heard_);
      if (!failure.connected && (last || !passing) && below) {
        return end({ErrorCode::kNotFound,
                    fmt::format("nobody answers at {}: {}", options_.endpoint, failure.error.message)});
      }
      if (!passing || last) return fail(failure.error.in(asked));
    }
    time = std::min(time, options_.retry.longest_wait);
    SACCADE_TRY(stoppable_wait(asked_time.value_or(time), stop));
    time *= 2;
  }
}

void EngineCaller::tell(hub::HttpRequest request) {
  request.url = options_.endpoint + request.url;
  if (!authorization_.empty()) request.headers.push_back("Authorization: " + authorization_);
  hub::HttpOptions http;
  http.connect_limit = kTellSilence;
  http.silence_limit = kTellSilence;
  http.certificates = options_.certificates;
  auto session = hub::HttpSession::open(http);
  if (!session) return;
  static_cast<void>(session->send(request, nullptr, {}));
}

Json HttpEngine::settings() const {
  Json settings = {{"name", enum_name(options_.kind)}, {"endpoint", options_.endpoint}};
  if (!options_.model.empty()) settings["model"] = options_.model;
  if (options_.width > 0) settings["size"] = fmt::format("{}x{}", options_.width, options_.height);
  settings["prompt"] = options_.prompt;
  for (const auto& [key, value] : options_.set) settings["set"][key] = value;
  return settings;
}

int HttpEngine::vector_side() const {
  return options_.width > 0 ? std::max(options_.width, options_.height) : kMostSide;
}

Image HttpEngine::reference(const ImageView& picture) const {
  if (options_.width > 0) return fitted_over_white(picture, options_.width, options_.height);
  return at_most_over_white(picture, kMostSide);
}

std::vector<Result<std::string>> HttpEngine::make(std::span<const PictureRequest> requests,
                                                  const std::stop_token& stop) {
  std::vector<Result<std::string>> pictures;
  for (const PictureRequest& request : requests) pictures.push_back(make_one(request, stop));
  return pictures;
}

}  // namespace saccade

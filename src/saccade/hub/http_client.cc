#include "saccade/hub/http_client.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <mutex>
#include <sys/socket.h>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/hub/curl_support.h"

namespace saccade::hub {

SACCADE_CURL_FUNCTIONS(SACCADE_LATE_DEFINE)

Status load_curl() {
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] {
    LateLibrary library(SACCADE_CURL_FILE);
#define SACCADE_BIND(name) library.bind(name, #name);
    SACCADE_CURL_FUNCTIONS(SACCADE_BIND)
#undef SACCADE_BIND
    failure = library.failure();
    if (failure.empty()) curl_global_init(CURL_GLOBAL_DEFAULT);
  });
  if (failure.empty()) return {};
  return fail(ErrorCode::kUnsupported, "libcurl, which requests are made with, does not load: {}", failure);
}

namespace {

constexpr size_t kMaxHeaderBytes = 256 << 10;
constexpr std::string_view kHeaderSpace = " \t\r\n";

struct Transfer {
  const HttpRequest* request = nullptr;
  const HttpSink* sink = nullptr;
  const std::stop_token* stop = nullptr;
  HttpReply reply;
  size_t header_bytes = 0;
  bool begun = false;
  Status status;  // error of the sink, or of one of our limits
};

size_t take_header(char* data, size_t /*one*/, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line = trim_ascii({data, size}, kHeaderSpace);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kMaxHeaderBytes) {
    transfer.status = fail(ErrorCode::kLimit, "more than {} bytes of headers", kMaxHeaderBytes);
    return 0;
  }
  if (line.starts_with("HTTP/")) {  // also after "100 Continue", and behind a proxy
    transfer.reply.headers.clear();
    return size;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  transfer.reply.headers[lower_ascii(line.substr(0, colon))] =
      trim_ascii(line.substr(colon + 1), kHeaderSpace);
  return size;
}

bool goes_to_sink(const Transfer& transfer) {
  return transfer.sink != nullptr && (transfer.reply.status == 200 || transfer.reply.status == 206);
}

size_t take_body(char* data, size_t /*one*/, size_t size, void* user);

int look_for_stop(void* user, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up_total*/,
                  curl_off_t /*up_now*/) {
  return static_cast<Transfer*>(user)->stop->stop_requested() ? 1 : 0;
}

// Returns true if no server was reached; an immediate retry seldom helps.
bool is_unreachable(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
      return true;
    default:
      return false;
  }
}

// Returns the message of a failed transfer. detail: what libcurl reported of it, or an empty string.
std::string failure_text(CURLcode code, const std::string& detail,
                         const std::filesystem::path& certificates) {
  const std::string text = curl_easy_strerror(code);
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    return fmt::format(
        "the server's certificate is not trusted: {} (SSL_CERT_FILE names a file of certificates to trust)",
        detail.empty() ? text : detail);
  }
  if (code == CURLE_SSL_CACERT_BADFILE && !certificates.empty()) {
    return fmt::format("no certificates can be read from {}, which SSL_CERT_FILE or a variable like it names",
                       certificates.string());
  }
  return text;
}

}  // namespace

std::string_view HttpReply::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpSession::State {
  CURL* easy = nullptr;
  HttpOptions options;
  ~State() { curl_easy_cleanup(easy); }
};

namespace {

size_t take_body(char* data, size_t /*one*/, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.reply.status == 0) return 0;
  if (goes_to_sink(transfer)) {
    if (!std::exchange(transfer.begun, true)) transfer.status = transfer.sink->begin(transfer.reply);
    if (transfer.status) transfer.status = transfer.sink->write(std::as_bytes(std::span(data, size)));
    return transfer.status ? size : 0;
  }
  if (static_cast<int64_t>(transfer.reply.body.size() + size) > transfer.request->max_body) {
    transfer.status = fail(ErrorCode::kLimit, "an answer of more than {} bytes", transfer.request->max_body);
    return 0;
  }
  transfer.reply.body.append(data, size);
  return size;
}

// Opens the socket for a connection, if it goes to one of the request's addresses. No other address can be
// reached.
curl_socket_t open_socket(void* user, curlsocktype /*purpose*/, curl_sockaddr* to) {
  const auto& addresses = *static_cast<const std::vector<std::string>*>(user);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* number = nullptr;
  if (to->family == AF_INET) number = &reinterpret_cast<const sockaddr_in*>(&to->addr)->sin_addr;
  if (to->family == AF_INET6) number = &reinterpret_cast<const sockaddr_in6*>(&to->addr)->sin6_addr;
  if (number == nullptr || ::inet_ntop(to->family, number, text.data(), text.size()) == nullptr ||
      std::ranges::find(addresses, text.data()) == addresses.end()) {
    return CURL_SOCKET_BAD;
  }
  return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

// Formats libcurl's fixed resolution of a host name: "host:port:address,address". Empty for an IPv6 address,
// which needs no resolution.
Result<std::string> settled_name(const HttpRequest& request) {
  SACCADE_ASSIGN(const UrlParts url, url_parts(request.url));
  if (url.host.find(':') != std::string::npos) return std::string();
  std::string text = fmt::format("{}:{}:", url.host, url.port);
  for (const std::string& address : request.addresses) {
    if (!text.ends_with(':')) text += ',';
    text += address.find(':') == std::string::npos ? address : fmt::format("[{}]", address);
  }
  return text;
}

// Request body, alive for the duration of the request.
class Upload {
 public:
  Upload(CURL* easy, const HttpRequest& request) {
    if (request.body) {
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body->data());
    } else if (!request.form.empty()) {
      form_ = curl_mime_init(easy);
      for (const HttpFormPart& each : request.form) {
        curl_mimepart* part = curl_mime_addpart(form_);
        curl_mime_name(part, each.name.c_str());
        curl_mime_data(part, each.content.data(), each.content.size());
        if (!each.file_name.empty()) curl_mime_filename(part, each.file_name.c_str());
        if (!each.content_type.empty()) curl_mime_type(part, each.content_type.c_str());
      }
      curl_easy_setopt(easy, CURLOPT_MIMEPOST, form_);
    }
  }
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() { curl_mime_free(form_); }

 private:
  curl_mime* form_ = nullptr;
};

}  // namespace

HttpSession::HttpSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpSession::HttpSession(HttpSession&&) noexcept = default;
HttpSession& HttpSession::operator=(HttpSession&&) noexcept = default;
HttpSession::~HttpSession() = default;

Result<HttpSession> HttpSession::open(const HttpOptions& options) {
  SACCADE_TRY(load_curl());
  auto state = std::make_unique<State>();
  state->easy = curl_easy_init();
  state->options = options;
  if (state->easy == nullptr) return fail(ErrorCode::kInternal, "libcurl cannot be set up");
  return HttpSession(std::move(state));
}

HttpResult HttpSession::send(const HttpRequest& request, const HttpSink* sink, const std::stop_token& stop) {
  Transfer transfer;
  transfer.request = &request;
  transfer.sink = sink;
  transfer.stop = &stop;
  std::string name;
  if (!request.addresses.empty()) {
    auto settled = settled_name(request);
    if (!settled) return tl::unexpected(HttpFailure{settled.error()});
    name = *std::move(settled);
  }
  // A handle caches name resolution and connections, so a request with fixed addresses has a handle of its
  // own.
  State own;
  if (!request.addresses.empty()) own.easy = curl_easy_init();
  CURL* easy = request.addresses.empty() ? state_->easy : own.easy;
  if (easy == nullptr) {
    return tl::unexpected(HttpFailure{Error{ErrorCode::kInternal, "libcurl cannot be set up"}});
  }
  curl_easy_reset(easy);  // options only: the connection stays
  curl_slist* names = nullptr;
  curl_slist* headers = nullptr;
  for (const std::string& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  const bool sends = request.body || !request.form.empty();
  if (sends)
    headers = curl_slist_append(headers, "Expect:");  // servers that know nothing of it cost a second
  const auto set = [easy](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  const Upload upload(easy, request);
  if (!request.method.empty()) set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_USERAGENT, "saccade");
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(state_->options.connect_limit.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(state_->options.silence_limit.count()));
  if (state_->options.time_limit.count() > 0)
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(state_->options.time_limit.count()));
  if (!request.addresses.empty()) {
    if (!name.empty()) names = curl_slist_append(names, name.c_str());
    set(CURLOPT_RESOLVE, names);
    set(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    set(CURLOPT_OPENSOCKETDATA, &request.addresses);
    set(CURLOPT_PROXY, "");
  }
  if (!state_->options.certificates.empty()) set(CURLOPT_CAINFO, state_->options.certificates.c_str());
  std::array<char, CURL_ERROR_SIZE> detail{};
  set(CURLOPT_ERRORBUFFER, detail.data());
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &transfer);
  // The status is known to libcurl when the body begins.
  struct Body {
    CURL* easy;
    Transfer* transfer;
  } body{easy, &transfer};
  set(
      CURLOPT_WRITEFUNCTION, +[](char* data, size_t one, size_t size, void* user) -> size_t {
        const auto& [handle, current] = *static_cast<Body*>(user);
        long status = 0;
        curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
        current->reply.status = static_cast<int>(status);
        return take_body(data, one, size, current);
      });
  set(CURLOPT_WRITEDATA, &body);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, look_for_stop);
  set(CURLOPT_XFERINFODATA, &transfer);

  const CURLcode code = curl_easy_perform(easy);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));  // the handle lives longer than the buffer
  curl_slist_free_all(headers);
  curl_slist_free_all(names);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.reply.status = static_cast<int>(status);
  if (stop.stop_requested()) return tl::unexpected(HttpFailure{Error{ErrorCode::kCancelled, "stopped"}});
  if (!transfer.status) return tl::unexpected(HttpFailure{transfer.status.error()});
  if (code != CURLE_OK) {
    const bool reached = !is_unreachable(code);
    return tl::unexpected(
        HttpFailure{Error{ErrorCode::kIo, failure_text(code, detail.data(), state_->options.certificates)},
                    reached, reached, code == CURLE_OPERATION_TIMEDOUT});
  }
  if (goes_to_sink(transfer) && !transfer.begun) {
    if (const Status begun = sink->begin(transfer.reply); !begun)
      return tl::unexpected(HttpFailure{begun.error()});
  }
  return std::move(transfer.reply);
}

namespace {

struct Url {
  CURLU* handle = curl_url();
  Url() = default;
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;
  ~Url() { curl_url_cleanup(handle); }
  [[nodiscard]] std::string get(CURLUPart part, unsigned int flags) const {
    char* text = nullptr;
    if (curl_url_get(handle, part, &text, flags) != CURLUE_OK) return {};
    std::string result = text;
    curl_free(text);
    return result;
  }
};

}  // namespace

Result<std::string> resolve_url(const std::string& base, const std::string& reference) {
  SACCADE_TRY(load_curl());
  const Url url;
  if (curl_url_set(url.handle, CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.handle, CURLUPART_URL, reference.c_str(), CURLU_URLENCODE) != CURLUE_OK) {
    return fail(ErrorCode::kBadData, "not a URL");
  }
  return url.get(CURLUPART_URL, 0);
}

Result<UrlParts> url_parts(const std::string& text) {
  SACCADE_TRY(load_curl());
  const Url url;
  if (curl_url_set(url.handle, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return fail(ErrorCode::kBadData, "not a URL");
  }
  curl_url_set(url.handle, CURLUPART_FRAGMENT, nullptr, 0);
  UrlParts parts;
  parts.url = url.get(CURLUPART_URL, 0);
  parts.scheme = url.get(CURLUPART_SCHEME, 0);
  parts.host = lower_ascii(url.get(CURLUPART_HOST, 0));
  if (parts.host.starts_with('[') && parts.host.ends_with(']'))
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  const std::string port = url.get(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::from_chars(port.data(), port.data() + port.size(), parts.port);
  parts.has_user = !url.get(CURLUPART_USER, 0).empty() || !url.get(CURLUPART_PASSWORD, 0).empty();
  parts.has_zone = !url.get(CURLUPART_ZONEID, 0).empty();
  return parts;
}

Result<std::string> origin_of(const std::string& text) {
  SACCADE_ASSIGN(const UrlParts url, url_parts(text));
  const bool is_v6 = std::ranges::count(url.host, ':') > 0;
  const std::string host = is_v6 ? fmt::format("[{}]", url.host) : url.host;
  return fmt::format("{}://{}:{}", url.scheme, host, url.port);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_passing(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

}  // namespace saccade::hub

#include "chromium.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"

namespace saccade::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// Runs in the child and never returns.
[[noreturn]] void run_browser(int commands, int answers, const std::filesystem::path& folder) {
  ::setpgid(0, 0);  // its helpers end with it
  const std::string profile = "--user-data-dir=" + (folder / "profile").string();
  const std::string log = (folder / "chromium.log").string();
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int high_commands = ::fcntl(commands, F_DUPFD, 10);
  const int high_answers = ::fcntl(answers, F_DUPFD, 10);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::dup2(high_commands, 3);
  ::dup2(high_answers, 4);
  ::setenv("HOME", folder.c_str(), 1);
  for (const char* name : {"chromium", "chromium-browser"}) {
    ::execlp(name, name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", profile.c_str(), "--remote-debugging-pipe", "about:blank",
             static_cast<char*>(nullptr));
  }
  ::_exit(127);
}

}  // namespace

Result<Chromium> Chromium::start(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::array<int, 2> commands{};
  std::array<int, 2> answers{};
  if (::pipe2(commands.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) {
    return fail_errno(errno, "pipe");
  }
  ::signal(SIGPIPE, SIG_IGN);
  Chromium browser;
  browser.process_ = ::fork();
  if (browser.process_ < 0) return fail_errno(errno, "fork");
  if (browser.process_ == 0) run_browser(commands[0], answers[1], folder);
  ::close(commands[0]);
  ::close(answers[1]);
  browser.to_ = commands[1];
  browser.from_ = answers[0];

  auto target = browser.call("Target.createTarget", {{"url", "about:blank"}});
  if (!target) {
    const auto said = read_file(folder / "chromium.log");
    return fail(ErrorCode::kNotFound,
                "Chromium does not start ({}): ./dev setup pages installs it. It said: {}",
                target.error().message, said ? said->substr(0, 1000) : "");
  }
  SACCADE_ASSIGN(const std::string id, json_field<std::string>(*target, "targetId"));
  SACCADE_ASSIGN(const Json attached,
                 browser.call("Target.attachToTarget", {{"targetId", id}, {"flatten", true}}));
  SACCADE_ASSIGN(browser.session_, json_field<std::string>(attached, "sessionId"));
  for (const char* domain : {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"}) {
    SACCADE_TRY(browser.call(domain, Json::object()));
  }
  return browser;
}

Chromium::Chromium(Chromium&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      last_(other.last_),
      session_(std::move(other.session_)),
      buffer_(std::move(other.buffer_)),
      complaints_(std::move(other.complaints_)),
      requests_(std::move(other.requests_)) {}

Chromium::~Chromium() {
  if (process_ < 0) return;
  ::close(to_);  // the browser ends with its pipe
  ::close(from_);
  for (int i = 0; i < 50; ++i) {
    if (::waitpid(process_, nullptr, WNOHANG) == process_) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

Status Chromium::show(int width, int height, std::string_view scheme) {
  SACCADE_TRY(
      call("Emulation.setDeviceMetricsOverride",
           {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 500}}));
  const Json feature = {{"name", "prefers-color-scheme"}, {"value", scheme}};
  SACCADE_TRY(call("Emulation.setEmulatedMedia", {{"features", Json::array({feature})}}));
  return {};
}

Status Chromium::open(const std::filesystem::path& page) {
  SACCADE_TRY(call("Page.navigate", {{"url", "file://" + std::filesystem::absolute(page).string()}}));
  return wait_until("document.readyState === 'complete'");
}

Result<Json> Chromium::evaluate(std::string_view expression) {
  SACCADE_ASSIGN(const Json answer,
                 call("Runtime.evaluate",
                      {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}}));
  if (answer.contains("exceptionDetails")) {
    return fail(ErrorCode::kBadData, "{}: {}", expression, dump_json(answer["exceptionDetails"]));
  }
  const auto value = answer["result"].find("value");
  return value == answer["result"].end() ? Json() : *value;
}

Result<std::string> Chromium::picture_of(std::string_view selector) {
  SACCADE_ASSIGN(const Json box,
                 evaluate(fmt::format("(() => {{ const e = document.querySelector('{}'); if (!e) return "
                                      "null; e.scrollIntoView(); const r = e.getBoundingClientRect(); "
                                      "return {{x: r.x + scrollX, y: r.y + scrollY, width: r.width, "
                                      "height: r.height}}; }})()",
                                      selector)));
  if (box.is_null()) return fail(ErrorCode::kNotFound, "{}: no such element", selector);
  Json clip = box;
  clip["scale"] = 1;
  SACCADE_ASSIGN(const Json shot,
                 call("Page.captureScreenshot",
                      {{"format", "png"}, {"clip", std::move(clip)}, {"captureBeyondViewport", true}}));
  SACCADE_ASSIGN(const std::string data, json_field<std::string>(shot, "data"));
  return decode_base64(data);
}

Status Chromium::wait_until(std::string_view expression) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    SACCADE_ASSIGN(const Json value, evaluate(expression));
    if (value == true) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return fail(ErrorCode::kLimit, "not true for 60 s: {}", expression);
}

Result<Json> Chromium::call(std::string_view method, Json params) {
  Json message = {{"id", ++last_}, {"method", method}, {"params", std::move(params)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = dump_json(message) + '\0';
  SACCADE_TRY(write_all(to_, std::as_bytes(std::span(text)), "the browser's pipe"));
  for (;;) {
    SACCADE_ASSIGN(Json answer, read_message());
    if (!answer.contains("id")) {
      note(answer);
    } else if (answer["id"] == last_) {
      if (answer.contains("error"))
        return fail(ErrorCode::kInternal, "{}: {}", method, dump_json(answer["error"]));
      return answer["result"];
    }
  }
}

Result<Json> Chromium::read_message() {
  for (;;) {
    if (const size_t end = buffer_.find('\0'); end != std::string::npos) {
      auto message = parse_json(std::string_view(buffer_).substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    if (::poll(&ready, 1, static_cast<int>(milliseconds)) == 0) {
      return fail(ErrorCode::kLimit, "the browser says nothing for 60 s");
    }
    std::array<char, 1 << 16> bytes{};
    const ssize_t count = ::read(from_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(ErrorCode::kIo, "the browser has ended");
    buffer_.append(bytes.data(), static_cast<size_t>(count));
  }
}

void Chromium::note(const Json& event) {
  const std::string method = event.value("method", "");
  const Json params = event.value("params", Json::object());
  if (method == "Network.requestWillBeSent") {
    requests_.push_back(params["request"].value("url", ""));
  } else if (method == "Runtime.exceptionThrown") {
    complaints_.push_back(dump_json(params));
  } else if (method == "Runtime.consoleAPICalled") {
    const std::string type = params.value("type", "");
    if (type == "error" || type == "warning" || type == "assert")
      complaints_.push_back(dump_json(params["args"]));
  } else if (method == "Log.entryAdded") {
    const std::string level = params["entry"].value("level", "");
    if (level == "error" || level == "warning") complaints_.push_back(dump_json(params["entry"]));
  }
}

}  // namespace saccade::test

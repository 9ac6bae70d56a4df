// Shared parts of remote engines: HTTP requests with limits and retries, and the messages of refusals.
// Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/hub/http_client.h"
#include "saccade/imagegen/image_engine.h"

namespace saccade {

// HTTP caller of an engine. Thread-safe: has one connection per concurrent call.
class EngineCaller {
 public:
  // options.endpoint is one; `authorization`: the header's value, or empty. It goes
  // to the endpoint's origin alone.
  static Result<std::unique_ptr<EngineCaller>> open(const ImageEngineOptions& options,
                                                    std::string authorization);

  enum class Counted { kYes, kNo };
  // Sends a request and returns a reply with a status of 200 to 299. request.url is a path below the endpoint
  // ("/images/edits"), or a full URL. Transient failures are retried, after the wait that the server
  // requests. An error names the request and the server's message; kCancelled on a stop. Requests that only
  // poll for completion are not counted.
  Result<hub::HttpReply> call(hub::HttpRequest request, const std::stop_token& stop,
                              Counted counted = Counted::kYes);

  // Sends one request to a path below the endpoint, and gives up after two seconds of silence. The result is
  // discarded.
  void tell(hub::HttpRequest request);

  [[nodiscard]] std::optional<Error> over() const;
  [[nodiscard]] int64_t requests() const { return requests_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  explicit EngineCaller(const ImageEngineOptions& options) : options_(options) {}
  Result<hub::HttpSession> take_session();
  void give_back(hub::HttpSession session);
  Status count(const hub::HttpRequest& request, Counted counted);
  tl::unexpected<Error> end(Error error);

  ImageEngineOptions options_;
  std::string authorization_;
  std::string origin_;
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<bool> heard_ = false;
  mutable std::mutex mutex_;
  std::vector<hub::HttpSession> free_;
  std::optional<Error> over_;
};

// Returns a server's error message, short and on one line, from {"error": {"message"}}, {"error"},
// {"detail"}, {"errors"} or {"message"}. Otherwise returns the beginning of the body, or "a page of HTML".
std::string said_in(std::string_view body);

// Returns `prompt` with {text} replaced.
std::string prompted(const std::string& prompt, const std::string& text);

// Makes a request with a JSON body.
hub::HttpRequest json_request(std::string path, const Json& json);

// Remote engine that generates one image per request.
class HttpEngine : public PictureEngine {
 public:
  HttpEngine(ImageEngineOptions options, std::unique_ptr<EngineCaller> caller, int calls_at_once)
      : options_(std::move(options)), caller_(std::move(caller)), calls_at_once_(calls_at_once) {}

  [[nodiscard]] Json settings() const override;
  [[nodiscard]] int calls_at_once() const override {
    return options_.calls_at_once > 0 ? options_.calls_at_once : calls_at_once_;
  }
  [[nodiscard]] int vector_side() const override;
  [[nodiscard]] Image reference(const ImageView& picture) const override;
  [[nodiscard]] std::vector<Result<std::string>> make(std::span<const PictureRequest> requests,
                                                      const std::stop_token& stop) override;
  [[nodiscard]] std::optional<Error> over() const override { return caller_->over(); }
  [[nodiscard]] int asked_width() const override { return options_.width; }
  [[nodiscard]] int asked_height() const override { return options_.height; }
  [[nodiscard]] int64_t requests() const override { return caller_->requests(); }
  [[nodiscard]] int64_t bytes() const override { return caller_->bytes(); }

 protected:
  [[nodiscard]] virtual Result<std::string> make_one(const PictureRequest& request,
                                                     const std::stop_token& stop) = 0;
  [[nodiscard]] const ImageEngineOptions& options() const { return options_; }
  [[nodiscard]] EngineCaller& caller() { return *caller_; }
  [[nodiscard]] std::string prompt_of(const PictureRequest& request) const {
    return prompted(options_.prompt, request.text);
  }

 private:
  ImageEngineOptions options_;
  std::unique_ptr<EngineCaller> caller_;
  int calls_at_once_;
};

}  // namespace saccade

// What engines elsewhere have in common: asking over HTTP within bounds, with retries, and what a
// refusal says. Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/imagegen/image_engine.h"
#include "saccade/hub/http_client.h"

namespace saccade {

// Thread-safe: as many connections as calls at a time.
class EngineCaller {
 public:
  // options.endpoint is one; `authorization`: the header's value, or empty. It goes
  // to the endpoint's origin alone.
  static Result<std::unique_ptr<EngineCaller>> open(const ImageEngineOptions& options, std::string authorization);

  enum class Counted { kYes, kNo };
  // The answer with a status of 200 to 299. request.url is a path below the endpoint ("/images/edits"), or an
  // address. What may go well the next time is tried again, as the server asks. An error names what was asked
  // and what the server says; kCancelled. Not counted: asking whether something is done yet.
  Result<hub::HttpReply> call(hub::HttpRequest request, const std::stop_token& stop,
                              Counted counted = Counted::kYes);

  // Asks once, of a path below the endpoint, and gives up after two seconds of
  // silence: for what nobody waits for.
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

// What a server says of a failure, on one line and short: {"error": {"message"}}, {"error"}, {"detail"},
// {"errors"}, {"message"}, or the beginning of what else it sent; "a page of HTML".
std::string said_in(std::string_view body);

// {text} in `prompt` replaced.
std::string prompted(const std::string& prompt, const std::string& text);

// A request whose body is JSON.
hub::HttpRequest json_request(std::string path, const Json& json);

// An engine elsewhere that is asked for one picture at a time.
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

// A page opened in headless Chromium, driven over the DevTools protocol through pipes. Messages are JSON
// ending with NUL, on the browser's descriptors 3 and 4.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::test {

class Chromium {
 public:
  // Starts the browser with a profile of its own in `folder`. Returns kNotFound if it is not installed; it is
  // in the group "pages" of tools/packages/debian.txt.
  static Result<Chromium> start(const std::filesystem::path& folder);
  Chromium(Chromium&& other) noexcept;
  Chromium& operator=(Chromium&& other) = delete;
  ~Chromium();

  // Sets a window's size in CSS pixels, and the preferred colour scheme: "light" or "dark".
  Status show(int width, int height, std::string_view scheme);
  Status open(const std::filesystem::path& page);
  // Returns the value of a JavaScript expression; promises are awaited. kBadData contains the exception.
  Result<Json> evaluate(std::string_view expression);
  // Returns a PNG of the element as it is shown. kNotFound if the selector matches none.
  Result<std::string> picture_of(std::string_view selector);
  // Evaluates until the value is true, for at most 60 seconds.
  Status wait_until(std::string_view expression);

  // Errors and warnings of the console and the browser's log, and uncaught exceptions.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  // Addresses requested by pages.
  [[nodiscard]] const std::vector<std::string>& requests() const { return requests_; }

 private:
  Chromium() = default;
  Result<Json> call(std::string_view method, Json params);
  Result<Json> read_message();
  void note(const Json& event);

  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  int64_t last_ = 0;
  std::string session_;
  std::string buffer_;
  std::vector<std::string> complaints_;
  std::vector<std::string> requests_;
};

}  // namespace saccade::test

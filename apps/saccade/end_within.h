// Keeps the promise that a stop is over in time.
#pragma once

#include <string>
#include <thread>

namespace saccade::app {

// Ends the process with exit code 1 and a line on stderr, if the object still exists after `seconds`. Threads
// that do not return cannot be stopped in another way. Nothing is cleaned up then, as if the process were
// killed.
class EndWithin {
 public:
  EndWithin(double seconds, std::string message);

 private:
  std::jthread thread_;
};

}  // namespace saccade::app

// How a trained composer made a query of a picture and a text, for the answer to say.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

struct Composition {
  std::string composer;     // its name, for people
  std::string fingerprint;  // of its checkpoint
  std::string kind;         // as its checkpoint has it
};

}  // namespace saccade

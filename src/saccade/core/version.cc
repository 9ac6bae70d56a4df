#include "saccade/version.h"

namespace saccade {

std::string_view version() {
  return SACCADE_VERSION;
}

}  // namespace saccade

#include "saccade/model/checkpoints/build_versions.h"

#include "saccade/image/image_codec.h"
#include "saccade/nn/versions.h"
#include "saccade/text/normalize.h"

namespace saccade {

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> versions = nn::library_versions();
  versions["libvips"] = image_library_version();
  versions["ICU"] = unicode_library_version();
  return versions;
}

std::string instruction_set() {
  return nn::instruction_set();
}

}  // namespace saccade

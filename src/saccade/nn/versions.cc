#include "saccade/nn/versions.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <dnnl.hpp>

namespace saccade::nn {

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"libtorch", TORCH_VERSION},
          {"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)}};
}

}  // namespace saccade::nn

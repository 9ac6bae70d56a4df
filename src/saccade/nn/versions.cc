#include "saccade/nn/versions.h"

#include <fmt/format.h>

#include "saccade/nn/kernels/int8_product_kernels.h"
#include "saccade/nn/kernels/kernels.h"

#include <dnnl.hpp>

namespace saccade::nn {

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)}};
}

std::string instruction_set() {
  return fmt::format("oneDNN {:#x}, kernels {}, int8 {}",
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()), kernels().front().name,
                     int8_kernel().name);
}

}  // namespace saccade::nn

#include "saccade/nn/versions.h"

#include <fmt/format.h>

#include "saccade/nn/kernels/bf16_product_kernels.h"
#include "saccade/nn/kernels/int8_product_kernels.h"
#include "saccade/nn/kernels/kernels.h"

#include <dnnl.hpp>

namespace saccade::nn {

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)}};
}

std::string instruction_set() {
  const Bf16Kernel* bf16 = bf16_kernel();
  return fmt::format("oneDNN {:#x}, kernels {}, int8 {}, bf16 {}",
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()), kernels().front().name,
                     int8_kernel().name, bf16 == nullptr ? "oneDNN" : bf16->name);
}

}  // namespace saccade::nn

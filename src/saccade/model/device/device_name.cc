#include "saccade/model/device/device_name.h"

#include <algorithm>

#include "saccade/core/ascii.h"

namespace saccade {
namespace {

constexpr std::string_view kTorchProcessor = "torch-cpu";

// "cuda", or "cuda:" and a number of one or two digits.
bool names_gpu(std::string_view device) {
  constexpr std::string_view kGpu = "cuda";
  if (!device.starts_with(kGpu)) return false;
  device.remove_prefix(kGpu.size());
  if (device.empty()) return true;
  return (device.size() == 2 || device.size() == 3) && device.front() == ':' &&
         std::ranges::all_of(device.substr(1), is_ascii_digit);
}

}  // namespace

Status check_device_name(std::string_view device) {
  if (is_processor(device) || device == kTorchProcessor || names_gpu(device)) return {};
  return fail(ErrorCode::kUsage, "device \"{}\", expected cpu, cuda, or cuda:N for the GPU with that number",
              device);
}

std::string torch_name(std::string_view device) {
  return std::string(device == kTorchProcessor ? kProcessor : device);
}

}  // namespace saccade

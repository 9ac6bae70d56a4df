#include "saccade/nn/activation.h"

#include <string>

namespace saccade::nn {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

constexpr NamedActivation kActivations[] = {{"gelu", Activation::kGelu},
                                            {"gelu_new", Activation::kGeluTanh},
                                            {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                            {"quick_gelu", Activation::kQuickGelu},
                                            {"relu", Activation::kRelu},
                                            {"silu", Activation::kSilu},
                                            {"swish", Activation::kSilu}};

}  // namespace

std::string_view activation_name(Activation activation) {
  for (const NamedActivation& entry : kActivations) {
    if (entry.activation == activation) return entry.name;
  }
  return "linear";
}

Result<Activation> activation_named(std::string_view name) {
  std::string known;
  for (const NamedActivation& entry : kActivations) {
    if (entry.name == name) return entry.activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  return fail(ErrorCode::kUnsupported, "activation \"{}\" is not known; known: {}", name, known);
}

}  // namespace saccade::nn

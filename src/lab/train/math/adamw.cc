#include "lab/train/math/adamw.h"

#include <cmath>

namespace saccade::lab {

AdamW::AdamW(TorchMap parameters, const AdamWOptions& options)
    : options_(options), parameters_(std::move(parameters)) {
  for (const auto& [name, parameter] : parameters_) {
    first_[name] = torch::zeros_like(parameter).detach();
    second_[name] = torch::zeros_like(parameter).detach();
  }
}

double AdamW::clip_gradients(double max_norm) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) sum += std::pow(parameter.grad().norm().item<double>(), 2);
  }
  const double norm = std::sqrt(sum);
  if (norm > max_norm) {
    for (const auto& [name, parameter] : parameters_) {
      if (parameter.grad().defined()) parameter.grad().mul_(max_norm / norm);
    }
  }
  return norm;
}

void AdamW::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  for (auto& [name, parameter] : parameters_) {
    const auto share = options_.rates.find(name);
    const double rate = share == options_.rates.end() ? learning_rate : learning_rate * share->second;
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    torch::Tensor& first = first_[name];
    torch::Tensor& second = second_[name];
    if (parameter.dim() >= 2) parameter.mul_(1 - rate * options_.weight_decay);
    first.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
    second.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    const torch::Tensor denominator = (second / correction2).sqrt_().add_(options_.epsilon);
    parameter.addcdiv_(first, denominator, -rate / correction1);
    gradient.zero_();
  }
}

TorchMap AdamW::state() const {
  TorchMap state;
  for (const auto& [name, tensor] : first_) state["first." + name] = tensor;
  for (const auto& [name, tensor] : second_) state["second." + name] = tensor;
  state["step"] = torch::full({}, steps_, at::kLong);
  return state;
}

void AdamW::restore(const TorchMap& state) {
  for (auto& [name, tensor] : first_) tensor.copy_(state.at("first." + name));
  for (auto& [name, tensor] : second_) tensor.copy_(state.at("second." + name));
  steps_ = state.at("step").item<int64_t>();
}

}  // namespace saccade::lab

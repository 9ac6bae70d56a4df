#include "saccade/nn/packed_linear.h"

#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include <dnnl.hpp>

namespace saccade::nn {
namespace {

using dnnl::memory;

memory::data_type dnnl_type(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc row_major(int64_t rows, int64_t columns, at::ScalarType dtype) {
  return {{rows, columns}, dnnl_type(dtype), memory::format_tag::ab};
}

dnnl::matmul::primitive_desc make_matmul(const dnnl::engine& engine, const memory::desc& source,
                                         const memory::desc& weights, const memory::desc& bias,
                                         const memory::desc& destination,
                                         const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, source, weights, bias, destination, attributes};
#else
  return {{source, weights, bias, destination}, attributes, engine};
#endif
}

void append_activation(dnnl::post_ops& operations, Activation activation) {
  const auto append = [&](dnnl::algorithm algorithm, float alpha) {
#if DNNL_VERSION_MAJOR >= 3
    operations.append_eltwise(algorithm, alpha, 0);
#else
    operations.append_eltwise(1, algorithm, alpha, 0);
#endif
  };
  switch (activation) {
    case Activation::kGelu:
      return append(dnnl::algorithm::eltwise_gelu_erf, 0);
    case Activation::kQuickGelu:
      return append(dnnl::algorithm::eltwise_swish, 1.702F);
    case Activation::kGeluTanh:
      return append(dnnl::algorithm::eltwise_gelu_tanh, 0);
    case Activation::kRelu:
      return append(dnnl::algorithm::eltwise_relu, 0);
    case Activation::kSilu:
      return append(dnnl::algorithm::eltwise_swish, 1);
    case Activation::kNone:
      break;
  }
}

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

torch::Tensor activate(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kNone:
      break;
  }
  return x;
}

struct PackedLinear::State {
  int64_t in = 0;
  int64_t out = 0;
  at::ScalarType dtype = at::kFloat;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  memory weights;
  torch::Tensor bias;  // [1, out], float32

  // A compiled product for one number of rows; making one costs as much as a small product.
  using Key = std::tuple<int64_t, Activation, at::ScalarType, bool>;
  std::mutex mutex;
  std::map<Key, dnnl::matmul> products;

  dnnl::matmul::primitive_desc describe(int64_t rows, const memory::desc& weights_desc, Activation activation,
                                        at::ScalarType result, bool accumulate) const {
    dnnl::post_ops operations;
    if (accumulate) operations.append_sum(1.0F);
    append_activation(operations, activation);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    return make_matmul(engine, row_major(rows, in, dtype), weights_desc, row_major(1, out, at::kFloat),
                       row_major(rows, out, result), attributes);
  }

  void run(const torch::Tensor& x, torch::Tensor& result, Activation activation, bool accumulate) {
    TORCH_INTERNAL_ASSERT(x.is_contiguous() && x.scalar_type() == dtype && x.size(-1) == in);
    TORCH_INTERNAL_ASSERT(result.is_contiguous() && result.size(-1) == out);
    const int64_t rows = x.numel() / in;
    if (rows == 0) return;
    dnnl::matmul product;
    {
      const std::lock_guard lock(mutex);
      const Key key{rows, activation, result.scalar_type(), accumulate};
      auto found = products.find(key);
      if (found == products.end()) {
        if (products.size() >= 256) products.clear();  // texts of many lengths: bounded
        const auto description =
            describe(rows, weights.get_desc(), activation, result.scalar_type(), accumulate);
        found = products.emplace(key, dnnl::matmul(description)).first;
      }
      product = found->second;
    }
    dnnl::stream stream(engine);
    memory source(row_major(rows, in, dtype), engine, x.data_ptr());
    memory destination(row_major(rows, out, result.scalar_type()), engine, result.data_ptr());
    memory bias_memory(row_major(1, out, at::kFloat), engine, bias.data_ptr());
    product.execute(stream, {{DNNL_ARG_SRC, source},
                             {DNNL_ARG_WEIGHTS, weights},
                             {DNNL_ARG_BIAS, bias_memory},
                             {DNNL_ARG_DST, destination}});
    stream.wait();
  }
};

PackedLinear::PackedLinear(const torch::Tensor& weight, const torch::Tensor& bias, at::ScalarType dtype)
    : state_(std::make_unique<State>()) {
  const torch::NoGradGuard no_grad;
  State& state = *state_;
  state.out = weight.size(0);
  state.in = weight.size(1);
  state.dtype = dtype;
  state.bias = bias.defined() ? bias.detach().to(at::kFloat).reshape({1, state.out}).contiguous()
                              : torch::zeros({1, state.out});

  // The layout is chosen once, for a batch of ordinary size;
  // products of other sizes are asked to take it as it is.
  const memory::desc any({state.in, state.out}, dnnl_type(dtype), memory::format_tag::any);
  const auto description = state.describe(1024, any, Activation::kNone, dtype, false);
  state.weights = memory(description.weights_desc(), state.engine);

  // weight is [out, in] row-major, which is [in, out] column-major.
  const torch::Tensor plain = weight.detach().to(dtype).contiguous();
  memory source({{state.in, state.out}, dnnl_type(dtype), memory::format_tag::ba}, state.engine,
                plain.data_ptr());
  dnnl::stream stream(state.engine);
  dnnl::reorder(source, state.weights).execute(stream, source, state.weights);
  stream.wait();
}

PackedLinear::~PackedLinear() = default;

at::ScalarType PackedLinear::dtype() const {
  return state_->dtype;
}

torch::Tensor PackedLinear::forward(const torch::Tensor& x, Activation activation,
                                    at::ScalarType result) const {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = state_->out;
  torch::Tensor output = torch::empty(shape, result);
  state_->run(x, output, activation, false);
  return output;
}

void PackedLinear::add_to(torch::Tensor& sum, const torch::Tensor& x) const {
  state_->run(x, sum, Activation::kNone, true);
}

}  // namespace saccade::nn

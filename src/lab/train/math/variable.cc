#include "lab/train/math/variable.h"

#include <algorithm>
#include <cmath>
#include <dnnl.h>
#include <stdexcept>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saccade/nn/kernels/kernels.h"

namespace saccade::lab {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using TensorList = torch::autograd::variable_list;

// A failure of ours. TORCH_CHECK would put this file's path on the building machine into the program.
[[noreturn]] void failed_inside(const std::string& what) {
  throw std::logic_error(what);
}

struct NamedType {
  DType dtype;
  at::ScalarType type;
};
constexpr NamedType kTypes[] = {{DType::kBool, at::kBool}, {DType::kU8, at::kByte},
                                {DType::kI8, at::kChar},   {DType::kI16, at::kShort},
                                {DType::kF16, at::kHalf},  {DType::kBF16, at::kBFloat16},
                                {DType::kI32, at::kInt},   {DType::kF32, at::kFloat},
                                {DType::kI64, at::kLong},  {DType::kF64, at::kDouble}};

DType dtype_of(at::ScalarType type) {
  for (const NamedType& known : kTypes) {
    if (known.type == type) return known.dtype;
  }
  failed_inside(fmt::format("tensors of type {} are not known", at::toString(type)));
}

torch::Tensor on_device_of(const Variable& x, const nn::Tensor& tensor) {
  return torch_over(tensor.contiguous()).to(x.tensor().device());
}

thread_local int plain_operators = 0;  // number of PlainOperators that live in this thread

// Returns true if kernels.h is to compute with the tensor: on the CPU, float32 or bfloat16.
bool is_for_kernels(const Tensor& x) {
  return plain_operators == 0 && x.is_cpu() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Computes out [m, n] = a b + beta * out, with a and b as they are or, with 'T', transposed. All rows are
// contiguous.
void product(char a_way, const Tensor& a, char b_way, const Tensor& b, float beta, Tensor& out) {
  const int64_t m = out.size(0);
  const int64_t n = out.size(1);
  const int64_t k = a_way == 'N' ? a.size(1) : a.size(0);
  if (k == 0) out.mul_(beta);
  if (m == 0 || n == 0 || k == 0) return;
  const dnnl_status_t status = dnnl_sgemm(a_way, b_way, m, n, k, 1.F, a.data_ptr<float>(), a.size(1),
                                          b.data_ptr<float>(), b.size(1), beta, out.data_ptr<float>(), n);
  if (status != dnnl_success) failed_inside(fmt::format("oneDNN's sgemm refused {} x {} x {}", m, n, k));
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const Tensor rows = x.reshape({-1, weight.size(1)}).contiguous();
    Tensor out = torch::empty({rows.size(0), weight.size(0)}, rows.options());
    if (bias) out.copy_(bias->expand_as(out));
    product('N', rows, 'T', weight.contiguous(), bias ? 1.F : 0.F, out);
    return out.view(shape);
  }

  static TensorList backward(AutogradContext* context, const TensorList& gradients) {
    const TensorList saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor weight = saved[1].contiguous();
    const Tensor rows = x.reshape({-1, weight.size(1)}).contiguous();
    const Tensor gradient = gradients[0].reshape({-1, weight.size(0)}).contiguous();
    Tensor to_x, to_weight, to_bias;
    if (context->needs_input_grad(0)) {
      to_x = torch::empty_like(rows);
      product('N', gradient, 'N', weight, 0, to_x);
      to_x = to_x.view(x.sizes());
    }
    if (context->needs_input_grad(1)) {
      to_weight = torch::empty_like(weight);
      product('T', gradient, 'N', rows, 0, to_weight);
    }
    if (context->saved_data["bias"].toBool()) to_bias = gradient.sum(0);
    return {to_x, to_weight, to_bias};
  }
};

// Calls body(first, last, scratch memory of so many floats) over [0, count) on torch's threads.
template <typename Body>
void on_threads(int64_t count, int64_t floats, const Body& body) {
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    std::vector<float> scratch(static_cast<size_t>(floats));
    body(first, last, scratch.data());
  });
}

// Describes attention for kernels.h, from qkv [batch, tokens, 3 * width] (contiguous) and a mask that
// broadcasts to [batch, heads, tokens, tokens]. The task points into `mask` afterwards.
nn::AttentionTask attention_task(const Tensor& qkv, int64_t heads, double scale, Tensor& mask) {
  nn::AttentionTask task;
  task.set_joint(qkv.data_ptr(), qkv.size(0), qkv.size(1), heads, qkv.size(2) / 3 / heads,
                 dtype_of(qkv.scalar_type()));
  task.scale = static_cast<float>(scale);
  if (!mask.defined()) return task;
  mask = mask.to(at::kFloat).contiguous().expand({task.batch, heads, task.queries, task.keys});
  if (mask.stride(3) != 1) mask = mask.contiguous();  // broadcast along the keys
  task.mask = mask.data_ptr<float>();
  for (int i = 0; i < 3; ++i) task.mask_strides[i] = mask.stride(i);
  return task;
}

// Arguments of attention except qkv; none needs a gradient.
struct AttentionSettings {
  int64_t heads = 0;
  double scale = 1;
  Tensor mask;
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const AttentionSettings& settings) {
    const Tensor input = qkv.contiguous();
    context->save_for_backward({input, settings.mask});
    context->saved_data["heads"] = settings.heads;
    context->saved_data["scale"] = settings.scale;
    Tensor mask = settings.mask;
    nn::AttentionTask task = attention_task(input, settings.heads, settings.scale, mask);
    Tensor out = torch::empty({task.batch, task.queries, input.size(2) / 3}, input.options());
    task.out = out.data_ptr();
    on_threads(task.batch * task.heads, nn::attention_scratch(task),
               [&](int64_t first, int64_t last, float* scratch) {
                 nn::kernels().front().attend(task, first, last, scratch);
               });
    return out;
  }

  static TensorList backward(AutogradContext* context, const TensorList& gradients) {
    const TensorList saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    Tensor mask = saved[1];
    const Tensor gradient = gradients[0].to(qkv.scalar_type()).contiguous();
    nn::AttentionGradientTask task;
    task.attention = attention_task(qkv, context->saved_data["heads"].toInt(),
                                    context->saved_data["scale"].toDouble(), mask);
    Tensor to_qkv = torch::empty_like(qkv);
    task.out_gradient = gradient.data_ptr();
    task.qkv_gradient = to_qkv.data_ptr();
    on_threads(task.attention.batch * task.attention.heads, nn::attention_gradient_scratch(task.attention),
               [&](int64_t first, int64_t last, float* scratch) {
                 nn::kernels().front().attend_back(task, first, last, scratch);
               });
    return {to_qkv, Tensor()};
  }
};

using Computation = std::function<Variable(const Variable&)>;

struct KeptComputation : torch::CustomClassHolder {
  Computation compute;
};

// `leaf` requires a gradient, so that the result does, even if of its inputs only parameters do.
class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& /*leaf*/,
                        const Computation& compute) {
    context->save_for_backward({x});
    auto kept = c10::make_intrusive<KeptComputation>();
    kept->compute = compute;
    context->saved_data["kept"] = c10::IValue::make_capsule(std::move(kept));
    return compute(Variable(x)).tensor();
  }

  static TensorList backward(AutogradContext* context, const TensorList& gradients) {
    const TensorList saved = context->get_saved_variables();
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const KeptComputation&>(*capsule);
    const at::AutoGradMode with_gradients(true);
    const Tensor x = saved[0].detach().requires_grad_(context->needs_input_grad(0));
    const Tensor out = kept.compute(Variable(x)).tensor();
    if (out.requires_grad()) out.backward(gradients[0]);
    return {x.grad(), Tensor(), Tensor()};
  }
};

// Computes attention operation by operation, on any device.
Tensor plain_attention(const Tensor& qkv, int64_t heads, const Tensor& mask, double scale) {
  const int64_t batch = qkv.size(0);
  const int64_t tokens = qkv.size(1);
  const int64_t head_width = qkv.size(2) / 3 / heads;
  const Tensor parts = qkv.view({batch, tokens, 3, heads, head_width})
                           .permute({2, 0, 3, 1, 4})
                           .contiguous()
                           .view({3, batch * heads, tokens, head_width});
  Tensor scores = at::bmm(parts[0] * scale, parts[1].transpose(1, 2)).to(at::kFloat);
  if (mask.defined()) scores = (scores.view({batch, heads, tokens, tokens}) + mask).view_as(scores);
  const Tensor weights = at::softmax(scores, -1).to(qkv.scalar_type());
  return at::bmm(weights, parts[2])
      .view({batch, heads, tokens, head_width})
      .transpose(1, 2)
      .reshape({batch, tokens, heads * head_width});
}

Tensor activate(const Tensor& x, nn::Activation activation) {
  switch (activation) {
    case nn::Activation::kGelu:
      return at::gelu(x);
    case nn::Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case nn::Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case nn::Activation::kRelu:
      return at::relu(x);
    case nn::Activation::kSilu:
      return at::silu(x);
    case nn::Activation::kNone:
      break;
  }
  return x;
}

// Concatenates the tensors of several layers; undefined if there are none.
Tensor joint(const std::vector<Variable>& parts) {
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts.front().tensor() : cat(parts).tensor();
}

}  // namespace

PlainOperators::PlainOperators() {
  ++plain_operators;
}

PlainOperators::~PlainOperators() {
  --plain_operators;
}

Variable Variable::to(DType dtype) const {
  return Variable(tensor_.to(torch_type(dtype)));
}

bool wants_gradients(const Variable&) {
  return at::GradMode::is_enabled();
}

Variable operator+(const Variable& a, const Variable& b) {
  return Variable(a.tensor() + b.tensor());
}

Variable tanh(const Variable& x) {
  return Variable(at::tanh(x.tensor()));
}

Variable cat(const std::vector<Variable>& variables, int64_t dimension) {
  std::vector<Tensor> tensors;
  tensors.reserve(variables.size());
  for (const Variable& variable : variables) tensors.push_back(variable.tensor());
  return Variable(torch::cat(tensors, dimension));
}

Variable embedding(const Variable& table, const nn::Tensor& ids) {
  return Variable(at::embedding(table.tensor(), on_device_of(table, ids)));
}

Variable take_rows(const Variable& x, const nn::Tensor& positions) {
  const Tensor places = on_device_of(x, positions);
  return Variable(x.tensor().index({torch::arange(x.size(0), places.options()), places}));
}

Variable gather_rows(const Variable& x, const nn::Tensor& which) {
  const Tensor places = on_device_of(x, which).unsqueeze(2);
  return Variable(x.tensor().gather(1, places.expand({x.size(0), which.size(1), x.size(2)})));
}

Variable patches(const Variable& pixels, int64_t patch) {
  const Tensor& x = pixels.tensor();
  const int64_t rows = x.size(2) / patch;
  const int64_t columns = x.size(3) / patch;
  return Variable(x.slice(2, 0, rows * patch)
                      .slice(3, 0, columns * patch)
                      .reshape({x.size(0), x.size(1), rows, patch, columns, patch})
                      .permute({0, 2, 4, 1, 3, 5})
                      .reshape({x.size(0), rows * columns, x.size(1) * patch * patch}));
}

Variable layer_norm(const Variable& x, const Variable& gain, const Variable& bias, double eps, DType dtype) {
  const Tensor& weight = gain.tensor();
  return Variable(
      at::layer_norm(x.tensor(), weight.sizes(), weight, bias.tensor(), eps).to(torch_type(dtype)));
}

Variable attention(const Variable& qkv, int64_t heads, const nn::Tensor& mask, std::optional<double> scale) {
  const Tensor& input = qkv.tensor();
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(input.size(2) / 3 / heads)));
  const Tensor added = mask.defined() ? on_device_of(qkv, mask) : Tensor();
  if (is_for_kernels(input)) {
    return Variable(AttentionFunction::apply(input, AttentionSettings{heads, factor, added}));
  }
  return Variable(plain_attention(input, heads, added, factor));
}

Variable attention(const Variable& query, const Variable& key, const Variable& value, const nn::Tensor& mask,
                   std::optional<double> scale) {
  const Tensor& q = query.tensor();
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  Tensor scores =
      at::matmul(q.permute({0, 2, 1, 3}) * factor, key.tensor().permute({0, 2, 3, 1})).to(at::kFloat);
  if (mask.defined()) scores = scores + on_device_of(query, mask);
  const Tensor weights = at::softmax(scores, -1).to(q.scalar_type());
  return Variable(at::matmul(weights, value.tensor().permute({0, 2, 1, 3}))
                      .transpose(1, 2)
                      .reshape({q.size(0), q.size(1), q.size(2) * value.tensor().size(3)}));
}

Variable linear(const Variable& x, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                nn::Activation activation) {
  const Tensor& input = x.tensor();
  const Tensor weight = joint(weights);
  const Tensor bias = joint(biases);
  if (is_for_kernels(input) && input.scalar_type() == at::kFloat) {
    const auto added = bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt;
    return Variable(activate(LinearFunction::apply(input, weight, added), activation));
  }
  const Tensor result =
      at::linear(input, weight.to(input.scalar_type()), bias.defined() ? bias.to(input.scalar_type()) : bias);
  return Variable(activate(result, activation));
}

torch::Tensor normalize_rows(const torch::Tensor& rows) {
  return rows / rows.norm(2, -1, true).clamp_min(1e-12);
}

Variable recomputed(const Variable& x, const Computation& compute) {
  if (!at::GradMode::is_enabled()) return compute(x);
  return Variable(RecomputeFunction::apply(x.tensor(), torch::empty({0}).requires_grad_(true), compute));
}

at::ScalarType torch_type(DType dtype) {
  for (const NamedType& known : kTypes) {
    if (known.dtype == dtype) return known.type;
  }
  failed_inside(fmt::format("torch has no tensors of {}", dtype_name(dtype)));
}

nn::Tensor borrow_torch(const torch::Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.device().is_cpu())
    failed_inside("only contiguous tensors are borrowed");
  return nn::Tensor::borrow(tensor.data_ptr(), tensor.sizes().vec(), dtype_of(tensor.scalar_type()))
      .kept_by(std::make_shared<torch::Tensor>(tensor));
}

torch::Tensor torch_over(const nn::Tensor& tensor) {
  const at::ScalarType type = torch_type(tensor.dtype());
  if (tensor.numel() == 0) return torch::empty(tensor.sizes(), type);
  return torch::from_blob(
      tensor.raw(), tensor.sizes(), tensor.strides(), [tensor](void*) {}, type);
}

Result<TorchMap> torch_tensors(const SafeTensors& file) {
  SACCADE_ASSIGN(const nn::TensorMap tensors, nn::borrow_tensors(file));
  TorchMap result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, torch_over(tensor));
  return result;
}

TensorView view_of(const torch::Tensor& tensor) {
  return nn::view_of(borrow_torch(tensor));
}

Status write_torch_map(const std::filesystem::path& path, const TorchMap& tensors,
                       std::optional<at::ScalarType> dtype,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<torch::Tensor> kept;
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().to(at::kCPU, dtype.value_or(tensor.scalar_type())).contiguous());
    named.push_back({name, view_of(kept.back())});
  }
  return write_safetensors(path, named, metadata);
}

InitializedParameters::InitializedParameters(uint64_t seed, torch::Device device)
    : generator_(at::detail::createCPUGenerator(seed)), device_(device) {}

Result<Variable> InitializedParameters::take(const std::string& name, const std::vector<int64_t>& shape,
                                             nn::Init init) {
  torch::Tensor tensor = torch::empty(shape, at::kFloat);
  if (init.std == 0) {
    tensor.fill_(init.mean);
  } else {
    tensor.normal_(init.mean, init.std, generator_);
  }
  tensor = tensor.to(device_).requires_grad_(true);
  const bool added = parameters_.emplace(name, tensor).second;
  if (!added) return fail(ErrorCode::kInternal, "two parameters named {}", name);
  return Variable(tensor);
}

bool is_of_text_tower(std::string_view parameter) {
  return parameter.starts_with("text_model.") || parameter.starts_with("text_projection.") ||
         parameter == "logit_scale";
}

torch::Tensor clip_images(const TrainedClip& model, const torch::Tensor& pixels, at::ScalarType dtype,
                          const torch::Tensor& keep) {
  const torch::Tensor places = keep.defined() ? keep.to(at::kCPU).contiguous() : keep;
  return model
      .encode_images(Variable(pixels), dtype_of(dtype), nullptr,
                     places.defined() ? borrow_torch(places) : nn::Tensor())
      .tensor();
}

torch::Tensor clip_texts(const TrainedClip& model, const torch::Tensor& ids, at::ScalarType dtype) {
  const torch::Tensor places = ids.to(at::kCPU).contiguous();
  return model.encode_texts(borrow_torch(places), dtype_of(dtype)).tensor();
}

torch::Tensor clip_texts_by_length(const TrainedClip& model, const torch::Tensor& ids,
                                   const std::vector<int64_t>& lengths, at::ScalarType dtype) {
  constexpr int64_t kParts = 4;
  const int64_t n = ids.size(0);
  std::vector<torch::Tensor> rows;
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t first = n * part / kParts;
    const int64_t last = n * (part + 1) / kParts;
    if (first == last) continue;
    const int64_t longest = lengths[static_cast<size_t>(last - 1)];
    rows.push_back(clip_texts(model, ids.slice(0, first, last).slice(1, 0, longest), dtype));
  }
  return torch::cat(rows);
}

}  // namespace saccade::lab

template class saccade::ClipModelOf<saccade::lab::Variable>;

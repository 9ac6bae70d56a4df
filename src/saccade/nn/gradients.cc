#include "saccade/nn/gradients.h"

#include <dnnl.h>

#include <torch/csrc/autograd/custom_function.h>

namespace saccade::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using TensorList = torch::autograd::variable_list;

// out [m, n] = a b + beta * out; a and b as they are or, with 'T', transposed. All rows contiguous.
void product(char a_way, const Tensor& a, char b_way, const Tensor& b, float beta, Tensor& out) {
  const int64_t m = out.size(0);
  const int64_t n = out.size(1);
  const int64_t k = a_way == 'N' ? a.size(1) : a.size(0);
  if (k == 0) out.mul_(beta);
  if (m == 0 || n == 0 || k == 0) return;
  const dnnl_status_t status = dnnl_sgemm(a_way, b_way, m, n, k, 1.F, a.data_ptr<float>(), a.size(1),
                                          b.data_ptr<float>(), b.size(1), beta, out.data_ptr<float>(), n);
  TORCH_CHECK(status == dnnl_success, "oneDNN's sgemm refused ", m, " x ", n, " x ", k);
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

// All but qkv, which no gradient is asked of.
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
    return fused_attention(input, settings.heads, settings.mask, settings.scale);
  }

  static TensorList backward(AutogradContext* context, const TensorList& gradients) {
    const TensorList saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    Tensor mask = saved[1];
    const Tensor gradient = gradients[0].to(qkv.scalar_type()).contiguous();
    AttentionGradientTask task;
    describe_attention(qkv, context->saved_data["heads"].toInt(), context->saved_data["scale"].toDouble(),
                       mask, task.attention);
    Tensor to_qkv = torch::empty_like(qkv);
    task.out_gradient = gradient.data_ptr();
    task.qkv_gradient = to_qkv.data_ptr();
    attend_back(task);
    return {to_qkv, Tensor()};
  }
};

}  // namespace

bool is_for_kernels(const Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

Element element_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? Element::kBFloat16 : Element::kFloat32;
}

bool takes_linear_with_gradient(const Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat;
}

Tensor fused_attention(const Tensor& qkv, int64_t heads, const Tensor& mask, double scale) {
  const Tensor input = qkv.contiguous();
  AttentionTask task;
  Tensor added = mask;
  describe_attention(input, heads, scale, added, task);
  Tensor out = torch::empty({task.batch, task.tokens, input.size(2) / 3}, input.options());
  task.out = out.data_ptr();
  attend(task);
  return out;
}

Tensor linear_with_gradient(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return LinearFunction::apply(x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt);
}

Tensor attention_with_gradient(const Tensor& qkv, int64_t heads, const Tensor& mask, double scale) {
  return AttentionFunction::apply(qkv, AttentionSettings{heads, scale, mask});
}

void describe_attention(const Tensor& qkv, int64_t heads, double scale, Tensor& mask, AttentionTask& task) {
  task.batch = qkv.size(0);
  task.tokens = qkv.size(1);
  task.heads = heads;
  task.head_width = qkv.size(2) / 3 / heads;
  task.type = element_of(qkv.scalar_type());
  task.scale = static_cast<float>(scale);
  task.qkv = qkv.data_ptr();
  if (!mask.defined()) return;
  mask = mask.to(at::kFloat).contiguous().expand({task.batch, heads, task.tokens, task.tokens});
  if (mask.stride(3) != 1) mask = mask.contiguous();  // broadcast along the keys
  task.mask = mask.data_ptr<float>();
  for (int i = 0; i < 3; ++i) task.mask_strides[i] = mask.stride(i);
}

}  // namespace saccade::nn

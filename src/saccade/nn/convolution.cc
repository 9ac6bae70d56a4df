#include "saccade/nn/convolution.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "saccade/nn/linear/onednn.h"

namespace saccade::nn {
namespace {

using dnnl::memory;

constexpr double kInitStd = 0.02;

// Loads a 1 x 1 kernel as a matrix.
Result<Linear> pointwise(ParameterSource& source, const std::string& name, int64_t in, int64_t out) {
  SACCADE_ASSIGN(const Tensor weight, source.take(name + ".weight", {out, in, 1, 1}, {0, kInitStd}));
  SACCADE_ASSIGN(const Tensor bias, source.take(name + ".bias", {out}, {}));
  return Linear(weight.view({out, in}), bias);
}

}  // namespace

class PackedConvolution {
 public:
  // kernel: [out, in or 1, side, side]; bias: [out].
  PackedConvolution(const ConvolutionShape& shape, Tensor kernel, Tensor bias)
      : shape_(shape), kernel_(std::move(kernel)), bias_(std::move(bias)) {}

  [[nodiscard]] Tensor forward(const Tensor& x) const;

 private:
  // Band of image rows: the input rows, the zero rows above and below them, and the output rows they produce.
  struct Band {
    int64_t first = 0;  // first image row
    int64_t rows = 0;
    int64_t above = 0;
    int64_t below = 0;
    int64_t made = 0;
  };
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;  // rows, columns, above, below, made
  struct Made {
    dnnl::convolution_forward primitive;
    memory::desc source, destination, scratch;
    memory weights;
  };
  [[nodiscard]] Band band_of(int64_t first_made, int64_t last_made, int64_t height) const;
  [[nodiscard]] Made make(const Band& band, int64_t columns, int64_t columns_made) const;
  // Returns the kernel in a layout; each layout is kept once.
  [[nodiscard]] memory weights_as(const memory::desc& wanted) const;

  ConvolutionShape shape_;
  Tensor kernel_, bias_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  mutable PrimitiveCache<Key, Made> primitives_;
  mutable std::vector<memory> layouts_;  // under the cache's lock
};

PackedConvolution::Band PackedConvolution::band_of(int64_t first_made, int64_t last_made,
                                                   int64_t height) const {
  const int64_t begin = first_made * shape_.stride - shape_.padding.top;
  const int64_t end = (last_made - 1) * shape_.stride - shape_.padding.top + shape_.kernel;
  Band band;
  band.made = last_made - first_made;
  band.first = std::clamp<int64_t>(begin, 0, height);
  band.above = band.first - begin;
  const int64_t last = std::clamp<int64_t>(end, band.first, height);
  band.rows = last - band.first;
  band.below = end - last;
  return band;
}

memory PackedConvolution::weights_as(const memory::desc& wanted) const {
  for (const memory& layout : layouts_) {
    if (layout.get_desc() == wanted) return layout;
  }
  const bool depthwise = shape_.depthwise;
  const memory::dims dims = depthwise ? memory::dims{shape_.out, 1, 1, shape_.kernel, shape_.kernel}
                                      : memory::dims{shape_.out, shape_.in, shape_.kernel, shape_.kernel};
  memory plain(
      {dims, memory::data_type::f32, depthwise ? memory::format_tag::goihw : memory::format_tag::oihw},
      engine_, kernel_.raw());
  memory packed(wanted, engine_);
  dnnl::stream stream(engine_);
  dnnl::reorder(plain, packed).execute(stream, plain, packed);
  stream.wait();
  layouts_.push_back(packed);
  return packed;
}

PackedConvolution::Made PackedConvolution::make(const Band& band, int64_t columns,
                                                int64_t columns_made) const {
  const auto type = memory::data_type::f32;
  const auto last = memory::format_tag::nhwc;
  const auto any = memory::format_tag::any;
  const memory::desc source({1, shape_.in, band.rows, columns}, type, last);
  const memory::desc destination({1, shape_.out, band.made, columns_made}, type, last);
  const memory::desc bias({shape_.out}, type, memory::format_tag::a);
  const memory::desc weights =
      shape_.depthwise ? memory::desc({shape_.out, 1, 1, shape_.kernel, shape_.kernel}, type, any)
                       : memory::desc({shape_.out, shape_.in, shape_.kernel, shape_.kernel}, type, any);
  const memory::dims strides = {shape_.stride, shape_.stride};
  const memory::dims before = {band.above, shape_.padding.left};
  const memory::dims behind = {band.below, shape_.padding.right};
  dnnl::post_ops operations;
  append_activation(operations, shape_.activation);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(operations);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc description(
      engine_, inference, direct, source, weights, bias, destination, strides, before, behind, attributes);
#else
  const dnnl::convolution_forward::primitive_desc description(
      {inference, direct, source, weights, bias, destination, strides, before, behind}, attributes, engine_);
#endif
  return {dnnl::convolution_forward(description), source, destination, description.scratchpad_desc(),
          weights_as(description.weights_desc())};
}

Tensor PackedConvolution::forward(const Tensor& x) const {
  const Tensor in = x.contiguous();
  const int64_t n = in.size(0);
  const int64_t height = in.size(1);
  const int64_t columns = in.size(2);
  const Padding& around = shape_.padding;
  const int64_t rows_made = (height + around.top + around.bottom - shape_.kernel) / shape_.stride + 1;
  const int64_t columns_made = (columns + around.left + around.right - shape_.kernel) / shape_.stride + 1;
  Workspace* workspace = in.workspace();
  Tensor out = Tensor::empty({n, rows_made, columns_made, shape_.out}, DType::kF32, workspace);

  // Minimum number of rows per band when a small batch is split into bands of rows.
  constexpr int64_t kFewestRows = 4;
  const int64_t wanted = workspace == nullptr || workspace->workers().size() == 1
                             ? 1
                             : (int64_t{4} * workspace->workers().size() + n - 1) / std::max<int64_t>(n, 1);
  const int64_t bands = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, rows_made / kFewestRows));
  const OneDnnThreads alone(1);
  for_items(workspace, n * bands, [&](int64_t item, int worker) {
    const int64_t picture = item / bands;
    const int64_t first = item % bands * rows_made / bands;
    const Band band = band_of(first, (item % bands + 1) * rows_made / bands, height);
    const Made made = primitives_.get({band.rows, columns, band.above, band.below, band.made},
                                      [&] { return make(band, columns, columns_made); });
    memory source(made.source, engine_,
                  in.data<float>() + (picture * height + band.first) * columns * shape_.in);
    memory destination(made.destination, engine_,
                       out.data<float>() + (picture * rows_made + first) * columns_made * shape_.out);
    memory bias({{shape_.out}, memory::data_type::f32, memory::format_tag::a}, engine_, bias_.raw());
    const size_t bytes = made.scratch.get_size() + 1;
    const std::shared_ptr<void> own = workspace == nullptr ? allocate_plain(bytes) : nullptr;
    memory scratch(made.scratch, engine_, own ? own.get() : workspace->scratch(worker, bytes));
    dnnl::stream stream(engine_);
    made.primitive.execute(stream, {{DNNL_ARG_SRC, source},
                                    {DNNL_ARG_WEIGHTS, made.weights},
                                    {DNNL_ARG_BIAS, bias},
                                    {DNNL_ARG_DST, destination},
                                    {DNNL_ARG_SCRATCHPAD, scratch}});
    stream.wait();
  });
  return out;
}

Result<ConvolutionNorm> ConvolutionNorm::make(ParameterSource& source, const std::string& convolution,
                                              const std::string& norm, const ConvolutionShape& shape) {
  ConvolutionNorm layer;
  layer.shape_ = shape;
  const int64_t in_each = shape.depthwise ? 1 : shape.in;
  SACCADE_ASSIGN(layer.kernel_, source.take(convolution + ".weight",
                                            {shape.out, in_each, shape.kernel, shape.kernel}, {0, kInitStd}));
  SACCADE_ASSIGN(layer.gain_, source.take(norm + ".weight", {shape.out}, {1, 0}));
  SACCADE_ASSIGN(layer.bias_, source.take(norm + ".bias", {shape.out}, {}));
  SACCADE_ASSIGN(layer.mean_, source.take(norm + ".running_mean", {shape.out}, {}));
  SACCADE_ASSIGN(layer.variance_, source.take(norm + ".running_var", {shape.out}, {1, 0}));
  return layer;
}

bool ConvolutionNorm::is_product() const {
  const Padding& around = shape_.padding;
  return shape_.kernel == 1 && shape_.stride == 1 && !shape_.depthwise && around.left == 0 &&
         around.right == 0 && around.top == 0 && around.bottom == 0;
}

Tensor ConvolutionNorm::forward(const Tensor& x, DType dtype) const {
  if (!is_product()) return convolution_->forward(x);
  return product_.forward(x.to(dtype), shape_.activation).to(DType::kF32);
}

void ConvolutionNorm::pack(DType dtype) {
  // Folds gain * (w x - mean) / sqrt(variance + eps) + bias into one kernel and one bias, in double.
  const Tensor kernel = kernel_.clone();
  const Tensor bias = Tensor::empty({shape_.out});
  const int64_t each = kernel.numel() / shape_.out;
  for (int64_t channel = 0; channel < shape_.out; ++channel) {
    const double scale =
        gain_.data<float>()[channel] / std::sqrt(double{variance_.data<float>()[channel]} + shape_.eps);
    bias.data<float>()[channel] =
        static_cast<float>(bias_.data<float>()[channel] - mean_.data<float>()[channel] * scale);
    for (float& value :
         kernel.floats().subspan(static_cast<size_t>(channel * each), static_cast<size_t>(each))) {
      value = static_cast<float>(value * scale);
    }
  }
  for (Tensor* folded : {&kernel_, &gain_, &bias_, &mean_, &variance_}) *folded = {};
  if (is_product()) {
    product_ = Linear(kernel.view({shape_.out, shape_.in}), bias);
    product_.pack(dtype);
  } else {
    convolution_ = std::make_shared<PackedConvolution>(shape_, kernel, bias);
  }
}

Result<SqueezeExcite> SqueezeExcite::make(ParameterSource& source, const std::string& name, int64_t channels,
                                          int64_t reduced, Activation activation) {
  SqueezeExcite layer;
  layer.activation_ = activation;
  SACCADE_ASSIGN(layer.reduce_, pointwise(source, name + ".reduce", channels, reduced));
  SACCADE_ASSIGN(layer.expand_, pointwise(source, name + ".expand", reduced, channels));
  return layer;
}

Tensor SqueezeExcite::forward(Tensor x) const {
  const int64_t n = x.size(0);
  const int64_t places = x.size(1) * x.size(2);
  const int64_t channels = x.size(3);
  const Tensor means = mean(x.view({n, places, channels}), 1);
  const Tensor scale = sigmoid(expand_.forward(reduce_.forward(means, activation_)));  // [n, channels]
  constexpr int64_t kRows = 64;
  const int64_t pieces = (places + kRows - 1) / kRows;
  for_items(x.workspace(), n * pieces, [&](int64_t item, int) {
    const float* by = scale.data<float>() + item / pieces * channels;
    const int64_t first = item % pieces * kRows;
    for (int64_t place = first; place < std::min(first + kRows, places); ++place) {
      float* at = x.data<float>() + (item / pieces * places + place) * channels;
      for (int64_t c = 0; c < channels; ++c) at[c] *= by[c];
    }
  });
  return x;
}

void SqueezeExcite::pack() {
  reduce_.pack(DType::kF32);
  expand_.pack(DType::kF32);
}

Tensor average_pool(const Tensor& x, int64_t side) {
  const Tensor in = x.contiguous();
  const int64_t rows = in.size(1) / side;
  const int64_t columns = in.size(2) / side;
  const int64_t channels = in.size(3);
  Tensor out = Tensor::zeros({in.size(0), rows, columns, channels}, DType::kF32, in.workspace());
  const float share = 1 / static_cast<float>(side * side);
  for_items(in.workspace(), in.size(0) * rows, [&](int64_t item, int) {
    const int64_t picture = item / rows;
    const int64_t row = item % rows;
    for (int64_t column = 0; column < columns; ++column) {
      float* to = out.data<float>() + (item * columns + column) * channels;
      for (int64_t y = 0; y < side; ++y) {
        for (int64_t z = 0; z < side; ++z) {
          const float* from =
              in.data<float>() +
              ((picture * in.size(1) + row * side + y) * in.size(2) + column * side + z) * channels;
          for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
        }
      }
      for (int64_t c = 0; c < channels; ++c) to[c] *= share;
    }
  });
  return out;
}

}  // namespace saccade::nn

#include "saccade/nn/packed_linear.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "saccade/nn/onednn.h"

namespace saccade::nn {
namespace {

using dnnl::memory;

memory::desc row_major(int64_t rows, int64_t columns, DType dtype) {
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

// Into how many parts a product's rows are cut. Each part reads all weights, which few rows do not pay for;
// but a single text's or picture's rows are shared out, too: on two threads 12 rows ran as fast as on
// oneDNN's own two.
int64_t parts_of(int64_t rows, const Workers& workers) {
  constexpr int64_t kGoodRows = 24;
  constexpr int64_t kFewestRows = 4;
  const int64_t threads = workers.size();
  if (threads == 1) return 1;
  return std::max<int64_t>(
      {1, std::min(4 * threads, rows / kGoodRows), std::min(threads, rows / kFewestRows)});
}

}  // namespace

struct PackedLinear::State {
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::kF32;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  memory weights;
  Tensor bias;  // [out], float32

  struct Product {
    dnnl::matmul primitive;
    memory::desc source, bias, destination, scratch;
  };
  using Key = std::tuple<int64_t, Activation, DType, bool>;  // rows, activation, result, accumulate
  PrimitiveCache<Key, Product> products;

  [[nodiscard]] dnnl::matmul::primitive_desc describe(int64_t rows, const memory::desc& weights_desc,
                                                      Activation activation, DType result,
                                                      bool accumulate) const {
    dnnl::post_ops operations;
    if (accumulate) operations.append_sum(1.0F);
    append_activation(operations, activation);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return make_matmul(engine, row_major(rows, in, dtype), weights_desc, row_major(1, out, DType::kF32),
                       row_major(rows, out, result), attributes);
  }

  Product product_of(int64_t rows, Activation activation, DType result, bool accumulate) {
    return products.get({rows, activation, result, accumulate}, [&] {
      const auto description = describe(rows, weights.get_desc(), activation, result, accumulate);
      return Product{dnnl::matmul(description), row_major(rows, in, dtype), row_major(1, out, DType::kF32),
                     row_major(rows, out, result), description.scratchpad_desc()};
    });
  }

  void run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) {
    if (!x.is_contiguous() || x.dtype() != dtype || x.size(-1) != in || !result.is_contiguous() ||
        result.size(-1) != out || result.numel() / out != x.numel() / in) {
      throw std::logic_error(fmt::format("a layer of {} to {}: {} to {}", in, out, shape_text(x.sizes()),
                                         shape_text(result.sizes())));
    }
    const int64_t rows = x.numel() / in;
    if (rows == 0) return;
    const auto piece = [&](int64_t first, void* scratch, const Product& product) {
      const auto at = [](const Tensor& tensor, int64_t element) {
        return static_cast<std::byte*>(tensor.raw()) + element * dtype_size(tensor.dtype());
      };
      dnnl::stream stream(engine);
      memory source(product.source, engine, at(x, first * in));
      memory destination(product.destination, engine, at(result, first * out));
      memory bias_memory(product.bias, engine, bias.raw());
      std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, source},
                                                {DNNL_ARG_WEIGHTS, weights},
                                                {DNNL_ARG_BIAS, bias_memory},
                                                {DNNL_ARG_DST, destination}};
      if (scratch != nullptr) arguments[DNNL_ARG_SCRATCHPAD] = memory(product.scratch, engine, scratch);
      product.primitive.execute(stream, arguments);
      stream.wait();
    };
    Workspace* workspace = workspace_of({&x, &result});
    if (workspace == nullptr) {
      const OneDnnThreads alone(1);
      const Product product = product_of(rows, activation, result.dtype(), accumulate);
      const std::shared_ptr<void> scratch = allocate_plain(product.scratch.get_size());
      return piece(0, scratch.get(), product);
    }
    const int64_t parts = parts_of(rows, workspace->workers());
    workspace->workers().run(parts, [&](int64_t part, int worker) {
      const int64_t first = rows * part / parts;
      const int64_t last = rows * (part + 1) / parts;
      const Product product = product_of(last - first, activation, result.dtype(), accumulate);
      piece(first, workspace->scratch(worker, product.scratch.get_size() + 1), product);
    });
  }
};

PackedLinear::PackedLinear(const Tensor& weight, const Tensor& bias, DType dtype)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.out = weight.size(0);
  state.in = weight.size(1);
  state.dtype = dtype;
  state.bias = bias.defined() ? bias.to(DType::kF32).contiguous() : Tensor::zeros({state.out});

  // The layout is chosen once, for a batch of ordinary size;
  // products of other sizes are asked to take it as it is.
  const memory::desc any({state.in, state.out}, dnnl_type(dtype), memory::format_tag::any);
  {
    const OneDnnThreads alone(1);
    const auto description = state.describe(256, any, Activation::kNone, dtype, false);
    state.weights = memory(description.weights_desc(), state.engine);
  }

  // weight is [out, in] row-major, which is [in, out] column-major.
  const Tensor plain = weight.to(dtype).contiguous();
  memory source({{state.in, state.out}, dnnl_type(dtype), memory::format_tag::ba}, state.engine, plain.raw());
  dnnl::stream stream(state.engine);
  dnnl::reorder(source, state.weights).execute(stream, source, state.weights);
  stream.wait();
}

PackedLinear::~PackedLinear() = default;

DType PackedLinear::dtype() const {
  return state_->dtype;
}

Tensor PackedLinear::forward(const Tensor& x, Activation activation, DType result) const {
  Shape shape = x.sizes();
  shape.back() = state_->out;
  Tensor output = Tensor::empty(std::move(shape), result, x.workspace());
  state_->run(x, output, activation, false);
  return output;
}

void PackedLinear::add_to(const Tensor& sum, const Tensor& x) const {
  state_->run(x, sum, Activation::kNone, true);
}

}  // namespace saccade::nn

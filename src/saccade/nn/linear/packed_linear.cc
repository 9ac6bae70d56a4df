#include "saccade/nn/linear/packed_linear.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "saccade/nn/kernels/int8_product_kernels.h"
#include "saccade/nn/kernels/repack.h"
#include "saccade/nn/linear/bf16_linear.h"
#include "saccade/nn/linear/int8_linear.h"
#include "saccade/nn/linear/onednn.h"

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

// Products of fewer rows are split by outputs only, so that each weight is read once. The latency of a single
// image or text is the time of reading the weights.
constexpr int64_t kFewRows = 128;

// oneDNN's layouts keep outputs by blocks of as many.
constexpr int64_t kBlock = 64;
int64_t blocks_of(int64_t out) {
  return (out + kBlock - 1) / kBlock;
}

// Returns the number of outputs per panel of products of few rows: whole blocks. It is the largest number with about 16 panels, or
// a smaller one if the thread with the most panels has less work then.
int64_t outputs_of_few_rows(int64_t out, int64_t threads) {
  constexpr int64_t kPanels = 16;
  constexpr double kPanelCost = 0.1;  // of a panel, beside that of a block of outputs; an estimate
  const int64_t blocks = blocks_of(out);
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t each = (blocks + kPanels - 1) / kPanels; each >= 1; --each) {
    const int64_t panels = (blocks + each - 1) / each;
    const int64_t of_thread = (panels + threads - 1) / threads;
    const double cost = static_cast<double>(of_thread) * (static_cast<double>(each) + kPanelCost);
    if (cost < least) {
      least = cost;
      best = each;
    }
  }
  return best * kBlock;
}

// Split of a product into work items: equal parts of the rows by panels of `outputs` outputs. Each item reads
// the weights of its panel.
struct Split {
  int64_t parts = 1;
  int64_t outputs = 0;  // whole blocks, or all outputs
};

// Returns the split of a product of `rows` by `out`. block_bytes: size of a block's weights, 0 if outputs
// cannot be split.
Split split_of(int64_t rows, int64_t out, int64_t block_bytes, int64_t threads) {
  constexpr int64_t kGoodRows = 24;                  // per part at least
  constexpr int64_t kManyRows = 256;                 // per part; more would not save much reading
  constexpr int64_t kOwnCache = int64_t{512} << 10;  // bytes of weights that stay in a core's own cache
  const int64_t blocks = blocks_of(out);
  if (rows < kFewRows && block_bytes > 0) return {1, outputs_of_few_rows(out, threads)};
  if (threads == 1) return {1, out};
  // Four items per thread, so that a late or preempted thread leaves little work.
  const int64_t items = 4 * threads;
  const int64_t most_parts = std::max<int64_t>(1, rows / kGoodRows);
  if (blocks * block_bytes <= kOwnCache || rows / items >= kFewRows) {
    return {std::min(most_parts, items), out};  // reading all weights for each part costs little
  }
  const int64_t parts =
      std::min(most_parts, std::max((rows + kManyRows / 2) / kManyRows, (items + blocks - 1) / blocks));
  const int64_t most_blocks = std::max<int64_t>(1, blocks * parts / items);
  return {parts, std::clamp<int64_t>(kOwnCache / block_bytes, 1, most_blocks) * kBlock};
}

std::byte* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) + element * dtype_size(tensor.dtype());
}

void add_floats(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

struct PackedLinear::State {
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::kF32;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::shared_ptr<void> storage;  // memory of `weights`: our own, so that a failure is std::bad_alloc
  memory weights;
  Tensor bias;  // [out, filled up to a whole block], float32

  struct Product {
    dnnl::matmul primitive;
    memory::desc source, bias, destination, weights, scratch;
  };
  // rows, outputs, activation, result, accumulate
  using Key = std::tuple<int64_t, int64_t, Activation, DType, bool>;
  PrimitiveCache<Key, Product> products;
  // One of these, or none, in the place of all that.
  std::optional<Int8Linear> integers;
  std::optional<Bf16Linear> tiles;

  // Bytes of a block's `weights`; 0 if blocks do not lie one behind the other, or if there is only one.
  int64_t block_bytes = 0;

  [[nodiscard]] dnnl::matmul::primitive_desc describe(int64_t rows, int64_t outputs,
                                                      const memory::desc& weights_desc, Activation activation,
                                                      DType result, bool accumulate) const {
    const CompileMemory room;
    dnnl::post_ops operations;
    if (accumulate) operations.append_sum(1.0F);
    append_activation(operations, activation);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return make_matmul(engine, row_major(rows, in, dtype), weights_desc, row_major(1, outputs, DType::kF32),
                       row_major(rows, outputs, result), attributes);
  }

  Product product_of(int64_t rows, int64_t outputs, Activation activation, DType result, bool accumulate) {
    return products.get({rows, outputs, activation, result, accumulate}, [&] {
      const memory::desc whole = weights.get_desc();
      const auto description =
          describe(rows, outputs, outputs == out ? whole : whole.submemory_desc({in, outputs}, {0, 0}),
                   activation, result, accumulate);
      return Product{dnnl::matmul(description),          row_major(rows, in, dtype),
                     row_major(1, outputs, DType::kF32), row_major(rows, outputs, result),
                     description.weights_desc(),         description.scratchpad_desc()};
    });
  }

  // Finds out how blocks lie in the packed weights: those of the layout that a panel alone would get, one
  // behind the other.
  void find_blocks() {
    const int64_t outputs = outputs_of_few_rows(out, 1);
    if (outputs >= out) return;
    const memory::desc any({in, outputs}, dnnl_type(dtype), memory::format_tag::any);
    const OneDnnThreads alone(1);
    const memory::desc wanted =
        describe(kFewRows / 2, outputs, any, Activation::kNone, dtype, false).weights_desc();
    const memory::desc whole = weights.get_desc();
    const size_t bytes = wanted.get_size() / static_cast<size_t>(outputs / kBlock);
    if (wanted == whole.submemory_desc({in, outputs}, {0, 0}) &&
        whole.get_size() == bytes * static_cast<size_t>(blocks_of(out))) {
      block_bytes = static_cast<int64_t>(bytes);
    }
  }

  // A product with the arguments of its execution. Panels share it, because creating it takes longer than
  // many products of one row.
  class Execution {
   public:
    Execution(const State& state, Product product, const void* x, void* result, void* scratch)
        : product_(std::move(product)),
          stream_(state.engine),
          weights_(product_.weights, state.engine, nullptr),
          bias_(product_.bias, state.engine, nullptr),
          arguments_{{DNNL_ARG_SRC, memory(product_.source, state.engine, const_cast<void*>(x))},
                     {DNNL_ARG_WEIGHTS, weights_},
                     {DNNL_ARG_BIAS, bias_},
                     {DNNL_ARG_DST, memory(product_.destination, state.engine, result)}},
          result_(result) {
      if (scratch != nullptr) {
        arguments_.emplace(DNNL_ARG_SCRATCHPAD, memory(product_.scratch, state.engine, scratch));
      }
    }
    void run(const void* packed, const float* added) {
      weights_.set_data_handle(const_cast<void*>(packed));
      bias_.set_data_handle(const_cast<float*>(added));
      product_.primitive.execute(stream_, arguments_);
      stream_.wait();
    }
    [[nodiscard]] const void* result() const { return result_; }

   private:
    Product product_;
    dnnl::stream stream_;
    memory weights_, bias_;
    std::unordered_map<int, memory> arguments_;
    void* result_;
  };

  void run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) {
    if (integers) return integers->run(x, result, activation, accumulate);
    const bool halves = result.dtype() == DType::kBF16;
    if (!x.is_contiguous() || x.dtype() != dtype || x.size(-1) != in || !result.is_contiguous() ||
        (result.dtype() != DType::kF32 && !halves) || (accumulate && halves) || result.size(-1) != out ||
        result.numel() / out != x.numel() / in) {
      throw std::logic_error(fmt::format("a layer of {} to {} in {}: {} {} to {} {}", in, out,
                                         dtype_name(dtype), dtype_name(x.dtype()), shape_text(x.sizes()),
                                         dtype_name(result.dtype()), shape_text(result.sizes())));
    }
    const int64_t rows = x.numel() / in;
    if (rows == 0) return;
    if (tiles) return tiles->run(x, result, activation, accumulate);
    Workspace* workspace = workspace_of({&x, &result});
    if (workspace == nullptr) {
      const OneDnnThreads alone(1);
      const Product product = product_of(rows, out, activation, result.dtype(), accumulate);
      const std::shared_ptr<void> scratch = allocate_plain(product.scratch.get_size());
      Execution(*this, product, x.raw(), result.raw(), scratch.get())
          .run(weights.get_data_handle(), bias.data<float>());
      return;
    }
    const Split split = split_of(rows, out, block_bytes, workspace->workers().size());
    if (split.outputs < out) return run_panels(x, result, rows, split, activation, accumulate, *workspace);
    workspace->workers().run(split.parts, [&](int64_t part, int worker) {
      const int64_t first = rows * part / split.parts;
      const int64_t last = rows * (part + 1) / split.parts;
      const Product product = product_of(last - first, out, activation, result.dtype(), accumulate);
      void* scratch = workspace->scratch(worker, product.scratch.get_size() + 1);
      Execution(*this, product, at(x, first * in), at(result, first * out), scratch)
          .run(weights.get_data_handle(), bias.data<float>());
    });
  }

  // By panels of outputs: into memory of their own, as oneDNN has no fast kernels for results with gaps
  // between their rows, and from there to their place. Items that follow each other read the same weights.
  void run_panels(const Tensor& x, const Tensor& result, int64_t rows, const Split& split,
                  Activation activation, bool accumulate, Workspace& workspace) {
    const auto size = dtype_size(result.dtype());
    const int64_t panels = (out + split.outputs - 1) / split.outputs;
    // Each worker's, of all rows by whole panels.
    std::vector<std::optional<Execution>> executions(static_cast<size_t>(workspace.workers().size()));
    workspace.workers().run(panels * split.parts, [&](int64_t item, int worker) {
      const int64_t part = item % split.parts;
      const int64_t begin_row = rows * part / split.parts;
      const int64_t own_rows = rows * (part + 1) / split.parts - begin_row;
      const int64_t first = item / split.parts * split.outputs;
      const int64_t outputs = std::min(split.outputs, out - first);
      const int64_t made = blocks_of(outputs) * kBlock;  // padding of the last block is computed and dropped
      std::optional<Execution> once;
      std::optional<Execution>& execution =
          own_rows == rows && made == split.outputs ? executions[static_cast<size_t>(worker)] : once;
      const auto own = static_cast<size_t>(own_rows * made * size);
      const size_t begin = (own + 63) / 64 * 64;
      auto* memory = static_cast<std::byte*>(workspace.scratch(worker, begin));
      if (!execution || execution->result() != memory) {
        Product product = product_of(own_rows, made, activation, result.dtype(), false);
        memory = static_cast<std::byte*>(workspace.scratch(worker, begin + product.scratch.get_size() + 1));
        execution.emplace(*this, std::move(product), at(x, begin_row * in), memory, memory + begin);
      }
      execution->run(static_cast<std::byte*>(weights.get_data_handle()) + first / kBlock * block_bytes,
                     bias.data<float>() + first);
      for (int64_t row = 0; row < own_rows; ++row) {
        const std::byte* from = memory + row * made * size;
        std::byte* to = at(result, (begin_row + row) * out + first);
        if (accumulate) {
          add_floats(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), outputs);
        } else {
          std::memcpy(to, from, static_cast<size_t>(outputs * size));
        }
      }
    });
  }
};

PackedLinear::PackedLinear(const Tensor& weight, const Tensor& bias, DType dtype, Workspace* workspace)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.out = weight.size(0);
  state.in = weight.size(1);
  if (dtype == DType::kI8 && state.in <= kMostInt8Inputs) {
    state.integers.emplace(weight, bias, workspace);
    return;
  }
  state.dtype = dtype == DType::kI8 ? DType::kF32 : dtype;
  const Bf16Kernel* tiles = state.dtype == DType::kBF16 ? bf16_kernel() : nullptr;
  if (tiles != nullptr) {
    state.tiles.emplace(*tiles, weight, bias, workspace);
    return;
  }
  state.bias = Tensor::zeros({blocks_of(state.out) * kBlock});
  if (bias.defined()) state.bias.slice(0, 0, state.out).copy_from(bias);

  // The layout is chosen once, for a batch of ordinary size; products of other sizes use it unchanged.
  const memory::desc any({state.in, state.out}, dnnl_type(state.dtype), memory::format_tag::any);
  {
    const OneDnnThreads alone(1);
    const auto description = state.describe(256, state.out, any, Activation::kNone, state.dtype, false);
    state.storage = allocate_plain(description.weights_desc().get_size());
    state.weights = memory(description.weights_desc(), state.engine, state.storage.get());
  }

  repack_weights(weight, state.weights, workspace);
  state.find_blocks();
}

PackedLinear::~PackedLinear() = default;

DType PackedLinear::dtype() const {
  return state_->dtype;
}

bool PackedLinear::takes(DType dtype) const {
  return dtype == state_->dtype || (state_->integers && dtype == DType::kBF16);
}

DType PackedLinear::attended(DType dtype) const {
  return state_->integers ? DType::kBF16 : dtype;
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

bool multiplies(DType dtype) {
  if (dtype != DType::kBF16) return true;
  try {
    (void)PackedLinear(Tensor::zeros({64, 64}), {}, dtype);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace saccade::nn

#include "saccade/nn/kernels/repack.h"

#include <algorithm>

#include "saccade/nn/linear/onednn.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {
namespace {

using dnnl::memory;

// Number of outputs per band: a multiple of the block sizes of layouts.
constexpr int64_t kBand = 256;

DType dtype_of(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  const memory::data_type type = desc.get_data_type();
#else
  const memory::data_type type = desc.data_type();
#endif
  return type == memory::data_type::bf16 ? DType::kBF16 : DType::kF32;
}

// Repacks rows into `place`, their location within the packed weights.
void repack(const Tensor& rows, const memory::desc& place, const memory& packed) {
  const OneDnnThreads alone(1);
  const dnnl::engine engine = packed.get_engine();
  const Tensor plain = rows.to(dtype_of(place)).contiguous();
  // [out, in] row-major is [in, out] column-major.
  memory source({{rows.size(1), rows.size(0)}, dnnl_type(plain.dtype()), memory::format_tag::ba}, engine,
                plain.raw());
  memory destination(place, engine, packed.get_data_handle());
  dnnl::stream stream(engine);
  const CompileMemory room;
  dnnl::reorder(source, destination).execute(stream, source, destination);
  stream.wait();
}

}  // namespace

void repack_weights(const Tensor& weight, memory& packed, Workspace* workspace) {
  const int64_t out = weight.size(0);
  const int64_t bands = (out + kBand - 1) / kBand;
  const memory::desc whole = packed.get_desc();
  if (workspace == nullptr || workspace->workers().size() == 1 || bands == 1) {
    return repack(weight, whole, packed);
  }
  try {
    workspace->workers().run(bands, [&](int64_t band, int) {
      const int64_t first = band * kBand;
      const int64_t rows = std::min(kBand, out - first);
      repack(weight.slice(0, first, first + rows), whole.submemory_desc({weight.size(1), rows}, {0, first}),
             packed);
    });
  } catch (const dnnl::error&) {
    repack(weight, whole, packed);  // a layout of which no part can be described
  }
}

}  // namespace saccade::nn

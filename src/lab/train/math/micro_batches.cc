#include "lab/train/math/micro_batches.h"

#include "lab/train/math/variable.h"

namespace saccade::lab {

std::vector<MicroBatch> micro_batches(int64_t count, int64_t parts) {
  std::vector<MicroBatch> result;
  for (int64_t part = 0; part < parts; ++part) {
    const MicroBatch one{count * part / parts, count * (part + 1) / parts};
    if (one.size() > 0) result.push_back(one);
  }
  return result;
}

torch::Tensor encode_in_micro_batches(int64_t count, int64_t parts,
                                      const std::function<torch::Tensor(MicroBatch)>& encode) {
  const std::vector<MicroBatch> all = micro_batches(count, parts);
  if (all.size() <= 1 || !at::GradMode::is_enabled()) return encode({0, count});
  const Variable none(torch::empty({0}));  // what is encoded needs no gradient
  std::vector<torch::Tensor> rows;
  rows.reserve(all.size());
  for (const MicroBatch one : all) {
    rows.push_back(
        recomputed(none, [encode, one](const Variable& /*x*/) { return Variable(encode(one)); }).tensor());
  }
  return torch::cat(rows);
}

}  // namespace saccade::lab

#include "saccade/model/towers/begun_alike.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace saccade {
namespace {

nn::Tensor of_integers(const std::vector<int64_t>& values, nn::Workspace* workspace) {
  const nn::Tensor tensor = nn::Tensor::empty({std::ssize(values)}, DType::kI64, workspace);
  std::ranges::copy(values, tensor.integers().begin());
  return tensor;
}

}  // namespace

BegunAlike begun_alike(const nn::Tensor& ids, const nn::Tensor& ends) {
  const int64_t texts = ids.size(0);
  const int64_t tokens = ids.size(1);
  const nn::Tensor all = ids.contiguous();
  nn::Workspace* const workspace = ids.workspace();
  // Positions after a text's end map to row 0; results computed there are not read.
  const nn::Tensor of_texts = nn::Tensor::full_integers({texts, tokens}, 0, workspace);
  std::map<std::pair<int64_t, int64_t>, int64_t> following;  // the row before, and the token -> its row
  std::vector<int64_t> of_rows;
  std::vector<int64_t> positions;
  std::vector<int64_t> places;
  std::vector<int64_t> last;
  for (int64_t text = 0; text < texts; ++text) {
    const int64_t end = ends.integers()[static_cast<size_t>(text)];
    int64_t row = -1;
    for (int64_t token = 0; token <= end; ++token) {
      const int64_t place = text * tokens + token;
      const int64_t id = all.data<int64_t>()[place];
      const auto [found, is_new] = following.try_emplace({row, id}, std::ssize(of_rows));
      row = found->second;
      of_texts.data<int64_t>()[place] = row;
      if (!is_new) continue;
      of_rows.push_back(id);
      positions.push_back(token);
      places.push_back(place);
    }
    last.push_back(row);
  }
  return {.ids = of_integers(of_rows, workspace),
          .positions = of_integers(positions, workspace),
          .ends = of_integers(last, workspace),
          .shared = {.of_texts = of_texts, .places = of_integers(places, workspace)}};
}

bool keeps_up_to_end(const nn::Tensor& mask, const nn::Tensor& ends) {
  if (!mask.defined()) return true;
  for (int64_t text = 0; text < mask.size(0); ++text) {
    const int64_t end = ends.integers()[static_cast<size_t>(text)];
    const nn::Tensor kept = mask[text].slice(0, 0, end + 1).contiguous();
    if (std::ranges::any_of(kept.integers(), [](int64_t one) { return one == 0; })) return false;
  }
  return true;
}

}  // namespace saccade

#include "lab/eval/visualness/picture_rank.h"

#include <numeric>
#include <set>

namespace saccade::lab {

std::vector<double> picture_ranks(MatrixView<const float> texts, MatrixView<const float> pictures,
                                  std::span<const int64_t> own) {
  std::set<int64_t> gallery(own.begin(), own.end());
  gallery.erase(-1);
  std::vector<double> ranks;
  for (int64_t i = 0; i < texts.rows(); ++i) {
    const int64_t right = own[static_cast<size_t>(i)];
    if (right < 0) continue;
    const auto score = [&](int64_t picture) {
      const auto a = texts.row(i);
      const auto b = pictures.row(picture);
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
    };
    const float its = score(right);
    int64_t rank = 1;
    for (const int64_t picture : gallery) rank += picture != right && score(picture) >= its ? 1 : 0;
    ranks.push_back(static_cast<double>(rank));
  }
  return ranks;
}

}  // namespace saccade::lab

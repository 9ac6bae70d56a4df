// Finds the nearest rows of a matrix: exact top-k, without a model or a collection.
#include <cstdio>
#include <random>
#include <saccade/saccade.h>

int main() {
  constexpr int64_t kRows = 100'000;
  constexpr int64_t kDim = 64;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  saccade::Matrix<float> rows(kRows, kDim);
  for (float& value : rows.values()) value = normal(random);

  // The matrix is borrowed, not copied. Row 7 is nearest to itself.
  const auto best = saccade::top_k(rows.view().slice(7, 1), rows.view(), 3);
  if (!best) {
    std::fprintf(stderr, "%s\n", best.error().message.c_str());
    return 1;
  }
  for (int64_t i = 0; i < 3; ++i) {
    std::printf("row %lld  %.3f\n", static_cast<long long>(best->rows(0, i)), best->scores(0, i));
  }
}

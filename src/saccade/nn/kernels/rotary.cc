#include "saccade/nn/kernels/rotary.h"

#include <cmath>

#include "saccade/core/half.h"

namespace saccade::nn {
namespace {

// Calls body(head's first value, token) for every head of x, on the workspace's threads.
template <typename T, typename Body>
void for_heads(const Tensor& x, const Body& body) {
  const int64_t tokens = x.size(1);
  const auto rows = [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) {
      T* at = x.data<T>() + row / tokens * x.stride(0) + row % tokens * x.stride(1);
      for (int64_t head = 0; head < x.size(2); ++head) body(at + head * x.stride(2), row % tokens);
    }
  };
  const int64_t count = x.size(0) * tokens;
  if (x.workspace() == nullptr) return rows(0, count, 0);
  x.workspace()->workers().split(count, 16, rows);
}

float read(float value) {
  return value;
}
float read(uint16_t value) {
  return bf16_to_float(value);
}
void write(float* to, float value) {
  *to = value;
}
void write(uint16_t* to, float value) {
  *to = float_to_bf16(value);
}

template <typename T>
void turn_pair(T* first, T* second, float cos_first, float sin_first, float cos_second, float sin_second) {
  const float a = read(*first);
  const float b = read(*second);
  write(first, a * cos_first - b * sin_first);
  write(second, b * cos_second + a * sin_second);
}

template <typename T>
void turn_halves(const Tensor& x, const Rotary::Angles& angles) {
  const int64_t half = x.size(3) / 2;
  for_heads<T>(x, [&](T* head, int64_t token) {
    const float* cos = angles.cos.data<float>() + token * half;
    const float* sin = angles.sin.data<float>() + token * half;
    for (int64_t i = 0; i < half; ++i) turn_pair(head + i, head + half + i, cos[i], sin[i], cos[i], sin[i]);
  });
}

template <typename T>
void turn_pairs(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const int64_t width = x.size(3);
  for_heads<T>(x, [&](T* head, int64_t token) {
    const float* cos = cosines.data<float>() + token * width;
    const float* sin = sines.data<float>() + token * width;
    for (int64_t i = 0; i < width; i += 2) {
      turn_pair(head + i, head + i + 1, cos[i], sin[i], cos[i + 1], sin[i + 1]);
    }
  });
}

}  // namespace

Rotary::Rotary(int64_t head_width, double theta) {
  // Computed in float32 step by step, like the reference: at position 1,000 the last bit of a frequency
  // matters.
  const auto width = static_cast<float>(head_width);
  for (int64_t i = 0; i < head_width; i += 2) {
    const float exponent = static_cast<float>(i) / width;
    frequencies_.push_back(1.F / std::pow(static_cast<float>(theta), exponent));
  }
}

Rotary::Angles Rotary::angles(int64_t first, int64_t tokens) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  Angles angles{Tensor::empty({tokens, half}), Tensor::empty({tokens, half})};
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(first + token) * frequencies_[static_cast<size_t>(i)];
      angles.cos.data<float>()[token * half + i] = std::cos(angle);
      angles.sin.data<float>()[token * half + i] = std::sin(angle);
    }
  }
  return angles;
}

void Rotary::turn(const Tensor& x, const Angles& angles) {
  x.dtype() == DType::kBF16 ? turn_halves<uint16_t>(x, angles) : turn_halves<float>(x, angles);
}

void turn_neighbours(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  x.dtype() == DType::kBF16 ? turn_pairs<uint16_t>(x, cos, sin) : turn_pairs<float>(x, cos, sin);
}

}  // namespace saccade::nn

// Maps over pictures against libtorch: every family's tower written once more in plain operations, in
// double, with its attention weights as nodes that autograd gives gradients of. The oracle's gradients
// are held to finite differences.
#include "saccade/model/picture_map.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "saccade/core/safetensors.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/encoder.h"
#include "saccade/train/variable.h"

namespace saccade {
namespace {

using torch::Tensor;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(test::kSourceDir) / "tests/golden" / name;
}

// A checkpoint's tensors in double.
class Weights {
 public:
  explicit Weights(const std::string& name)
      : file_(SafeTensors::open(golden(name) / "model.safetensors").value()),
        tensors_(torch_tensors(file_).value()) {}
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  [[nodiscard]] Tensor get(const std::string& name) const { return tensors_.at(name).to(at::kDouble); }
  [[nodiscard]] Tensor linear(const std::string& name, const Tensor& x) const {
    return torch::linear(x, get(name + ".weight"), has(name + ".bias") ? get(name + ".bias") : Tensor());
  }
  [[nodiscard]] Tensor norm(const std::string& name, const Tensor& x, double eps) const {
    return torch::layer_norm(x, {x.size(-1)}, get(name + ".weight"), get(name + ".bias"), eps);
  }

 private:
  SafeTensors file_;
  TorchMap tensors_;
};

// Attention weights of one pass, [1, heads, queries, keys] each. What is added to one of them
// shows its gradient by finite differences.
struct Attentions {
  std::vector<Tensor> all;
  size_t nudged = SIZE_MAX;
  Tensor nudge;
};

// q, k, v: [1, tokens, width]
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, Attentions& attentions) {
  const auto split = [&](const Tensor& x) { return x.view({1, x.size(1), heads, -1}).transpose(1, 2); };
  Tensor weights = torch::softmax(
      torch::matmul(split(q), split(k).transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(2) / heads)),
      -1);
  if (attentions.all.size() == attentions.nudged) weights = weights + attentions.nudge;
  if (!weights.requires_grad()) weights.requires_grad_();
  attentions.all.push_back(weights);
  return torch::matmul(weights, split(v)).transpose(1, 2).reshape({1, q.size(1), -1});
}

// One picture's tower: states behind each block, and the score that states give.
struct Oracle {
  std::function<Tensor(const Tensor& pixels, Attentions& attentions, std::vector<Tensor>& states)> blocks;
  std::function<Tensor(const Tensor& states, const Tensor& target, Attentions& attentions)> score;
  int64_t class_tokens = 1;
  bool pools_by_attention = false;
};

Tensor cosine(const Tensor& row, const Tensor& target) {
  return (row * target).sum() / row.norm();
}

Tensor cut(const Weights& w, const std::string& name, const Tensor& pixels) {
  const Tensor kernel = w.get(name + ".weight");
  const Tensor bias = w.has(name + ".bias") ? w.get(name + ".bias") : Tensor();
  return torch::conv2d(pixels, kernel, bias, kernel.size(3)).flatten(2).transpose(1, 2);
}

Tensor quick(const Tensor& x, const std::string& activation) {
  if (activation == "quick_gelu") return x * torch::sigmoid(1.702 * x);
  return torch::gelu(x, activation == "gelu" ? "none" : "tanh");
}

Tensor hugging_face_block(const Weights& w, const std::string& prefix, Tensor x, int64_t heads, double eps,
                          const std::string& activation, Attentions& attentions) {
  const Tensor normed = w.norm(prefix + "layer_norm1", x, eps);
  std::vector<Tensor> qkv;
  if (w.has(prefix + "self_attn.qkv.weight")) {
    qkv = w.linear(prefix + "self_attn.qkv", normed).chunk(3, 2);
  } else {
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      qkv.push_back(w.linear(prefix + "self_attn." + part, normed));
    }
  }
  const Tensor mixed = attend(qkv[0], qkv[1], qkv[2], heads, attentions);
  const bool joint = w.has(prefix + "self_attn.projection.weight");
  x = x + w.linear(prefix + (joint ? "self_attn.projection" : "self_attn.out_proj"), mixed);
  const Tensor hidden =
      quick(w.linear(prefix + "mlp.fc1", w.norm(prefix + "layer_norm2", x, eps)), activation);
  return x + w.linear(prefix + "mlp.fc2", hidden);
}

Oracle clip_oracle(const Weights& w, const std::string& activation) {
  Oracle oracle;
  const std::string v = "vision_model.";
  oracle.blocks = [&w, v, activation](const Tensor& pixels, Attentions& attentions,
                                      std::vector<Tensor>& states) {
    Tensor x = torch::cat({w.get(v + "embeddings.class_embedding").view({1, 1, -1}),
                           cut(w, v + "embeddings.patch_embedding", pixels)},
                          1) +
               w.get(v + "embeddings.position_embedding.weight");
    x = w.norm(v + "pre_layrnorm", x, 1e-5);
    for (int i = 0; w.has(fmt::format("{}encoder.layers.{}.layer_norm1.weight", v, i)); ++i) {
      x = hugging_face_block(w, fmt::format("{}encoder.layers.{}.", v, i), x, 4, 1e-5, activation,
                             attentions);
      states.push_back(x);
    }
    return x;
  };
  oracle.score = [&w, v](const Tensor& states, const Tensor& target, Attentions&) {
    return cosine(w.linear("visual_projection", w.norm(v + "post_layernorm", states.select(1, 0), 1e-5)),
                  target);
  };
  return oracle;
}

Oracle siglip_oracle(const Weights& w) {
  Oracle oracle;
  const std::string v = "vision_model.";
  oracle.blocks = [&w, v](const Tensor& pixels, Attentions& attentions, std::vector<Tensor>& states) {
    Tensor x =
        cut(w, v + "embeddings.patch_embedding", pixels) + w.get(v + "embeddings.position_embedding.weight");
    for (int i = 0; w.has(fmt::format("{}encoder.layers.{}.layer_norm1.weight", v, i)); ++i) {
      x = hugging_face_block(w, fmt::format("{}encoder.layers.{}.", v, i), x, 4, 1e-6, "tanh", attentions);
      states.push_back(x);
    }
    return x;
  };
  oracle.score = [&w, v](const Tensor& states, const Tensor& target, Attentions& attentions) {
    const Tensor normed = w.norm(v + "post_layernorm", states, 1e-6);
    const std::vector<Tensor> weights = w.get(v + "head.attention.in_proj_weight").chunk(3);
    const std::vector<Tensor> biases = w.get(v + "head.attention.in_proj_bias").chunk(3);
    const Tensor mixed = attend(torch::linear(w.get(v + "head.probe"), weights[0], biases[0]),
                                torch::linear(normed, weights[1], biases[1]),
                                torch::linear(normed, weights[2], biases[2]), 4, attentions);
    const Tensor out = w.linear(v + "head.attention.out_proj", mixed);
    const Tensor hidden =
        quick(w.linear(v + "head.mlp.fc1", w.norm(v + "head.layernorm", out, 1e-6)), "tanh");
    return cosine(out + w.linear(v + "head.mlp.fc2", hidden), target);
  };
  oracle.class_tokens = 0;
  oracle.pools_by_attention = true;
  return oracle;
}

// EVA's rotary positions: neighbours turned by angles of the row in a head's first
// half, of the column in its second.
Tensor turned(const Tensor& x, int64_t heads) {
  const int64_t side = std::lround(std::sqrt(static_cast<double>(x.size(1) - 1)));
  const int64_t depth = x.size(2) / heads;
  const int64_t half = depth / 2;
  const Tensor angles = torch::zeros({side * side, depth}, at::kDouble);
  for (int64_t place = 0; place < side * side; ++place) {
    for (int64_t i = 0; i < depth; ++i) {
      const double at = static_cast<double>(i < half ? place / side : place % side);
      const double frequency =
          std::pow(1e4, -static_cast<double>(i % half / 2 * 2) / static_cast<double>(half));
      angles[place][i] = at / static_cast<double>(side) * 16 * frequency;
    }
  }
  const Tensor patches = x.slice(1, 1).view({1, side * side, heads, depth});
  const Tensor pairs = patches.view({1, side * side, heads, half, 2});
  const Tensor across = torch::stack({-pairs.select(4, 1), pairs.select(4, 0)}, 4).view(patches.sizes());
  const Tensor result = patches * angles.cos().view({1, side * side, 1, depth}) +
                        across * angles.sin().view({1, side * side, 1, depth});
  return torch::cat({x.slice(1, 0, 1), result.reshape({1, side * side, -1})}, 1);
}

Oracle jina_oracle(const Weights& w) {
  Oracle oracle;
  const std::string v = "vision_model.";
  constexpr int64_t kHeads = 3;
  constexpr double kEps = 1e-6;
  oracle.blocks = [&w, v](const Tensor& pixels, Attentions& attentions, std::vector<Tensor>& states) {
    Tensor x = torch::cat({w.get(v + "cls_token"), cut(w, v + "patch_embed.proj", pixels)}, 1) +
               w.get(v + "pos_embed");
    for (int i = 0; w.has(fmt::format("{}blocks.{}.norm1.weight", v, i)); ++i) {
      const std::string b = fmt::format("{}blocks.{}.", v, i);
      const Tensor normed = w.norm(b + "norm1", x, kEps);
      std::vector<Tensor> parts;
      if (w.has(b + "attn.qkv.weight")) {
        parts = torch::linear(normed, w.get(b + "attn.qkv.weight")).chunk(3, 2);
      } else {
        for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
          parts.push_back(torch::linear(normed, w.get(b + "attn." + name + ".weight")));
        }
      }
      Tensor mixed = attend(turned(parts[0] + w.get(b + "attn.q_bias"), kHeads), turned(parts[1], kHeads),
                            parts[2] + w.get(b + "attn.v_bias"), kHeads, attentions);
      const bool gated = w.has(b + "mlp.w1.weight");
      if (w.has(b + "attn.inner_attn_ln.weight")) mixed = w.norm(b + "attn.inner_attn_ln", mixed, kEps);
      x = x + w.linear(b + "attn.proj", mixed);
      const Tensor second = w.norm(b + "norm2", x, kEps);
      Tensor hidden = gated ? torch::silu(w.linear(b + "mlp.w1", second)) * w.linear(b + "mlp.w2", second)
                            : torch::gelu(w.linear(b + "mlp.fc1", second));
      if (w.has(b + "mlp.ffn_ln.weight")) hidden = w.norm(b + "mlp.ffn_ln", hidden, kEps);
      x = x + w.linear(b + (gated ? "mlp.w3" : "mlp.fc2"), hidden);
      states.push_back(x);
    }
    return x;
  };
  oracle.score = [&w, v](const Tensor& states, const Tensor& target, Attentions&) {
    const Tensor row = w.norm(v + "norm", states.select(1, 0), kEps);
    return cosine(w.has("visual_projection.weight") ? w.linear("visual_projection", row) : row, target);
  };
  return oracle;
}

// Of each head's gradient the positive part, their mean: [queries, keys].
Tensor positive_mean(const Tensor& gradient) {
  return torch::relu(gradient).mean(1)[0];
}

Tensor gradient_of(const Tensor& score, const Tensor& attention) {
  return torch::autograd::grad({score}, {attention}, {}, true)[0];
}

Tensor slow_legrad(const Oracle& oracle, const Tensor& pixels, const Tensor& target) {
  Attentions attentions;
  std::vector<Tensor> states;
  (void)oracle.blocks(pixels, attentions, states);
  Tensor sum;
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor score = oracle.score(states[i], target, attentions);
    const Tensor& attention = oracle.pools_by_attention ? attentions.all.back() : attentions.all[i];
    const Tensor map = positive_mean(gradient_of(score, attention)).mean(0);
    sum = sum.defined() ? sum + map : map;
  }
  return sum.slice(0, oracle.class_tokens);
}

Tensor slow_chefer(const Oracle& oracle, const Tensor& pixels, const Tensor& target) {
  Attentions attentions;
  std::vector<Tensor> states;
  const Tensor last = oracle.blocks(pixels, attentions, states);
  const Tensor score = oracle.score(last, target, attentions);
  Tensor relevance = torch::eye(last.size(1), at::kDouble);
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor weights = positive_mean(gradient_of(score, attentions.all[i]) * attentions.all[i]);
    relevance = relevance + torch::matmul(weights, relevance);
  }
  if (!oracle.pools_by_attention) return relevance[0].slice(0, oracle.class_tokens);
  const Tensor pooling = positive_mean(gradient_of(score, attentions.all.back()) * attentions.all.back());
  return torch::matmul(pooling, relevance)[0];
}

// Some pictures and a direction, for the encoder and the oracle.
struct Sample {
  Tensor pixels;  // [n, 3, side, side] float32
  Tensor target;  // [dim] float32, of length 1
};

Sample sample_of(const Encoder& encoder) {
  torch::manual_seed(17);
  const EncoderInfo& info = encoder.info();
  const Tensor target = torch::randn({info.dim});
  return {torch::randn({2, 3, info.image_height, info.image_width}), (target / target.norm()).contiguous()};
}

Tensor mapped(Encoder& encoder, const Sample& sample, MapMethod method) {
  const MatrixView<const float> pixels(sample.pixels.data_ptr<float>(), sample.pixels.size(0),
                                       sample.pixels.numel() / sample.pixels.size(0));
  const std::span<const float> target(sample.target.data_ptr<float>(),
                                      static_cast<size_t>(sample.target.numel()));
  const auto maps = encoder.picture_mapper()->map_pictures(pixels, target, method);
  EXPECT_TRUE(maps) << maps.error().message;
  const Tensor result = torch::empty({maps->relevance.rows(), maps->relevance.columns()});
  std::ranges::copy(maps->relevance.values(), result.data_ptr<float>());
  return result.to(at::kDouble);
}

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const double scale = expected.abs().max().item<double>();
  EXPECT_GT(scale, 0);
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-4 * scale);
}

void expect_as_autograd(const std::string& name, const std::function<Oracle(const Weights&)>& make) {
  SCOPED_TRACE(name);
  const auto encoder = load_encoder(golden(name));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const Weights weights(name);
  const Oracle oracle = make(weights);
  const Sample sample = sample_of(**encoder);
  const Tensor legrad = mapped(**encoder, sample, MapMethod::kLegrad);
  const Tensor chefer = mapped(**encoder, sample, MapMethod::kChefer);
  const Tensor target = sample.target.to(at::kDouble);
  for (int64_t i = 0; i < sample.pixels.size(0); ++i) {
    const Tensor pixels = sample.pixels.slice(0, i, i + 1).to(at::kDouble);
    expect_close(legrad[i], slow_legrad(oracle, pixels, target));
    expect_close(chefer[i], slow_chefer(oracle, pixels, target));
  }
}

TEST(PictureMaps, OfClipAsAutograd) {
  expect_as_autograd("clip-gelu", [](const Weights& w) { return clip_oracle(w, "gelu"); });
  expect_as_autograd("clip-quickgelu", [](const Weights& w) { return clip_oracle(w, "quick_gelu"); });
}

TEST(PictureMaps, OfSiglipAsAutograd) {
  expect_as_autograd("siglip", siglip_oracle);
}

TEST(PictureMaps, OfJinaClipAsAutograd) {
  expect_as_autograd("jina-clip", jina_oracle);
  expect_as_autograd("jina-clip-fused", jina_oracle);
}

// BLIP-2's Q-Former: of each block that looks at the picture, the best query's own attention over it.
Tensor slow_blip2(const Weights& w, const Tensor& pixels, const Tensor& target) {
  const std::string v = "vision_model.";
  Attentions below;
  Tensor memory =
      torch::cat({w.get(v + "embeddings.class_embedding"), cut(w, v + "embeddings.patch_embedding", pixels)},
                 1) +
      w.get(v + "embeddings.position_embedding");
  for (int i = 0; w.has(fmt::format("{}encoder.layers.{}.layer_norm1.weight", v, i)); ++i) {
    memory = hugging_face_block(w, fmt::format("{}encoder.layers.{}.", v, i), memory, 4, 1e-6, "gelu", below);
  }
  memory = w.norm(v + "post_layernorm", memory, 1e-6);
  constexpr double kEps = 1e-12;
  Tensor x = w.norm("qformer.layernorm", w.get("query_tokens"), kEps);
  Tensor sum = torch::zeros({memory.size(1)}, at::kDouble);
  for (int i = 0; w.has(fmt::format("qformer.encoder.layer.{}.attention.attention.query.weight", i)); ++i) {
    const std::string b = fmt::format("qformer.encoder.layer.{}.", i);
    Attentions attentions;
    const auto look = [&](const std::string& part, const Tensor& from) {
      const Tensor mixed =
          attend(w.linear(b + part + ".attention.query", x), w.linear(b + part + ".attention.key", from),
                 w.linear(b + part + ".attention.value", from), 4, attentions);
      return w.norm(b + part + ".output.LayerNorm", x + w.linear(b + part + ".output.dense", mixed), kEps);
    };
    x = look("attention", x);
    const bool looks = w.has(b + "crossattention.attention.query.weight");
    if (looks) x = look("crossattention", memory);
    const Tensor hidden = torch::gelu(w.linear(b + "intermediate_query.dense", x));
    x = w.norm(b + "output_query.LayerNorm", x + w.linear(b + "output_query.dense", hidden), kEps);
    if (!looks) continue;
    const Tensor rows = w.linear("vision_projection", x)[0];
    const Tensor score = (torch::matmul(rows, target) / rows.norm(2, 1)).max();
    sum = sum + positive_mean(gradient_of(score, attentions.all.back())).sum(0);
  }
  return sum.slice(0, 1);
}

TEST(PictureMaps, OfBlip2AsAutograd) {
  const auto encoder = load_encoder(golden("blip2-itm"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const Weights weights("blip2-itm");
  const Sample sample = sample_of(**encoder);
  const Tensor legrad = mapped(**encoder, sample, MapMethod::kLegrad);
  for (int64_t i = 0; i < sample.pixels.size(0); ++i) {
    expect_close(legrad[i], slow_blip2(weights, sample.pixels.slice(0, i, i + 1).to(at::kDouble),
                                       sample.target.to(at::kDouble)));
  }
}

// The oracle itself: the gradient of a block's own score with its attention, by central differences.
TEST(PictureMaps, TheOracleAsFiniteDifferences) {
  const Weights weights("clip-gelu");
  const Oracle oracle = clip_oracle(weights, "gelu");
  torch::manual_seed(18);
  const Tensor pixels = torch::randn({1, 3, 64, 64}, at::kDouble);
  Tensor target = torch::randn({24}, at::kDouble);
  target = target / target.norm();
  const auto score_of = [&](size_t block, const Tensor& nudge, Attentions& attentions) {
    attentions.nudged = block;
    attentions.nudge = nudge;
    std::vector<Tensor> states;
    (void)oracle.blocks(pixels, attentions, states);
    return oracle.score(states[block], target, attentions);
  };
  for (const size_t block : {size_t{0}, size_t{2}}) {
    Attentions attentions;
    const Tensor none = torch::zeros({1, 4, 17, 17}, at::kDouble);
    const Tensor score = score_of(block, none, attentions);
    const Tensor gradient = gradient_of(score, attentions.all[block]);
    for (const int64_t key : {0, 3, 16}) {
      constexpr double kStep = 1e-5;
      double sides[2];
      for (const int side : {0, 1}) {
        Tensor nudge = none.clone();
        nudge[0][1][0][key] = side == 0 ? kStep : -kStep;
        Attentions again;
        sides[side] = score_of(block, nudge, again).item<double>();
      }
      EXPECT_NEAR((sides[0] - sides[1]) / (2 * kStep), gradient[0][1][0][key].item<double>(), 1e-8);
    }
  }
}

}  // namespace
}  // namespace saccade

// Tests of relevance maps over images against libtorch. Every family's tower is written again in plain
// operations, in double. Its attention weights are nodes for which autograd gives gradients. The oracle's
// gradients are held to finite differences.
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lab/train/math/variable.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/families/blip2.h"
#include "saccade/model/families/head.h"

namespace saccade::lab {
namespace {

using torch::Tensor;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(test::kSourceDir) / "tests/golden" / name;
}

// A checkpoint's tensors in double.
class Weights {
 public:
  explicit Weights(const std::filesystem::path& folder)
      : file_(SafeTensors::open(folder / "model.safetensors").value()),
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

// Attention weights of one pass, [1, heads, queries, keys] each. A value added to one of them shows its
// gradient by finite differences.
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

Tensor unit(const Tensor& rows) {
  return rows / rows.norm(2, -1, true);
}

Tensor cosine(const Tensor& row, const Tensor& target) {
  return (unit(row) * target).sum();
}

using Layer = std::function<Tensor(const Tensor& x)>;

// The tower of one image: states after each block, and the embedding computed from them.
struct Oracle {
  std::function<Tensor(const Tensor& pixels, Attentions& attentions, std::vector<Tensor>& states)> blocks;
  std::function<Tensor(const Tensor& states, Attentions& attentions)> pool;  // to what is projected
  Layer project = [](const Tensor& x) { return x; };                         // to a row of any length
  Layer head = [](const Tensor& x) { return x; };                            // behind the row
  bool head_reads_row = true;  // normalized; else the projected states
  int64_t class_tokens = 1;
  bool pools_by_attention = false;

  [[nodiscard]] Tensor score(const Tensor& states, const Tensor& target, Attentions& attentions) const {
    const Tensor pooled = pool(states, attentions);
    const Tensor read = head_reads_row ? unit(project(pooled)) : pooled;
    return cosine(head(read), target);
  }
};

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
  oracle.pool = [&w, v](const Tensor& states, Attentions&) {
    return w.norm(v + "post_layernorm", states.select(1, 0), 1e-5);
  };
  oracle.project = [&w](const Tensor& x) { return w.linear("visual_projection", x); };
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
  oracle.pool = [&w, v](const Tensor& states, Attentions& attentions) {
    const Tensor normed = w.norm(v + "post_layernorm", states, 1e-6);
    const std::vector<Tensor> weights = w.get(v + "head.attention.in_proj_weight").chunk(3);
    const std::vector<Tensor> biases = w.get(v + "head.attention.in_proj_bias").chunk(3);
    const Tensor mixed = attend(torch::linear(w.get(v + "head.probe"), weights[0], biases[0]),
                                torch::linear(normed, weights[1], biases[1]),
                                torch::linear(normed, weights[2], biases[2]), 4, attentions);
    const Tensor out = w.linear(v + "head.attention.out_proj", mixed);
    const Tensor hidden =
        quick(w.linear(v + "head.mlp.fc1", w.norm(v + "head.layernorm", out, 1e-6)), "tanh");
    return (out + w.linear(v + "head.mlp.fc2", hidden)).view({1, -1});
  };
  oracle.class_tokens = 0;
  oracle.pools_by_attention = true;
  return oracle;
}

// Computes EVA's rotary positions: neighbouring values are rotated by angles of the row in a head's first
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
  oracle.pool = [&w, v](const Tensor& states, Attentions&) {
    return w.norm(v + "norm", states.select(1, 0), kEps);
  };
  if (w.has("visual_projection.weight")) {
    oracle.project = [&w](const Tensor& x) { return w.linear("visual_projection", x); };
  }
  return oracle;
}

// Returns the mean over heads of the positive part of each gradient: [queries, keys].
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

// Some images and a direction, for the encoder and the oracle.
struct Sample {
  Tensor pixels;  // [n, 3, side, side] float32
  Tensor target;  // [dim] float32, of length 1
};

Sample sample_of(const EncoderBackend& encoder) {
  torch::manual_seed(17);
  const EncoderInfo& info = encoder.info();
  const Tensor target = torch::randn({info.dim});
  return {torch::randn({2, 3, info.image_height, info.image_width}), (target / target.norm()).contiguous()};
}

Tensor mapped(EncoderBackend& encoder, const Sample& sample, MapMethod method) {
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

void expect_as_autograd(const std::filesystem::path& checkpoint, const Oracle& oracle) {
  SCOPED_TRACE(checkpoint.string());
  const auto encoder = load_encoder(checkpoint);
  ASSERT_TRUE(encoder) << encoder.error().message;
  ASSERT_NE((*encoder)->picture_mapper(), nullptr);
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
  for (const auto& [name, activation] : {std::pair("clip-gelu", "gelu"), {"clip-quickgelu", "quick_gelu"}}) {
    const Weights weights(golden(name));
    expect_as_autograd(golden(name), clip_oracle(weights, activation));
  }
}

TEST(PictureMaps, OfSiglipAsAutograd) {
  const Weights weights(golden("siglip"));
  expect_as_autograd(golden("siglip"), siglip_oracle(weights));
}

TEST(PictureMaps, OfJinaClipAsAutograd) {
  for (const char* name : {"jina-clip", "jina-clip-fused"}) {
    const Weights weights(golden(name));
    expect_as_autograd(golden(name), jina_oracle(weights));
  }
}

// --- BLIP-2 -----------------------------------------------------------------------------------------------

// Inputs of a score: the queries' states, [1, queries, width], and the weight of each in it.
struct QueryScore {
  Layer score;
  Layer shares;  // [queries]
};

Tensor blip2_memory(const Weights& w, const Tensor& pixels, Attentions& attentions) {
  const std::string v = "vision_model.";
  Tensor memory =
      torch::cat({w.get(v + "embeddings.class_embedding"), cut(w, v + "embeddings.patch_embedding", pixels)},
                 1) +
      w.get(v + "embeddings.position_embedding");
  for (int i = 0; w.has(fmt::format("{}encoder.layers.{}.layer_norm1.weight", v, i)); ++i) {
    memory =
        hugging_face_block(w, fmt::format("{}encoder.layers.{}.", v, i), memory, 4, 1e-6, "gelu", attentions);
  }
  return w.norm(v + "post_layernorm", memory, 1e-6);
}

// Blocks of a Q-Former: each one's self-attention among queries and, if it has any, cross-attention over the
// memory.
struct Looked {
  Tensor self;
  Tensor over;    // undefined without cross-attention
  Tensor states;  // behind the block
};
std::vector<Looked> ask(const Weights& w, const Tensor& memory) {
  constexpr double kEps = 1e-12;
  std::vector<Looked> blocks;
  Tensor x = w.norm("qformer.layernorm", w.get("query_tokens"), kEps);
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
    if (w.has(b + "crossattention.attention.query.weight")) x = look("crossattention", memory);
    const Tensor hidden = torch::gelu(w.linear(b + "intermediate_query.dense", x));
    x = w.norm(b + "output_query.LayerNorm", x + w.linear(b + "output_query.dense", hidden), kEps);
    blocks.push_back({attentions.all[0], attentions.all.size() > 1 ? attentions.all[1] : Tensor(), x});
  }
  return blocks;
}

// Uses each block's own cross-attention over the image.
Tensor slow_queries_legrad(const Weights& tower, const Weights& qformer, const QueryScore& made,
                           const Tensor& pixels) {
  Attentions below;
  Tensor sum;
  for (const Looked& block : ask(qformer, blip2_memory(tower, pixels, below))) {
    if (!block.over.defined()) continue;
    const Tensor map = positive_mean(gradient_of(made.score(block.states), block.over)).sum(0);
    sum = sum.defined() ? sum + map : map;
  }
  return sum.slice(0, 1);
}

// Chefer et al., equations 8 and 9.
Tensor in_unit_rows(const Tensor& relevance) {
  const Tensor identity = torch::eye(relevance.size(0), at::kDouble);
  const Tensor others = relevance - identity;
  return others / others.sum(1, true) + identity;
}

// Computes their equations 5, 6, 7 and 10, with every matrix written out.
Tensor slow_queries_chefer(const Weights& tower, const Weights& qformer, const QueryScore& made,
                           const Tensor& pixels) {
  Attentions below;
  const Tensor memory = blip2_memory(tower, pixels, below);
  const std::vector<Looked> blocks = ask(qformer, memory);
  const Tensor score = made.score(blocks.back().states);
  const auto relevance_of = [&](const Tensor& attention) {
    return positive_mean(gradient_of(score, attention) * attention);
  };
  Tensor of_memory = torch::eye(memory.size(1), at::kDouble);
  for (const Tensor& attention : below.all) {
    of_memory = of_memory + torch::matmul(relevance_of(attention), of_memory);
  }
  const int64_t queries = blocks.back().states.size(1);
  Tensor among = torch::eye(queries, at::kDouble);
  Tensor over = torch::zeros({queries, memory.size(1)}, at::kDouble);
  for (const Looked& block : blocks) {
    const Tensor self = relevance_of(block.self);
    over = over + torch::matmul(self, over);
    among = among + torch::matmul(self, among);
    if (!block.over.defined()) continue;
    over = over + torch::matmul(in_unit_rows(among).t(),
                                torch::matmul(relevance_of(block.over), in_unit_rows(of_memory)));
  }
  return torch::matmul(made.shares(blocks.back().states), over).slice(0, 1);
}

void expect_queries_as_autograd(const std::filesystem::path& checkpoint, const Weights& tower,
                                const Weights& qformer,
                                const std::function<QueryScore(const Tensor& target)>& make) {
  SCOPED_TRACE(checkpoint.string());
  const auto encoder = load_encoder(checkpoint);
  ASSERT_TRUE(encoder) << encoder.error().message;
  ASSERT_NE((*encoder)->picture_mapper(), nullptr);
  const Sample sample = sample_of(**encoder);
  const QueryScore made = make(sample.target.to(at::kDouble));
  const Tensor legrad = mapped(**encoder, sample, MapMethod::kLegrad);
  const Tensor chefer = mapped(**encoder, sample, MapMethod::kChefer);
  for (int64_t i = 0; i < sample.pixels.size(0); ++i) {
    const Tensor pixels = sample.pixels.slice(0, i, i + 1).to(at::kDouble);
    expect_close(legrad[i], slow_queries_legrad(tower, qformer, made, pixels));
    expect_close(chefer[i], slow_queries_chefer(tower, qformer, made, pixels));
  }
}

TEST(PictureMaps, OfBlip2AsAutograd) {
  const Weights weights(golden("blip2-itm"));
  expect_queries_as_autograd(golden("blip2-itm"), weights, weights, [&](const Tensor& target) -> QueryScore {
    const auto cosines = [&weights, target](const Tensor& states) {
      return torch::matmul(unit(weights.linear("vision_projection", states)[0]), target);
    };
    return {[cosines](const Tensor& states) { return cosines(states).max(); },
            [cosines](const Tensor& states) {
              const Tensor all = cosines(states);
              return (all == all.max()).to(at::kDouble);
            }};
  });
}

// --- heads ------------------------------------------------------------------------------------------------

struct Head {
  HeadKind kind = HeadKind::kMlp;
  HeadInput input;
  bool own_qformer = false;
};

// Writes a head's checkpoint with random weights, on a golden encoder.
std::filesystem::path write_head(const test::TestFolder& folder, const std::string& frozen,
                                 const Head& head) {
  const auto encoder = load_encoder(golden(frozen)).value();
  HeadConfig config;
  config.kind = head.kind;
  config.input = head.input;
  const HeadInputWidths widths = head_input_widths(*encoder, config.input).value();
  config.image_width = widths.images;
  config.text_width = widths.texts;
  config.hidden_width = 24;
  config.width = 16;
  config.frozen = EncoderId{.name = frozen,
                            .family = encoder->info().family,
                            .fingerprint = encoder->info().fingerprint,
                            .path = golden(frozen).string()};
  TorchMap tensors;
  int64_t image_width = config.image_width;
  if (head.own_qformer) {
    const FrozenQFormer qformer = read_qformer(golden(frozen)).value();
    config.qformer = HeadQFormer{qformer.config, qformer.queries, qformer.memory_rows};
    image_width = qformer.config.shape.width;
    InitializedParameters source(5);
    EXPECT_TRUE(QFormerOf<Variable>::make(qformer.config, qformer.queries, source));
    for (const auto& [name, tensor] : source.parameters()) {
      // Makes them like trained ones: with biases, and further from 0.
      tensors[name] = tensor.detach() + 0.1 * torch::randn(tensor.sizes());
    }
  }
  for (const auto& [side, width] : {std::pair{"image", image_width}, {"text", config.text_width}}) {
    int64_t in = width;
    const auto add = [&](const char* layer, int64_t out) {
      tensors[fmt::format("{}_head.{}.weight", side, layer)] =
          torch::randn({out, in}) / std::sqrt(static_cast<double>(in));
      tensors[fmt::format("{}_head.{}.bias", side, layer)] = torch::randn({out});
      in = out;
    };
    if (config.kind == HeadKind::kMlp) add("in", config.hidden_width);
    add("out", config.width);
  }
  tensors["logit_scale"] = torch::full({}, 2.5);
  std::vector<NamedTensor> named;
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.contiguous();
    named.push_back({name, view_of(tensor)});
  }
  EXPECT_TRUE(write_safetensors(folder / "model.safetensors", named, {}));
  folder.write("config.json", dump_json(head_config_json(config)));
  folder.write("frozen.json", dump_json({{"path", golden(frozen).string()}}));
  return folder.path();
}

Layer head_layer(const Weights& weights) {
  return [&weights](const Tensor& x) {
    const bool mlp = weights.has("image_head.in.weight");
    return weights.linear("image_head.out", mlp ? torch::gelu(weights.linear("image_head.in", x)) : x);
  };
}

TEST(PictureMaps, OfHeadsOnOneRowAsAutograd) {
  struct Case {
    const char* frozen;
    std::function<Oracle(const Weights&)> make;
  };
  const Case cases[] = {{"clip-gelu", [](const Weights& w) { return clip_oracle(w, "gelu"); }},
                        {"siglip", siglip_oracle},
                        {"jina-clip", jina_oracle}};
  torch::manual_seed(19);
  for (const Case& each : cases) {
    const Weights weights(golden(each.frozen));
    for (const HeadKind kind : {HeadKind::kLinear, HeadKind::kMlp}) {
      for (const ImageStates states : {ImageStates::kRows, ImageStates::kPooled}) {
        const test::TestFolder folder;
        const auto checkpoint = write_head(folder, each.frozen, {kind, {states, TextStates::kRows}});
        const Weights own(checkpoint);
        Oracle oracle = each.make(weights);
        oracle.head = head_layer(own);
        oracle.head_reads_row = states == ImageStates::kRows;
        expect_as_autograd(checkpoint, oracle);
      }
    }
  }
}

// Returns a head's score of the queries' states, pooled, and the weight of each query.
QueryScore pooled_score(const Layer& before, Pooling pooling, const Layer& head, const Tensor& target) {
  QueryScore made;
  made.score = [=](const Tensor& states) {
    const Tensor all = before(states)[0];
    const Tensor pooled = pooling == Pooling::kMean  ? all.mean(0)
                          : pooling == Pooling::kMax ? std::get<0>(all.max(0))
                                                     : all[pooling == Pooling::kFirst ? 0 : -1];
    return cosine(head(pooled.unsqueeze(0)), target);
  };
  made.shares = [=](const Tensor& states) {
    const Tensor all = before(states)[0];
    const int64_t queries = states.size(1);
    if (pooling == Pooling::kMean || all.size(0) == 1) {
      return torch::full({queries}, 1.0 / static_cast<double>(queries), at::kDouble);
    }
    if (pooling == Pooling::kMax) return (all == std::get<0>(all.max(0))).to(at::kDouble).mean(1);
    const Tensor one = torch::zeros({all.size(0)}, at::kDouble);
    one[pooling == Pooling::kFirst ? 0 : -1] = 1;
    return one;
  };
  return made;
}

TEST(PictureMaps, OfHeadsOnQueriesAsAutograd) {
  const Layer same = [](const Tensor& x) { return x; };
  torch::manual_seed(20);
  for (const char* frozen : {"blip2-itm", "blip2-t5"}) {
    const bool t5 = std::string(frozen) == "blip2-t5";
    const Weights weights(golden(frozen));
    const TextStates texts = t5 ? TextStates::kTokens : TextStates::kRows;
    const auto check = [&](const Head& head, const Layer& before) {
      SCOPED_TRACE(describe(head.input));
      const test::TestFolder folder;
      const auto checkpoint = write_head(folder, frozen, head);
      const Weights own(checkpoint);
      expect_queries_as_autograd(checkpoint, weights, head.own_qformer ? own : weights,
                                 [&](const Tensor& target) {
                                   return pooled_score(before, head.input.pooling, head_layer(own), target);
                                 });
    };
    for (const Pooling pooling : {Pooling::kMean, Pooling::kMax, Pooling::kFirst, Pooling::kLast}) {
      check({HeadKind::kMlp, {ImageStates::kQueries, texts, pooling}}, same);
    }
    check({HeadKind::kLinear, {ImageStates::kVision, texts, Pooling::kMean}, true}, same);
    // The encoder's own embeddings; if an image has one, it is the mean of its queries'.
    const Layer project = [&](const Tensor& x) {
      return weights.linear(t5 ? "language_projection" : "vision_projection", x);
    };
    check({HeadKind::kMlp, {ImageStates::kRows, TextStates::kRows, Pooling::kFirst}}, [&](const Tensor& x) {
      const Tensor rows = t5 ? project(x) : unit(project(x));
      return unit(rows.mean(1, true));
    });
    if (t5) check({HeadKind::kMlp, {ImageStates::kProjected, texts, Pooling::kMean}}, project);
  }
}

// Checks the oracle itself: the gradient of a block's own score by its attention, by central differences.
TEST(PictureMaps, TheOracleAsFiniteDifferences) {
  const Weights weights(golden("clip-gelu"));
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
}  // namespace saccade::lab

// Tests of the attention of CLIP's text tower, against its formulas computed one value at a time.
#include "saccade/model/explain/text_attention.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using Rows = std::vector<std::vector<double>>;

// Slow text tower for one text, in double and one value at a time. Computes the last block's attention from
// the end token, and the text's embedding, which is checked against the reference's outputs.
class SlowTower {
 public:
  explicit SlowTower(const std::string& name) : config_(read_json(golden(name) / "config.json").value()) {
    const auto file = SafeTensors::open(golden(name) / "model.safetensors");
    for (const auto& [tensor, view] : file->tensors()) values_[tensor] = view.to_floats().value();
    const Json text = config_["text_config"];
    width_ = text["hidden_size"];
    heads_ = text["num_attention_heads"];
    layers_ = text["num_hidden_layers"];
    quick_ = text["hidden_act"] == "quick_gelu";
  }

  std::vector<double> attention;  // mean over heads, one a token
  std::vector<double> row;        // row of length 1

  void run(const std::vector<int32_t>& ids, size_t end) {
    Rows x(ids.size(), std::vector<double>(width_));
    for (size_t t = 0; t < ids.size(); ++t) {
      for (size_t d = 0; d < width_; ++d) {
        x[t][d] =
            value("text_model.embeddings.token_embedding.weight", static_cast<size_t>(ids[t]) * width_ + d) +
            value("text_model.embeddings.position_embedding.weight", t * width_ + d);
      }
    }
    for (size_t layer = 0; layer < layers_; ++layer) {
      x = block(x, "text_model.encoder.layers." + std::to_string(layer) + ".", end);
    }
    row = linear({norm(x[end], "text_model.final_layer_norm")}, "text_projection", false)[0];
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (double& each : row) each /= length;
  }

 private:
  double value(const std::string& name, size_t i) const { return values_.at(name).at(i); }

  std::vector<double> norm(const std::vector<double>& x, const std::string& name) const {
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double variance = 0;
    for (const double each : x) variance += (each - mean) * (each - mean) / n;
    std::vector<double> y;
    for (size_t d = 0; d < x.size(); ++d) {
      y.push_back((x[d] - mean) / std::sqrt(variance + 1e-5) * value(name + ".weight", d) +
                  value(name + ".bias", d));
    }
    return y;
  }
  Rows linear(const Rows& x, const std::string& name, bool bias = true) const {
    Rows y;
    const size_t in = x[0].size();
    const size_t out = values_.at(name + ".weight").size() / in;
    for (const auto& row_in : x) {
      auto& row_out = y.emplace_back(out);
      for (size_t o = 0; o < out; ++o) {
        row_out[o] = bias ? value(name + ".bias", o) : 0;
        for (size_t i = 0; i < in; ++i) row_out[o] += row_in[i] * value(name + ".weight", o * in + i);
      }
    }
    return y;
  }
  Rows block(const Rows& x, const std::string& at, size_t end) {
    Rows normed;
    for (const auto& each : x) normed.push_back(norm(each, at + "layer_norm1"));
    const Rows q = linear(normed, at + "self_attn.q_proj");
    const Rows k = linear(normed, at + "self_attn.k_proj");
    const Rows v = linear(normed, at + "self_attn.v_proj");
    const size_t head_width = width_ / heads_;
    Rows mixed(x.size(), std::vector<double>(width_));
    attention.assign(x.size(), 0);
    for (size_t head = 0; head < heads_; ++head) {
      for (size_t t = 0; t < x.size(); ++t) {
        std::vector<double> weights;  // weights of the tokens up to t
        for (size_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (size_t d = head * head_width; d < (head + 1) * head_width; ++d) dot += q[t][d] * k[s][d];
          weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_width))));
        }
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t s = 0; s <= t; ++s) {
          for (size_t d = head * head_width; d < (head + 1) * head_width; ++d) {
            mixed[t][d] += weights[s] / sum * v[s][d];
          }
          if (t == end) attention[s] += weights[s] / sum / static_cast<double>(heads_);
        }
      }
    }
    Rows y = linear(mixed, at + "self_attn.out_proj");
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t d = 0; d < width_; ++d) y[t][d] += x[t][d];
    }
    Rows hidden;
    for (const auto& each : y) hidden.push_back(norm(each, at + "layer_norm2"));
    hidden = linear(hidden, at + "mlp.fc1");
    for (auto& each : hidden) {
      for (double& h : each) {
        h = quick_ ? h / (1 + std::exp(-1.702 * h)) : h * 0.5 * (1 + std::erf(h / std::sqrt(2.0)));
      }
    }
    hidden = linear(hidden, at + "mlp.fc2");
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t d = 0; d < width_; ++d) y[t][d] += hidden[t][d];
    }
    return y;
  }

  Json config_;
  std::map<std::string, std::vector<float>> values_;
  size_t width_ = 0;
  size_t heads_ = 0;
  size_t layers_ = 0;
  bool quick_ = false;
};

TEST(TextAttention, OfClipIsTheFormulas) {
  for (const char* name : {"clip-gelu", "clip-quickgelu"}) {
    auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder) << encoder.error().message;
    auto attention = open_text_attention(**encoder, golden(name), 1);
    ASSERT_TRUE(attention) << attention.error().message;
    ASSERT_NE(*attention, nullptr);
    const auto io = SafeTensors::open(golden(name) / "io.safetensors");
    const std::vector<int64_t> ids = io->find("input_ids")->to_int64s().value();
    const std::vector<float> rows = io->find("text_embeds")->to_floats().value();
    const auto texts = static_cast<size_t>(io->find("input_ids")->shape[0]);
    const size_t longest = ids.size() / texts;
    const size_t dim = rows.size() / texts;
    const Json config = read_json(golden(name) / "config.json").value()["text_config"];
    const int64_t end_id = config["eos_token_id"];
    constexpr int64_t kLegacyEnd = 2;  // the highest id is the end
    SlowTower slow(name);
    for (size_t i = 0; i < texts; ++i) {
      TokenizedText text;
      for (size_t t = 0; t < longest; ++t) {
        text.ids.push_back(static_cast<int32_t>(ids[i * longest + t]));
        if (end_id != kLegacyEnd && text.ids.back() == end_id) break;
      }
      const size_t end = end_id == kLegacyEnd
                             ? static_cast<size_t>(std::ranges::max_element(text.ids) - text.ids.begin())
                             : text.ids.size() - 1;
      slow.run(text.ids, end);
      for (size_t d = 0; d < dim; ++d) ASSERT_NEAR(slow.row[d], rows[i * dim + d], 1e-4) << name << " " << i;
      const auto ours = (*attention)->attend(text);
      ASSERT_TRUE(ours) << ours.error().message;
      ASSERT_EQ(ours->size(), text.ids.size());
      double sum = 0;
      for (size_t t = 0; t < ours->size(); ++t) {
        EXPECT_NEAR((*ours)[t], slow.attention[t], 1e-5) << name << ", text " << i << ", token " << t;
        sum += (*ours)[t];
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

// The layouts hold the same weights, so the attention is the same.
TEST(TextAttention, OtherLayoutsOfClip) {
  auto encoder = load_encoder(golden("open_clip-gelu"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  auto attention = open_text_attention(**encoder, golden("open_clip-gelu"), 1);
  ASSERT_TRUE(attention) << attention.error().message;
  const TokenizedText text = {.ids = {1, 5, 6, 7}, .used = 4, .dropped = 0};
  const auto weights = (*attention)->attend(text);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_NEAR(std::accumulate(weights->begin(), weights->end(), 0.0), 1, 1e-5);
  TokenizedText outside = text;
  outside.ids[1] = 1'000'000;
  EXPECT_EQ((*attention)->attend(outside).error().code, ErrorCode::kMismatch);
}

TEST(TextAttention, OfAClassifierIsItsLastMapAtTheFirstToken) {
  auto encoder = load_encoder(golden("bert"));
  ASSERT_TRUE(encoder);
  auto attention = open_text_attention(**encoder, golden("bert"), 1);
  ASSERT_TRUE(attention);
  const TokenizedText text = {.ids = {2, 9, 30, 3}, .used = 2, .dropped = 0};
  const AttentionMaps maps = (*encoder)->text_classifier()->attention_maps(text).value();
  const auto ours = (*attention)->attend(text);
  ASSERT_TRUE(ours);
  for (size_t t = 0; t < 4; ++t) {
    double mean = 0;
    for (size_t head = 0; head < 4; ++head) mean += maps.weights[((2 * 4 + head) * 4 + 0) * 4 + t] / 4;
    EXPECT_NEAR((*ours)[t], mean, 1e-6);
  }
}

TEST(TextAttention, OthersHaveNone) {
  auto encoder = load_encoder(golden("siglip"));
  ASSERT_TRUE(encoder);
  const auto attention = open_text_attention(**encoder, golden("siglip"), 1);
  ASSERT_TRUE(attention);
  EXPECT_EQ(*attention, nullptr);
}

}  // namespace
}  // namespace saccade

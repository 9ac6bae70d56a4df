// Tests of SPRC's query embedding against its formulas, in plain sums in double. The plain Q-Former of these
// tests is itself checked against the outputs of BLIP-2's reference implementation.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/model/composers/kinds.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/families/blip2.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

using Row = std::vector<double>;
using Rows = std::vector<Row>;
using Ids = std::vector<int32_t>;

Rows rows_of(const nn::Tensor& states) {
  Rows rows;
  for (int64_t r = 0; r < states.size(0); ++r) {
    Row& row = rows.emplace_back();
    for (int64_t c = 0; c < states.size(1); ++c) row.push_back(states.at({r, c}));
  }
  return rows;
}

Row plus(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Rows both(Rows a, const Rows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Row unit(Row x) {
  const double length = std::sqrt(dot(x, x));
  for (double& value : x) value /= length;
  return x;
}

// Q-Former of tests/golden/blip2-itm's shape, one value after the other.
class PlainQFormer {
 public:
  explicit PlainQFormer(const fs::path& folder)
      : file_(SafeTensors::open(folder / "model.safetensors").value()),
        weights_(nn::borrow_tensors(file_).value()) {}

  [[nodiscard]] Rows queries() const { return rows_of(weights_.at("query_tokens")[0]); }
  [[nodiscard]] Rows words(const Ids& ids) const {
    Rows rows;
    for (const int32_t id : ids) {
      Row& row = rows.emplace_back();
      for (int64_t c = 0; c < kWidth; ++c) {
        row.push_back(weights_.at("embeddings.word_embeddings.weight").at({id, c}));
      }
    }
    return rows;
  }
  // Adds position embeddings, from the first on.
  [[nodiscard]] Rows with_positions(Rows rows) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t c = 0; c < rows[i].size(); ++c) {
        rows[i][c] += weights_.at("embeddings.position_embeddings.weight")
                          .at({static_cast<int64_t>(i), static_cast<int64_t>(c)});
      }
    }
    return rows;
  }
  // Returns word and position embeddings.
  [[nodiscard]] Rows embed(const Ids& ids) const { return with_positions(words(ids)); }
  // Runs all blocks over embeddings. The first `queries` rows have the queries' MLPs, and attend to `memory`
  // in every second block; the others have the MLPs of text.
  [[nodiscard]] Rows run(Rows x, size_t queries, const Rows& memory) const {
    for (Row& row : x) row = norm("qformer.layernorm", row);
    for (int64_t i = 0; i < kLayers; ++i) {
      const std::string prefix = fmt::format("qformer.encoder.layer.{}.", i);
      x = attend(prefix + "attention.", x, x);
      Rows asking(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(queries));
      if (i % 2 == 0) asking = attend(prefix + "crossattention.", asking, memory);
      for (size_t r = 0; r < x.size(); ++r) {
        x[r] = r < queries ? mlp(prefix, "_query", asking[r]) : mlp(prefix, "", x[r]);
      }
    }
    return x;
  }
  [[nodiscard]] Row layer(const std::string& name, const Row& x) const {
    const nn::Tensor& weight = weights_.at(name + ".weight");
    Row out;
    for (int64_t o = 0; o < weight.size(0); ++o) {
      double sum = weights_.at(name + ".bias").at({o});
      for (int64_t i = 0; i < weight.size(1); ++i) sum += weight.at({o, i}) * x[static_cast<size_t>(i)];
      out.push_back(sum);
    }
    return out;
  }

 private:
  static constexpr int64_t kWidth = 48;
  static constexpr int64_t kLayers = 4;
  static constexpr size_t kHeads = 4;

  [[nodiscard]] Row norm(const std::string& name, const Row& x) const {
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double square = 0;
    for (const double value : x) square += (value - mean) * (value - mean) / n;
    Row out;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      out.push_back((x[i] - mean) / std::sqrt(square + 1e-12) * weights_.at(name + ".weight").at({at}) +
                    weights_.at(name + ".bias").at({at}));
    }
    return out;
  }
  [[nodiscard]] Rows attend(const std::string& prefix, const Rows& x, const Rows& memory) const {
    Rows keys;
    Rows values;
    for (const Row& row : memory) {
      keys.push_back(layer(prefix + "attention.key", row));
      values.push_back(layer(prefix + "attention.value", row));
    }
    Rows out;
    for (const Row& row : x) {
      const Row query = layer(prefix + "attention.query", row);
      const size_t width = query.size() / kHeads;
      Row mixed(query.size(), 0.0);
      for (size_t head = 0; head < kHeads; ++head) {
        Row shares;
        double total = 0;
        for (const Row& key : keys) {
          double score = 0;
          for (size_t d = head * width; d < (head + 1) * width; ++d) score += query[d] * key[d];
          shares.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
          total += shares.back();
        }
        for (size_t k = 0; k < values.size(); ++k) {
          for (size_t d = head * width; d < (head + 1) * width; ++d) {
            mixed[d] += shares[k] / total * values[k][d];
          }
        }
      }
      out.push_back(norm(prefix + "output.LayerNorm", plus(row, layer(prefix + "output.dense", mixed))));
    }
    return out;
  }
  [[nodiscard]] Row mlp(const std::string& prefix, const std::string& suffix, const Row& x) const {
    Row hidden = layer(prefix + "intermediate" + suffix + ".dense", x);
    for (double& value : hidden) value = slow_activation(value, nn::Activation::kGelu);
    return norm(prefix + "output" + suffix + ".LayerNorm",
                plus(x, layer(prefix + "output" + suffix + ".dense", hidden)));
  }

  SafeTensors file_;
  nn::TensorMap weights_;
};

// Inputs of the golden: three images with the states of its vision tower, and three texts without padding.
struct Inputs {
  nn::TensorMap tensors;
  RowSets images;
  std::vector<TokenizedText> texts;

  Inputs() {
    const SafeTensors file = SafeTensors::open(golden("blip2-itm") / "io.safetensors").value();
    const auto borrowed = nn::borrow_tensors(file);
    for (const auto& [name, tensor] : borrowed.value()) tensors[name] = tensor.clone();
    const nn::Tensor& pixels = tensors.at("pixel_values");
    const int64_t count = pixels.size(0);
    const auto encoder = load_encoder(golden("blip2-itm")).value();
    constexpr auto kVision = FrozenFeatures::ImageState::kVision;
    images = encoder->frozen_features()
                 ->image_features({pixels.data<float>(), count, pixels.numel() / count}, kVision)
                 .value();
    const nn::Tensor& ids = tensors.at("input_ids");
    for (int64_t i = 0; i < ids.size(0); ++i) {
      TokenizedText& text = texts.emplace_back();
      for (int64_t t = 0; t < ids.size(1); ++t) {
        if (tensors.at("attention_mask").at({i, t}) == 0) continue;
        text.ids.push_back(static_cast<int32_t>(ids.at({i, t})));
      }
    }
  }
  [[nodiscard]] Rows memory(int64_t image) const {
    Rows rows;
    for (int64_t r = images.begin[static_cast<size_t>(image)];
         r < images.begin[static_cast<size_t>(image) + 1]; ++r) {
      const std::span<const float> row = images.rows.row(r);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  }
};

// SPRC's query embedding by its formulas.
Row plain_sprc(const PlainQFormer& qformer, const Rows& memory, const Ids& ids) {
  const Rows queries = qformer.queries();
  const Rows fused = qformer.run(both(queries, qformer.embed(ids)), queries.size(), memory);
  const Rows prompt(fused.begin(), fused.begin() + static_cast<std::ptrdiff_t>(queries.size()));
  const Rows read = qformer.run(both(prompt, qformer.embed(ids)), 0, {});
  return unit(qformer.layer("text_projection", read[queries.size()]));
}

double largest_difference(std::span<const float> row, const Row& expected) {
  if (row.size() != expected.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double difference = std::abs(double{row[i]} - expected[i]);
    if (!(difference <= largest)) largest = std::isfinite(difference) ? difference : INFINITY;
  }
  return largest;
}

TEST(Sprc, ThePlainQFormerIsTheReferences) {
  const Inputs inputs;
  const PlainQFormer qformer(golden("blip2-itm"));
  const Rows queries = qformer.queries();
  for (int64_t i = 0; i < 3; ++i) {
    const Ids& ids = inputs.texts[static_cast<size_t>(i)].ids;
    const Rows read = qformer.run(qformer.embed(ids), 0, {});
    const Row row = unit(qformer.layer("text_projection", read[0]));
    for (size_t d = 0; d < row.size(); ++d) {
      EXPECT_NEAR(row[d], inputs.tensors.at("text_embeds").at({i, static_cast<int64_t>(d)}), 1e-5);
    }
    const Rows fused = qformer.run(both(queries, qformer.embed(ids)), queries.size(), inputs.memory(i));
    double logit = 0;
    for (size_t q = 0; q < queries.size(); ++q) {
      logit += qformer.layer("itm_head", fused[q])[1] / static_cast<double>(queries.size());
    }
    EXPECT_NEAR(logit, inputs.tensors.at("itm_logits").at({i, 1}), 1e-5);
  }
}

TEST(Sprc, IsThePublishedFormula) {
  const GoldenCopy copy("blip2-itm");
  draw_blip2_weights(copy.path());
  const Inputs inputs;
  const PlainQFormer qformer(copy.path());
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  PromptReader* reader = (*encoder)->prompt_reader();
  ASSERT_NE(reader, nullptr);
  const auto all = reader->encode_with_prompts(inputs.images, inputs.texts);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->rows(), 3);
  const Matrix<float> alone = (*encoder)->encode_texts(inputs.texts).value();
  for (int64_t i = 0; i < 3; ++i) {
    const TokenizedText& text = inputs.texts[static_cast<size_t>(i)];
    const Row expected = plain_sprc(qformer, inputs.memory(i), text.ids);
    EXPECT_LT(largest_difference(all->row(i), expected), 2e-5) << i;
    EXPECT_GT(largest_difference(alone.row(i), expected), 1e-2) << "the prompt has no effect";
    EXPECT_GT(largest_difference(all->row(i), plain_sprc(qformer, inputs.memory((i + 1) % 3), text.ids)),
              1e-3)
        << "the image has no effect";
  }
}

TEST(Sprc, OneImageMayBeForAllTexts) {
  const GoldenCopy copy("blip2-itm");
  draw_blip2_weights(copy.path());
  const Inputs inputs;
  const PlainQFormer qformer(copy.path());
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  RowSets first;
  first.begin = {0, inputs.images.begin[1]};
  first.rows = Matrix<float>(inputs.images.begin[1], inputs.images.rows.columns());
  std::copy_n(inputs.images.rows.data(), first.rows.values().size(), first.rows.values().begin());
  const auto rows = (*encoder)->prompt_reader()->encode_with_prompts(first, inputs.texts);
  ASSERT_TRUE(rows) << rows.error().message;
  for (int64_t i = 0; i < 3; ++i) {
    const Row expected = plain_sprc(qformer, inputs.memory(0), inputs.texts[static_cast<size_t>(i)].ids);
    EXPECT_LT(largest_difference(rows->row(i), expected), 2e-5) << i;
  }
}

// SPRC's training reads its auxiliary prompt between the start token and the rest of a text.
TEST(Sprc, APromptMayStandBehindTheStart) {
  const GoldenCopy copy("blip2-itm");
  draw_blip2_weights(copy.path());
  const PlainQFormer plain(copy.path());
  const FrozenQFormer frozen = read_qformer(copy.path(), QFormerPart::kWithText).value();
  EXPECT_TRUE(frozen.config.text_input);
  EXPECT_EQ(frozen.projection, 24);
  nn::LoadedParameters source(frozen.weights.tensors);
  auto qformer = QFormer::make(frozen.config, frozen.queries, source);
  ASSERT_TRUE(qformer) << qformer.error().message;
  qformer->pack(DType::kF32);
  const nn::Tensor prompt = random_tensor({2, 5, 48}, 9);
  // Two texts of different lengths: the second has padding.
  const std::vector<Ids> texts = {{7, 9, 11, 13}, {7, 30}};
  const nn::Tensor ids = nn::Tensor::of(std::vector<int64_t>{7, 9, 11, 13, 7, 30, 0, 0}, {2, 4});
  const nn::Tensor mask = nn::Tensor::of(std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0, 0}, {2, 4});
  const nn::Tensor states =
      qformer->read_prompted(prompt, QFormer::PromptPlace::kAfterStart, ids, mask, DType::kF32);
  ASSERT_EQ(states.sizes(), (nn::Shape{2, 48}));
  for (int64_t i = 0; i < 2; ++i) {
    const Ids& own = texts[static_cast<size_t>(i)];
    Rows x = plain.words({own.front()});
    x = both(x, rows_of(prompt[i]));
    x = both(x, plain.words(Ids(own.begin() + 1, own.end())));
    const Row expected = plain.run(plain.with_positions(x), 0, {}).front();
    for (size_t d = 0; d < expected.size(); ++d) {
      EXPECT_NEAR(states.at({i, static_cast<int64_t>(d)}), expected[d], 5e-5) << i << " " << d;
    }
  }
}

TEST(Sprc, RefusesStatesThatDoNotFit) {
  const Inputs inputs;
  const auto encoder = load_encoder(golden("blip2-itm")).value();
  PromptReader* reader = encoder->prompt_reader();
  ASSERT_NE(reader, nullptr);
  const auto two_texts = std::span(inputs.texts).first(2);
  const auto number = reader->encode_with_prompts(inputs.images, two_texts);
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().code, ErrorCode::kUsage);
  EXPECT_THAT(number.error().message, HasSubstr("states of 3 images with 2 texts"));
  RowSets narrow;
  narrow.rows = Matrix<float>(3, 5);
  narrow.begin = {0, 1, 2, 3};
  const auto width = reader->encode_with_prompts(narrow, inputs.texts);
  ASSERT_FALSE(width);
  EXPECT_EQ(width.error().code, ErrorCode::kUsage);
  EXPECT_THAT(width.error().message,
              HasSubstr("3 images with 3 states of width 5, expected 17 states of width 64"));
  const auto nothing = reader->encode_with_prompts(RowSets(), {});
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_EQ(nothing->rows(), 0);
}

TEST(Sprc, IsAComposerOverBlip2) {
  const GoldenCopy checkpoint("blip2-itm");
  add_blip2_tokenizer(checkpoint.path());
  draw_blip2_weights(checkpoint.path());
  const auto encoder = load_encoder(checkpoint.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  ASSERT_NE((*encoder)->tokenizer(), nullptr);
  const TestFolder folder;
  ComposerConfig config;
  config.kind = "sprc";
  config.dim = (*encoder)->info().dim;
  config.encoder = {"blip2", (*encoder)->info().family, (*encoder)->info().fingerprint,
                    checkpoint.path().string()};
  write_text(folder.path() / "config.json", dump_json(composer_config_json(config)));
  write_text(folder.path() / "frozen.json", dump_json({{"path", config.encoder.path}}));
  ASSERT_TRUE(save(folder.path() / "model.safetensors", {{"logit_scale", nn::Tensor::zeros({})}}));
  const auto composer = Composer::open(folder.path());
  ASSERT_TRUE(composer) << composer.error().message;
  EXPECT_TRUE((*composer)->kind().late);
  EXPECT_TRUE(check_composer_needs(**encoder, (*composer)->kind()));

  const EncoderInfo& info = (*encoder)->info();
  Matrix<float> pixels(2, int64_t{3} * info.image_height * info.image_width);
  const nn::Tensor values = random_tensor({2, pixels.columns()}, 5);
  std::copy_n(values.data<float>(), values.numel(), pixels.values().begin());
  const std::vector<std::string> words = {"a dog", "runs"};
  const auto composed = (*composer)->compose(**encoder, pixels.view(), words);
  ASSERT_TRUE(composed) << composed.error().message;
  EXPECT_TRUE(composed->matches.empty());
  const RowSets states = (*encoder)
                             ->frozen_features()
                             ->image_features(pixels.view(), FrozenFeatures::ImageState::kVision)
                             .value();
  const PlainQFormer qformer(checkpoint.path());
  for (int64_t i = 0; i < 2; ++i) {
    Rows memory;
    for (int64_t r = states.begin[static_cast<size_t>(i)]; r < states.begin[static_cast<size_t>(i) + 1];
         ++r) {
      const auto row = states.rows.row(r);
      memory.emplace_back(row.begin(), row.end());
    }
    const auto text = static_cast<size_t>(i);
    const Ids ids = (*encoder)->tokenizer()->encode(words[text], info.context).ids;
    EXPECT_LT(largest_difference(composed->rows.row(i), plain_sprc(qformer, memory, ids)), 2e-5) << i;
  }
  // One image with two texts.
  const auto shared = (*composer)->compose(**encoder, pixels.view().slice(0, 1), words);
  ASSERT_TRUE(shared) << shared.error().message;
  const auto first = composed->rows.row(0);
  EXPECT_LT(largest_difference(shared->rows.row(0), Row(first.begin(), first.end())), 2e-5);
  EXPECT_EQ(shared->rows.rows(), 2);
}

TEST(Sprc, NeedsAQFormerThatReads) {
  for (const char* name : {"clip-gelu", "siglip"}) {
    const auto encoder = load_encoder(golden(name)).value();
    EXPECT_EQ(encoder->prompt_reader(), nullptr) << name;
  }
  const auto frozen = load_encoder(golden("blip2-t5")).value();
  EXPECT_EQ(frozen->prompt_reader(), nullptr);
  const auto starter = load_encoder(fs::path(kSourceDir) / "models/starter").value();
  const Status refused = check_composer_needs(*starter, sprc_kind);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("no Q-Former that reads a prompt before a text"));
}

}  // namespace
}  // namespace saccade

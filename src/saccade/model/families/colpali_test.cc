// Tests of ColPali: the reference's outputs, its queries, the published layouts, and invalid checkpoints.
#include "saccade/model/families/colpali.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/model/architecture.h"
#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/model_test_support.h"
#include "saccade/nn/test_tensors.h"

namespace saccade {
namespace {

using namespace test;
using nn::Tensor;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int64_t kSide = 56;
constexpr int64_t kPatches = 16;
constexpr int64_t kDim = 16;
constexpr int32_t kImageToken = 560;  // id in the small Gemma tokenizer, which has 563 tokens
constexpr int32_t kLineEnd = 261;
// "<bos>Describe the image.\n"; these and the ids below are from a plain byte-pair encoder aside, which gives
// the ids of tests/golden/tokenizers/gemma.json.
const std::vector<int64_t> kPrompt = {2,   291, 315, 329, 313, 328, 319, 312,
                                      315, 524, 370, 319, 323, 459, 391};

Tensor tensor_of(const Matrix<float>& rows) {
  return Tensor::of(std::span(rows.values()), {rows.rows(), rows.columns()});
}

// The golden with a tokenizer, and a table that has all of its words.
void add_words(const GoldenCopy& copy) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(golden("tokenizers/gemma") / name, copy.path() / name);
  }
  copy.edit_json("config.json", [](Json& json) {
    json["vlm_config"]["text_config"]["vocab_size"] = 563;
    json["vlm_config"]["image_token_index"] = kImageToken;
  });
  copy.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    Tensor& table = tensors["vlm.language_model.model.embed_tokens.weight"];
    table = nn::cat({table, random_tensor({263, 40}, 3, 0.1F)});
  });
}

Matrix<float> random_pixels(int64_t n) {
  const Tensor values = random_tensor({n, 3 * kSide * kSide}, 4);
  Matrix<float> pixels(n, 3 * kSide * kSide);
  std::ranges::copy(values.floats(), pixels.data());
  return pixels;
}

TEST(ColPali, ConformsInFp32) {
  const auto report = conform(golden("colpali"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 3U);
  EXPECT_TRUE(report->unknown.empty());
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
    RecordProperty(check.name, std::to_string(check.max_abs));
  }
  EXPECT_TRUE(report->ok);
}

TEST(ColPali, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  const auto report = conform(golden("colpali"), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), 3U);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
    EXPECT_TRUE(std::abs(check.norm_ratio - 1) < 0.01) << check.name << " " << check.norm_ratio;
  }
  EXPECT_TRUE(report->ok);
}

// The reference's queries, without the padding that made them one tensor.
std::vector<TokenizedText> golden_texts(const nn::TensorMap& io) {
  std::vector<TokenizedText> texts;
  for (int64_t i = 0; i < io.at("input_ids").size(0); ++i) {
    const auto kept = io.at("attention_mask")[i].integers();
    const int64_t length = std::accumulate(kept.begin(), kept.end(), int64_t{0});
    const Tensor ids = io.at("input_ids")[i].slice(0, 0, length);
    TokenizedText text;
    for (int64_t t = 0; t < length; ++t) text.ids.push_back(static_cast<int32_t>(ids.at({t})));
    texts.push_back(std::move(text));
  }
  return texts;
}

// The golden has no token types, so transformers read its queries causally. With its processor, a query is a
// prefix with full attention.
TEST(ColPali, QueriesArePrefixes) {
  const auto file = SafeTensors::open(golden("colpali") / "io.safetensors").value();
  nn::TensorMap io = nn::borrow_tensors(file).value();
  const auto encoder = load_architecture(golden("colpali"), {}).value();
  const std::vector<TokenizedText> texts = golden_texts(io);
  const RowSets sets = encoder->late_interaction()->encode_text_rows(texts).value();

  io["token_type_ids"] = Tensor::full_integers(io.at("input_ids").sizes(), 0);
  const Tensor prefix = encoder->answers(io).value().at("text_embeds");
  io["token_type_ids"] = Tensor::full_integers(io.at("input_ids").sizes(), 1);
  const Tensor suffix = encoder->answers(io).value().at("text_embeds");
  EXPECT_LT(max_difference(suffix, io.at("text_embeds")), 1e-4);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto length = static_cast<int64_t>(texts[i].ids.size());
    ASSERT_EQ(sets.begin[i + 1] - sets.begin[i], length);
    const Tensor own = tensor_of(sets.rows).slice(0, sets.begin[i], sets.begin[i + 1]);
    const auto row = static_cast<int64_t>(i);
    EXPECT_LT(max_difference(own, prefix[row].slice(0, 0, length)), 1e-5);
    EXPECT_GT(max_difference(own, suffix[row].slice(0, 0, length)), 1e-3);
  }
  EXPECT_EQ(norm_of(prefix[1].slice(0, static_cast<int64_t>(texts[1].ids.size()))), 0);
}

TEST(ColPali, RowsDoNotDependOnWhatIsEncodedBeside) {
  const GoldenCopy copy("colpali");
  add_words(copy);
  const auto encoder = load_architecture(copy.path(), {}).value();
  LateInteraction& late = *encoder->late_interaction();
  EXPECT_EQ(late.patch_rows(), 4);
  EXPECT_EQ(late.patch_columns(), 4);
  const int64_t each = kPatches + static_cast<int64_t>(kPrompt.size());

  // Images: the patches' rows come first, then the prompt's, as in the reference.
  const Matrix<float> pixels = random_pixels(3);
  const RowSets images = late.encode_image_rows(pixels.view()).value();
  ASSERT_EQ(images.rows.rows(), 3 * each);
  EXPECT_THAT(images.begin, ElementsAreArray({int64_t{0}, each, 2 * each, 3 * each}));
  const Tensor prompt = Tensor::full_integers({3, each}, kImageToken);
  const Tensor words = Tensor::of(kPrompt, {1, static_cast<int64_t>(kPrompt.size())});
  prompt.slice(1, kPatches).copy_from(words.expand({3, -1}));
  const Tensor values = tensor_of(pixels).view({3, 3, kSide, kSide});
  const Tensor reference =
      encoder->answers({{"pixel_values", values}, {"image_prompt_ids", prompt}}).value().at("image_embeds");
  EXPECT_LT(max_difference(tensor_of(images.rows).view({3, each, kDim}), reference), 1e-6);
  // Without ids, the encoder's own prompt.
  EXPECT_LT(
      max_difference(encoder->answers({{"pixel_values", values}}).value().at("image_embeds"), reference),
      1e-6);
  const Tensor means = tensor_of(encoder->encode_images(pixels.view()).value());
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor alone = tensor_of(late.encode_image_rows(pixels.view().slice(i, 1)).value().rows);
    EXPECT_LT(max_difference(alone, reference[i]), 1e-5);
    const Tensor mean = nn::mean(reference[i], 0);
    EXPECT_LT(max_difference(means[i], mean * (1 / norm_of(mean))), 1e-5);
    EXPECT_NEAR(norm_of(means[i]), 1, 1e-5);
  }

  // Texts of different lengths.
  std::vector<TokenizedText> texts;
  for (const char* text : {"a cat", "", "two dogs and a photo of a bird on a house", "x"}) {
    texts.push_back(encoder->tokenizer()->encode(text, encoder->info().context));
  }
  const RowSets sets = late.encode_text_rows(texts).value();
  const Tensor text_means = tensor_of(encoder->encode_texts(texts).value());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Tensor own = tensor_of(sets.rows).slice(0, sets.begin[i], sets.begin[i + 1]);
    EXPECT_EQ(own.size(0), static_cast<int64_t>(texts[i].ids.size()));  // includes the template's tokens
    const Tensor alone = tensor_of(late.encode_text_rows(std::span(texts).subspan(i, 1)).value().rows);
    EXPECT_LT(max_difference(own, alone), 1e-5);
    const Tensor mean = nn::mean(alone, 0);
    EXPECT_LT(max_difference(text_means[static_cast<int64_t>(i)], mean * (1 / norm_of(mean))), 1e-5);
    EXPECT_LT(max_difference(own, nn::normalize_rows(own)), 1e-5);
  }
}

std::vector<int32_t> with_paddings(std::vector<int32_t> ids, bool line_end) {
  ids.insert(ids.end(), 10, 0);
  if (line_end) ids.push_back(kLineEnd);
  return ids;
}

TEST(ColPali, QueriesInBothForms) {
  const GoldenCopy copy("colpali");
  add_words(copy);
  const std::vector<int32_t> question = {2, 85, 529, 329, 330, 319, 448, 281};
  const auto asked = [&](std::vector<int32_t> ids) {
    ids.insert(ids.begin(), question.begin(), question.end());
    return with_paddings(ids, true);
  };
  const std::vector<int32_t> cat = {547, 554, 407, 316, 547, 528};
  {
    const auto encoder = load_encoder(copy.path()).value();
    const Tokenizer& tokenizer = *encoder->tokenizer();
    EXPECT_EQ(encoder->info().context, 50);
    const TokenizedText text = tokenizer.encode("a photo of a cat", 50);
    EXPECT_EQ(text.ids, asked(cat));
    EXPECT_EQ(text.used, 6);
    EXPECT_EQ(text.dropped, 0);
    EXPECT_EQ(tokenizer.encode("", 50).ids, asked({370}));
    EXPECT_EQ(tokenizer.encode(" x", 50).ids, asked({370, 370, 334}));
    // Special tokens in a query are treated as in the reference.
    EXPECT_EQ(tokenizer.encode("Two dogs?  <image>", 50).ids,
              asked({370, 305, 500, 442, 514, 329, 286, 370, 370, kImageToken}));
    // The query's own text is truncated: 50 less 12 for the template and the 7 of "Question:".
    std::string cats;
    for (int i = 0; i < 40; ++i) cats += "cat ";
    const TokenizedText cut = tokenizer.encode(cats, 50);
    EXPECT_EQ(cut.ids, asked(std::vector<int32_t>(31, 528)));
    EXPECT_EQ(cut.used, 31);
    EXPECT_EQ(cut.dropped, 10);
  }
  copy.edit_json("config.json", [](Json& json) { json["saccade"] = {{"queries", "colpali_engine"}}; });
  {
    const auto encoder = load_encoder(copy.path()).value();
    EXPECT_EQ(encoder->info().context, 128);
    EXPECT_EQ(encoder->tokenizer()->encode("a photo of a cat", 128).ids,
              with_paddings({2, 311, 554, 407, 316, 547, 528}, false));
    EXPECT_EQ(encoder->tokenizer()->encode("", 128).ids, with_paddings({2}, false));
  }
  copy.edit_json("config.json", [](Json& json) { json.erase("saccade"); });
  // Template of the checkpoint's own processor.
  copy.write("processor_config.json",
             R"({"processor_class": "ColPaliProcessor", "query_prefix": "a photo of",
                 "visual_prompt_prefix": "a cat"})");
  const auto encoder = load_encoder(copy.path()).value();
  EXPECT_EQ(encoder->tokenizer()->encode(" a cat", 50).ids,
            with_paddings({2, 311, 554, 407, 316, 547, 528}, true));
  EXPECT_EQ(encoder->late_interaction()->encode_image_rows(random_pixels(1).view())->rows.rows(),
            kPatches + 1 + 2 + 1);
}

// Renames every tensor of the file.
void rename_tensors(const fs::path& folder, const std::vector<std::pair<std::string, std::string>>& renames) {
  edit_weights(folder, [&](nn::TensorMap& tensors) {
    nn::TensorMap renamed;
    for (const auto& [name, tensor] : tensors) {
      std::string other = name;
      for (const auto& [from, to] : renames) {
        if (!name.starts_with(from)) continue;
        other = to + name.substr(from.size());
        break;
      }
      renamed[other] = tensor;
    }
    tensors = renamed;
  });
}

// colpali-engine's merged checkpoints: PaliGemma's config, and names of their own.
void merge_as_engine(const fs::path& folder) {
  edit_config(folder, [](Json& json) {
    Json config = json["vlm_config"];
    config["architectures"] = {"ColPali"};
    json = config;
  });
  rename_tensors(folder, {{"vlm.language_model.", "model.language_model."},
                          {"vlm.vision_tower.", "model.vision_tower.vision_model."},
                          {"vlm.multi_modal_projector.", "model.multi_modal_projector."},
                          {"embedding_proj_layer.", "custom_text_proj."}});
}

TEST(ColPali, EveryPublishedLayoutConforms) {
  const GoldenCopy newer("colpali");
  rename_tensors(newer.path(), {{"vlm.language_model.model.", "vlm.model.language_model."},
                                {"vlm.vision_tower.", "vlm.model.vision_tower.vision_model."},
                                {"vlm.multi_modal_projector.", "vlm.model.multi_modal_projector."}});
  newer.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    tensors["vlm.lm_head.weight"] = nn::Tensor::zeros({300, 40});
    tensors["vlm.model.language_model.layers.0.self_attn.rotary_emb.inv_freq"] = nn::Tensor::full({5}, 1);
  });
  const GoldenCopy engine("colpali");
  merge_as_engine(engine.path());
  const GoldenCopy tied("colpali");
  rename_tensors(tied.path(),
                 {{"vlm.language_model.model.embed_tokens.weight", "vlm.language_model.lm_head.weight"}});
  for (const GoldenCopy* copy : {&newer, &engine, &tied}) {
    const auto report = conform(copy->path());
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->ok);
  }
  const auto outline = outline_checkpoint(engine.path());
  ASSERT_TRUE(outline) << outline.error().message;
  EXPECT_TRUE(outline->known);
  EXPECT_EQ(outline->dim, kDim);
  EXPECT_EQ(outline->context, 128);  // colpali-engine does not cut queries
  EXPECT_EQ(load_encoder(engine.path()).value()->info().family, "colpali");
}

// Weights are used as stored: bfloat16 weights give the same result as their float32 copies.
TEST(ColPali, StoredPrecisionChangesNothing) {
  const GoldenCopy half("colpali");
  const GoldenCopy whole("colpali");
  half.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.to(DType::kBF16);
  });
  whole.edit_tensors("model.safetensors", [](nn::TensorMap& tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.to(DType::kBF16).to(DType::kF32);
  });
  const auto file = SafeTensors::open(golden("colpali") / "io.safetensors").value();
  const nn::TensorMap io = nn::borrow_tensors(file).value();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
    const auto a = load_architecture(half.path(), {.precision = precision}).value()->answers(io).value();
    const auto b = load_architecture(whole.path(), {.precision = precision}).value()->answers(io).value();
    for (const auto& [name, tensor] : a) EXPECT_LT(max_difference(tensor, b.at(name)), 1e-6) << name;
  }
}

TEST(ColPali, EveryDamageIsNamed) {
  const auto model = [](const std::function<void(Json&)>& change) {
    return [change](const fs::path& folder) {
      edit_config(folder, [&](Json& json) { change(json["vlm_config"]); });
    };
  };
  const auto text = [&](const char* key, const Json& value) {
    return model([key = std::string(key), value](Json& c) { c["text_config"][key] = value; });
  };
  const auto tensors = [](const std::function<void(nn::TensorMap&)>& change) {
    return [change](const fs::path& folder) { edit_weights(folder, change); };
  };
  const std::vector<Damage> damages = {
      {"model", text("model_type", "gemma2"), "text_config: \"model_type\" is \"gemma2\", known is gemma"},
      {"activation", text("hidden_act", "swish7"), "text_config: activation \"swish7\" is not known"},
      {"key heads", text("num_key_value_heads", 3),
       "\"num_attention_heads\" is 4, not a multiple of the 3 \"num_key_value_heads\""},
      {"odd", text("head_dim", 9), "\"head_dim\" is 9: rotary positions turn pairs"},
      {"bias", text("attention_bias", true), "\"attention_bias\" is true; known is false"},
      {"stretched", text("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}),
       "\"rope_scaling\" is {"},
      {"eps", text("rms_norm_eps", 0), "\"rms_norm_eps\" is 0"},
      {"theta", text("rope_parameters", {{"rope_theta", -1}}), "\"rope_theta\" is -1"},
      {"tokens", text("num_image_tokens", 1024),
       "text_config: \"num_image_tokens\" is 1024, images of 56 x 56 have 16 patches of 14 x 14"},
      {"MLP", text("intermediate_size", 81), "has shape [80, 40], the config asks for [81, 40]"},
      {"vocabulary", text("vocab_size", 301), "has shape [300, 40], the config asks for [301, 40]"},
      {"image size", model([](Json& c) { c["vision_config"]["image_size"] = 70; }),
       "\"num_image_tokens\" is 16, images of 70 x 70 have 25"},
      {"widths", model([](Json& c) { c["vision_config"]["projection_dim"] = 48; }),
       "\"projection_dim\" is 48, \"hidden_size\" of text_config 40"},
      {"section", model([](Json& c) { c.erase("text_config"); }), "vlm_config: \"text_config\" is missing"},
      {"dim",
       [](const fs::path& folder) { edit_config(folder, [](Json& json) { json["embedding_dim"] = 128; }); },
       "tensor embedding_proj_layer.weight has shape [16, 40], the config asks for [128, 40]"},
      {"form",
       [](const fs::path& folder) {
         edit_config(folder, [](Json& json) { json["saccade"] = {{"queries", "loud"}}; });
       },
       "\"queries\" is \"loud\", known are hugging_face and colpali_engine"},
      {"own field",
       [](const fs::path& folder) {
         edit_config(folder, [](Json& json) { json["saccade"] = {{"question", 1}}; });
       },
       "\"saccade\" has \"question\", known is queries"},
      {"missing", tensors([](nn::TensorMap& t) { t.erase("vlm.language_model.model.norm.weight"); }),
       "tensor language_model.norm.weight of shape [40] is missing"},
      {"extra", tensors([](nn::TensorMap& t) { t["vlm.vision_tower.head.probe"] = nn::Tensor::zeros({2}); }),
       "tensor vision_tower.head.probe of shape [2] has no place"},
      {"dtype", tensors([](nn::TensorMap& t) {
         t["embedding_proj_layer.weight"] = nn::Tensor::full_integers({16, 40}, 0);
       }),
       "tensor embedding_proj_layer.weight has dtype I64, floating point is expected"},
      {"twice", tensors([](nn::TensorMap& t) { t["custom_text_proj.bias"] = nn::Tensor::zeros({16}); }),
       "tensors custom_text_proj.bias and embedding_proj_layer.bias are the same part"},
      {"adapter", tensors([](nn::TensorMap& t) {
         t["vlm.language_model.model.layers.0.self_attn.q_proj.lora_A.weight"] = nn::Tensor::zeros({4, 40});
       }),
       "lora_A.weight belongs to an adapter that is not merged"},
      {"pictures",
       [](const fs::path& folder) {
         write_text(
             folder / "preprocessor_config.json",
             R"({"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}})");
       },
       "32 x 32, the model takes 56 x 56"},
      {"bare",
       [](const fs::path& folder) {
         merge_as_engine(folder);
         edit_weights(folder, [](nn::TensorMap& t) {
           t.erase("custom_text_proj.weight");
           t.erase("custom_text_proj.bias");
         });
       },
       "model_type \"paligemma\" without ColPali's projection (custom_text_proj.weight [dim, 40])"},
      {"adapter's folder",
       [](const fs::path& folder) {
         fs::rename(folder / "model.safetensors", folder / "adapter_model.safetensors");
         write_text(folder / "adapter_config.json", R"({"base_model_name_or_path": "vidore/base", "r": 32})");
       },
       "an adapter (LoRA) to \"vidore/base\" without the weights it adapts; take a checkpoint that it is "
       "merged into, as ColPali's are published under names that end in -merged"},
  };
  expect_refused("colpali", damages);
}

TEST(ColPali, TokenizerAndConfigMustAgree) {
  const auto model = [](const std::function<void(Json&)>& change) {
    return [change](const fs::path& folder) {
      edit_config(folder, [&](Json& json) { change(json["vlm_config"]); });
    };
  };
  const std::vector<Damage> damages = {
      {"image", model([](Json& c) { c["image_token_index"] = 290; }),
       "image_token_index is 290, the tokenizer's is 560"},
      {"start", model([](Json& c) { c["text_config"]["bos_token_id"] = 3; }),
       "bos_token_id is 3, the tokenizer's is 2"},
      {"end", model([](Json& c) { c["text_config"]["eos_token_id"] = 7; }),
       "eos_token_id is 7, the tokenizer's is 1"},
      {"padding", model([](Json& c) { c["text_config"]["pad_token_id"] = 1; }),
       "pad_token_id is 1, the tokenizer's is 0"},
      {"size",
       [](const fs::path& folder) {
         edit_config(folder, [](Json& c) { c["vlm_config"]["text_config"]["vocab_size"] = 562; });
         edit_weights(folder, [](nn::TensorMap& t) {
           Tensor& table = t["vlm.language_model.model.embed_tokens.weight"];
           table = table.slice(0, 0, 562);
         });
       },
       "the tokenizer has 563 tokens, tensor language_model.embed_tokens.weight has 562 rows"},
      {"kind",
       [](const fs::path& folder) {
         fs::copy(golden("tokenizers/bert") / "tokenizer.json", folder / "tokenizer.json",
                  fs::copy_options::overwrite_existing);
       },
       "its tokenizer is not Gemma's"},
  };
  expect_refused("colpali", damages, add_words);

  // Without a tokenizer there is no prompt for images either.
  const auto encoder = load_encoder(golden("colpali")).value();
  EXPECT_EQ(encoder->tokenizer(), nullptr);
  const auto refused = encoder->encode_images(random_pixels(1).view());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("no tokenizer files"));
}

TEST(ColPali, ReferenceInputsAreChecked) {
  const auto file = SafeTensors::open(golden("colpali") / "io.safetensors").value();
  const nn::TensorMap io = nn::borrow_tensors(file).value();
  const auto encoder = load_architecture(golden("colpali"), {}).value();
  const auto error_of = [&](const char* name, const Tensor& value) {
    nn::TensorMap changed = io;
    changed[name] = value;
    const auto answers = encoder->answers(changed);
    return answers ? std::string() : answers.error().message;
  };
  EXPECT_THAT(error_of("image_prompt_ids", io.at("image_prompt_ids").slice(1, 0, 16)),
              HasSubstr("image_prompt_ids has shape [2, 16], expected [2, 16 and more]"));
  EXPECT_THAT(error_of("image_prompt_ids", nn::cat({io.at("image_prompt_ids").slice(1, kPatches),
                                                    io.at("image_prompt_ids").slice(1, 0, kPatches)},
                                                   1)),
              HasSubstr("expected 16 times the image's id 290"));
  EXPECT_THAT(error_of("token_type_ids", nn::Tensor::full_integers({1, 2}, 0)),
              HasSubstr("token_type_ids has shape [1, 2], input_ids [3, 12]"));
}

}  // namespace
}  // namespace saccade

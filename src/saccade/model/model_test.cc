// Tests of the CLIP family: the reference's outputs, and checkpoints with many kinds of errors.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/rows.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/model_test_support.h"
#include "saccade/nn/parameters.h"

namespace saccade {
namespace {

using namespace test;
using testing::HasSubstr;

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, ConformsInFp32) {
  expect_conforms_in_fp32(GetParam(), 7);
}

TEST_P(Golden, ConformsInBf16) {
  SACCADE_NEEDS_BF16();
  expect_conforms_in_bf16(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Clip, Golden,
                         testing::Values("clip-quickgelu", "clip-gelu", "clip-legacy-sharded", "long-clip",
                                         "open_clip-quickgelu", "open_clip-gelu"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(OpenClipNames, AreGivenBack) {
  const auto file = SafeTensors::open(golden("open_clip-quickgelu") / "open_clip_model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const nn::TensorMap own = nn::borrow_tensors(*file).value();
  const auto there = rename_to_hugging_face(own);
  ASSERT_TRUE(there) << there.error().message;
  ASSERT_TRUE(there->contains("vision_model.encoder.layers.0.self_attn.v_proj.bias"));
  const auto back = rename_to_open_clip(*there);
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), own.size());
  for (const auto& [name, tensor] : own) {
    ASSERT_TRUE(back->contains(name)) << name;
    const nn::Tensor ours = back->at(name).contiguous();
    EXPECT_EQ(ours.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(std::ranges::equal(ours.floats(), tensor.contiguous().floats())) << name;
  }
  nn::TensorMap partial = *there;
  partial.erase("text_model.encoder.layers.1.self_attn.k_proj.weight");
  const auto refused = rename_to_open_clip(partial);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("layers.1.self_attn.q_proj.weight without that of k_proj"));
}

// Long-CLIP's own files: OpenAI's names and two position tensors, the first for rows 0 to 19, the second for
// the rest.
TEST(LongClip, OwnLayoutGivesTheSameAnswers) {
  const TestFolder scratch;
  const auto original = SafeTensors::open(golden("long-clip") / "model.safetensors");
  ASSERT_TRUE(original);
  nn::TensorMap own;
  const nn::TensorMap tensors = nn::borrow_tensors(*original).value();
  const auto rename = [](std::string name) {
    const std::pair<const char*, const char*> kRules[] = {
        {"vision_model.embeddings.class_embedding", "visual.class_embedding"},
        {"vision_model.embeddings.patch_embedding.weight", "visual.conv1.weight"},
        {"vision_model.embeddings.position_embedding.weight", "visual.positional_embedding"},
        {"vision_model.pre_layrnorm", "visual.ln_pre"},
        {"vision_model.post_layernorm", "visual.ln_post"},
        {"vision_model.encoder.layers.", "visual.transformer.resblocks."},
        {"text_model.embeddings.token_embedding", "token_embedding"},
        {"text_model.encoder.layers.", "transformer.resblocks."},
        {"text_model.final_layer_norm", "ln_final"},
        {"layer_norm1", "ln_1"},
        {"layer_norm2", "ln_2"},
        {"self_attn.out_proj", "attn.out_proj"},
        {"mlp.fc1", "mlp.c_fc"},
        {"mlp.fc2", "mlp.c_proj"}};
    for (const auto& [from, to] : kRules) {
      if (const size_t at = name.find(from); at != std::string::npos)
        name.replace(at, std::string(from).size(), to);
    }
    return name;
  };
  for (const auto& entry : tensors) {
    const std::string& name = entry.first;
    const nn::Tensor& tensor = entry.second;
    if (name == "visual_projection.weight") {
      own["visual.proj"] = tensor.t();
    } else if (name == "text_projection.weight") {
      own["text_projection"] = tensor.t();
    } else if (name.find("q_proj") != std::string::npos) {
      const auto part = [&](const char* which) {
        std::string other = name;
        return tensors.at(other.replace(other.find("q_proj"), 6, which));
      };
      std::string joint = rename(name);
      const std::string kind = name.ends_with("weight") ? "in_proj_weight" : "in_proj_bias";
      joint = joint.substr(0, joint.find("self_attn")) + "attn." + kind;
      own[joint] = nn::cat({part("q_proj"), part("k_proj"), part("v_proj")});
    } else if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos) {
      continue;
    } else if (name == "text_model.embeddings.position_embedding.weight") {
      own["positional_embedding"] = tensor.clone();
      own["positional_embedding"].slice(0, 20).fill(1e3);  // rows the model must not read
      own["positional_embedding_res"] = tensor.clone();
      own["positional_embedding_res"].slice(0, 0, 20).fill(1e3);
    } else {
      own[rename(name)] = tensor;
    }
  }
  ASSERT_TRUE(save(scratch.path() / "model.safetensors", own));
  fs::copy(golden("long-clip") / "io.safetensors", scratch.path() / "io.safetensors");
  const Json config = read(golden("long-clip") / "config.json");
  Json open_clip = read(golden("open_clip-quickgelu") / "open_clip_config.json");
  open_clip["model_cfg"]["text_cfg"]["context_length"] = config["text_config"]["max_position_embeddings"];
  write_text(scratch.path() / "open_clip_config.json", dump_json(open_clip));

  const auto report = conform(scratch.path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);

  // With CLIP's whole vocabulary its tokenizer needs no files, as Long-CLIP is published with none.
  EXPECT_EQ(load_encoder(scratch.path()).value()->tokenizer(), nullptr);
  own["token_embedding.weight"] =
      nn::cat({own["token_embedding.weight"], nn::Tensor::full({49'408 - 300, 48}, 1)});
  ASSERT_TRUE(save(scratch.path() / "model.safetensors", own));
  open_clip["model_cfg"]["text_cfg"]["vocab_size"] = 49'408;
  write_text(scratch.path() / "open_clip_config.json", dump_json(open_clip));
  const auto published = load_encoder(scratch.path());
  ASSERT_TRUE(published) << published.error().message;
  ASSERT_NE((*published)->tokenizer(), nullptr);
  EXPECT_EQ((*published)->tokenizer()->encode("a photo of a cat", 62).ids,
            (std::vector<int32_t>{49406, 320, 1125, 539, 320, 2368, 49407}));
  // A config that names its own tokenizer is not given another one.
  open_clip["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "bert-base-uncased";
  write_text(scratch.path() / "open_clip_config.json", dump_json(open_clip));
  const auto other = load_encoder(scratch.path());
  EXPECT_TRUE(!other || (*other)->tokenizer() == nullptr);
}

// The starter checkpoint: its outputs agree with transformers', as its model card says.
TEST(Starter, Conforms) {
  const auto report = conform(fs::path(test::kSourceDir) / "models/starter");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok) << dump_json(conform_json(*report), 1);
  EXPECT_EQ(report->answers.size(), 7U);
}

TEST(Conform, NotesAWrongAnswer) {
  const GoldenCopy copy("clip-gelu");
  const fs::path& folder = copy.path();
  const auto io = SafeTensors::open(golden("clip-gelu") / "io.safetensors");
  ASSERT_TRUE(io);
  nn::TensorMap tensors = nn::borrow_tensors(*io).value();
  tensors["text_embeds"] = tensors["text_embeds"] * 1.01;  // the same direction: only the scale is off
  fs::remove(folder / "io.safetensors");
  ASSERT_TRUE(save(folder / "io.safetensors", tensors));
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok);
  for (const AnswerCheck& check : report->answers)
    EXPECT_EQ(check.ok, check.name != "text_embeds") << check.name;
}

TEST(Conform, NotesAWrongScaleInBf16) {
  SACCADE_NEEDS_BF16();
  const GoldenCopy copy("clip-gelu");
  const fs::path& folder = copy.path();
  edit_weights(folder, [](nn::TensorMap& tensors) {
    tensors["logit_scale"] = tensors["logit_scale"] + nn::Tensor::full({}, 1);
  });
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  const auto report = conform(folder, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok);
  for (const AnswerCheck& check : report->answers) {
    EXPECT_EQ(check.ok, !check.name.starts_with("logits")) << check.name << " " << check.max_abs;
  }
}

TEST(Conform, NanFails) {
  const GoldenCopy copy("clip-gelu");
  const fs::path& folder = copy.path();
  const auto io = SafeTensors::open(golden("clip-gelu") / "io.safetensors");
  nn::TensorMap tensors = nn::borrow_tensors(*io).value();
  tensors["image_embeds"] = tensors["image_embeds"].clone();
  tensors["image_embeds"][0][0].fill(std::nanf(""));
  fs::remove(folder / "io.safetensors");
  ASSERT_TRUE(save(folder / "io.safetensors", tensors));
  const auto report = conform(folder);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok);
}

// The same weights in 16 bits, and in shards, give similar outputs.
TEST(Checkpoint, ReadsHalfPrecisionAndShards) {
  for (const auto dtype : {DType::kF16, DType::kBF16}) {
    const GoldenCopy copy("clip-quickgelu");
    const fs::path& folder = copy.path();
    const auto weights = SafeTensors::open(golden("clip-quickgelu") / "model.safetensors");
    ASSERT_TRUE(weights);
    nn::TensorMap first;
    nn::TensorMap second;
    Json map = Json::object();
    const nn::TensorMap tensors = nn::borrow_tensors(*weights).value();
    for (const auto& [name, tensor] : tensors) {
      const bool into_first = first.size() <= second.size();
      (into_first ? first : second)[name] = tensor.to(dtype);
      map[name] = into_first ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    }
    fs::remove(folder / "model.safetensors");
    ASSERT_TRUE(save(folder / "model-00001-of-00002.safetensors", first));
    ASSERT_TRUE(save(folder / "model-00002-of-00002.safetensors", second));
    write_text(folder / "model.safetensors.index.json",
               dump_json(Json{{"metadata", Json::object()}, {"weight_map", map}}));
    ConformOptions options;
    options.tolerance = dtype == DType::kF16 ? 0.02 : 0.2;  // error of rounding the weights alone
    const auto report = conform(folder, options);
    ASSERT_TRUE(report) << report.error().message;
    for (const AnswerCheck& check : report->answers) {
      if (!check.name.ends_with("embeds")) continue;
      EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
    }
  }
}

TEST(EncoderBackend, RowsDoNotDependOnBatchOrPadding) {
  auto encoder = load_encoder(golden("clip-gelu"));
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto io = SafeTensors::open(golden("clip-gelu") / "io.safetensors");
  ASSERT_TRUE(io);
  const std::vector<float> pixels = io->find("pixel_values")->to_floats().value();
  const std::vector<int64_t> ids = io->find("input_ids")->to_int64s().value();
  const MatrixView<const float> pictures(pixels.data(), 3, 3 * 64 * 64);
  const Matrix<float> together = (*encoder)->encode_images(pictures).value();
  for (int64_t i = 0; i < 3; ++i) {
    const Matrix<float> alone = (*encoder)->encode_images(pictures.slice(i, 1)).value();
    double length = 0;
    for (int64_t c = 0; c < together.columns(); ++c) {
      EXPECT_NEAR(alone(0, c), together(i, c), 1e-5);
      length += static_cast<double>(alone(0, c)) * alone(0, c);
    }
    EXPECT_NEAR(length, 1, 1e-5);
  }
  // Raw embeddings have the same directions, but not length 1.
  ASSERT_NE((*encoder)->raw_rows(), nullptr);
  Matrix<float> raw = (*encoder)->raw_rows()->raw_image_rows(pictures).value();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_GT(std::abs(normalize_row(raw.row(i)) - 1), 0.01);
    for (int64_t c = 0; c < together.columns(); ++c) EXPECT_NEAR(raw(i, c), together(i, c), 1e-5);
  }
  // Texts cut at their end tokens give the same result as the reference's padded ones.
  const std::vector<float> expected = io->find("text_embeds")->to_floats().value();
  std::vector<TokenizedText> texts(4);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t t = 0; t < 16; ++t) {
      texts[i].ids.push_back(static_cast<int32_t>(ids[i * 16 + t]));
      if (texts[i].ids.back() == 299) break;
    }
  }
  const Matrix<float> rows = (*encoder)->encode_texts(texts).value();
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < rows.columns(); ++c) EXPECT_NEAR(rows(i, c), expected[i * 24 + c], 1e-4);
  }
  Matrix<float> raw_texts = (*encoder)->raw_rows()->raw_text_rows(texts).value();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_GT(std::abs(normalize_row(raw_texts.row(i)) - 1), 0.01);
    for (int64_t c = 0; c < rows.columns(); ++c) EXPECT_NEAR(raw_texts(i, c), rows(i, c), 1e-5);
  }
}

TEST(EncoderBackend, RefusesWrongInput) {
  auto encoder = load_encoder(golden("clip-gelu"));
  ASSERT_TRUE(encoder);
  const std::vector<float> pixels(100);
  EXPECT_EQ((*encoder)->encode_images({pixels.data(), 1, 100}).error().code, ErrorCode::kUsage);
  const std::vector<TokenizedText> outside = {{.ids = {298, 300, 299}, .used = 1, .dropped = 0}};
  EXPECT_EQ((*encoder)->encode_texts(outside).error().code, ErrorCode::kMismatch);
  const std::vector<TokenizedText> longer = {{.ids = std::vector<int32_t>(17, 1), .used = 15, .dropped = 0}};
  EXPECT_EQ((*encoder)->encode_texts(longer).error().code, ErrorCode::kUsage);
  EXPECT_EQ((*encoder)->encode_images({pixels.data(), 0, 3 * 64 * 64})->rows(), 0);
}

TEST(Checkpoint, EveryDamageIsNamed) {
  const std::vector<Damage> damages = {
      {"no weights", [](const fs::path& f) { fs::remove(f / "model.safetensors"); },
       "neither model.safetensors nor pytorch_model.bin"},
      {"no config", [](const fs::path& f) { fs::remove(f / "config.json"); },
       "tensor visual.conv1.weight is missing"},
      {"empty config", [](const fs::path& f) { write_text(f / "config.json", ""); }, "not JSON"},
      {"foreign type", [](const fs::path& f) { edit_config(f, [](Json& c) { c["model_type"] = "llama"; }); },
       "model_type \"llama\" is not known; known: clip"},
      {"no type", [](const fs::path& f) { edit_config(f, [](Json& c) { c.erase("model_type"); }); },
       "\"model_type\" is missing"},
      {"unknown activation",
       [](const fs::path& f) { edit_config(f, [](Json& c) { c["text_config"]["hidden_act"] = "mish"; }); },
       "text_config: activation \"mish\""},
      {"heads do not divide",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["vision_config"]["num_attention_heads"] = 5; });
       },
       "vision width 64 is not a multiple of 5 heads"},
      {"zero heads",
       [](const fs::path& f) {
         edit_config(f, [](Json& c) { c["vision_config"]["num_attention_heads"] = 0; });
       },
       "vision heads is 0"},
      {"patch too large",
       [](const fs::path& f) { edit_config(f, [](Json& c) { c["vision_config"]["patch_size"] = 100; }); },
       "patch size is 100"},
      {"text where a number should be",
       [](const fs::path& f) { edit_config(f, [](Json& c) { c["vision_config"]["hidden_size"] = "wide"; }); },
       "\"hidden_size\" is a string (\"wide\"), expected a whole number"},
      {"end id outside",
       [](const fs::path& f) { edit_config(f, [](Json& c) { c["text_config"]["eos_token_id"] = 300; }); },
       "eos_token_id 300 is outside the vocabulary of 300"},
      {"wrong width", [](const fs::path& f) { edit_config(f, [](Json& c) { c["projection_dim"] = 32; }); },
       "tensor visual_projection.weight has shape [24, 64], the config asks for [32, 64]"},
      {"missing tensor",
       [](const fs::path& f) {
         edit_weights(f, [](nn::TensorMap& t) { t.erase("text_model.encoder.layers.1.mlp.fc1.bias"); });
       },
       "tensor text_model.encoder.layers.1.mlp.fc1.bias of shape [96] is missing"},
      {"extra tensor",
       [](const fs::path& f) {
         edit_weights(f, [](nn::TensorMap& t) { t["adapter.weight"] = nn::Tensor::full({2}, 1); });
       },
       "tensor adapter.weight of shape [2] has no place"},
      {"integer weights",
       [](const fs::path& f) {
         edit_weights(f, [](nn::TensorMap& t) { t["logit_scale"] = nn::Tensor::full_integers({}, 1); });
       },
       "tensor logit_scale has dtype"},
      {"truncated weights",
       [](const fs::path& f) {
         fs::resize_file(f / "model.safetensors", fs::file_size(f / "model.safetensors") - 1);
       },
       "ends at byte"},
      {"preprocessing of another size",
       [](const fs::path& f) {
         write_text(f / "preprocessor_config.json",
                    R"({"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}})");
       },
       "32 x 32, the model takes 64 x 64"},
  };
  expect_refused("clip-gelu", damages);
  EXPECT_EQ(load_encoder(TestFolder() / "missing").error().code, ErrorCode::kNotFound);
}

TEST(Checkpoint, PicturesAreDescribedInEitherFile) {
  const GoldenCopy copy("clip-gelu");
  const auto mean = [&] { return load_encoder(copy.path()).value()->preprocessing().mean[0]; };
  EXPECT_FLOAT_EQ(mean(), 0.48145466F);  // neither file is there
  const Json pictures = {{"image_processor_type", "CLIPImageProcessor"},
                         {"size", {{"shortest_edge", 64}}},
                         {"crop_size", {{"height", 64}, {"width", 64}}},
                         {"image_mean", {0.25, 0.5, 0.5}}};
  copy.write("preprocessor_config.json", dump_json(pictures));
  EXPECT_FLOAT_EQ(mean(), 0.25F);
  // The file's older form has no image settings. The newer form takes precedence, as in transformers.
  copy.write("processor_config.json", R"({"processor_class": "CLIPProcessor"})");
  EXPECT_FLOAT_EQ(mean(), 0.25F);
  Json nested = pictures;
  nested["image_mean"][0] = 0.75;
  copy.write("processor_config.json", dump_json({{"image_processor", nested}}));
  EXPECT_FLOAT_EQ(mean(), 0.75F);
  fs::remove(copy.path() / "preprocessor_config.json");
  EXPECT_FLOAT_EQ(mean(), 0.75F);

  nested["crop_size"] = 32;
  copy.write("processor_config.json", dump_json({{"image_processor", nested}}));
  EXPECT_THAT(load_encoder(copy.path()).error().message,
              HasSubstr("processor_config.json: image_processor: preprocessing makes images of 32 x 32"));
  copy.write("processor_config.json", R"({"image_processor": "CLIPImageProcessor"})");
  EXPECT_THAT(load_encoder(copy.path()).error().message, HasSubstr("is a string, an object wanted"));
}

TEST(Checkpoint, FingerprintFollowsEveryFile) {
  const GoldenCopy copy("clip-gelu");
  const fs::path& folder = copy.path();
  const std::string before = checkpoint_fingerprint(folder).value();
  EXPECT_EQ(before, checkpoint_fingerprint(golden("clip-gelu")).value());
  write_text(folder / "merges.txt", "#version: 0.2\n");
  EXPECT_NE(before, checkpoint_fingerprint(folder).value());
  fs::remove(folder / "merges.txt");
  write_text(folder / "README.md", "not part of what the encoder computes");
  EXPECT_EQ(before, checkpoint_fingerprint(folder).value());
}

TEST(OpenClipConfig, RefusesSwitchesItDoesNotKnow) {
  const Json json = read(golden("open_clip-gelu") / "open_clip_config.json");
  const auto with = [&](const char* part, const char* key, const Json& value) {
    Json changed = json["model_cfg"];
    changed[part][key] = value;
    return clip_config_from_open_clip(changed);
  };
  EXPECT_TRUE(with("vision_cfg", "pool_type", "tok"));
  EXPECT_TRUE(with("vision_cfg", "patch_dropout", 0.5));
  for (const auto& result :
       {with("vision_cfg", "pool_type", "avg"), with("vision_cfg", "attentional_pool", true),
        with("vision_cfg", "timm_model_name", "vit_base"), with("text_cfg", "no_causal_mask", true),
        with("text_cfg", "new_switch", 3), with("vision_cfg", "ls_init_value", 1e-5)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace saccade

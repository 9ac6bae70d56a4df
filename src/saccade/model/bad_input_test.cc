// Tests of invalid checkpoints and texts over all families: each must be a descriptive error, never a
// different embedding.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using nn::Tensor;
using test::golden;
using test::GoldenCopy;
using testing::ContainsRegex;
using testing::HasSubstr;

// A family's small golden checkpoint, with the properties of its files that the tests need.
struct GoldenFamily {
  const char* golden;
  const char* name = golden;  // name of its tests
  const char* weights = "model.safetensors";
  const char* torch_weights = "";  // the golden's file in place of `weights`
  const char* config = "config.json";
  // Position of the activation's name in the config; "" if it has none.
  const char* activation = "/text_config/hidden_act";
  // Token embedding table if the config specifies its size ("" if the tensors do), and a tokenizer of its
  // kind.
  const char* table = "text_model.embeddings.token_embedding.weight";
  const char* vocabulary = "/text_config/vocab_size";
  int64_t padding = 127;                                       // rows of the table that no token needs
  std::vector<std::pair<const char*, const char*>> tokenizer;  // from, below tests/golden/tokenizers; to
  const char* tokenizer_config = "";                           // in the place of the tokenizer's own
  // Special tokens of the tokenizer in "text_config", if they differ from the golden's.
  Json special_ids = Json::object();
  // Makes config and tokenizer disagree on a special token; `disagreement` is the expected message. Null for
  // OpenCLIP's SigLIP, whose config has none and whose texts are read at their last position, including
  // padding.
  std::function<void(const GoldenCopy&)> disagree = {};
  const char* disagreement = "";

  // Prints the name of its tests instead of its bytes.
  friend void PrintTo(const GoldenFamily& family, std::ostream* out) { *out << family.name; }
};

// Sets another id in config.json.
std::function<void(const GoldenCopy&)> set_id(const char* pointer, int id) {
  return [=](const GoldenCopy& copy) {
    copy.edit_json("config.json", [&](Json& json) { json[Json::json_pointer(pointer)] = id; });
  };
}

// Makes CLIP's start token, instead of its end token, the highest id.
void swap_clip_ends(const GoldenCopy& copy) {
  copy.edit_json("vocab.json", [](Json& json) {
    json["<|startoftext|>"] = 49407;
    json["<|endoftext|>"] = 49406;
  });
}
constexpr const char* kClipEndsSwapped =
    "texts are read at their highest id: the tokenizer's is 49407, it ends them with 49406";

// The family's golden, with weights that tests can change.
class FamilyCopy : public GoldenCopy {
 public:
  explicit FamilyCopy(const GoldenFamily& family) : GoldenCopy(family.golden) {
    if (*family.torch_weights == 0) return;
    const test::fs::path original = path() / family.torch_weights;
    const auto file = TorchFile::open(original);
    EXPECT_TRUE(file) << file.error().message;
    const Status saved = test::save(path() / family.weights, nn::borrow_tensors(*file).value());
    EXPECT_TRUE(saved) << saved.error().message;
    test::fs::remove(original);
  }
};

using Files = std::vector<std::pair<const char*, const char*>>;
const Files kClipWords = {{"clip/vocab.json", "vocab.json"}, {"clip/merges.txt", "merges.txt"}};
const Files kBertWords = {{"bert/tokenizer.json", "tokenizer.json"},
                          {"bert/tokenizer_config.json", "tokenizer_config.json"}};
const Files kPieces = {{"sentencepiece/unigram.model", "spiece.model"}};
const Files kGemmaWords = {{"gemma/tokenizer.json", "tokenizer.json"},
                           {"gemma/tokenizer_config.json", "tokenizer_config.json"}};
constexpr const char* kSiglip2Words = R"({"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>",
  "eos_token": "<eos>", "pad_token": "<pad>", "add_bos_token": false, "add_eos_token": true})";

// A CLIP in OpenCLIP's layout.
GoldenFamily open_clip_family(const char* golden, const char* torch_weights = "") {
  return {.golden = golden,
          .weights = "open_clip_model.safetensors",
          .torch_weights = torch_weights,
          .config = "open_clip_config.json",
          .activation = "",
          .table = "token_embedding.weight",
          .vocabulary = "/model_cfg/text_cfg/vocab_size",
          .tokenizer = kClipWords,
          .disagree = swap_clip_ends,
          .disagreement = kClipEndsSwapped};
}

std::vector<GoldenFamily> families() {
  return {
      {.golden = "clip-gelu",
       .tokenizer = kClipWords,
       .special_ids = {{"bos_token_id", 49406}, {"eos_token_id", 49407}},
       .disagree = set_id("/text_config/eos_token_id", 300),
       .disagreement = "text_config: eos_token_id is 300, the tokenizer's is 49407"},
      // Ids of 0, 2 and 1, as in configs from before the fields were used.
      {.golden = "long-clip",
       .tokenizer = kClipWords,
       .special_ids = {{"bos_token_id", 0}, {"eos_token_id", 2}, {"pad_token_id", 1}},
       .disagree = set_id("/text_config/bos_token_id", 298),
       .disagreement = "text_config: bos_token_id is 298, the tokenizer's is 49406"},
      open_clip_family("open_clip-gelu"),
      open_clip_family("clip-resnet", "open_clip_pytorch_model.bin"),
      {.golden = "siglip",
       .tokenizer = kPieces,
       .disagree = set_id("/text_config/eos_token_id", 7),
       .disagreement = "text_config: eos_token_id is 7, the tokenizer's is 1"},
      {.golden = "siglip",
       .name = "siglip2",
       .tokenizer = kGemmaWords,
       .tokenizer_config = kSiglip2Words,
       .disagree = set_id("/text_config/pad_token_id", 5),
       .disagreement = "text_config: pad_token_id is 5, the tokenizer's is 0"},
      {.golden = "open_clip-siglip",
       .weights = "open_clip_model.safetensors",
       .config = "open_clip_config.json",
       .activation = "",
       .table = "text.token_embedding.weight",
       .vocabulary = "/model_cfg/text_cfg/vocab_size",
       .tokenizer = kPieces},
      {.golden = "align",
       .activation = "/vision_config/hidden_act",
       .table = "text_model.embeddings.word_embeddings.weight",
       .tokenizer = kBertWords,
       .disagree = set_id("/text_config/pad_token_id", 3),
       .disagreement = "text_config: pad_token_id is 3, the tokenizer's is 0"},
      {.golden = "bert",
       .activation = "/hidden_act",
       .table = "bert.embeddings.word_embeddings.weight",
       .vocabulary = "/vocab_size",
       .tokenizer = kBertWords,
       .disagree = set_id("/sep_token_id", 2),
       .disagreement = "config.json: sep_token_id is 2, the tokenizer's is 3"},
      {.golden = "blip2-itm",
       .activation = "/qformer_config/hidden_act",
       .table = "embeddings.word_embeddings.weight",
       .vocabulary = "/qformer_config/vocab_size",
       .tokenizer = kBertWords,
       .disagree = set_id("/qformer_config/cls_token_id", 3),
       .disagreement = "qformer_config: cls_token_id is 3, the tokenizer's is 2"},
      {.golden = "blip2-t5",
       .activation = "/text_config/feed_forward_proj",
       .table = "language_model.shared.weight",
       .vocabulary = "/text_config/vocab_size",
       .padding = 127 + 100,
       .tokenizer = kPieces,
       .tokenizer_config = R"({"tokenizer_class": "T5Tokenizer"})",
       .disagree = set_id("/text_config/eos_token_id", 0),
       .disagreement = "text_config: eos_token_id is 0, the tokenizer's is 1"},
      {.golden = "jina-clip",
       .activation = "",
       .table = "text_model.transformer.embeddings.word_embeddings.weight",
       .vocabulary = "",
       .tokenizer = kBertWords,
       .disagree =
           [](const GoldenCopy& copy) {
             set_id("/text_config/hf_model_config_kwargs/pad_token_id", 0)(copy);
             copy.edit_json("tokenizer_config.json", [](Json& json) { json["pad_token"] = "[UNK]"; });
           },
       .disagreement = "hf_model_config_kwargs: pad_token_id is 0, the tokenizer's is 1"},
      {.golden = "colpali",
       .activation = "/vlm_config/text_config/hidden_act",
       .table = "vlm.language_model.model.embed_tokens.weight",
       .vocabulary = "/vlm_config/text_config/vocab_size",
       .tokenizer = kGemmaWords,
       .disagree = set_id("/vlm_config/text_config/bos_token_id", 3),
       .disagreement = "text_config: bos_token_id is 3, the tokenizer's is 2"},
  };
}

class EveryFamily : public testing::TestWithParam<GoldenFamily> {
 protected:
  // Returns the error of loading after a change of the tensors; "" on success.
  static std::string error_after(const std::function<void(nn::TensorMap&)>& change) {
    const FamilyCopy copy(GetParam());
    copy.edit_tensors(GetParam().weights, change);
    return error_of(copy);
  }
  static std::string error_of(const GoldenCopy& copy) {
    const auto encoder = load_encoder(copy.path());
    if (encoder) return "";
    EXPECT_EQ(encoder.error().message.find('\n'), std::string::npos) << encoder.error().message;
    return encoder.error().message;
  }
  // Returns names of matrices spread over the file, all required by the model. (T5's decoder, which generates
  // text, is skipped when a checkpoint is read.)
  static std::vector<std::string> some_matrices() {
    const FamilyCopy copy(GetParam());
    const SafeTensors file = SafeTensors::open(copy.path() / GetParam().weights).value();
    std::vector<std::string> names;
    for (const auto& [name, view] : file.tensors()) {
      const bool writes = name.find("language_model.decoder.") != std::string::npos ||
                          name.find("lm_head") != std::string::npos;
      if (view.shape.size() >= 2 && !writes && view.dtype == DType::kF32) names.push_back(name);
    }
    std::vector<std::string> some;
    constexpr size_t kSome = 3;
    for (size_t i = 0; i < kSome; ++i) some.push_back(names[i * (names.size() - 1) / (kSome - 1)]);
    return some;
  }
  // Adds a tokenizer and a table with all of its tokens and `padding` more rows.
  static void add_words(const GoldenCopy& copy, int64_t padding = 0) { add_words(GetParam(), copy, padding); }
  static void add_words(const GoldenFamily& family, const GoldenCopy& copy, int64_t padding) {
    for (const auto& [from, to] : family.tokenizer) {
      test::fs::copy_file(golden("tokenizers") / from, copy.path() / to);
    }
    if (*family.tokenizer_config != 0) copy.write("tokenizer_config.json", family.tokenizer_config);
    const std::string too_small = error_of(copy);
    EXPECT_THAT(too_small, HasSubstr("the tokenizer has ")) << "unlike words must be noticed";
    const size_t at = too_small.find("the tokenizer has ");
    ASSERT_NE(at, std::string::npos);
    const int64_t words = std::stoll(too_small.substr(at + 18)) + padding;
    copy.edit_json(family.config, [&](Json& json) {
      if (*family.vocabulary != 0) json[Json::json_pointer(family.vocabulary)] = words;
      if (!family.special_ids.empty()) json["text_config"].update(family.special_ids);
      if (json.contains("vlm_config")) json["vlm_config"]["image_token_index"] = 560;
    });
    copy.edit_tensors(family.weights, [&](nn::TensorMap& tensors) {
      Tensor& table = tensors[family.table];
      table = nn::cat({table, test::random_tensor({words - table.size(0), table.size(1)}, 5, 0.1F)});
    });
  }
};

// `model list` reports the same values as loading.
TEST_P(EveryFamily, OutlineSaysWhatLoadingWould) {
  const auto outline = outline_checkpoint(golden(GetParam().golden));
  ASSERT_TRUE(outline) << outline.error().message;
  const auto encoder = load_encoder(golden(GetParam().golden)).value();
  const EncoderInfo& info = encoder->info();
  EXPECT_TRUE(outline->known);
  EXPECT_EQ(outline->layout, info.layout);
  EXPECT_EQ(outline->dim, info.dim);
  EXPECT_EQ(outline->context, info.context);
  EXPECT_EQ(outline->image_height, info.image_height);
  EXPECT_EQ(outline->image_width, info.image_width);
  EXPECT_EQ(outline->preprocessing, info.image_height > 0 ? encoder->preprocessing().describe() : "");
}

TEST_P(EveryFamily, NamesATensorThatIsMissing) {
  for (const std::string& name : some_matrices()) {
    const std::string error = error_after([&](nn::TensorMap& tensors) { tensors.erase(name); });
    EXPECT_THAT(error, HasSubstr("tensor ")) << name;
    // Names of other layouts are first converted to the Hugging Face layout, ColPali's to one of its
    // variants.
    if (GetParam().config == std::string_view("config.json") &&
        GetParam().golden != std::string_view("colpali")) {
      EXPECT_THAT(error, HasSubstr(name));
    }
  }
}

TEST_P(EveryFamily, NamesATensorTooMany) {
  const std::string error = error_after([](nn::TensorMap& tensors) {
    tensors["vision_model.encoder.layers.0.adapter.weight"] = nn::Tensor::zeros({3, 2});
  });
  EXPECT_THAT(error, HasSubstr("adapter.weight"));
  EXPECT_THAT(error, HasSubstr("[3, 2]"));
}

TEST_P(EveryFamily, NamesAShapeThatIsWrong) {
  for (const std::string& name : some_matrices()) {
    const std::string error = error_after([&](nn::TensorMap& tensors) {
      Tensor& tensor = tensors.at(name);
      tensor = nn::cat({tensor, tensor.slice(tensor.dim() - 1, 0, 1)}, tensor.dim() - 1);
    });
    EXPECT_THAT(error, HasSubstr("tensor ")) << name;
    EXPECT_THAT(error, HasSubstr("shape [")) << name;
  }
}

TEST_P(EveryFamily, TakesFloatingPointAlone) {
  for (const std::string& name : some_matrices()) {
    const std::string error = error_after([&](nn::TensorMap& tensors) {
      tensors.at(name) = Tensor::full_integers(tensors.at(name).sizes(), 1);
    });
    EXPECT_THAT(error, HasSubstr("floating point is expected")) << name;
  }
}

// Unsupported dtypes, of a required tensor and of an unused one.
TEST_P(EveryFamily, NamesADtypeThatIsNotKnown) {
  const auto with = [](const std::string& needed) {
    const FamilyCopy copy(GetParam());
    const test::fs::path path = copy.path() / GetParam().weights;
    const SafeTensors file = SafeTensors::open(path).value();
    const std::vector<uint16_t> two(2);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) tensors.push_back({name, view});
    for (NamedTensor& tensor : tensors) {
      if (tensor.name == needed) tensor.tensor.dtype = DType::kU32;  // as many bytes as float32
    }
    if (needed.empty()) tensors.push_back({"scales", {DType::kU16, {2}, std::as_bytes(std::span(two))}});
    const test::fs::path changed = copy.path() / "changed.safetensors";
    EXPECT_TRUE(write_safetensors(changed, tensors));
    test::fs::rename(changed, path);
    return error_of(copy);
  };
  const std::string needed = some_matrices().front();
  EXPECT_THAT(with(needed), HasSubstr("tensor " + needed + " has dtype U32"));
  EXPECT_THAT(with(""), HasSubstr("tensor scales has dtype U16"));
}

TEST_P(EveryFamily, NamesAnUnknownActivation) {
  if (*GetParam().activation == 0) return;  // OpenCLIP's names none: its config's own tests have the switches
  const FamilyCopy copy(GetParam());
  copy.edit_json(GetParam().config,
                 [](Json& json) { json[Json::json_pointer(GetParam().activation)] = "swish7"; });
  EXPECT_THAT(error_of(copy), HasSubstr("\"swish7\" is not known"));
}

TEST_P(EveryFamily, NamesATokenizerOfAnotherSize) {
  const FamilyCopy filled_up(GetParam());
  add_words(filled_up, GetParam().padding);
  EXPECT_EQ(error_of(filled_up), "");
  const FamilyCopy too_large(GetParam());
  add_words(too_large, GetParam().padding + 1);
  EXPECT_THAT(error_of(too_large),
              ContainsRegex("the tokenizer has [0-9]+ tokens, tensor [a-z_.]+ has [0-9]+ "
                            "rows, for [0-9]+ to [0-9]+ tokens"));
}

// Otherwise the wrong tokens or position would be read: another embedding, or the same for every text.
TEST_P(EveryFamily, NamesSpecialTokensThatDisagree) {
  if (!GetParam().disagree) return;
  const FamilyCopy copy(GetParam());
  add_words(copy);
  ASSERT_EQ(error_of(copy), "");
  GetParam().disagree(copy);
  EXPECT_THAT(error_of(copy), HasSubstr(GetParam().disagreement));
}

// A model that reads its texts at one token needs a tokenizer that adds it. Without it, CLIP's embedding is
// the same for every text.
TEST_P(EveryFamily, NamesATokenTheTokenizerDoesNotAdd) {
  GoldenFamily family = GetParam();
  const std::string name = family.name;
  std::string expected;
  if (name == "clip-gelu" || name == "open_clip-gelu") {
    family.tokenizer = kGemmaWords;  // <bos> in front, nothing behind
    family.special_ids = {{"bos_token_id", 2}, {"eos_token_id", 1}, {"pad_token_id", 0}};
    expected = "texts are read at their end token, 1, which the tokenizer does not add: \"\" becomes [2]";
  } else if (name == "bert" || name == "align" || name == "blip2-itm") {
    family.tokenizer = kPieces;
    family.tokenizer_config =
        R"({"tokenizer_class": "T5Tokenizer", "add_eos_token": false, "bos_token": "<unk>"})";
    expected = "texts are read at their start token, 2, which the tokenizer does not add: \"\" becomes []";
  } else {
    return;
  }
  const FamilyCopy copy(family);
  add_words(family, copy, 0);
  EXPECT_THAT(error_of(copy), HasSubstr(expected));
}

std::vector<std::function<std::string(std::span<const TokenizedText>)>> text_answers(
    EncoderBackend& encoder) {
  const auto error = [](const auto& answer) { return answer ? std::string() : answer.error().message; };
  std::vector<std::function<std::string(std::span<const TokenizedText>)>> answers;
  answers.emplace_back([&, error](auto texts) { return error(encoder.encode_texts(texts)); });
  if (LateInteraction* late = encoder.late_interaction()) {
    answers.emplace_back([=](auto texts) { return error(late->encode_text_rows(texts)); });
  }
  if (FrozenFeatures* frozen = encoder.frozen_features()) {
    for (const auto state : {FrozenFeatures::TextState::kPooled, FrozenFeatures::TextState::kTokens}) {
      if (frozen->text_width(state) == 0) continue;
      answers.emplace_back([=](auto texts) { return error(frozen->text_features(texts, state)); });
    }
  }
  if (TextClassifier* classifier = encoder.text_classifier()) {
    answers.emplace_back([=](auto texts) { return error(classifier->classify_texts(texts)); });
    answers.emplace_back([=](auto texts) { return error(classifier->attention_maps(texts.back())); });
  }
  return answers;
}

// Damaged weights give NaN, which a ranking would drop. If one word is affected, the error names a text with
// it.
TEST_P(EveryFamily, NamesATextWhoseAnswerIsNotANumber) {
  const FamilyCopy copy(GetParam());
  add_words(copy);
  std::vector<TokenizedText> texts;
  int32_t word = -1;
  {
    const auto encoder = load_encoder(copy.path());
    ASSERT_TRUE(encoder) << encoder.error().message;
    for (const char* text : {"a photo", "a photo of"}) {
      texts.push_back((*encoder)->tokenizer()->encode(text, (*encoder)->info().context));
    }
    for (const int32_t id : texts[1].ids) {
      if (std::find(texts[0].ids.begin(), texts[0].ids.end(), id) == texts[0].ids.end()) word = id;
    }
    ASSERT_GE(word, 0);
    for (const auto& answer : text_answers(**encoder)) EXPECT_EQ(answer(texts), "");
  }
  copy.edit_tensors(GetParam().weights, [&](nn::TensorMap& tensors) {
    Tensor& table = tensors.at(GetParam().table);
    table = table.to(DType::kF32).clone();
    table[word].fill(NAN);
  });
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  for (const auto& answer : text_answers(**encoder)) {
    EXPECT_EQ(answer({texts.data(), 1}), "");
    EXPECT_THAT(answer(texts), testing::AnyOf(HasSubstr("text 2 of 2 has a value that is NaN"),
                                              HasSubstr("text 1 of 1 has a value that is NaN")));
  }
}

TEST_P(EveryFamily, NamesAPictureWhoseAnswerIsNotANumber) {
  const FamilyCopy copy(GetParam());
  add_words(copy);
  copy.edit_tensors(GetParam().weights, [&](nn::TensorMap& tensors) {
    for (auto& [name, tensor] : tensors) {
      const bool picture = name.starts_with("vi") || name.find("vision") != std::string::npos;
      if (picture && tensor.dim() == 4) tensor = Tensor::full(tensor.sizes(), NAN);
    }
  });
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  const EncoderInfo& info = (*encoder)->info();
  if (info.image_width == 0) return;  // a text model
  const Matrix<float> pixels(2, int64_t{3} * info.image_height * info.image_width);
  const auto is_named = [](const auto& answer, const char* what) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kBadData);
    EXPECT_THAT(answer.error().message, HasSubstr(fmt::format("{} 1 of 2 has a value that is", what)));
  };
  is_named((*encoder)->encode_images(pixels.view()), "image");
  if (LateInteraction* late = (*encoder)->late_interaction()) {
    is_named(late->encode_image_rows(pixels.view()), "image");
  }
  if (FrozenFeatures* frozen = (*encoder)->frozen_features()) {
    using State = FrozenFeatures::ImageState;
    for (const State state : {State::kPooled, State::kQueries, State::kProjected, State::kVision}) {
      if (frozen->image_width(state) > 0) is_named(frozen->image_features(pixels.view(), state), "image");
    }
  }
  if (PairScorer* scorer = (*encoder)->pair_scorer()) {
    const std::vector<TokenizedText> texts(2, (*encoder)->tokenizer()->encode("a photo", info.context));
    is_named(scorer->score_pairs(pixels.view(), texts), "pair");
  }
}

// A text of any bytes has an embedding of length 1, the same every time.
TEST_P(EveryFamily, TakesTextsOfAnyBytes) {
  const FamilyCopy copy(GetParam());
  add_words(copy);
  const auto encoder = load_encoder(copy.path());
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::string letters;
  for (int i = 0; letters.size() < (1U << 20); ++i) letters += fmt::format("word{} ", i % 1000);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::vector<std::pair<const char*, std::string>> texts = {
      {"empty", ""},
      {"white space", " \t\r\n "},
      {"zeros", std::string("\0\0", 2)},
      {"every byte", bytes},
      {"cut UTF-8", "caf\xc3"},
      {"overlong", "\xc0\xaf\xe0\x80\x80"},
      {"surrogates", "\xed\xa0\x80\xed\xb0\x80"},
      {"only emoji", "\xf0\x9f\x90\xb6\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80"},
      {"a megabyte", letters},
      {"one long word", std::string(1U << 16, 'a')},
      {"special tokens", "<pad></s><bos><image>[CLS]<|endoftext|><|startoftext|>"},
      {"a cat", "a photo of a cat"},
      {"dogs", "two dogs on a beach"},
  };
  std::vector<TokenizedText> tokens;
  for (const auto& [name, text] : texts) {
    tokens.push_back((*encoder)->tokenizer()->encode(text, (*encoder)->info().context));
    EXPECT_LE(static_cast<int64_t>(tokens.back().ids.size()), (*encoder)->info().context) << name;
    EXPECT_GE(tokens.back().used, 0) << name;
  }
  EXPECT_GT((*encoder)->tokenizer()->encode(letters, (*encoder)->info().context).dropped, 100'000);
  const auto rows = (*encoder)->encode_texts(tokens);
  ASSERT_TRUE(rows) << rows.error().message;
  for (size_t i = 0; i < texts.size(); ++i) {
    double square = 0;
    for (const float value : rows->row(static_cast<int64_t>(i))) square += double{value} * value;
    EXPECT_NEAR(square, 1, 1e-4) << texts[i].first;
  }
  // Different texts have different embeddings.
  const auto cat = rows->row(rows->rows() - 2);
  const auto dogs = rows->row(rows->rows() - 1);
  float difference = 0;
  for (size_t c = 0; c < cat.size(); ++c) difference = std::max(difference, std::abs(cat[c] - dogs[c]));
  EXPECT_GT(difference, 1e-4F);
  // External ids are checked too.
  TokenizedText foreign = tokens.front();
  foreign.ids = {1'000'000};
  EXPECT_EQ((*encoder)->encode_texts({&foreign, 1}).error().code, ErrorCode::kMismatch);
  foreign.ids.assign(static_cast<size_t>((*encoder)->info().context) + 1, 3);
  EXPECT_EQ((*encoder)->encode_texts({&foreign, 1}).error().code, ErrorCode::kUsage);
  // Images of another size are rejected too.
  EXPECT_EQ((*encoder)->encode_images(Matrix<float>(1, 7).view()).has_value(), false);
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, testing::ValuesIn(families()), [](const auto& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace saccade

// A dataset and an architecture small enough for the program to train in a second.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {

class TrainingTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    struct Colour {
      const char* name;
      int red, green, blue;
    };
    constexpr std::array<Colour, 4> kColours = {
        {{"red", 220, 20, 20}, {"green", 20, 200, 20}, {"blue", 20, 20, 220}, {"white", 250, 250, 250}}};
    std::string manifest;
    for (const Colour& colour : kColours) {
      for (int i = 0; i < 2; ++i) {
        const std::string name = fmt::format("data/{}{}.png", colour.name, i);
        picture(name, colour.red - 9 * i, colour.green, colour.blue);
        manifest += fmt::format("{{\"image\": \"{}{}.png\", \"captions\": [\"{}\", \"a {} card\"]}}\n",
                                colour.name, i, colour.name, colour.name);
      }
    }
    write("data/cards.jsonl", manifest);
    write("data/model.json", R"({
      "model": {"projection_dim": 16,
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "hidden_act": "gelu"},
        "text_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                        "num_attention_heads": 2, "max_position_embeddings": 24, "hidden_act": "gelu"}},
      "preprocessor": {"do_resize": true, "size": {"height": 16, "width": 16}, "resample": 3,
                       "do_center_crop": false, "do_rescale": true, "do_normalize": true,
                       "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
      "tokenizer": "tokenizer"})");
    // Writes a tokenizer with CLIP's byte symbols and no merges: every word is spelled letter by letter.
    const auto clip = read_json(golden("tokenizers/clip/vocab.json"));
    ASSERT_TRUE(clip.has_value());
    Json vocabulary = Json::object();
    for (const auto& [token, id] : clip->items()) {
      if (id.get<int>() < 512) vocabulary[token] = id;
    }
    vocabulary["<|startoftext|>"] = 512;
    vocabulary["<|endoftext|>"] = 513;
    write("data/tokenizer/vocab.json", dump_json(vocabulary));
    write("data/tokenizer/merges.txt", "#version: 0.2\n");
  }

  // Returns the arguments of a training; `extra` follows the common ones.
  static std::vector<std::string> training(const std::string& run, const std::vector<std::string>& extra = {},
                                           const std::string& batch = "8") {
    std::vector<std::string> words = {"train",        "dual",
                                      "--dataset",    "data/cards.jsonl",
                                      "--held-out",   "data/cards.jsonl",
                                      "--config",     "data/model.json",
                                      "-o",           run,
                                      "--cache",      "cache",
                                      "--batch-size", batch,
                                      "--precision",  "fp32",
                                      "--threads",    "1"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
};

}  // namespace saccade::test

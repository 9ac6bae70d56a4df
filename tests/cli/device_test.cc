// Tests of --device as a user gives it. The device "torch-cpu" runs a GPU's code on the processor.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;

class DeviceCommand : public ProgramTest {
 protected:
  // Returns the values of "rows" in a file that `embed` wrote.
  [[nodiscard]] std::vector<float> rows_of(const char* file) const {
    const auto opened = SafeTensors::open(folder_ / file);
    EXPECT_TRUE(opened.has_value());
    if (!opened) return {};
    const TensorView* rows = opened->find("rows");
    EXPECT_NE(rows, nullptr);
    return rows == nullptr ? std::vector<float>() : rows->to_floats().value();
  }
};

TEST_F(DeviceCommand, EmbedGivesTheSameRows) {
  make_collection();
  write("texts.txt", "a red card\nblue\nthe last one");
  for (const std::vector<std::string>& input :
       {std::vector<std::string>{"--texts", "texts.txt"}, {"--images", "pictures"}}) {
    for (const char* device : {"cpu", "torch-cpu"}) {
      const Outcome embedded = run({"embed", input[0], input[1], "-m", "model", "--device", device, "-o",
                                    std::string(device) + ".safetensors", "--overwrite"});
      ASSERT_EQ(embedded.code, 0) << embedded.err;
    }
    const std::vector<float> expected = rows_of("cpu.safetensors");
    const std::vector<float> rows = rows_of("torch-cpu.safetensors");
    ASSERT_EQ(rows.size(), expected.size());
    ASSERT_GT(rows.size(), 0U);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(std::abs(rows[i] - expected[i]) <= 1e-4) << i;
  }
}

TEST_F(DeviceCommand, ACollectionIsFilledOnOneDeviceAndSearchedOnAnother) {
  picture("pictures/1.png", 200, 30, 30);
  picture("pictures/2.png", 30, 200, 30);
  const Outcome indexed = run({"index", "pictures", "-c", "c", "-m", "model", "--device", "torch-cpu"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  Json scores;
  for (const char* device : {"cpu", "torch-cpu"}) {
    const Outcome found =
        run({"search", "-c", "c", "a card", "--no-group-duplicates", "--json", "--device", device});
    ASSERT_EQ(found.code, 0) << found.err;
    const Json hits = json_of(found)["hits"];
    ASSERT_EQ(hits.size(), 2U);
    if (scores.is_null()) scores = hits;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(hits[i]["id"], scores[i]["id"]);
      EXPECT_NEAR(hits[i]["score"].get<double>(), scores[i]["score"].get<double>(), 1e-4);
    }
  }
}

TEST_F(DeviceCommand, ARunRecordsIt) {
  picture("images/1.png", 200, 30, 30);
  picture("images/2.png", 30, 200, 30);
  write("set.jsonl",
        "{\"image\": \"images/1.png\", \"captions\": [\"red\", \"a card\"]}\n"
        "{\"image\": \"images/2.png\", \"captions\": [\"green\"]}\n");
  const std::vector<std::string> measure = {"-q",    "eval",      "retrieval", "-m",
                                            "model", "--dataset", "set.jsonl", "-o"};
  for (const char* device : {"cpu", "torch-cpu"}) {
    std::vector<std::string> words = measure;
    words.insert(words.end(), {std::string("run-") + device, "--device", device});
    const Outcome measured = run(words);
    ASSERT_EQ(measured.code, 0) << measured.err;
    EXPECT_EQ(read_json(folder_ / (std::string("run-") + device) / "run.json").value()["machine"]["device"],
              device);
  }
  std::vector<std::string> words = measure;
  words.insert(words.end(), {"run-cpu", "--device", "torch-cpu"});
  const Outcome refused = run(words);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("device: there cpu, asked for torch-cpu"));
  const Outcome speed =
      run({"-q", "eval", "speed", "-m", "model", "--dataset", "set.jsonl", "--precision", "fp32", "bf16",
           "--device", "torch-cpu", "--repeats", "1", "--gallery", "10", "--json"});
  ASSERT_EQ(speed.code, 0) << speed.err;
  EXPECT_EQ(json_of(speed)["protocol"]["device"], "torch-cpu");
  // A study measures all on it.
  const Outcome plan = run({"-q", "eval", "study", "-m", "model", "--retrieval", "set.jsonl", "-o", "study",
                            "--plan", "--json", "--device", "torch-cpu"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json pieces = json_of(plan)["pieces"];
  ASSERT_EQ(pieces.size(), 2U);
  for (const Json& piece : pieces) EXPECT_THAT(piece["command"].dump(), HasSubstr("--device=torch-cpu"));
  // It measures those that the device does not run on the processor.
  const Outcome mixed = run({"eval", "study", "-m", "model", golden("siglip").string(), "--long", "set.jsonl",
                             "--texts-only", "-o", "mixed", "--plan", "--json", "--device", "torch-cpu"});
  ASSERT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("is measured on the processor: device torch-cpu: family siglip"));
  const Json both = json_of(mixed)["pieces"];
  ASSERT_EQ(both.size(), 2U);
  EXPECT_THAT(both[0]["command"].dump(), HasSubstr("--device=torch-cpu"));
  EXPECT_THAT(both[1]["command"].dump(), testing::Not(HasSubstr("--device")));
}

TEST_F(DeviceCommand, ConformsAndIsNotRememberedAsTheProcessors) {
  const Json before = json_of(run({"model", "show", "model", "--json"}))["conforms"];
  const Outcome conforms = run({"model", "conform", "model", "--device", "torch-cpu"});
  EXPECT_EQ(conforms.code, 0) << conforms.err << conforms.out;
  EXPECT_EQ(json_of(run({"model", "show", "model", "--json"}))["conforms"], before);
  ASSERT_EQ(run({"model", "conform", "model"}).code, 0);
  EXPECT_NE(json_of(run({"model", "show", "model", "--json"}))["conforms"], before);
}

TEST_F(DeviceCommand, WhatCannotBeIsRefusedInOneLine) {
  const auto embed = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"embed", "--images", "pictures", "-o", "x.npy"});
    return options;
  };
  make_collection();
  expect_failure(embed({"-m", "model", "--device", "gpu"}), 2,
                 {"--device", "\"gpu\", expected cpu, cuda, or cuda:N"});
  expect_failure(embed({"-m", "model", "--device", "torch-cpu", "--precision", "auto"}), 2,
                 {"precision auto", "name fp32 or bf16"});
  expect_failure(embed({"-m", golden("siglip").string(), "--device", "cuda"}), 1,
                 {"device cuda: family siglip is encoded on the processor alone", "family clip"});
  expect_failure(
      {"index", "pictures", "-c", "d", "-m", "model", "--device", "torch-cpu", "--precision", "int8"}, 1,
      {"precision int8 is computed on the processor alone"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
}

}  // namespace
}  // namespace saccade::test

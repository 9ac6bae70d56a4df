// saccade dataset, as a person runs it.
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

class DatasetCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    picture("images/1.png", 200, 30, 30);
    picture("images/2.png", 200, 30, 30);  // the same bytes
    write("captions.csv",
          "image,caption,split\n1.png,A red square .,train\n2.png,A red field .,test\n3.png,Gone "
          ".,test\n4.png,,test\n");
  }
};

TEST_F(DatasetCommand, TellsConvertsAndAudits) {
  const Outcome info = run({"dataset", "info", "captions.csv", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  const Json told = parse_json(info.out).value();
  EXPECT_EQ(told["layout"], "table");
  EXPECT_EQ(told["items"], 3);
  EXPECT_EQ(told["splits"]["test"], 2);
  EXPECT_EQ(told["excluded"][1]["reason"], "images without captions");
  EXPECT_NE(run({"dataset", "info", "captions.csv"}).out.find("layout table, 3 images"), std::string::npos);

  const Outcome convert = run({"dataset", "convert", "captions.csv", "-o", "all.jsonl", "--json"});
  ASSERT_EQ(convert.code, 0) << convert.err;
  const Outcome again = run({"dataset", "info", "all.jsonl", "--json"});
  EXPECT_EQ(parse_json(again.out).value()["sha256"], told["sha256"]);

  const Outcome audit = run({"-q", "dataset", "audit", "all.jsonl", "--json"});
  EXPECT_EQ(audit.code, 3) << audit.err;  // 3.png is not there
  const Json found = parse_json(audit.out).value();
  EXPECT_EQ(found["missing"].size(), 1U);
  EXPECT_EQ(found["same_images"].size(), 1U);
  EXPECT_EQ(found["leaks"][0]["same_images"][0], 1);
  EXPECT_TRUE(found["tokens"].is_null());
  const Outcome model = run({"-q", "dataset", "audit", "all.jsonl#missing=skip", "-m", "model"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_NE(model.out.find("tokens       "), std::string::npos) << model.out;
}

TEST_F(DatasetCommand, WhatItRefuses) {
  expect_failure({"dataset", "info", "captions.csv", "--split", "dev"}, 2, {"captions.csv", "\"dev\""});
  expect_failure({"dataset", "info", "captions.csv#colour=red"}, 2, {"captions.csv#colour=red", "colour"});
  expect_failure({"dataset", "info", "nothing.csv"}, 1, {"nothing.csv"});
  expect_failure({"dataset", "convert", "captions.csv"}, 2, {"--output"});
  expect_failure({"dataset", "convert", "nothing.csv", "-o", "all.jsonl"}, 1, {"nothing.csv"});
  expect_failure({"dataset", "audit", "captions.csv", "-m", "nowhere"}, 1, {"nowhere"});
  write("cut.parquet", "PAR1");
  expect_failure({"dataset", "info", "cut.parquet"}, 1, {"cut.parquet"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "all.jsonl"));
}

}  // namespace
}  // namespace saccade::test

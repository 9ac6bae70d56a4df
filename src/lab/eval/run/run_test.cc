// Tests of run folders: written data is read back, runs of other inputs are not replaced by accident, and
// errors name the fault of a broken run.
#include "lab/eval/run/run.h"

#include <fstream>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RunInfo example_info() {
  RunInfo info;
  info.kind = "retrieval";
  info.saccade = "0.1.0";
  info.command = {"saccade", "eval", "retrieval"};
  info.protocol = {{"description", "all captions"}, {"captions", "all"}, {"ties", "pessimistic"}};
  info.seed = 7;
  info.resamples = 1000;
  info.confidence = 0.9;
  info.datasets = {{.name = "birds-test",
                    .path = "birds.jsonl#split=test",
                    .layout = "manifest",
                    .sha256 = std::string(64, 'a'),
                    .images_sha256 = std::string(64, 'b'),
                    .images = 2,
                    .texts = 3,
                    .excluded = {{"images without captions", 4, {"x", "y"}}}}};
  info.checkpoints = {{.name = "starter",
                       .path = "models/starter",
                       .fingerprint = std::string(64, 'c'),
                       .family = "clip",
                       .precision = "bf16",
                       .parameters = 11,
                       .dim = 2,
                       .context = 16,
                       .image_height = 64,
                       .image_width = 32}};
  info.libraries = {{"ICU", "72.1"}};
  info.machine = {.processor = "some processor", .threads = 3, .memory_bytes = 1234};
  return info;
}

RunItems example_items() {
  RunItems items;
  items.images = {{"one", {.path = "/shards/0.tar", .member = "1.jpg", .offset = 512, .size = 99}},
                  {"two", {.path = "/0.parquet", .member = "row 2", .offset = 2, .column = "image"}}};
  items.texts = {{"a bird", {0}}, {"two birds", {1}}, {"birds", {0, 1}}};
  return items;
}

RunQuery example_query() {
  return {.dataset = "birds-test",
          .model = "starter",
          .direction = Direction::kImageToText,
          .query = 1,
          .ranks = {1, 2.5},
          .tied = true,
          .top = {{.answer = 2, .score = 0.75, .right = true}, {.answer = 0, .score = 0.5, .right = false}}};
}

// Writes the example into a folder; the metrics say `value`.
Status write_example(const fs::path& folder, const RunInfo& info, int value, bool overwrite = false) {
  SACCADE_ASSIGN(RunWriter writer, RunWriter::open(folder, info, overwrite));
  SACCADE_TRY(writer.add_items("birds-test", example_items()));
  SACCADE_TRY(writer.add_query(example_query()));
  Matrix<float> images(2, 2);
  Matrix<float> texts(3, 2);
  images(1, 1) = 0.25F;
  const std::vector<int64_t> text_image = {0, 1, -1};
  SACCADE_TRY(writer.add_embeddings("birds-test", "starter", images.view(), texts.view(), text_image, {}));
  return writer.finish(info, {{"value", value}});
}

std::string content(const fs::path& path) {
  return read_file(path).value_or("");
}

TEST(Run, WhatIsWrittenComesBack) {
  const test::TestFolder folder;
  const RunInfo info = example_info();
  ASSERT_TRUE(write_example(folder.path() / "run", info, 5));
  const auto run = read_run(folder.path() / "run");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run_json(run->info), run_json(info));
  EXPECT_EQ(run->metrics["value"], 5);

  const auto items = read_run_items(*run);
  ASSERT_TRUE(items) << items.error().message;
  ASSERT_THAT(*items, SizeIs(1));
  const RunItems& back = items->at("birds-test");
  const RunItems expected = example_items();
  ASSERT_THAT(back.images, SizeIs(2));
  EXPECT_EQ(back.images[1].id, "two");
  EXPECT_EQ(back.images[0].image, expected.images[0].image);
  EXPECT_EQ(back.images[1].image, expected.images[1].image);
  ASSERT_THAT(back.texts, SizeIs(3));
  EXPECT_EQ(back.texts[2].text, "birds");
  EXPECT_EQ(back.texts[2].images, (std::vector<int64_t>{0, 1}));

  int64_t lines = 0;
  const Status read = read_run_lines(*run, "ranks.jsonl", [&](const Json& json) -> Status {
    ++lines;
    SACCADE_ASSIGN(const RunQuery query, read_record<RunQuery>(json));
    EXPECT_EQ(dump_json(record_json(query)), dump_json(record_json(example_query())));
    EXPECT_EQ(query.ranks, example_query().ranks);
    return {};
  });
  EXPECT_TRUE(read) << read.error().message;
  EXPECT_EQ(lines, 1);
  // Whole ranks are written as whole numbers.
  EXPECT_THAT(content(folder.path() / "run/ranks.jsonl"), HasSubstr("\"ranks\":[1,2.5]"));

  ASSERT_THAT(run->embeddings, SizeIs(1));
  EXPECT_EQ(run->embeddings[0].model, "starter");
  const auto rows = SafeTensors::open(run->embeddings[0].file);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->find("image_embeds")->to_floats()->at(3), 0.25F);
  EXPECT_EQ(rows->find("text_image")->to_int64s().value(), (std::vector<int64_t>{0, 1, -1}));
}

TEST(Run, CompositionsComeBack) {
  const test::TestFolder folder;
  RunInfo info = example_info();
  info.kind = "winoground";
  RunItems items;
  items.compositions = {{.id = "3",
                         .images = {{.path = "/a.png", .member = ""}, {.path = "/b.png", .member = ""}},
                         .captions = {"a dog bites a man", "a man bites a dog"},
                         .kind = "relation",
                         .split = ""}};
  auto writer = RunWriter::open(folder.path() / "run", info, false);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_items("w", items));
  ASSERT_TRUE(writer->finish(info, Json::object()));
  const auto run = read_run(folder.path() / "run");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(read_run_items(*run)->at("w").compositions, items.compositions);
}

TEST(Run, OtherInputsDoNotReplaceAFinishedRun) {
  const test::TestFolder folder;
  const fs::path run = folder.path() / "run";
  ASSERT_TRUE(write_example(run, example_info(), 1));
  const std::map<std::string, std::function<void(RunInfo&)>> changes = {
      {"ties: there \"pessimistic\", asked for \"mean\"", [](RunInfo& i) { i.protocol["ties"] = "mean"; }},
      {"gallery: there null, asked for \"all\"", [](RunInfo& i) { i.protocol["gallery"] = "all"; }},
      {"captions: there \"all\", asked for null", [](RunInfo& i) { i.protocol.erase("captions"); }},
      {"seed: there 7, asked for 8", [](RunInfo& i) { i.seed = 8; }},
      {"resamples: there 1000, asked for 10", [](RunInfo& i) { i.resamples = 10; }},
      {"confidence: there 0.9, asked for 0.5", [](RunInfo& i) { i.confidence = 0.5; }},
      {"kind: there retrieval, asked for length", [](RunInfo& i) { i.kind = "length"; }},
      {"dataset: there birds-test (aaaaaaaaaaaa), asked for fish (dddddddddddd)",
       [](RunInfo& i) {
         i.datasets[0].name = "fish";
         i.datasets[0].sha256 = std::string(64, 'd');
       }},
      {"images of dataset birds-test have changed",
       [](RunInfo& i) { i.datasets[0].images_sha256 = std::string(64, 'd'); }},
      {"checkpoint: there starter (cccccccccccc), asked for other (dddddddddddd)",
       [](RunInfo& i) {
         i.checkpoints[0].name = "other";
         i.checkpoints[0].fingerprint = std::string(64, 'd');
       }},
      {"precision of starter: there bf16, asked for fp32",
       [](RunInfo& i) { i.checkpoints[0].precision = "fp32"; }},
      {"device: there cpu, asked for cuda:1", [](RunInfo& i) { i.machine.device = "cuda:1"; }},
      {"number of checkpoints: there 1, asked for 2",
       [](RunInfo& i) { i.checkpoints.push_back(i.checkpoints[0]); }}};
  for (const auto& [words, change] : changes) {
    RunInfo info = example_info();
    change(info);
    const Status refused = write_example(run, info, 2);
    ASSERT_FALSE(refused) << words;
    EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
    EXPECT_THAT(refused.error().message, HasSubstr(words));
    EXPECT_THAT(refused.error().message, HasSubstr(run.string()));
    EXPECT_THAT(refused.error().message, HasSubstr("--overwrite"));
    EXPECT_EQ(read_run(run)->metrics["value"], 1) << words;
  }
  // A run of the same inputs is accepted, wherever they lie and whatever command is given.
  RunInfo same = example_info();
  same.command = {"another"};
  same.saccade = "9";
  same.datasets[0].path = "elsewhere";
  same.datasets[0].images_sha256.clear();
  same.protocol["description"] = "said otherwise";
  EXPECT_TRUE(write_example(run, same, 3));
  EXPECT_EQ(read_run(run)->metrics["value"], 3);
  RunInfo other = example_info();
  other.seed = 8;
  EXPECT_TRUE(write_example(run, other, 4, true));
  EXPECT_EQ(read_run(run)->metrics["value"], 4);
  EXPECT_EQ(read_run(run)->info.seed, 8U);
}

// Inputs that become known only at the end are compared at the end. The existing run stays.
TEST(Run, ChangedPicturesAreNoticedAtTheEnd) {
  const test::TestFolder folder;
  const fs::path run = folder.path() / "run";
  ASSERT_TRUE(write_example(run, example_info(), 1));
  RunInfo unknown = example_info();
  unknown.datasets[0].images_sha256.clear();
  auto writer = RunWriter::open(run, unknown, false);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->add_query(example_query()));
  RunInfo known = example_info();
  known.datasets[0].images_sha256 = std::string(64, 'e');
  const Status refused = writer->finish(known, {{"value", 2}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("images of dataset birds-test have changed"));
  EXPECT_EQ(read_run(run)->metrics["value"], 1);
}

TEST(Run, AnUnfinishedRunIsNone) {
  const test::TestFolder folder;
  const fs::path run = folder.path() / "run";
  {
    auto writer = RunWriter::open(run, example_info(), false);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add_query(example_query()));
    // The lock keeps another process out meanwhile.
    const auto second = RunWriter::open(run, example_info(), false);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("writing to this run folder"));
  }
  // No files of it remain, and it can be made.
  EXPECT_FALSE(fs::exists(run));
  fs::create_directory(run);
  const auto none = read_run(run);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("cut off"));
  EXPECT_TRUE(write_example(run, example_info(), 1));

  // A new run that is interrupted before it finishes leaves the old one unchanged.
  {
    auto writer = RunWriter::open(run, example_info(), true);
    ASSERT_TRUE(writer);
    const Matrix<float> rows(1, 2);
    ASSERT_TRUE(writer->add_embeddings("birds-test", "starter", rows.view(), rows.view(), {}, {}));
    ASSERT_TRUE(writer->add_line("ranks.jsonl", Json::object()));
  }
  const auto old = read_run(run);
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_TRUE(read_run_items(*old));
  EXPECT_EQ(SafeTensors::open(old->embeddings[0].file)->find("image_embeds")->shape[0], 2);
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    EXPECT_NE(entry.path().filename(), "unfinished");
  }
}

TEST(Run, FilesOfTheOldRunGo) {
  const test::TestFolder folder;
  const fs::path run = folder.path() / "run";
  ASSERT_TRUE(write_example(run, example_info(), 1));
  auto writer = RunWriter::open(run, example_info(), true);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->finish(example_info(), Json::object()));
  EXPECT_FALSE(fs::exists(run / "ranks.jsonl"));
  EXPECT_FALSE(fs::exists(run / "embeddings/birds-test--starter.safetensors"));
  EXPECT_TRUE(read_run(run));
}

TEST(Run, ForeignNamesStayInTheFolder) {
  const test::TestFolder folder;
  RunInfo info = example_info();
  auto writer = RunWriter::open(folder.path() / "run", info, false);
  ASSERT_TRUE(writer);
  const Matrix<float> rows(1, 2);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(writer->add_embeddings("../a b/c", "..", rows.view(), rows.view(), {}, {}));
  }
  ASSERT_TRUE(writer->finish(info, Json::object()));
  const auto run = read_run(folder.path() / "run");
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_THAT(run->embeddings, SizeIs(2));
  EXPECT_NE(run->embeddings[0].file, run->embeddings[1].file);
  for (const RunEmbeddings& one : run->embeddings) {
    EXPECT_EQ(fs::path(one.file).parent_path(), folder.path() / "run/embeddings");
  }
}

TEST(Run, WhatIsBrokenIsNamed) {
  const test::TestFolder folder;
  const fs::path run = folder.path() / "run";
  ASSERT_TRUE(write_example(run, example_info(), 1));
  const std::string good = content(run / "run.json");

  const auto not_there = read_run(folder.path() / "nothing");
  ASSERT_FALSE(not_there);
  EXPECT_THAT(not_there.error().message, HasSubstr("no such folder"));

  // Every field is required.
  const Json json = *parse_json(good);
  for (const auto& [key, value] : json.items()) {
    Json without = json;
    without.erase(key);
    std::ofstream(run / "run.json") << dump_json(without);
    const auto broken = read_run(run);
    ASSERT_FALSE(broken) << key;
    EXPECT_THAT(broken.error().message, HasSubstr("\"" + key + "\"")) << key;
    EXPECT_THAT(broken.error().message, HasSubstr("run.json")) << key;
  }
  // As earlier versions called some of them.
  std::string earlier = good;
  for (const auto& [now, then] : std::map<std::string, std::string>{
           {"\"description\":", "\"words\":"}, {"\"images_sha256\":", "\"pictures_sha256\":"}}) {
    const size_t at = earlier.find(now);
    ASSERT_NE(at, std::string::npos) << now;
    earlier.replace(at, now.size(), then);
  }
  std::ofstream(run / "run.json") << earlier;
  const auto read = read_run(run);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->info.protocol, json["protocol"]);
  EXPECT_EQ(read->info.datasets[0].images_sha256, json["datasets"][0]["images_sha256"].get<std::string>());

  const std::map<std::string, std::function<void(Json&)>> changes = {
      {"format 2, this program reads 1", [](Json& j) { j["format"] = 2; }},
      {"\"description\" is missing", [](Json& j) { j["protocol"].erase("description"); }},
      {"\"seed\"", [](Json& j) { j["seed"] = -1; }},
      {"\"count\"", [](Json& j) { j["datasets"][0]["excluded"][0]["count"] = "many"; }},
      {"\"fingerprint\" is missing", [](Json& j) { j["checkpoints"][0].erase("fingerprint"); }},
      {"is not a name below", [](Json& j) { j["files"][0]["name"] = "../outside"; }},
      {"is not a name below", [](Json& j) { j["files"][0]["name"] = "/etc/passwd"; }},
      {"\"sha256\" is missing", [](Json& j) { j["files"][0].erase("sha256"); }},
      {"nowhere.jsonl is missing", [](Json& j) { j["files"][0]["name"] = "nowhere.jsonl"; }},
      {"does not name metrics.json", [](Json& j) { j["files"] = Json::array(); }},
  };
  for (const auto& [words, change] : changes) {
    Json changed = json;
    change(changed);
    std::ofstream(run / "run.json") << dump_json(changed);
    const auto broken = read_run(run);
    ASSERT_FALSE(broken) << words;
    EXPECT_THAT(broken.error().message, HasSubstr(words));
  }
  // Truncated anywhere, it is not valid JSON.
  for (const size_t length : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 3}) {
    std::ofstream(run / "run.json") << good.substr(0, length);
    EXPECT_FALSE(read_run(run)) << length;
  }
  std::ofstream(run / "run.json") << good;
  ASSERT_TRUE(read_run(run));

  const auto intact = *read_run(run);
  std::ofstream(run / "ranks.jsonl", std::ios::app) << "{}\n";
  const Status changed = read_run_lines(intact, "ranks.jsonl", [](const Json&) { return Status(); });
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().message, HasSubstr("not as it was written"));
  EXPECT_FALSE(read_run_lines(intact, "pairs.jsonl", [](const Json&) { return Status(); }));
  std::ofstream(run / "metrics.json") << "{}";
  const auto metrics = read_run(run);
  ASSERT_FALSE(metrics);
  EXPECT_THAT(metrics.error().message, HasSubstr("metrics.json is not as it was written"));
}

TEST(Run, ATrainingsFolderIsNotTaken) {
  const test::TestFolder folder;
  folder.write("run/run.json", R"({"steps": 5})");
  const Status refused = write_example(folder.path() / "run", example_info(), 1, true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("not a run of `saccade eval`"));
}

TEST(Run, ThisMachineIsKnown) {
  const RunMachine machine = this_machine(2);
  EXPECT_EQ(machine.threads, 2);
  EXPECT_GT(machine.memory_bytes, int64_t{1} << 28);
}

}  // namespace
}  // namespace saccade::lab

// Tests of the studies' files (tools/studies): their tables can be written from the records of the programs, by the
// commands' options on small data.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A tree with a study's file, its page and the files that make its data; its commands run on data of the test.
class Studies : public ProgramTest {
 protected:
  void begin(const std::string& name) {
    name_ = name;
    const fs::path source(kSourceDir);
    const std::string file = fmt::format("tools/studies/{}.json", name);
    const Json study = read_json(source / file).value_or(Json());
    ASSERT_TRUE(study.contains("page")) << file;
    page_ = study["page"].get<std::string>();
    copy(file);
    copy(page_);
    std::vector<std::string> sets;
    std::vector<std::string> named;
    for (const Json& described : study["runs"]) {
      for (const Json& data : described["data"]) {
        const auto set = data.get<std::string>();
        if (std::ranges::find(sets, set) != sets.end()) continue;
        sets.push_back(set);
        for (const Json& each : study["data"][set]["files"]) named.push_back(each.get<std::string>());
      }
    }
    std::string bytes;
    for (const std::string& each : named) {
      copy(each);
      bytes += read_file(source / each).value_or("");
    }
    write(fmt::format("build/studies/{}/began.json", name),
          dump_json(Json{{"commit", "0123456789ab"}, {"data", sha256_hex(bytes).substr(0, 12)}}));
    const Json runs = parse_json(study_program({"plan", name_, "--json"}).out).value_or(Json());
    Json done = Json::object();
    for (const auto& [run, described] : runs.items()) {
      commands_[run] = described["command"].get<std::string>();
      done[run] = {{"command", described["command"]}, {"seconds", 1}, {"reads", Json::object()}};
      for (const Json& each : described["reads"]) {
        done[run]["reads"][each.get<std::string>()] = runs[each.get<std::string>()]["command"];
      }
    }
    write(fmt::format("build/studies/{}/done.json", name), dump_json(done));
  }
  [[nodiscard]] Outcome study_program(std::vector<std::string> words) const {
    const std::string program = (fs::path(kSourceDir) / "tools/studies/study.py").string();
    words.insert(words.begin(), {program, "--root", "."});
    return run(words, {.program = "/usr/bin/python3"});
  }
  void copy(const std::string& file) const {
    write(file, read_file(fs::path(kSourceDir) / file).value_or(""));
  }
  // Runs a command of the study, with other texts in place of some of its own.
  void measure(const std::string& run_name, const std::vector<std::pair<std::string, std::string>>& changes,
               const std::vector<std::string>& more) const {
    std::string command = commands_.at(run_name);
    const auto replace = [&](const std::string& from, const std::string& to) {
      ASSERT_THAT(command, HasSubstr(from));
      command.replace(command.find(from), from.size(), to);
    };
    for (const auto& [from, to] : changes) replace(from, to);
    std::vector<std::string> words;
    for (size_t begin = 0; begin < command.size();) {
      const size_t end = std::min(command.find(' ', begin), command.size());
      words.push_back(command.substr(begin, end - begin));
      begin = end + 1;
    }
    ASSERT_EQ(words.front(), "saccade-lab");
    words.front() = "-q";
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words, {.program = laboratory()});
    ASSERT_EQ(outcome.code, 0) << command << "\n" << outcome.err;
  }
  // Writes the page's tables, and returns the page.
  [[nodiscard]] std::string written() const {
    const Outcome outcome = study_program({"tables", name_});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(page_ + ": wrote "));
    return read_file(folder_ / page_).value_or("");
  }

  std::string name_;
  std::string page_;
  std::map<std::string, std::string> commands_;
};

TEST_F(Studies, EffectiveLengthsTablesAreThoseOfItsRuns) {
  begin("effective-length");
  const std::vector<std::string> places = {"sea", "hill", "town", "wood", "road", "lake"};
  for (const char* set : {"bootstrap-icons", "tuxpaint-heldout"}) {
    std::string manifest;
    for (size_t i = 0; i < places.size(); ++i) {
      const std::string image = fmt::format("pictures/{}.png", places[i]);
      picture("build/starter/manifests/" + image, static_cast<int>(40 * i), 60,
              220 - static_cast<int>(30 * i));
      manifest += fmt::format(
          "{{\"image\": \"{}\", \"captions\": [\"a large bird sits on a red house beside a small {} with a tree\"]}}\n",
          image, places[i]);
    }
    write(fmt::format("build/starter/manifests/{}.jsonl", set), manifest);
  }
  const std::string starter = (fs::path(kSourceDir) / "models/starter").string();
  for (const char* run : {"whole", "tokens", "retokenize"}) {
    measure(run, {{"models/starter", starter}}, {"--resamples", "50"});
  }
  const std::string page = written();
  EXPECT_THAT(page, HasSubstr("| `bootstrap-icons`, 6 images | 6 ("));
  EXPECT_THAT(page, HasSubstr("| `tuxpaint-heldout`, 6 images | 6 ("));
  EXPECT_THAT(page, HasSubstr("| direction | cut | n = 3 | 5 | 7 | 9 | 11 | effective length |"));
  EXPECT_THAT(page, HasSubstr("\nCommit 0123456789ab. SHA-256 of the data: `bootstrap-icons` "));
  EXPECT_THAT(page, Not(HasSubstr("2,076 images |")));  // the earlier table
  const Json metrics =
      read_json(folder_ / "build/studies/effective-length/tokens/metrics.json").value_or(Json());
  double third = -1;
  for (const Json& point : metrics["results"][0]["t2i"]["curve"]) {
    if (point["n"] == 3) third = point["r1"]["value"].get<double>();
  }
  EXPECT_THAT(page, HasSubstr(fmt::format("| text to image | tokens | {:.3f} |", third)));
}

#ifdef SACCADE_TRAINS
TEST_F(Studies, ComposedRetrievalsTablesAreThoseOfItsRuns) {
  begin("composed-retrieval");
  std::string manifest;
  const std::vector<std::string> colours = {"red", "green", "blue", "dark", "light", "grey"};
  for (size_t i = 0; i < colours.size(); ++i) {
    picture(fmt::format("build/starter/edits/{}.png", colours[i]), i % 2 == 0 ? 220 : 20,
            static_cast<int>(40 * i), i % 3 == 0 ? 200 : 10);
    manifest += fmt::format("{{\"gallery_image\": \"{0}.png\", \"id\": \"{0}\"}}\n", colours[i]);
  }
  int query = 0;
  for (const char* split : {"train", "val", "test-library", "test-combination", "test-phrasing"}) {
    for (size_t i = 0; i < 4; ++i) {
      manifest += fmt::format(
          "{{\"id\": \"q{}\", \"reference\": \"{}\", \"texts\": [\"in {} please\"], \"paraphrases\": [\"make it so\"], "
          "\"targets\": [\"{}\"], \"negatives\": [\"{}\"], \"split\": \"{}\"}}\n",
          query++, colours[i], colours[i + 1], colours[i + 1], colours[(i + 2) % 6], split);
    }
  }
  write("build/starter/edits/edits.jsonl", manifest);
  const std::vector<std::string> small = {"-m", "model", "--resamples", "50"};
  measure("ranked", {}, small);
  measure("removed", {}, small);
  std::vector<std::string> shortened = small;
  shortened.insert(shortened.end(), {"--batch-size", "2", "--together", "1", "--threads", "1"});
  // Some trainings are trained; the others are copies of the first under other names and seeds.
  const fs::path runs = folder_ / "build/studies/composed-retrieval";
  const std::vector<std::string> trained = {"atf-1",         "atf-attention-1",
                                            "combiner-1",    "places-sinusoidal-1",
                                            "tau-03-best-1", "projection-combiner-1"};
  for (const std::string& run : trained) measure(run, {{"--steps 1500", "--steps 1"}}, shortened);
  for (const auto& [run, command] : commands_) {
    if (command.find(" train composed ") == std::string::npos || fs::exists(runs / run)) continue;
    fs::copy(runs / trained.front(), runs / run, fs::copy_options::recursive);
    Json description = read_json(runs / run / "run.json").value_or(Json());
    description["seed"] = std::stoi(run.substr(run.rfind('-') + 1));
    write(fs::path("build/studies/composed-retrieval") / run / "run.json", dump_json(description));
  }
  for (const char* run : {"fusions", "parts", "merging", "merging-at-03", "more-parts", "more-parts-at-03",
                          "attention", "stages"}) {
    measure(run, {}, {"--resamples", "50"});
  }
  const std::string page = written();
  for (const char* set : {"test-library", "test-combination"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}`, 4 queries, 6 images | r@1 | r@10 |", set)));
  }
  for (const char* set : {"test-library", "test-combination", "test-phrasing"}) {
    for (const char* training :
         {"--method atf", "--method atf --tau 2", "--method combiner", "--method atf --places sinusoidal",
          "--method atf --pooling learned", "--method atf --tau 0.3 --merge-weights learned",
          "--method atf-attention --residual none"}) {
      EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | `{}` | ", set, training)));
    }
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | sum | ", set)));
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | `atf`, frozen towers | ", set)));
  }
  EXPECT_THAT(page, testing::ContainsRegex(R"(\| slerp \([0-9.]+\) \|)"));
  EXPECT_THAT(page, HasSubstr("`test-library` "));
  EXPECT_THAT(page, Not(HasSubstr("Not measured yet.")));
  const Json metrics =
      read_json(folder_ / "build/studies/composed-retrieval/fusions/metrics.json").value_or(Json());
  ASSERT_EQ(metrics["ablations"].size(), 3U * 3);  // test sets, trainings
  const Json& full = metrics["ablations"][0]["figures"]["r1"];
  EXPECT_THAT(
      page, HasSubstr(fmt::format("| `--method atf` | {:.3f} [{:.3f}, {:.3f}] |", full["value"].get<double>(),
                                  full["low"].get<double>(), full["high"].get<double>())));
}
#endif  // SACCADE_TRAINS

}  // namespace
}  // namespace saccade::test

// Tests of searching: without naming a collection, with more than text, from scripts, at a prompt.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

namespace fs = std::filesystem;

class Finding : public ProgramTest {
 protected:
  static std::vector<std::string> lines_of(const std::string& text, char end = '\n') {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t stop = std::min(text.find(end, at), text.size());
      lines.push_back(text.substr(at, stop - at));
      at = stop + 1;
    }
    return lines;
  }
  // Types the lines into the program on a terminal of its own, and returns everything that it wrote there.
  // `device` is the terminal's reply when the program asks for its attributes.
  std::string on_terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& typed,
                          const std::vector<std::string>& environment = {}, int* code = nullptr,
                          const std::string& device = "\x1b[?62;22c") const;
};

std::string Finding::on_terminal(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& typed,
                                 const std::vector<std::string>& environment, int* code,
                                 const std::string& device) const {
  std::vector<std::string> words = {SACCADE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  // The first of two values is used.
  std::vector<std::string> variables = environment;
  variables.insert(variables.end(), {"HOME=" + (folder_.path() / "home").string(), "TERM=xterm",
                                     "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "OMP_WAIT_POLICY=passive"});
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  winsize size{};
  size.ws_col = 200;
  size.ws_row = 50;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    if (chdir(folder_.path().c_str()) != 0) _exit(98);
    alarm(kProgramSeconds);
    execve(argv[0], argv.data(), envp.data());
    _exit(97);
  }
  std::string said;
  // Each line is typed once the prompt appears, so that no line is echoed before the program reads.
  size_t seen = 0;
  size_t next = 0;
  char block[4096];
  int status = 0;
  for (bool ended = false;;) {
    // Decoder processes may keep the terminal open for a while after the program exits.
    pollfd ready{terminal, POLLIN, 0};
    if (poll(&ready, 1, 50) == 0) {
      if (ended) break;
      ended = waitpid(child, &status, WNOHANG) == child;
      continue;
    }
    const ssize_t got = ::read(terminal, block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      while (!ended && waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      break;
    }
    said.append(block, static_cast<size_t>(got));
    constexpr std::string_view kQuestion = "\x1b[c";
    if (const size_t asked = said.find(kQuestion); asked != std::string::npos) {
      said.erase(asked, kQuestion.size());
      if (::write(terminal, device.data(), device.size()) < 0) break;
    }
    const size_t prompt = said.find("search> ", seen);
    if (prompt == std::string::npos || next >= typed.size()) continue;
    seen = prompt + 8;
    const std::string line = typed[next++];
    // Input before the prompt has set the terminal's mode may be misread: Ctrl-D as nothing. Without libedit
    // there is no such mode, and the wait ends after a second.
    termios mode{};
    for (int tries = 0; tries < 100; ++tries) {
      if (tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) == 0) break;
      usleep(10'000);
    }
    if (::write(terminal, line.data(), line.size()) < 0) break;
  }
  ::close(terminal);
  if (code != nullptr) *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

TEST_F(Finding, ACollectionNeedNotBeNamed) {
  picture("pics/a.png", 200, 10, 10);
  picture("pics/sub/b.png", 10, 200, 10);
  // No collection exists yet.
  expect_failure({"search", "x"}, 2, {"no collection yet", "saccade index"});
  expect_failure({"collection", "info"}, 2, {"no collection yet"});
  // index creates .saccade here, and says so.
  const Outcome made = run({"index", "pics", "-m", "model"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("making collection " + (folder_ / ".saccade").string()));
  EXPECT_TRUE(fs::exists(folder_ / ".saccade/collection.json"));
  EXPECT_THAT(run({"index", "pics"}).err, HasSubstr("into collection " + (folder_ / ".saccade").string()));
  EXPECT_EQ(json_of(run({"collection", "info", "--json"}))["items"], 2);
  const Outcome found = run({"search", "--image", "pics/a.png", "--paths", "-k", "1"});
  EXPECT_EQ(found.out, (folder_ / "pics/a.png").string() + "\n");
  EXPECT_THAT(found.err, Not(HasSubstr("only one")));
  // Its own folder is not indexed.
  EXPECT_EQ(json_of(run({"index", ".", "--hidden", "--json"}))["added"], 0);

  // It is found from a folder below, as git does, and from elsewhere if it is the only one.
  const auto from = [&](const std::string& folder, const std::vector<std::string>& arguments,
                        std::vector<std::string> environment = {}) {
    std::string command = "cd '" + folder + "' && '" SACCADE_PROGRAM "'";
    for (const std::string& word : arguments) command += " '" + word + "'";
    return run({"-c", command}, {.program = "/bin/sh", .environment = std::move(environment)});
  };
  EXPECT_EQ(json_of(from("pics/sub", {"collection", "info", "--json"}))["items"], 2);
  fs::create_directories(folder_ / "elsewhere");
  const test::TestFolder outside;
  const Outcome only =
      from(outside.path().string(), {"search", "--image", (folder_ / "pics/a.png").string(), "--paths"});
  EXPECT_EQ(only.code, 0) << only.err;
  EXPECT_THAT(only.err, HasSubstr("the only one there is"));
  // Images are never added to a collection that was found only because it is the only one.
  write("elsewhere/readme", "x");
  picture("other/c.png", 1, 1, 200);
  const Outcome second = from(outside.path().string(),
                              {"index", (folder_ / "other").string(), "-m", (folder_ / "model").string()});
  EXPECT_THAT(second.err, HasSubstr("making collection " + (outside.path() / ".saccade").string()));
  const test::TestFolder third;
  const Outcome two = from(third.path().string(), {"search", "x"});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.err, AllOf(HasSubstr("which collection?"), HasSubstr((folder_ / ".saccade").string()),
                             HasSubstr((outside.path() / ".saccade").string())));
  // The variable takes precedence over folders, and -c over the variable.
  const std::string variable = "SACCADE_COLLECTION=" + (outside.path() / ".saccade").string();
  EXPECT_EQ(json_of(run({"collection", "info", "--json"}, {.environment = {variable}}))["items"], 1);
  EXPECT_EQ(
      json_of(run({"collection", "info", "--json", "-c", ".saccade"}, {.environment = {variable}}))["items"],
      2);
  expect_failure({"search", "x"}, 1, {"SACCADE_COLLECTION names nowhere", "no collection there"},
                 {.environment = {"SACCADE_COLLECTION=nowhere"}});
  // Deleted collections are forgotten.
  fs::remove_all(outside.path() / ".saccade");
  EXPECT_EQ(
      from(third.path().string(), {"search", "--image", (folder_ / "pics/a.png").string(), "--paths"}).code,
      0);
}

TEST_F(Finding, CheckpointsHaveNames) {
  make_collection();
  EXPECT_THAT(run({"model", "alias"}).out, HasSubstr("no names yet"));
  EXPECT_EQ(run({"model", "alias", "mine", "model"}).code, 0);
  EXPECT_EQ(run({"model", "alias"}).out, "mine  " + (folder_ / "model").string() + "\n");
  const Outcome embedded =
      run({"embed", "--texts", "-", "-m", "mine", "-o", "x.npy"}, {.input = "a cat\ntwo\n"});
  EXPECT_EQ(embedded.code, 0) << embedded.err;
  EXPECT_THAT(embedded.out, HasSubstr("2 embeddings"));
  EXPECT_EQ(run({"search", "-c", "c", "-m", "mine", "red"}).code, 0);
  expect_failure({"model", "alias", "starter", "model"}, 2, {"starter"});
  expect_failure({"model", "alias", "../x", "model"}, 2, {"../x"});
  expect_failure({"model", "alias", "y", "pictures"}, 1, {"pictures"});
  expect_failure({"model", "alias", "nobody"}, 1, {"nobody"});
  EXPECT_EQ(run({"model", "alias", "mine", "--remove"}).code, 0);
  EXPECT_NE(run({"embed", "--texts", "-", "-m", "mine", "-o", "x.npy"}, {.input = "a\n"}).code, 0);
  expect_failure({"embed", "--texts", "-", "-m", "model", "-o", "y.npy"}, 1, {"standard input is empty"});
}

TEST_F(Finding, HitsForScripts) {
  make_collection();
  picture("odd/a\nb \xff'.png", 250, 250, 250);
  ASSERT_EQ(run({"index", "odd", "-c", "c"}).code, 0);
  const std::vector<std::string> search = {
      "search", "-c", "c", "--image", "pictures/red.png", "--no-group-duplicates"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), search.begin(), search.end());
    return run(more);
  };
  const Json json = json_of(with({"--json"}));
  std::vector<std::string> paths;
  const Outcome plain = with({"-0"});
  for (const std::string& path : lines_of(plain.out, '\0')) {
    EXPECT_TRUE(fs::exists(path)) << path;
    paths.push_back(path);
  }
  EXPECT_EQ(paths.size(), json["hits"].size());
  EXPECT_EQ(paths.front(), json["hits"][0]["path"].get<std::string>());
  EXPECT_THAT(with({"--paths"}).out, StartsWith(paths.front() + "\n"));
  EXPECT_THAT(with({"--format", "{rank}\\t{name}\\t{width}x{height} {{{caption}}}", "-k", "1"}).out,
              "1\tred.png\t80x70 {a red card}\n");
  EXPECT_EQ(lines_of(with({"--format", "{score}"}).out).front(), "1.000000");
  for (const auto& [format, part] : std::vector<std::pair<std::string, std::string>>{
           {"{nosuch}", "no field \"nosuch\"; there are rank, score"},
           {"{scor}", "; did you mean score?"},
           {"{path", "not closed"},
           {"path}", "without"},
           {"\\q", "backslash"},
           {"x\\", "backslash"}}) {
    const Outcome wrong = with({"--format", format});
    EXPECT_EQ(wrong.code, 2) << format;
    EXPECT_THAT(wrong.err, HasSubstr(part)) << format;
  }
  EXPECT_EQ(with({"--paths", "--json"}).code, 2);
  // An empty result is reported on stderr, with its own exit code, in every output format.
  for (const char* way : {"--paths", "-0", "--no-group-duplicates"}) {
    expect_failure({"search", "-c", "c", "x", "--filter", "width>9999", way}, 4,
                   {"no image passes the filter"});
  }
  const Outcome empty = run({"search", "-c", "c", "x", "--filter", "width>9999", "--json"});
  EXPECT_EQ(empty.code, 4);
  EXPECT_EQ(json_of(empty)["hits"], Json::array());
  // Tests a full disk, and a closed pipe.
  EXPECT_EQ(run({"search", "-c", "c", "x", "--paths"}, {.output_file = "/dev/full"}).code, 1);
  EXPECT_EQ(run({"search", "-c", "c", "x", "--paths"}, {.close_output = true}).code, 1);
}

TEST_F(Finding, MoreOfAQueryIsUnderstoodAndSaid) {
  make_collection();
  const Outcome text = run({"search", "-c", "c", "red card -green", "--keyword-weight", "0"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("searched for \"red card\"; not like \"green\" x 0.25\n"));
  const Json json = json_of(run({"search", "-c", "c", "red:2 card", "--json"}));
  EXPECT_EQ(json["query"]["parts"].dump(), R"([{"text":"card","weight":1.0},{"text":"red","weight":2.0}])");
  EXPECT_TRUE(json_of(run({"search", "-c", "c", "\"red:2 -card\"", "--json"}))["query"]["parts"].is_null());
  EXPECT_EQ(json_of(run({"search", "-c", "c", "--json", "--", "red", "-card"}))["query"]["parts"].size(), 2U)
      << "behind the shell's -- all is words";
  EXPECT_EQ(json_of(run({"search", "-c", "c", "--json", "-- -card"}))["query"]["text"], "-card");
  const Outcome two =
      run({"search", "-c", "c", "--image", "pictures/red.png", "--image", "pictures/green.png:2", "--json"});
  EXPECT_THAT(json_of(two)["hits"][0]["path"].get<std::string>(), EndsWith("green.png"));
  expect_failure({"search", "-c", "c", "red", "-green"}, 2, {"-green", "in quotes, or after --"});
  expect_failure({"search", "-c", "c", "red:99"}, 2, {"red", "99", "up to 10"});
  expect_failure({"search", "-c", "c", "--image", "pictures/red.png:0"}, 2, {"--image", "weighs 0"});
  // Explains a hit by each word of each part, with its position in the input.
  const Json explained = json_of(run({"search", "-c", "c", "red -green", "--explain", "--json"}));
  const Json& words = explained["hits"][0]["explanations"][0]["words"];
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0]["word"], "red");
  EXPECT_EQ(words[1]["word"], "green");
  EXPECT_EQ(words[1]["begin"], 5);
  // Reads an image from standard input.
  const auto bytes = read_file(folder_ / "pictures/blue.png");
  const Outcome piped =
      run({"search", "-c", "c", "--image", "-", "--paths", "-k", "1"}, {.input = bytes.value_or("")});
  EXPECT_THAT(piped.out, EndsWith("/blue.png\n")) << piped.err;
  EXPECT_EQ(run({"search", "-c", "c", "--image", "-"}, {.input = ""}).code, 1);
}

TEST_F(Finding, WordsInCaptionsNamesAndFoldersCount) {
  make_collection();
  picture("pictures/apples/zzz.png", 7, 7, 7);
  write("pictures/apples/zzz.txt", "a quince on a table");
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  for (const char* word : {"quince", "QUINCES", "apple", "zzz"}) {
    const Outcome outcome = run({"search", "-c", "c", word, "--keyword-weight", "1", "-k", "1"});
    EXPECT_THAT(outcome.out, HasSubstr("zzz.png")) << word << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("the result also matches by ")) << word;
  }
  EXPECT_THAT(run({"search", "-c", "c", "quince", "--keyword-weight", "1", "-k", "1"}).out,
              HasSubstr("[quince: caption]"));
  EXPECT_THAT(run({"search", "-c", "c", "apple", "--keyword-weight", "1", "-k", "1"}).out,
              HasSubstr("[apple: folders]"));
  const Json json = json_of(run({"search", "-c", "c", "quince table", "--keyword-weight", "0.7", "--json"}));
  EXPECT_EQ(json["keywords"]["weight"], 0.7);
  EXPECT_EQ(json["keywords"]["images"], 1);
  EXPECT_TRUE(
      json_of(run({"search", "-c", "c", "quince", "--keyword-weight", "0", "--json"}))["keywords"].is_null());
  for (const char* odd :
       {"\"", "NEAR(", "quince*", "caption:", "'; DROP TABLE words", "AND OR", "(", "^", "\xff"}) {
    EXPECT_EQ(run({"search", "-c", "c", odd}).code, 0) << odd;
  }
}

TEST_F(Finding, ManyQueriesAreAnsweredALineEach) {
  make_collection();
  const Outcome outcome =
      run({"search", "-c", "c", "--queries", "-", "-k", "2"}, {.input = "red card\r\nmario:64\n\ngreen"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 4U) << outcome.out;
  EXPECT_EQ(parse_json(lines[0]).value()["line"], "red card");
  EXPECT_EQ(parse_json(lines[0]).value()["hits"].size(), 2U);
  EXPECT_THAT(parse_json(lines[1]).value()["error"]["message"].get<std::string>(), HasSubstr("up to 10"));
  EXPECT_EQ(parse_json(lines[2]).value()["error"]["code"], "usage");
  EXPECT_EQ(parse_json(lines[3]).value()["query"]["text"], "green");
  // The answer is the same as for the query alone. (In a batch the last digits of scores depend on the processor.)
  Json alone = json_of(run({"search", "-c", "c", "green", "-k", "2", "--json"}));
  write("queries.txt",
        "\xEF\xBB\xBF"
        "green\n");
  Json line = json_of(run({"search", "-c", "c", "--queries", "queries.txt", "-k", "2"}));
  EXPECT_EQ(line["line"], "green");
  line.erase("line");
  EXPECT_EQ(line, alone);
  expect_failure({"search", "-c", "c", "--queries", "nowhere.txt"}, 1, {"nowhere.txt"});
  expect_failure({"search", "-c", "c", "--queries", "queries.txt", "red"}, 2, {"--queries"});
}

TEST_F(Finding, LinesThatAreThereAreAnsweredTogetherAndOneThatIsAloneAtOnce) {
  make_collection();
  // More lines than are answered together, with errors among them.
  std::string input;
  std::vector<std::string> texts;
  for (size_t i = 0; i < 150; ++i) {
    texts.push_back(i % 10 == 3 ? "mario:64" : "red card " + std::string(1 + i % 7, 'x'));
    input += texts.back() + "\n";
  }
  write("queries.txt", input);
  const Outcome outcome = run({"search", "-c", "c", "--queries", "queries.txt", "-k", "1"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), texts.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json json = parse_json(lines[i]).value();
    EXPECT_EQ(json["line"], texts[i]);
    EXPECT_EQ(json.contains("error"), texts[i] == "mario:64") << i;
  }
  // A program that waits for each answer before it asks again.
  write("ask.sh", "coproc P { '" SACCADE_PROGRAM
                  "' search -c c --queries - -k 1; }\n"
                  "for text in red green; do\n"
                  "  echo $text >&${P[1]}\n"
                  "  read -r -t 300 line <&${P[0]} || exit 9\n"
                  "  echo \"$line\"\n"
                  "done\n");
  const Outcome asked = run({"ask.sh"}, {.program = "/bin/bash"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  const std::vector<std::string> answers = lines_of(asked.out);
  ASSERT_EQ(answers.size(), 2U) << asked.out;
  EXPECT_EQ(parse_json(answers[1]).value()["line"], "green");
}

TEST_F(Finding, APromptAnswersOnATerminal) {
  make_collection();
  int code = -1;
  const std::string said =
      on_terminal({"search", "-c", "c", "-k", "2", "--keyword-weight", "1"},
                  {"red card\n", ":more\n", ":like 1\n", ":like 77\n", ":open\n", ":nosuch\n",
                   ":filter width>\n", ":filter width>9999\n", "red\n", ":filter\n", ":k 1\n", "mario:64\n",
                   "x v\u00F6gel:2\n", ":help\n", "\n", ":quit\n"},
                  {"NO_COLOR=1"}, &code);
  EXPECT_EQ(code, 0) << said;
  EXPECT_THAT(said,
              AllOf(HasSubstr("   1  "), HasSubstr("   3  "), HasSubstr("no hit 77 has been shown"),
                    HasSubstr(":nosuch is not known here"), HasSubstr("no image passes the filter"),
                    HasSubstr("weighs 64"), HasSubstr("\"v\u00F6gel\" x 2"), HasSubstr(":quit, Ctrl-D")));
  // The history is stored, readable by its owner alone.
  const fs::path history = folder_ / "home/.local/state/saccade/search_history";
  const auto kept = read_file(history);
  if (kept) {  // where libedit is installed
    EXPECT_THAT(*kept, HasSubstr("red"));
    struct stat state {};
    ASSERT_EQ(stat(history.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0077U, 0U);
  }
  // End of input ends the prompt, and so does Ctrl-C. Without a terminal there is none.
  EXPECT_THAT(on_terminal({"search", "-c", "c"}, {"\x04"}, {}, &code), HasSubstr("search> "));
  EXPECT_EQ(code, 0);
  on_terminal({"search", "-c", "c"}, {"\x03"}, {}, &code);
  EXPECT_EQ(code, 128 + SIGINT);
  // So it is after a search that Ctrl-C would have stopped cleanly.
  const std::string explained = on_terminal({"search", "-c", "c", "--explain"}, {"red\n", "\x03"}, {}, &code);
  EXPECT_EQ(code, 128 + SIGINT) << explained;
  EXPECT_THAT(explained, Not(HasSubstr("stopping; once more")));
  expect_failure({"search", "-c", "c"}, 2, {"nothing to search for"});
}

// By date, the next hits may stand before those that have been shown.
TEST_F(Finding, ThePromptsNextHitsRepeatNothingAndOmitNothing) {
  make_collection();
  const Json all = json_of(run({"search", "-c", "c", "red card", "--keyword-weight", "0",
                                "--no-group-duplicates", "-k", "99", "--json"}));
  std::vector<std::string> expected;  // by rank
  for (const Json& hit : all["hits"]) expected.push_back(fs::path(hit["path"].get<std::string>()).filename());
  ASSERT_GE(expected.size(), 3U);
  // The best is the oldest, the second best the newest.
  for (size_t i = 0; i < expected.size(); ++i) {
    fs::last_write_time(
        folder_ / "pictures" / expected[i],
        fs::file_time_type::clock::now() + std::chrono::hours(i == 0 ? -1000 : -static_cast<int>(i)));
  }
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  std::vector<std::string> typed = {"red card\n"};
  for (size_t i = 0; i < expected.size(); ++i) typed.emplace_back(":more\n");
  typed.emplace_back(":quit\n");
  const std::string said = on_terminal({"search", "-c", "c", "--keyword-weight", "0", "--no-group-duplicates",
                                        "-k", "1", "--order", "date", "--format", "<{rank}={name}>"},
                                       typed);
  std::vector<std::string> shown;
  for (size_t at = said.find('<'); at != std::string::npos; at = said.find('<', at + 1)) {
    shown.push_back(said.substr(at + 1, said.find('>', at) - at - 1));
  }
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = fmt::format("{}={}", i + 1, expected[i]);
  EXPECT_EQ(shown, expected) << said;
  EXPECT_THAT(said, HasSubstr("that was all"));
}

TEST_F(Finding, WordsThatLeadIntoAChangeAreNotEncoded) {
  make_collection();
  const auto answer = [&](const std::string& text) {
    return json_of(run({"search", "-c", "c", "--image", "pictures/red.png", text, "--json"}));
  };
  const Json led = answer("but with green");
  EXPECT_EQ(led["query"]["text"], "green");
  EXPECT_EQ(led, answer("green"));
  EXPECT_EQ(answer("\"but with green\"")["query"]["text"], "but with green");
  EXPECT_EQ(json_of(run({"search", "-c", "c", "but with green", "--json"}))["query"]["text"],
            "but with green");
}

TEST_F(Finding, ATerminalGetsLinksColourAndPicturesAndNothingElseDoes) {
  make_collection();
  const std::vector<std::string> search = {"search", "-c", "c", "--image", "pictures/red.png", "-k", "1"};
  const std::string link = "\x1b]8;;file://";
  EXPECT_THAT(on_terminal(search, {}),
              AllOf(HasSubstr(link), HasSubstr("/pictures/red.png\x1b\\"), HasSubstr("\x1b[1m")));
  EXPECT_THAT(on_terminal(search, {}, {"NO_COLOR=1"}), AllOf(HasSubstr(link), Not(HasSubstr("\x1b[1m"))));
  EXPECT_THAT(on_terminal(search, {}, {"TERM=dumb"}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(on_terminal(search, {}, {"KITTY_WINDOW_ID=1"}), HasSubstr("\x1b_Ga=T,f=100"));
  EXPECT_THAT(on_terminal(search, {}, {"TERM_PROGRAM=iTerm.app"}), HasSubstr("\x1b]1337;File=inline=1"));
  EXPECT_THAT(on_terminal(search, {}, {"KITTY_WINDOW_ID=1", "TMUX=x"}), Not(HasSubstr("\x1b_G")));
  // An image in sixels: from DCS q to ST. A terminal that does not report sixels, or does not answer, gets
  // none.
  const std::string sixels = on_terminal(search, {}, {}, nullptr, "\x1b[?62;4;22c");
  const size_t begin = sixels.find("\x1bP");
  ASSERT_NE(begin, std::string::npos) << "libsixel1?";
  const size_t end = sixels.find("\x1b\\", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string drawn = sixels.substr(begin, end - begin);
  // It has the image's size, which is smaller than 5 lines of 20 pixels, and its red, in percent.
  EXPECT_THAT(drawn, AllOf(HasSubstr("\"1;1;80;70"), HasSubstr(";2;85;3;3")));
  for (const char* other : {"\x1b[?62;22c", "\x1b[?4c", "\x1b[?62;44c", ""}) {
    EXPECT_THAT(on_terminal(search, {}, {}, nullptr, other), Not(HasSubstr("\x1bP"))) << other;
  }
  EXPECT_THAT(on_terminal({"search", "-c", "c", "--image", "pictures/red.png", "--thumbnails", "sixel"}, {}),
              HasSubstr("\x1bP"));
  EXPECT_THAT(run(search, {.environment = {"TERM=xterm-kitty", "KITTY_WINDOW_ID=1"}}).out,
              Not(HasSubstr("\x1b")));
}

TEST_F(Finding, HelpIsOneTableForAll) {
  const Outcome help = run({"help", "search"});
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_THAT(help.out, AllOf(HasSubstr("Query:"), HasSubstr("--keyword-weight"), HasSubstr("Output:")));
  EXPECT_EQ(help.out, run({"search", "--help"}).out);
  EXPECT_THAT(run({"help", "collection", "info"}).out, HasSubstr("--failures"));
  EXPECT_THAT(run({"help"}).out, HasSubstr("4 nothing found"));
  expect_failure({"help", "nosuch"}, 2, {"nosuch"});
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = run({"completion", shell});
    EXPECT_EQ(script.code, 0);
    EXPECT_THAT(script.out, AllOf(HasSubstr("group-above"), HasSubstr("conform")));
  }
  EXPECT_EQ(run({"completion", "tcsh"}).code, 2);
  const std::string man = run({"man"}).out;
  EXPECT_THAT(man, AllOf(StartsWith(".TH SACCADE 1"), HasSubstr("\\-\\-group\\-above"),
                         HasSubstr(".SS saccade model alias")));
  // bash loads its script, and completes with it.
  write("completion.bash", run({"completion", "bash"}).out);
  const auto completed = [&](const std::string& words, int at) {
    return run({"-c", "source completion.bash; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(at) +
                          "; _saccade; echo ${COMPREPLY[@]}"},
               {.program = "/bin/bash"})
        .out;
  };
  EXPECT_EQ(completed("saccade coll", 1), "collection\n");
  EXPECT_EQ(completed("saccade collection ver", 2), "verify\n");
  EXPECT_EQ(completed("saccade search --group", 2), "--group-above\n");
  EXPECT_EQ(completed("saccade search --order d", 3), "date\n");
  EXPECT_EQ(completed("saccade completion z", 2), "zsh\n");
}

}  // namespace
}  // namespace saccade::test

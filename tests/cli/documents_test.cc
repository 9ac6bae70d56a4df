// Tests of the commands in the documents, run as written: each ```sh block behind the line <!-- tested -->.
// They run in a home folder with the files that the README assumes.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/image_codec.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

class Documents : public ProgramTest {};

int shell(const std::string& command) {
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Documents, TheirCommandsRun) {
  const fs::path source = test::kSourceDir;
  const fs::path home = folder_ / "home";
  picture("home/Pictures/birds/one.png", 30, 200, 40);
  // The image is as large as the README's filter requires.
  Image door;
  door.width = door.height = 1000;
  door.channels = 3;
  door.pixels.assign(size_t{3} * 1000 * 1000, 120);
  write("home/Pictures/door.png", encode_png(door).value_or(""));
  picture("home/holiday.jpg", 20, 30, 230);  // by its content it is a PNG, which is no matter
  fs::create_directories(home / "models");
  fs::copy(source / "models/starter", home / "models/clip-vit-base-patch32");
  // Simulates an earlier `model pull`, so that no network is needed.
  const std::string revision(40, 'a');
  const fs::path repository = home / ".cache/huggingface/hub/models--openai--clip-vit-base-patch32";
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << revision;
  fs::create_directories(repository / "snapshots");
  fs::copy(source / "models/starter", repository / "snapshots" / revision);
  fs::create_directories(home / "bin");
  fs::create_symlink(SACCADE_PROGRAM, home / "bin/saccade");

  const std::string commands = (folder_ / "commands.sh").string();
  ASSERT_EQ(shell(fmt::format("'{}' --commands > '{}'", (source / "tools/check/docs").string(), commands)),
            0);
  const auto text = read_file(commands);
  ASSERT_TRUE(text) << text.error().message;
  // At least the first steps of the README, the search and the check of a checkpoint are tested.
  for (const char* shown : {"saccade model pull", "saccade index ~/Pictures", "saccade search",
                            "--html answer.html", "model conform"}) {
    EXPECT_THAT(*text, testing::HasSubstr(shown));
  }
  const int code = shell(fmt::format(
      "cd '{0}' && HOME='{0}' HF_HUB_OFFLINE=1 PATH='{0}/bin':\"$PATH\" bash -eux '{1}' > '{1}.out' 2>&1",
      home.string(), commands));
  EXPECT_EQ(code, 0) << read_file(commands + ".out").value_or("");
  EXPECT_TRUE(fs::exists(home / "answer.html"));
}

// Returns the commands that a help text lists under "Subcommands:", without nested ones.
std::vector<std::string> subcommands(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help.substr(std::min(help.size(), help.find("Subcommands:\n"))));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) {
    if (line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

// Returns the commands of the first code block: "saccade collection info|verify" is "collection info" and
// "collection verify".
std::set<std::string> synopsis_of(const std::string& document, const std::set<std::string>& groups) {
  std::set<std::string> commands;
  const size_t begin = document.find("```\n") + 4;
  std::istringstream lines(document.substr(begin, document.find("```", begin) - begin));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string program;
    std::string command;
    std::string second;
    words >> program >> command >> second;
    EXPECT_TRUE(program == "saccade" || program == "saccade-lab") << line;
    if (!groups.contains(command)) {
      commands.insert(command);
      continue;
    }
    std::istringstream alternatives(second);
    for (std::string each; std::getline(alternatives, each, '|');) commands.insert(command + " " + each);
  }
  return commands;
}

TEST_F(Documents, TheSynopsisNamesTheCommandsThereAre) {
  std::set<std::string> commands;
  std::set<std::string> groups;
  std::vector<std::string> top = subcommands(run({"--help"}).out);
  for (const std::string& command : subcommands(run({"--help"}, {.program = laboratory()}).out))
    top.push_back(command);
  for (const std::string& command : top) {
    // `saccade eval ...` starts saccade-lab.
    const std::vector<std::string> own = subcommands(run({command, "--help"}).out);
    if (own.empty()) commands.insert(command);
    if (!own.empty()) groups.insert(command);
    for (const std::string& each : own) commands.insert(command + " " + each);
  }
#ifndef SACCADE_TRAINS  // a build without libtorch does not know what it could train
  groups.insert("train");
  commands.erase("train");
  for (const char* recipe :
       {"train composed", "train dual", "train editor", "train head", "train visualness"})
    commands.insert(recipe);
#endif
  EXPECT_GT(commands.size(), 15U);
  const auto document = read_file(fs::path(kSourceDir) / "docs/cli.md");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(synopsis_of(*document, groups), commands);
}

// Returns the options in a text, as "--all", for a help text or a document.
std::set<std::string> options_in(const std::string& text) {
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-'; };
  std::set<std::string> options;
  for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
    if (at > 0 && is_name(text[at - 1])) continue;
    size_t end = at + 2;
    while (end < text.size() && is_name(text[end])) ++end;
    if (end > at + 2 && text[at + 2] != '-') options.insert(text.substr(at, end - at));
    at = end - 2;
  }
  return options;
}

TEST_F(Documents, TheOptionsOfTheCommandLineAreInItsDocumentAndNoOthers) {
  std::set<std::string> there;
  std::string help;
  for (const std::string& program : {std::string(SACCADE_PROGRAM), laboratory()}) {
    const std::string commands = run({"--help"}, {.program = program}).out;
    help += commands;
    for (const std::string& command : subcommands(commands)) {
      const std::string own = run({command, "--help"}, {.program = program}).out;
      help += own;
      for (const std::string& each : subcommands(own))
        help += run({command, each, "--help"}, {.program = program}).out;
    }
  }
  there = options_in(help);
  EXPECT_GT(there.size(), 80U);
  const auto document = read_file(fs::path(kSourceDir) / "docs/cli.md");
  ASSERT_TRUE(document) << document.error().message;
  // All but the table of old names, which are hidden.
  const std::set<std::string> said = options_in(document->substr(0, document->find("\n## Renamed\n")));
  // These are written with their short names.
  const std::set<std::string> short_named = {"--collection", "--model", "--output", "--run", "--quiet"};
  for (const std::string& option : there) {
    EXPECT_TRUE(said.contains(option) || short_named.contains(option)) << option << " is not in docs/cli.md";
  }
#ifdef SACCADE_TRAINS  // a build without libtorch does not know what it could train
  for (const std::string& option : said) {
    EXPECT_TRUE(there.contains(option)) << option << " of docs/cli.md is no option";
  }
#endif
}

// Returns the words of a text that the predicate accepts; commas, semicolons and brackets end a word too.
std::set<std::string> words_in(const std::string& text,
                               const std::function<bool(const std::string&)>& wanted) {
  std::set<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n,;:()\"", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (wanted(word)) words.insert(word);
    begin = end + 1;
  }
  return words;
}

TEST_F(Documents, TheTopicOfFormatsNamesAllEndings) {
  const auto is_ending = [](const std::string& word) { return word.size() > 2 && word[0] == '.'; };
  std::set<std::string> said = words_in(run({"help", "formats"}).out, is_ending);
  for (const char* other : {".txt", ".npy", ".safetensors"}) EXPECT_EQ(said.erase(other), 1U) << other;
  if (!reads_raw_files())
    std::erase_if(said, [](const auto& ending) { return has_raw_extension("x" + ending); });
  // All endings of two to four letters and digits are tried; no longer one is known.
  const std::string letters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::set<std::string> there;
  std::vector<std::string> endings = {"."};
  for (int length = 1; length <= 4; ++length) {
    std::vector<std::string> longer;
    longer.reserve(endings.size() * letters.size());
    for (const std::string& ending : endings) {
      for (const char letter : letters) longer.push_back(ending + letter);
    }
    endings = std::move(longer);
    for (const std::string& ending : endings) {
      const fs::path file = "x" + ending;
      if (has_image_extension(file) || has_video_extension(file)) there.insert(ending);
    }
  }
  EXPECT_GT(there.size(), 30U);
  EXPECT_EQ(said, there);
}

// Variables of the programs' own and of the hub's tools, as sources name them, and those that the topic names.
TEST_F(Documents, TheTopicOfTheEnvironmentNamesAllVariables) {
  const auto is_variable = [](const std::string& word) {
    return word.find('_') != std::string::npos && word.size() > 4 &&
           std::ranges::all_of(word, [](char c) { return c == '_' || (c >= 'A' && c <= 'Z'); });
  };
  const std::set<std::string> said = words_in(run({"help", "environment"}).out, is_variable);
  EXPECT_GT(said.size(), 15U);
  std::string sources;
  for (const char* folder : {"src/saccade", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(kSourceDir) / folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".cc") && !name.ends_with(".h")) continue;
      if (name.starts_with("test_") || name.ends_with("_test.cc") || name == "help_topics.cc") continue;
      sources += read_file(entry.path()).value_or("");
    }
  }
  for (const std::string& variable : said) {
    EXPECT_NE(sources.find("\"" + variable + "\""), std::string::npos) << variable << " is read by nothing";
  }
  // These are for tests, and between a program and one that it starts.
  const std::set<std::string> internal = {"SACCADE_STARTED_BY", "SACCADE_WEAVIATE_RECORD"};
  for (size_t at = sources.find('"'); at != std::string::npos; at = sources.find('"', at + 1)) {
    const size_t end = sources.find('"', at + 1);
    if (end == std::string::npos) break;
    const std::string text = sources.substr(at + 1, end - at - 1);
    if (!is_variable(text) || !(text.starts_with("SACCADE_") || text.starts_with("HF_"))) continue;
    EXPECT_TRUE(said.contains(text) || internal.contains(text)) << text << " is not in the topic";
  }
}

}  // namespace
}  // namespace saccade::test

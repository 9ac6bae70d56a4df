// Tests of the commands in the documents, run as written: each ```sh block behind the line <!-- tested -->.
// They run in a home folder with the files that the README assumes.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
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

}  // namespace
}  // namespace saccade::test

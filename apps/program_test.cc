#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/test_folder.h"
#include "saccade/text/nearest.h"

#include "console.h"
#include "end_within.h"
#include "eval_options.h"
#include "lab_commands.h"
#include "number.h"
#include "option_kinds.h"
#include "product_commands.h"

namespace saccade::app {
namespace {

using namespace saccade::lab;
using namespace saccade::lab::app;

TEST(FigureText, AZeroHasWilsonsEnd) {
  EXPECT_EQ(figure_text({.value = 0.25, .low = 0.2, .high = 0.3}), "0.250 [0.200, 0.300]");
  EXPECT_EQ(figure_text({.value = 0, .low = 0, .high = 0, .wilson_high = 0.00383}), "0.000 [Wilson 0.004]");
  EXPECT_EQ(figure_text({.value = 0.25}), "0.250");
  EXPECT_EQ(figure_text({.value = -0.0001, .low = -0.01, .high = 0.01}), "0.000 [-0.010, 0.010]");
  EXPECT_EQ(figure_text({}), "-");
}

TEST(EndWithin, EndsTheProcessWhereSomethingIsStillAtWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const EndWithin end(0.1, "left");
        std::this_thread::sleep_for(std::chrono::minutes(1));
      },
      testing::ExitedWithCode(1), "^saccade: left\n$");
  EXPECT_EXIT(
      {
        { const EndWithin end(60, "left"); }
        std::_Exit(7);
      },
      testing::ExitedWithCode(7), "^$");
}

TEST(Interrupts, ASignalEndsWhatDoesNotStopCleanly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Stopped cleanly, but nobody returns: the next question is the end.
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        interrupts.end_if_signalled();
        const std::stop_token stop = interrupts.stop_cleanly();
        raise(SIGTERM);
        while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        interrupts.end_if_signalled();
        std::_Exit(7);
      },
      testing::KilledBySignal(SIGTERM), "stopping");
  // The clean stop is over before the signal comes.
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        const std::stop_token stop = interrupts.stop_cleanly();
        interrupts.end_if_signalled();
        raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::minutes(1));
        std::_Exit(stop.stop_requested() ? 8 : 7);
      },
      testing::KilledBySignal(SIGTERM), "^$");
}

TEST(Console, WordsForTimes) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(73), "1 min 13 s");
  EXPECT_EQ(duration_text(12'000), "3 h 20 min");
  EXPECT_EQ(duration_text(1e300), "a long time");
}

TEST(Evaluations, NamesAreUnique) {
  std::vector<std::string> names = {"clip", "siglip", "clip", "chance", "clip"};
  make_unique(names);
  EXPECT_EQ(names, (std::vector<std::string>{"clip", "siglip", "clip-2", "chance-2", "clip-3"}));
}

// Commands with many options group them under headings in their help.
TEST(Help, ManyOptionsStandInGroups) {
  CLI::App app;
  Command chosen;
  add_index_command(app, chosen);
  add_search_command(app, chosen);
  add_serve_command(app, chosen);
  add_eval_command(app, chosen);
  add_train_command(app, chosen);
  int many = 0;
  const auto look = [&](const CLI::App& command, const auto& deeper) -> void {
    const auto named = [](const CLI::Option* option) { return option->nonpositional(); };
    if (command.get_options(named).size() > 12) {
      ++many;
      const std::vector<std::string> groups = command.get_groups();
      EXPECT_GE(groups.size(), 3U) << command.get_name();
      const auto without = [&](const CLI::Option* option) {
        return named(option) && option->get_group() == groups.front();
      };
      EXPECT_LE(command.get_options(without).size(), 15U) << command.get_name() << ": " << groups.front();
    }
    for (const CLI::App* each : command.get_subcommands({})) deeper(*each, deeper);
  };
  look(app, look);
  EXPECT_GE(many, 15);
}

void add_product_commands(CLI::App& app, Command& chosen) {
  add_index_command(app, chosen);
  add_search_command(app, chosen);
  add_collection_command(app, chosen);
  add_watch_command(app, chosen);
  add_embed_command(app, chosen);
  add_model_command(app, chosen);
  add_visualness_command(app, chosen);
  add_illustrate_command(app, chosen);
  add_serve_command(app, chosen);
  add_demo_command(app, chosen);
}

// saccade-lab names saccade for each of its commands.
TEST(Help, TheLaboratoryKnowsTheProductsCommands) {
  CLI::App app("", "p");
  Command chosen;
  add_product_commands(app, chosen);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  EXPECT_EQ(names, std::vector<std::string>(kProductCommands.begin(), kProductCommands.end()));
}

// A command that decodes images has --decode-memory. A new one is in this list, or it has the option.
TEST(Help, AllThatDecodesBoundsItsMemory) {
  CLI::App app("", "p");
  Command chosen;
  add_product_commands(app, chosen);
  add_dataset_command(app, chosen);
  add_eval_command(app, chosen);
  add_train_command(app, chosen);
  add_generate_command(app, chosen);
  add_report_command(app, chosen);
  std::set<std::string> without;
  const auto look = [&](const CLI::App& command, const std::string& words, const auto& deeper) -> void {
    const auto below = command.get_subcommands([](const CLI::App*) { return true; });
    if (below.empty() && !decode_memory_of(command)) without.insert(words);
    for (const CLI::App* each : below) {
      deeper(*each, words + (words.empty() ? "" : " ") + each->get_name(), deeper);
    }
  };
  look(app, "", look);
  const std::set<std::string> expected = {
      "collection ann",   "collection compact", "collection composer", "collection export", "collection info",
      "collection merge", "collection remove",  "collection verify",   "dataset captions",  "dataset convert",
      "dataset info",     "dataset label",      "eval advise",         "model alias",       "model conform",
      "model list",       "model pull",         "model show",          "visualness"};
  EXPECT_EQ(without, expected);
}

TEST(Towns, AFilterOnPlacesSaysThatThereIsNoListOfThem) {
  const auto said = [](const char* filter, bool have) { return without_towns(*parse_filter(filter), have); };
  EXPECT_NE(said("width>1 and (PLACE~lyon or id=3)", false).find("./dev build"), std::string::npos);
  EXPECT_EQ(said("place~lyon", true), "");
  EXPECT_EQ(said("path~place and caption=\"place=lyon\"", false), "");
  EXPECT_TRUE(asks_for(*parse_filter("width>1 and not Date<2020"), "date"));
  EXPECT_FALSE(asks_for(*parse_filter("taken=2019 or caption~date"), "date"));
}

TEST(Console, ProgressHasRateAndTimeLeft) {
  EXPECT_EQ(progress_text({"indexing", 1'200, 8'000, ""}, 93.2),
            "indexing 1,200 of 8,000 (15%), 93/s, 1 min 13 s left");
  EXPECT_EQ(progress_text({"indexing", 7, 0, "cat.png"}, 0), "indexing 7, cat.png");
  EXPECT_EQ(progress_text({"training", 10, 10, ""}, 2.5), "training 10 of 10 (100%), 2.5/s");
  EXPECT_EQ(progress_text({"downloading", 605'000'000, 1'210'000'000, "model.safetensors", true}, 11e6),
            "downloading 605.0 MB of 1.2 GB (50%), 11.0 MB/s, 55 s left, model.safetensors");
}

TEST(Console, OneLineStaysOne) {
  EXPECT_EQ(one_line("a\nb\x1b[2J\x7f\xc3\xa9"), "a\\x0ab\\x1b[2J\\x7f\xc3\xa9");
  EXPECT_EQ(one_line("\xc2\x9b"
                     "2J"),
            "\\xc2\\x9b"
            "2J");  // CSI as one character
  EXPECT_EQ(one_line("gpj.\xe2\x80\xae"
                     "exe"),
            "gpj.\\xe2\\x80\\xae"
            "exe");  // right to left from here
  EXPECT_EQ(one_line("caf\xe9 \x9b"
                     "2J"),
            "caf\\xe9 \\x9b"
            "2J");  // Latin-1
  EXPECT_EQ(one_line("\xef\xbf\xbd\xe6\x97\xa5\xf0\x9f\x90\xb1"), "\xef\xbf\xbd\xe6\x97\xa5\xf0\x9f\x90\xb1");
}

// Every numeric option of every command, with what strtoll and strtold let pass.
TEST(Numbers, EveryOptionTakesPlainNumbersInItsRange) {
  CLI::App app;
  Command chosen;
  add_index_command(app, chosen);
  add_search_command(app, chosen);
  add_collection_command(app, chosen);
  add_dataset_command(app, chosen);
  add_embed_command(app, chosen);
  add_model_command(app, chosen);
  add_eval_command(app, chosen);
  add_train_command(app, chosen);
  add_report_command(app, chosen);
  add_demo_command(app, chosen);
  const auto refuses = [](CLI::Option& option, const std::string& text) {
    option.clear();
    option.add_result(text);
    try {
      option.run_callback();
    } catch (const CLI::ParseError&) {
      return true;
    }
    return false;
  };
  const auto everything = [](CLI::App*) { return true; };
  int numbers = 0;
  std::vector<CLI::App*> commands = {&app};
  while (!commands.empty()) {
    CLI::App* command = commands.back();
    commands.pop_back();
    for (CLI::App* below : command->get_subcommands(everything)) commands.push_back(below);
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      const bool real = type.starts_with("FLOAT");
      if (!real && !type.starts_with("INT") && !type.starts_with("UINT")) continue;
      ++numbers;
      SCOPED_TRACE(command->get_name() + " " + option->get_name());
      for (const char* text : {"", "x", "7x", "7 ", " 7", "+7", "0x10", "-1", "-99999999999999999999",
                               "1e999", "nan", "inf", "7,5"}) {
        // Cosines alone may be below zero.
        const bool cosine = std::ranges::any_of(std::array{"--above", "--below", "--tau", "--min-cosine"},
                                                [&](const char* name) { return option->check_name(name); });
        if (cosine && text == std::string_view("-1")) continue;
        if (text == std::string_view("7,5") && option->get_delimiter() == ',') continue;  // two numbers
        EXPECT_TRUE(refuses(*option, text)) << text;
      }
      if (!real) {
        for (const char* text : {"99999999999999999999", "9223372036854775808", "0.5", "1e3"})
          EXPECT_TRUE(refuses(*option, text)) << text;
      }
      EXPECT_FALSE(refuses(*option, real ? "0.5" : "007"));
    }
  }
  EXPECT_GE(numbers, 67);  // as many as there are today
}

// All commands of both programs.
void add_all_commands(CLI::App& app, Command& chosen) {
  for (const auto add : {add_index_command, add_search_command, add_collection_command, add_watch_command,
                         add_embed_command, add_model_command, add_visualness_command, add_illustrate_command,
                         add_serve_command, add_demo_command, add_dataset_command, add_eval_command,
                         add_train_command, add_generate_command, add_report_command}) {
    add(app, chosen);
  }
}

TEST(OptionKinds, EveryOptionSaysWhatItTakes) {
  CLI::App app;
  Command chosen;
  add_all_commands(app, chosen);
  name_option_kinds(app);
  int kinds = 0;
  int lists = 0;
  const auto look = [&](CLI::App& command, const auto& deeper) -> void {
    for (CLI::Option* option : command.get_options()) {
      const std::string type = option->get_type_name();
      SCOPED_TRACE(command.get_name() + " " + option->get_name());
      const bool hidden = option->get_group().empty();  // an old name
      if (option->get_items_expected_max() == 0 || option->get_positional() || hidden) continue;
      ++kinds;
      EXPECT_NE(type, "");
      EXPECT_FALSE(type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"));
      if (type == "TEXT") {
        const bool words = std::ranges::any_of(
            std::array{"--was", "--title", "--prompt", "--format", "--sentence", "--domain"},
            [&](const char* name) { return option->check_name(name); });
        EXPECT_TRUE(words) << "the kind of its values has to be named in option_kinds.cc";
      }
      const bool several = option->get_items_expected_max() > 1;
      if (several && (type.find('{') != std::string::npos || type == "N" || type == "NUMBER")) {
        ++lists;
        EXPECT_EQ(option->get_delimiter(), ',');
      }
    }
    for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; })) deeper(*below, deeper);
  };
  look(app, look);
  EXPECT_GE(kinds, 250);
  EXPECT_GE(lists, 10);
}

// Returns the error of parsing the words as a command line; "" for none.
std::string error_of(std::vector<std::string> words) {
  CLI::App app;
  Command chosen;
  add_all_commands(app, chosen);
  name_option_kinds(app);
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return {};
}

TEST(OptionKinds, ListsAreTakenInOneWord) {
  EXPECT_EQ(error_of({"eval", "speed", "--dataset", "d", "--precision", "fp32,int8"}), "");
  EXPECT_EQ(error_of({"eval", "speed", "--dataset", "d", "--precision", "fp32", "--precision", "int8"}), "");
  EXPECT_NE(error_of({"eval", "speed", "--dataset", "d", "--precision", "fp32,int9"}), "");
}

// "$DIR" of a shell in which DIR is not set.
TEST(OptionKinds, EmptyPathsAreRefused) {
  EXPECT_EQ(error_of({"search", "red", "-c", ""}), "--collection: the value is empty, expected DIR");
  EXPECT_EQ(error_of({"search", "-c", "c", "--image", "a.png", "--image", ""}),
            "--image: the value is empty, expected PATH");
  EXPECT_EQ(error_of({"index", "a", "", "-c", "c"}), "PATH: the value is empty, expected PATH");
  EXPECT_EQ(error_of({"index", "a", "-m", ""}), "--model: the value is empty, expected CHECKPOINT");
  EXPECT_EQ(error_of({"search", "red", "-c", "c", "--html", ""}),
            "--html: the value is empty, expected FILE");
  EXPECT_EQ(error_of({"collection", "remove", "-c", ""}), "--collection: the value is empty, expected DIR");
  EXPECT_EQ(error_of({"eval", "retrieval", "--dataset", ""}),
            "--dataset: the value is empty, expected DATASET");
  EXPECT_EQ(error_of({"search", "", "-c", "c", "--filter", ""}), "");
}

TEST(Nearest, SuggestsWhatWasMeant) {
  const std::vector<std::string> commands = {"index",      "search",     "serve",
                                             "collection", "illustrate", "visualness"};
  EXPECT_EQ(nearest("serch", commands), "search");
  EXPECT_EQ(nearest("saerch", commands), "search");
  EXPECT_EQ(nearest("server", commands), "serve");
  EXPECT_EQ(nearest("colection", commands), "collection");
  EXPECT_EQ(nearest("coll", commands), "collection");
  EXPECT_EQ(nearest("illustarte", commands), "illustrate");
  EXPECT_EQ(nearest("se", commands), "") << "two begin with it";
  EXPECT_EQ(nearest("train", commands), "");
  EXPECT_EQ(nearest("", commands), "");
  EXPECT_EQ(nearest("x", {}), "");
  const std::vector<std::string> options = {"--filter", "--format", "--fold-above", "--words"};
  EXPECT_EQ(nearest("--filtr", options), "--filter");
  EXPECT_EQ(nearest("--word", options), "--words");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), options), "");
  EXPECT_EQ(did_you_mean("--filtr", options), "; did you mean --filter?");
  EXPECT_EQ(did_you_mean("--quite-another", options), "");
}

TEST(Numbers, AreReadAsWritten) {
  std::string ten = "010";
  EXPECT_EQ(whole_number(1, 20)(ten), "");
  EXPECT_EQ(ten, "10");
  std::string most = "9223372036854775807";
  EXPECT_EQ(whole_number(0)(most), "");
  std::string zero = "0";
  EXPECT_EQ(real_number(0)(zero), "");
  EXPECT_EQ(real_number(0, 1, Lowest::kExcluded)(zero), "\"0\", expected a number above 0 to 1");
  const CLI::Validator below_one = real_number(0, 1, Lowest::kIncluded, Highest::kExcluded);
  EXPECT_EQ(below_one(zero), "");
  std::string one = "1";
  EXPECT_EQ(below_one(one), "\"1\", expected a number from 0 to below 1");
}

TEST(Npy, IsWhatNumPyReads) {
  const test::TestFolder folder;
  const std::filesystem::path path = folder / "rows.npy";
  Matrix<float> rows(2, 3);
  rows(1, 2) = 1;
  ASSERT_TRUE(write_npy(path, rows.view()).has_value());
  const auto bytes = read_file(path);
  ASSERT_TRUE(bytes.has_value());
  ASSERT_EQ(bytes->size(), 128U + 24U);
  EXPECT_EQ(bytes->substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes->substr(10, 61), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  ");
  EXPECT_EQ((*bytes)[127], '\n');
  EXPECT_EQ(bytes->substr(148), std::string("\x00\x00\x80\x3f", 4));
}

}  // namespace
}  // namespace saccade::app

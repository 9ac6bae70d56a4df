// The program saccade-lab: datasets, evaluation, training and reports.
//
// Training needs libtorch, which brings hundreds of libraries and takes about a second to load. So it lies in a program
// of its own, saccade-lab-train: this same program with the training in it, which `saccade-lab train` goes on as.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "hand_over.h"
#include "lab_commands.h"
#include "program.h"

namespace saccade::lab::app {
namespace {

#ifndef SACCADE_TRAINS
constexpr std::string_view kTraining = "saccade-lab-train";
constexpr std::string_view kNeeds = "training needs libtorch (Debian and Ubuntu: libtorch-dev)";

Error why_not() {
  const std::filesystem::path program = find_own_program(kTraining);
  if (program.empty()) {
    return {ErrorCode::kUnsupported,
            fmt::format("{} and a program built with it, {}, which is neither beside this one nor in "
                        "../libexec/saccade",
                        kNeeds, kTraining)};
  }
  const std::vector<std::string> missing = missing_libraries(program);
  return {ErrorCode::kUnsupported,
          missing.empty()
              ? fmt::format("{}: {} does not start", kNeeds, program.string())
              : fmt::format("{}: {} finds no {}", kNeeds, program.string(), fmt::join(missing, ", "))};
}

// Goes on as the program with the training in it, where the command needs that. The manual and the shells' completion
// are made from the table of all commands, so they need it too. Returns where there is no such program, or it lacks a
// library.
void hand_training_over(char** argv) {
  const std::string_view command = named_command(argv);
  if (command != "train" && command != "completion" && command != "man") return;
  const std::filesystem::path program = find_own_program(kTraining);
  if (program.empty() || !missing_libraries(program).empty()) return;
  // Makes the threads of libtorch (OpenMP's) sleep while they wait for each other. Spinning threads would
  // take processors from the threads they wait for if other work runs. Their runtime reads its environment
  // when it is loaded.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  hand_over(program, argv);
}

void add_absent_train_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train an encoder, a head or a composer (needs libtorch)");
  command->fallthrough(false);  // the options that follow are for the other program
  command->allow_extras();
  command->set_help_flag();
  command->callback(
      [&chosen] { chosen = [](Session&) -> Result<int> { return tl::unexpected(why_not()); }; });
}
#endif

void add_commands(CLI::App& app, Command& chosen) {
  add_dataset_command(app, chosen);
  add_eval_command(app, chosen);
#ifdef SACCADE_TRAINS
  add_train_command(app, chosen);
#else
  add_absent_train_command(app, chosen);
#endif
  add_generate_command(app, chosen);
  add_report_command(app, chosen);
}

}  // namespace
}  // namespace saccade::lab::app

int main(int argc, char** argv) {
#ifndef SACCADE_TRAINS
  saccade::lab::app::hand_training_over(argv);
#endif
  return saccade::app::run_program(
      {.name = "saccade-lab",
       .description = "Saccade's laboratory: datasets, evaluation and training of text-image encoders.",
       .add_commands = saccade::lab::app::add_commands,
       .elsewhere = saccade::lab::app::kProductCommands,
       .other = "saccade"},
      argc, argv);
}

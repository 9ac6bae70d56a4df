// The program saccade: indexes and searches image collections, and serves them.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "hand_over.h"
#include "product_commands.h"
#include "program.h"

namespace saccade::app {
namespace {

constexpr std::string_view kLaboratory = "saccade-lab";

// Commands of the laboratory. `saccade eval ...` starts `saccade-lab eval ...` where it is installed.
constexpr std::array<std::pair<const char*, const char*>, 5> kLaboratoryCommands{{
    {"dataset", "Inspect, convert and audit datasets"},
    {"eval", "Measure checkpoints"},
    {"generate", "Have images drawn by an engine"},
    {"report", "Make one HTML page of runs"},
    {"train", "Train encoders, heads and composers"},
}};

bool is_laboratory_command(std::string_view name) {
  return std::ranges::any_of(kLaboratoryCommands, [&](const auto& command) { return name == command.first; });
}

void add_laboratory_command(CLI::App& app, Command& chosen, const char* name, const char* description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->group("Laboratory (in the program saccade-lab)");
  command->fallthrough(false);  // the options that follow are for the other program
  command->allow_extras();
  command->set_help_flag();
  command->callback([&chosen, name] {
    chosen = [name](Session&) -> Result<int> {
      return fail(ErrorCode::kUnsupported,
                  "{} is a command of saccade-lab, which is not installed beside this program: build it with "
                  "`./dev install`",
                  name);
    };
  });
}

void add_commands(CLI::App& app, Command& chosen) {
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
  for (const auto& [name, description] : kLaboratoryCommands) {
    add_laboratory_command(app, chosen, name, description);
  }
}

}  // namespace
}  // namespace saccade::app

int main(int argc, char** argv) {
  if (saccade::app::is_laboratory_command(saccade::app::named_command(argv))) {
    const std::filesystem::path program = saccade::app::find_own_program(saccade::app::kLaboratory);
    if (!program.empty()) saccade::app::hand_over(program, argv);
  }
  return saccade::app::run_program({.name = "saccade",
                                    .description = "Saccade finds images by text, and images by images.",
                                    .add_commands = saccade::app::add_commands},
                                   argc, argv);
}

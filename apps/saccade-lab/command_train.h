// Shared code of the `saccade train` commands. In saccade-lab-train alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lab/data/read_dataset.h"
#include "lab/train/options/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/json.h"

#include "lab_commands.h"
#include "load_checkpoint.h"

namespace saccade::lab::app {

CLI::Option* add_path(CLI::App& command, const char* name, std::filesystem::path& path, const char* help);

// add_choice() of some of an enum's words.
template <typename E>
void add_choice_of(CLI::App& command, const std::string& name, E& value,
                   const std::vector<std::string>& words, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = from_name<E>(word).value_or(value); }, help)
      ->check(CLI::IsMember(words))
      ->default_str(std::string(enum_name(value)));
}

// Optimizer and schedule of any training.
void add_optimizer_options(CLI::App& command, OptimizerOptions& options);
// --accumulate.
void add_accumulate_option(CLI::App& command, int64_t& accumulate);
// --checkpoint-activations, of trainings of a CLIP's towers.
void add_activation_options(CLI::App& command, ActivationOptions& options);
// -o and the options of a training loop, whatever it trains, those of the optimizer among them.
void add_loop_options(CLI::App& command, TrainingLoopOptions& options);
// --steps and --evaluate-every, of trainings that are not counted in epochs.
void add_step_options(CLI::App& command, TrainingLoopOptions& options);

// -m as given, or the starter.
Result<std::string> checkpoint_or_starter(const std::string& named);
// Replaces an empty checkpoint by the starter, and returns its encoder's options with a settled precision.
Result<BackendOptions> encoder_of(std::string& checkpoint, EncoderChoice choice, Session& session);
// Parses PATH or PATH#split=NAME, each, and appends them to `sources`.
Status add_sources(const std::vector<std::string>& given, std::vector<DatasetSource>& sources);
// A line for each picture that a training went on without.
std::string left_out_text(std::span<const std::string> left_out);
// Ends a training run: writes its answer, as JSON or text, and returns the exit code. `stopped` is the
// progress of an unfinished run ("after 40 of 100 steps").
Result<int> end_training(Session& session, bool as_json, const Json& json, const std::string& text,
                         const std::optional<std::string>& stopped, std::span<const std::string> left_out);

// Writes report.html into a training's folder: the page of `run`, an evaluation's run below it.
Status write_training_page(const std::string& title, const std::filesystem::path& run,
                           const std::filesystem::path& folder, int threads, Session& session,
                           ProgressLine& progress);

void add_train_composed_command(CLI::App& train, Command& chosen);

void add_train_head_command(CLI::App& train, Command& chosen);

void add_train_editor_command(CLI::App& train, Command& chosen);

void add_train_visualness_command(CLI::App& train, Command& chosen);

}  // namespace saccade::lab::app

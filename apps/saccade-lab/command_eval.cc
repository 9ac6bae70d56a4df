// saccade eval: what can be measured.
#include "command_eval.h"

namespace saccade::lab::app {

void add_eval_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("eval", "Measure checkpoints");
  group->require_subcommand(1);
  add_eval_retrieval_command(*group, chosen);
  add_eval_winoground_command(*group, chosen);
  add_eval_classification_command(*group, chosen);
  add_eval_length_command(*group, chosen);
  add_eval_answers_command(*group, chosen);
  add_eval_matches_command(*group, chosen);
  add_eval_visualness_command(*group, chosen);
  add_eval_composed_command(*group, chosen);
  add_eval_edits_command(*group, chosen);
  add_eval_speed_command(*group, chosen);
  add_eval_study_command(*group, chosen);
  add_eval_advise_command(*group, chosen);
}

}  // namespace saccade::lab::app

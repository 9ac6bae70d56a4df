#include "outputs.h"

#include <filesystem>

#include "saccade/model/checkpoints/locate.h"

namespace saccade::app {

CLI::Option* add_overwrite_option(CLI::App& command, bool& overwrite) {
  return command.add_flag(
      "--overwrite", overwrite,
      "write the output even if that replaces an input of this command or a file of another kind");
}

void add_dataset_input(OutputRules& rules, const std::string& dataset) {
  std::error_code ignored;
  const bool whole = std::filesystem::exists(dataset, ignored);
  rules.inputs.emplace_back(whole ? dataset : dataset.substr(0, dataset.find('#')));
}

void close_checkpoint(OutputRules& rules, const std::string& named) {
  if (named.empty()) return;
  if (auto folder = find_checkpoint(named)) rules.closed.push_back(*std::move(folder));
}

}  // namespace saccade::app

// saccade dataset label: people's ratings of texts to labels, and how far the people agree.
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/data/ratings.h"
#include "lab/data/readers/manifest.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/output_file.h"

#include "command_dataset.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

struct LabelArguments {
  std::string table;
  std::string output;
  bool overwrite = false;
  int min_ratings = 3;
  bool json = false;
};

Result<int> run_label(const LabelArguments& arguments, Session& session) {
  const OutputRules rules{.inputs = {arguments.table}, .overwrite = arguments.overwrite};
  SACCADE_ASSIGN(const std::string table, read_file(arguments.table));
  SACCADE_ASSIGN(const Ratings ratings, read_ratings(table, arguments.min_ratings).in(arguments.table));
  const std::filesystem::path folder = std::filesystem::path(arguments.output).parent_path();
  SACCADE_ASSIGN(const std::string manifest, format_manifest(ratings_dataset(ratings, folder), folder));
  SACCADE_TRY(write_output(arguments.output, OutputKind::kJsonLines, rules, manifest));
  Json json = ratings_json(ratings);
  if (arguments.json) {
    json["output"] = arguments.output;
    SACCADE_TRY(session.out.write_json(json));
    return kDone;
  }
  const auto alpha = [&](const char* metric) {
    const Json& value = json["alpha"][metric];
    return value.is_null() ? std::string("none") : fmt::format("{:.3f}", value.get<double>());
  };
  std::string text = fmt::format(
      "{}: {}, {} visual, {} non-visual, {} ambiguous\n", one_line(arguments.output),
      counted(static_cast<int64_t>(ratings.texts.size()), "text"), count_text(json["visual"].get<int64_t>()),
      count_text(json["non_visual"].get<int64_t>()), count_text(json["ambiguous"].get<int64_t>()));
  text += fmt::format("ratings      {} by {}; {} with at most one outside their class\n",
                      count_text(ratings.ratings), counted(ratings.raters, "rater"),
                      counted(ratings.clear, "text"));
  text += fmt::format("agreement    Krippendorff's alpha: {} ordinal, {} interval, {} nominal\n",
                      alpha("ordinal"), alpha("interval"), alpha("nominal"));
  if (ratings.too_few > 0) {
    text += fmt::format("left out     {} with fewer than {}\n", counted(ratings.too_few, "text"),
                        counted(arguments.min_ratings, "rating"));
  }
  if (!ratings.inattentive.empty()) {
    text += fmt::format("left out     {} who failed an attention check: {}\n",
                        counted(static_cast<int64_t>(ratings.inattentive.size()), "rater"),
                        one_line(fmt::format("{}", fmt::join(ratings.inattentive, ", "))));
  }
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

}  // namespace

void add_dataset_label(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<LabelArguments>();
  CLI::App* command = group.add_subcommand(
      "label", "Make a dataset of visual, non-visual and ambiguous texts from ratings by several people");
  command
      ->add_option("RATINGS", arguments->table,
                   "CSV with the columns text, rater, rating (1 to 7), or text and one column per rater")
      ->required();
  command->add_option("-o,--output", arguments->output, "manifest file to write")->required();
  add_overwrite_option(*command, arguments->overwrite);
  add_number(*command, "--min-ratings", arguments->min_ratings, whole_number(1, 1000),
             "minimum number of ratings of a text");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run_label);
}

}  // namespace saccade::lab::app

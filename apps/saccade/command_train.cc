// saccade train dual: a dual encoder from pictures and their captions. In saccade-train alone (train_elsewhere.cc).
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/train/dual.h"

#include "command.h"
#include "number.h"

namespace saccade::app {
namespace {

struct TrainArguments {
  std::vector<std::string> datasets;
  std::vector<std::string> held_out;
  std::string config;
  std::string initial;
  std::string run;
  std::string cache;
  std::string precision = "bf16";
  DualTrainingOptions options;
  bool json = false;
};

Json recall_json(const Recall& recall) {
  return {{"queries", recall.queries}, {"r1", recall.r1}, {"r5", recall.r5}, {"r10", recall.r10}};
}

Json report_json(const DualTrainingReport& report) {
  Json best = Json::array();
  for (const OneCaptionRecall& set : report.best) {
    best.push_back({{"name", set.name},
                    {"images", set.images},
                    {"text_to_image", recall_json(set.text_to_image)},
                    {"image_to_text", recall_json(set.image_to_text)}});
  }
  return {{"model", report.model.string()},
          {"steps", report.steps},
          {"finished", report.finished},
          {"last_loss", report.last_loss},
          {"best_step", report.best_step},
          {"best", std::move(best)},
          {"images_per_second", report.images_per_second},
          {"left_out", report.left_out}};
}

std::string report_text(const DualTrainingReport& report) {
  std::string text = fmt::format("{} done, loss {:.4f}, {:.0f} images a second\n",
                                 counted(report.steps, "step"), report.last_loss, report.images_per_second);
  for (const std::string& path : report.left_out) text += fmt::format("left out: {}\n", one_line(path));
  if (!report.best.empty()) {
    text += fmt::format("best checkpoint, of step {}, in {}:\n", count_text(report.best_step),
                        one_line(report.model.string()));
    text += fmt::format(
        "{:<24} {:>8}   {:^20}   {:^20}\n{:<24} {:>8}   {:>6} {:>6} {:>6}   {:>6} {:>6} {:>6}\n", "", "",
        "text to image", "image to text", "held out", "images", "R@1", "R@5", "R@10", "R@1", "R@5", "R@10");
  }
  for (const OneCaptionRecall& set : report.best) {
    const Recall& to_image = set.text_to_image;
    const Recall& to_text = set.image_to_text;
    text += fmt::format("{:<24} {:>8}   {:>6.3f} {:>6.3f} {:>6.3f}   {:>6.3f} {:>6.3f} {:>6.3f}\n",
                        one_line(set.name), count_text(set.images), to_image.r1, to_image.r5, to_image.r10,
                        to_text.r1, to_text.r5, to_text.r10);
  }
  return text;
}

Result<int> run_train_dual(const TrainArguments& arguments, Session& session) {
  DualTrainingOptions options = arguments.options;
  for (const std::string& text : arguments.datasets) {
    SACCADE_ASSIGN(DatasetSource source, parse_dataset_source(text));
    options.datasets.push_back(std::move(source));
  }
  for (const std::string& text : arguments.held_out) {
    SACCADE_ASSIGN(DatasetSource source, parse_dataset_source(text));
    options.held_out.push_back(std::move(source));
  }
  options.config = arguments.config;
  options.initial = arguments.initial;
  options.run = arguments.run;
  options.cache = arguments.cache;
  options.precision = arguments.precision == "bf16" ? Precision::kBf16 : Precision::kFp32;
  ProgressLine progress(session.quiet);
  auto report = train_dual(options, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(report_json(*report)));
  } else {
    SACCADE_TRY(session.out.write(report_text(*report)));
  }
  if (!report->finished && !options.dry_run) {
    return fail(ErrorCode::kCancelled, "stopped after {} of {} steps; the same command goes on from there",
                report->steps, options.steps);
  }
  return report->left_out.empty() ? kDone : kSomeFailed;
}

}  // namespace

void hand_over(char** /*argv*/) {}

void add_train_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  DualTrainingOptions& options = arguments->options;
  CLI::App* group = app.add_subcommand("train", "Train an encoder");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand("dual", "A dual encoder from pictures and their captions");
  command
      ->add_option("--dataset", arguments->datasets,
                   "datasets to train on (docs/datasets.md): PATH or PATH#split=NAME")
      ->required();
  command->add_option("--held-out", arguments->held_out, "datasets scored during training, never trained on");
  command->add_option("--config", arguments->config, "JSON of \"model\", \"preprocessor\" and \"tokenizer\"")
      ->required();
  command->add_option("--initial", arguments->initial,
                      "checkpoint whose weights to begin with, of the same architecture and tokenizer");
  command->add_option("-o,--run", arguments->run, "run folder; one that is there goes on")->required();
  command->add_option("--cache", arguments->cache, "folder for decoded pictures (default: RUN/cache)");
  const auto count = [&](const char* name, int64_t& value, const char* what) {
    command->add_option(name, value, what)->transform(whole_number(1))->capture_default_str();
  };
  const auto real = [&](const char* name, double& value, const CLI::Validator& fits, const char* what) {
    command->add_option(name, value, what)->transform(fits)->capture_default_str();
  };
  const CLI::Validator share = real_number(0, 1);
  const CLI::Validator above_zero = real_number(0, std::numeric_limits<double>::max(), Lowest::kExcluded);
  command->add_option("--steps", options.steps, "batches in all; 0 writes and scores the untrained model")
      ->transform(whole_number(0))
      ->capture_default_str();
  command->add_option("--batch", options.batch, "images a step")
      ->transform(whole_number(2))
      ->capture_default_str();
  real("--learning-rate", options.learning_rate, above_zero, "at its peak");
  real("--warmup", options.warmup, share, "share of the steps before the peak");
  real("--weight-decay", options.weight_decay, real_number(0), "of matrices only");
  real("--max-gradient-norm", options.max_gradient_norm, above_zero,
       "longer gradients are scaled down to this");
  real("--patch-dropout", options.patch_dropout, real_number(0, 0.9), "share of the patches not looked at");
  real("--unmasked", options.unmasked, share,
       "share of the steps, the last ones, that look at all patches all the same");
  real("--first-caption", options.first_caption, share,
       "chance of a picture's first caption; else any of all");
  command->add_option("--precision", arguments->precision, "of the compute; weights are fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_option("--weights", options.weights, "what the checkpoint's weights are rounded to")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  command->add_option("--device", options.device, "where libtorch computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "0: all processors")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "of everything random")
      ->transform(whole_number(0))
      ->capture_default_str();
  count("--evaluate-every", options.evaluate_every, "steps between looks at the held-out sets");
  count("--checkpoint-every", options.checkpoint_every, "steps between saved states");
  command->add_flag("--dry-run", options.dry_run, "check data and options, train nothing");
  command->add_flag("--json", arguments->json, "the outcome as JSON");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_train_dual(*arguments, session); };
  });
}

}  // namespace saccade::app

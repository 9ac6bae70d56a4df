// saccade eval retrieval: how well checkpoints find a dataset's images by their captions, and the other way.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/threads.h"
#include "saccade/eval/one_caption.h"
#include "saccade/eval/retrieval.h"

#include "checkpoint.h"
#include "command_eval.h"

namespace saccade::app {
namespace {

constexpr const char* kProtocol =
    "one query an image: its first caption against all images of the dataset, and each image against all "
    "first "
    "captions; right are all with an equal first caption; ties count against the model; transparent pictures "
    "over "
    "white";

struct EvalArguments {
  std::vector<std::string> checkpoints;
  std::vector<std::string> datasets;
  EncoderChoice encoder;
  bool json = false;
};

struct Row {
  std::string model;  // a checkpoint's path, or "chance"
  OneCaptionRecall recall;
  std::string dataset_hash;
  std::string fingerprint;
};

Json recall_json(const Recall& recall) {
  return {{"queries", recall.queries}, {"r1", recall.r1}, {"r5", recall.r5}, {"r10", recall.r10}};
}

// All rows of one dataset: chance first, then the checkpoints.
Result<std::vector<Row>> evaluate(const std::string& dataset, std::span<const LoadedEncoder> encoders,
                                  ThreadPool& pool) {
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(dataset));
  std::vector<Row> rows;
  for (const LoadedEncoder& loaded : encoders) {
    Encoder& encoder = *loaded.encoder;
    if (encoder.tokenizer() == nullptr) {
      return fail(ErrorCode::kUsage, "checkpoint {}: no tokenizer files, so no texts", loaded.id.path);
    }
    SACCADE_ASSIGN(const OneCaptionSet set,
                   load_one_caption_set(source, encoder.preprocessing(), *encoder.tokenizer(),
                                        encoder.info().context, pool));
    if (set.labels.empty()) return fail(ErrorCode::kBadData, "{}: no images", dataset);
    if (rows.empty()) {
      SACCADE_ASSIGN(const Relevance relevance, Relevance::from_labels(set.labels));
      static constexpr std::array<int64_t, 3> kDepths = {1, 5, 10};
      const std::vector<double> guess = chance_figures(relevance, Direction::kTextToImage, kDepths);
      const Recall chance{relevance.texts(), guess[0], guess[1], guess[2]};
      rows.push_back({.model = "chance",
                      .recall = {set.name, static_cast<int64_t>(set.labels.size()), chance, chance},
                      .dataset_hash = set.hash,
                      .fingerprint = {}});
    }
    SACCADE_ASSIGN(const Matrix<float> images, encoder.encode_images(set.pixels.view()));
    SACCADE_ASSIGN(const Matrix<float> texts, encoder.encode_texts(set.texts));
    SACCADE_ASSIGN(OneCaptionRecall recall, score_one_caption(set, images.view(), texts.view(), pool));
    rows.push_back({.model = loaded.id.path,
                    .recall = std::move(recall),
                    .dataset_hash = set.hash,
                    .fingerprint = encoder.info().fingerprint});
  }
  return rows;
}

Json rows_json(const std::vector<Row>& rows, const EncoderChoice& choice) {
  Json results = Json::array();
  for (const Row& row : rows) {
    results.push_back({{"dataset", row.recall.name},
                       {"dataset_sha256", row.dataset_hash},
                       {"images", row.recall.images},
                       {"model", row.model},
                       {"fingerprint", row.fingerprint.empty() ? Json() : Json(row.fingerprint)},
                       {"t2i", recall_json(row.recall.text_to_image)},
                       {"i2t", recall_json(row.recall.image_to_text)}});
  }
  return {{"protocol", kProtocol}, {"precision", choice.precision}, {"results", std::move(results)}};
}

std::string rows_text(const std::vector<Row>& rows) {
  std::string text = fmt::format(
      "{:<20} {:>7}  {:<24} {:^20}   {:^20}\n{:<20} {:>7}  {:<24} {:>6} {:>6} {:>6}   "
      "{:>6} {:>6} {:>6}\n",
      "", "", "", "text to image", "image to text", "dataset", "images", "model", "R@1", "R@5", "R@10", "R@1",
      "R@5", "R@10");
  for (const Row& row : rows) {
    const Recall& to_image = row.recall.text_to_image;
    const Recall& to_text = row.recall.image_to_text;
    text += fmt::format("{:<20} {:>7}  {:<24} {:>6.3f} {:>6.3f} {:>6.3f}   {:>6.3f} {:>6.3f} {:>6.3f}\n",
                        one_line(row.recall.name), count_text(row.recall.images), one_line(row.model),
                        to_image.r1, to_image.r5, to_image.r10, to_text.r1, to_text.r5, to_text.r10);
  }
  return text + "protocol: " + kProtocol + "\n";
}

Result<int> run_retrieval(const EvalArguments& arguments, Session& session) {
  std::vector<std::string> checkpoints = arguments.checkpoints;
  if (checkpoints.empty()) {
    SACCADE_ASSIGN(const std::filesystem::path starter, starter_checkpoint());
    checkpoints.push_back(starter.string());
  }
  std::vector<LoadedEncoder> encoders;
  for (const std::string& checkpoint : checkpoints) {
    SACCADE_ASSIGN(encoders.emplace_back(), load_checkpoint(checkpoint, arguments.encoder));
  }
  ThreadPool pool(arguments.encoder.threads);
  ProgressLine progress(session.quiet);
  std::vector<Row> rows;
  for (size_t i = 0; i < arguments.datasets.size(); ++i) {
    if (const ProgressCallback tell = progress.callback()) {
      tell({.what = "evaluating",
            .done = static_cast<int64_t>(i),
            .total = static_cast<int64_t>(arguments.datasets.size()),
            .detail = arguments.datasets[i]});
    }
    SACCADE_ASSIGN(std::vector<Row> more, evaluate(arguments.datasets[i], encoders, pool));
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  progress.clear();
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(rows_json(rows, arguments.encoder)));
  } else {
    SACCADE_TRY(session.out.write(rows_text(rows)));
  }
  return kDone;
}

}  // namespace

void add_eval_retrieval_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = eval.add_subcommand("retrieval", "Recall of a dataset's images and first captions");
  command->add_option(
      "-m,--model", arguments->checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command
      ->add_option("--dataset", arguments->datasets, "datasets (docs/datasets.md): PATH or PATH#split=NAME")
      ->required();
  add_encoder_options(*command, arguments->encoder);
  command->add_flag("--json", arguments->json, "protocol, hashes and figures as JSON");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_retrieval(*arguments, session); };
  });
}

}  // namespace saccade::app

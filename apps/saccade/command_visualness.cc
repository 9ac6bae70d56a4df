// saccade visualness: a score for each text, of whether it pictures anything.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "saccade/model/visualness.h"

#include "load_checkpoint.h"
#include "product_commands.h"
#include "text_input.h"

namespace saccade::app {
namespace {

struct VisualnessArguments {
  std::vector<std::string> words;
  std::string texts;
  std::string checkpoint;
  std::string null_picture;
  EncoderChoice encoder;
  bool json = false;
};

struct Scored {
  std::vector<std::string> texts;
  std::vector<double> scores;
  std::optional<double> threshold;
  int64_t cut = 0;
};

// Scores texts by the checkpoint's text classifier, its own NULL image, or the given one.
Result<std::vector<double>> scores_of(const VisualnessArguments& arguments, const LoadedEncoder& loaded,
                                      std::span<const TokenizedText> texts,
                                      std::optional<double>& threshold) {
  EncoderBackend& encoder = *loaded.encoder;
  if (TextClassifier* classifier = encoder.text_classifier()) {
    if (!arguments.null_picture.empty()) {
      return fail(ErrorCode::kUsage, "{}: a classifier of texts knows no NULL image", loaded.id.path);
    }
    threshold = kVisualProbability;
    return visual_probabilities(*classifier, texts);
  }
  SACCADE_ASSIGN(const auto kept, read_kept_visualness(loaded.id.path, encoder.info().fingerprint));
  std::vector<float> null_row;
  if (!arguments.null_picture.empty()) {
    SACCADE_ASSIGN(const NullPicture picture, parse_null_picture(arguments.null_picture));
    SACCADE_ASSIGN(null_row, null_picture_row(encoder, picture));
  } else if (kept) {
    null_row = kept->null_row;
    threshold = kept->threshold;
  } else {
    return fail(
        ErrorCode::kUsage,
        "{}: not trained to tell what a text pictures: `saccade train visualness` makes a checkpoint that "
        "is; "
        "--null random scores by this one as it is, without a threshold",
        loaded.id.path);
  }
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(texts));
  return visualness_scores(null_row, rows.view());
}

Result<Scored> score(const VisualnessArguments& arguments, Session& session) {
  Scored result;
  result.texts = arguments.words;
  if (!arguments.texts.empty()) {
    SACCADE_ASSIGN(result.texts, read_texts(arguments.texts));
  }
  if (result.texts.empty())
    return fail(ErrorCode::kUsage, "no texts: as arguments, or a file's lines with --texts");
  EncoderChoice choice = arguments.encoder;
  SACCADE_TRY(settle_precision(arguments.checkpoint, choice, session.messages));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(arguments.checkpoint, choice));
  EncoderBackend& encoder = *loaded.encoder;
  if (encoder.tokenizer() == nullptr)
    return fail(ErrorCode::kUsage, "{}: no tokenizer files, so no texts", loaded.id.path);
  std::vector<TokenizedText> tokenized;
  for (const std::string& text : result.texts) {
    tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
    if (tokenized.back().dropped > 0) ++result.cut;
  }
  SACCADE_ASSIGN(result.scores, scores_of(arguments, loaded, tokenized, result.threshold));
  if (result.cut > 0) {
    session.messages.warning(fmt::format("{} of {} cut: the model reads {} tokens",
                                         counted(result.cut, "text"), count_text(std::ssize(result.texts)),
                                         encoder.info().context));
  }
  return result;
}

Result<int> run(const VisualnessArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const Scored scored, score(arguments, session));
  if (arguments.json) {
    Json texts = Json::array();
    for (size_t i = 0; i < scored.texts.size(); ++i) {
      Json entry = {{"text", scored.texts[i]}, {"score", scored.scores[i]}};
      entry["visual"] = scored.threshold ? Json(scored.scores[i] > *scored.threshold) : Json();
      texts.push_back(std::move(entry));
    }
    SACCADE_TRY(session.out.write_json(
        {{"threshold", scored.threshold ? Json(*scored.threshold) : Json()}, {"texts", std::move(texts)}}));
    return kDone;
  }
  std::string text;
  for (size_t i = 0; i < scored.texts.size(); ++i) {
    const std::string_view verdict = !scored.threshold                      ? ""
                                     : scored.scores[i] > *scored.threshold ? "visual"
                                                                            : "-";
    text += fmt::format("{:.4f}  {:<6}  {}\n", scored.scores[i], verdict, one_line(scored.texts[i]));
  }
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

}  // namespace

void add_visualness_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<VisualnessArguments>();
  CLI::App* command = app.add_subcommand("visualness", "Score how visual texts are, and classify them");
  command->add_option("TEXT", arguments->words, "texts, one per argument");
  command->add_option("--texts", arguments->texts, "file with one text per line")->excludes("TEXT");
  command
      ->add_option("-m,--model", arguments->checkpoint,
                   "checkpoint that `saccade train visualness` made: a folder, or OWNER/NAME[@REVISION]")
      ->required();
  command->add_option(
      "--null", arguments->null_picture,
      "NULL image to score with, without a threshold: random, random:SEED, grey, black, white, or a file "
      "(default: the checkpoint's own, with its threshold)");
  add_encoder_options(*command, arguments->encoder);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run);
}

}  // namespace saccade::app

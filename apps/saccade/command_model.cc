// saccade model conform|show: what a checkpoint is, and whether it answers as its reference does. pull and
// list are files of their own.
#include "command_model.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/conform/conform_record.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/version.h"

#include "load_checkpoint.h"
#include "number.h"

namespace saccade::app {
namespace {

struct ModelArguments {
  std::string checkpoint;
  std::string io;
  EncoderChoice encoder;
  std::optional<double> tolerance;
  bool verify = false;
  bool json = false;
};

// Warns if the remembered fingerprint is outdated. The files have then changed while their times have not: by
// a restored backup, or a failing disk.
void warn_of_wrong_memory(const std::string& remembered, const LoadedEncoder& loaded, Session& session) {
  if (remembered == loaded.id.fingerprint) return;
  session.messages.warning(
      fmt::format("checkpoint {}: its files have changed since they were last read, though their sizes and "
                  "times have not: the fingerprint was {}",
                  loaded.id.name, remembered));
}

// A line for each precision that the checkpoint has been shown to conform in, or what would show it.
std::string conformance_text(const ConformanceRecord& record, bool reference, const std::string& checkpoint) {
  std::string text;
  for (const ConformanceResult& result : record.results) {
    text += fmt::format("conforms       in {}: {} within {:.1e} of reference {}, by saccade {}\n",
                        one_line(result.precision), counted(result.answers, "answer"), result.max_abs,
                        one_line(result.reference.substr(0, 12)), one_line(result.program));
  }
  if (!text.empty()) return text;
  return reference ? fmt::format("conforms       not shown: saccade model conform {} shows it\n",
                                 one_line(checkpoint))
                   : "conforms       not shown: there is no io.safetensors to compare with\n";
}

Json measured_json(const std::vector<MeasuredLength>& measured) {
  Json list = Json::array();
  for (const MeasuredLength& length : measured) list.push_back(measured_length_json(length));
  return list;
}

// Formats the accuracy of the precision, measured on images and texts that come with the program.
std::string receipt_text(const PrecisionReceipt& receipt) {
  std::string text;
  const auto add = [&](const std::optional<RowAgreement>& agreement, std::string_view what) {
    if (!agreement) return;
    text += fmt::format("{:<14} cosines to fp32's rows: {}\n", enum_name(receipt.precision),
                        agreement_text(*agreement, what));
  };
  add(receipt.pictures, "image");
  add(receipt.texts, "text");
  if (const std::string wide = wide_layers_text(receipt.wide_layers); !wide.empty())
    text += fmt::format("{:<14} {}\n", enum_name(receipt.precision), one_line(wide));
  return text;
}

Result<int> run_show(ModelArguments& arguments, Session& session) {
  SACCADE_TRY(settle_precision(arguments.checkpoint, arguments.encoder, session.messages));
  std::string remembered;
  if (arguments.verify) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(arguments.checkpoint));
    SACCADE_ASSIGN(remembered, checkpoint_fingerprint(folder, user_fingerprint_memory()));
  }
  SACCADE_ASSIGN(const LoadedEncoder loaded,
                 load_checkpoint(arguments.checkpoint, arguments.encoder, arguments.verify));
  if (arguments.verify) warn_of_wrong_memory(remembered, loaded, session);
  const EncoderInfo& info = loaded.encoder->info();
  std::optional<PrecisionReceipt> receipt;
  if (info.precision != Precision::kFp32) {
    EncoderChoice exact = arguments.encoder;
    exact.precision = Precision::kFp32;
    exact.device = kProcessor;
    SACCADE_ASSIGN(const LoadedEncoder reference, load_checkpoint(arguments.checkpoint, exact));
    SACCADE_ASSIGN(receipt, bundled_receipt(*loaded.encoder, *reference.encoder));
  }
  const std::string preprocessing = loaded.encoder->preprocessing().describe();
  const Tokenizer* tokenizer = loaded.encoder->tokenizer();
  SACCADE_ASSIGN(const CheckpointOutline outline, outline_checkpoint(loaded.id.path));
  const ConformanceRecord conformance = conformance_of(info.fingerprint);
  SACCADE_ASSIGN(const auto measured, read_measured_lengths(loaded.id.path, info.fingerprint));
  std::error_code ignored;
  const bool reference =
      std::filesystem::exists(std::filesystem::path(loaded.id.path) / "io.safetensors", ignored);
  if (arguments.json) {
    const Json json = {{"checkpoint", arguments.checkpoint},
                       {"path", loaded.id.path},
                       {"bytes", outline.bytes},
                       {"family", info.family},
                       {"layout", info.layout},
                       {"fingerprint", info.fingerprint},
                       {"dim", info.dim},
                       {"shared_space", info.shared_space},
                       {"context", info.context},
                       {"parameters", info.parameters},
                       {"image_height", info.image_height},
                       {"image_width", info.image_width},
                       {"logit_scale", info.logit_scale},
                       {"preprocessing", info.image_width == 0 ? Json() : Json(preprocessing)},
                       {"preprocessing_guessed", info.image_width > 0 && info.preprocessing_guessed},
                       {"vocabulary", tokenizer == nullptr ? Json() : Json(tokenizer->vocabulary_size())},
                       {"reference", reference},
                       {"conforms", conformance_json(conformance)},
                       {"receipt", receipt ? receipt_json(*receipt) : Json()},
                       {"effective_length", measured_json(measured)}};
    SACCADE_TRY(session.out.write_json(json));
    return kDone;
  }
  std::string text = fmt::format("checkpoint     {}\n", one_line(loaded.id.path));
  text += fmt::format("family         {}, layout {}\n", info.family, info.layout);
  text += fmt::format("fingerprint    {}\n", info.fingerprint);
  text += fmt::format("parameters     {}, {} in {}\n", count_text(info.parameters), size_text(outline.bytes),
                      counted(static_cast<int64_t>(outline.files.size()), "file"));
  text += fmt::format("embeddings     {} dimensions{}\n", info.dim,
                      info.shared_space ? "" : ", untrained to be compared: for heads to be trained on");
  text +=
      info.image_width == 0
          ? "images         none: a text model\n"
          : fmt::format("images         {} x {}: {}{}\n", info.image_width, info.image_height, preprocessing,
                        info.preprocessing_guessed
                            ? " (as its family usually has it: the checkpoint does not say)"
                            : "");
  text += tokenizer == nullptr
              ? "texts          none: there are no tokenizer files\n"
              : fmt::format("texts          up to {} tokens, start and end included, of a vocabulary of {}\n",
                            info.context, count_text(tokenizer->vocabulary_size()));
  text += fmt::format("logit scale    {:.4g}\n", info.logit_scale);
  for (const MeasuredLength& length : measured) {
    text += fmt::format("reads          {}\n", one_line(measured_length_text(length)));
  }
  text += conformance_text(conformance, reference, arguments.checkpoint);
  if (receipt) text += receipt_text(*receipt);
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

// Records the result for `list` and `show`. A result with a tolerance given by the user, or of another device
// than the processor, is not recorded.
void remember(const ConformReport& report, const std::filesystem::path& folder,
              const ModelArguments& arguments, Session& session) {
  if (arguments.tolerance || !is_processor(arguments.encoder.device)) return;
  const auto outline = outline_checkpoint(folder);
  if (!outline) return;
  const std::filesystem::path reference =
      arguments.io.empty() ? folder / "io.safetensors" : std::filesystem::path(arguments.io);
  const Status remembered = remember_conformance(report, outline->files, reference, std::string(version()));
  if (!remembered) session.messages.warning("not remembered: " + remembered.error().message);
}

Result<int> run_conform(ModelArguments& arguments, Session& session) {
  ConformOptions options;
  options.io = arguments.io;
  SACCADE_TRY(settle_precision(arguments.checkpoint, arguments.encoder, session.messages));
  options.encoder.precision = arguments.encoder.precision.value_or(Precision::kFp32);
  options.encoder.threads = arguments.encoder.threads;
  options.encoder.device = arguments.encoder.device;
  options.tolerance = arguments.tolerance;
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(arguments.checkpoint));
  SACCADE_ASSIGN(ConformReport report, conform(folder, options));
  report.checkpoint = arguments.checkpoint;
  remember(report, folder, arguments, session);
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(conform_json(report)));
    return report.ok ? kDone : kFailed;
  }
  std::string text = fmt::format("{:<28} {:>10} {:>10} {:>11} {:>10} {:>10}\n", "answer", "max abs",
                                 "max rel", "cosine", "norm ratio", "tolerance");
  bool by_direction = false;
  for (const AnswerCheck& answer : report.answers) {
    text += fmt::format("{:<28} {:>10.2e} {:>10.2e} {:>11.8f} {:>10.6f} {:>10}  {}\n", one_line(answer.name),
                        answer.max_abs, answer.max_rel, answer.cosine, answer.norm_ratio,
                        answer.tolerance ? fmt::format("{:.1e}", *answer.tolerance) : "direction",
                        answer.ok ? "ok" : "FAILED");
    by_direction = by_direction || !answer.tolerance;
  }
  if (by_direction) {
    const RoundingBounds bounds = rounding_bounds(report.precision);
    text += fmt::format("direction: a row's cosine must be {} or more, its length within {:.0f}%\n",
                        bounds.min_cosine, 100 * bounds.max_norm_error);
  }
  for (const std::string& name : report.unknown)
    text += fmt::format("{:<28} not an answer this family has\n", one_line(name));
  text += fmt::format("{}: {}\n", one_line(report.checkpoint),
                      report.ok ? "conforms to its reference" : "does NOT conform to its reference");
  SACCADE_TRY(session.out.write(text));
  return report.ok ? kDone : kFailed;
}

using Run = Result<int> (*)(ModelArguments&, Session&);

CLI::App* add_part(CLI::App* group, const std::string& name, const std::string& what,
                   const std::shared_ptr<ModelArguments>& arguments, Command& chosen, Run run) {
  CLI::App* command = group->add_subcommand(name, what);
  command->add_option("CHECKPOINT", arguments->checkpoint, kCheckpointHelp)->required();
  add_encoder_options(*command, arguments->encoder);
  add_device_option(*command, arguments->encoder);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run);
  return command;
}

}  // namespace

void add_model_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* group = app.add_subcommand("model", "Download, list, inspect and check checkpoints");
  group->require_subcommand(1);
  add_model_pull_command(*group, chosen);
  add_model_list_command(*group, chosen);
  add_model_alias_command(*group, chosen);
  CLI::App* show = add_part(group, "show", "Describe a checkpoint", arguments, chosen, run_show);
  show->add_flag("--verify", arguments->verify,
                 "compute the fingerprint from every byte instead of the cached one");
  CLI::App* conform = add_part(
      group, "conform",
      "Compare outputs with the reference outputs stored beside the weights; exit code 1 if they differ",
      arguments, chosen, run_conform);
  conform->add_option(
      "--io", arguments->io,
      "file of reference inputs and outputs (default: io.safetensors in the checkpoint's folder)");
  conform
      ->add_option(
          "--tolerance", arguments->tolerance,
          "maximum absolute difference (default: 1e-4 in fp32; in bf16 and int8 embeddings are compared by "
          "direction and length, similarities within 0.01 and 0.02)")
      ->transform(real_number(0));
}

}  // namespace saccade::app

// saccade embed: pictures or texts to rows in a file other tools read.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/ingest/walk.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/files/output_file.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/threads.h"
#include "saccade/image/read_pixels.h"

#include "command_help.h"
#include "load_checkpoint.h"
#include "number.h"
#include "outputs.h"
#include "product_commands.h"
#include "text_input.h"

namespace saccade::app {
namespace {

struct EmbedArguments {
  std::vector<std::string> images;
  std::string texts;
  std::string checkpoint;
  std::string output;
  bool overwrite = false;
  EncoderChoice encoder;
  bool as_stored = false;
  int batch = 32;
  DecodeOptions limits;
  bool json = false;
};

// Embeddings to write, and their statistics. names[i] is the input of rows.row(i).
struct Embedded {
  Matrix<float> rows;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, Error>> failed;
  int64_t cut = 0;             // texts of which not all tokens were read
  int64_t dropped_tokens = 0;  // in those
};

Matrix<float> stacked(const std::vector<Matrix<float>>& parts, int64_t columns) {
  int64_t rows = 0;
  for (const Matrix<float>& part : parts) rows += part.rows();
  Matrix<float> result(rows, columns);
  float* next = result.data();
  for (const Matrix<float>& part : parts) next = std::ranges::copy(part.values(), next).out;
  return result;
}

// Files as given; of folders, the pictures that `index` would find there, named as the folder was.
Result<std::vector<std::filesystem::path>> find_images(std::span<const std::string> inputs,
                                                       std::stop_token stop, Messages& messages) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& input : inputs) {
    const std::filesystem::path given(input);
    const WalkResult found = walk(std::span(&given, 1), {}, stop, {});
    if (!found.missing.empty()) return fail(ErrorCode::kNotFound, "{}: no such file or folder", input);
    for (const WalkResult::Unreadable& unread : found.unreadable) {
      messages.warning(fmt::format("{}: {}", one_line(unread.path), one_line(unread.error.message)));
    }
    for (const std::string& file : found.files) {
      paths.push_back(found.folders.empty()
                          ? given
                          : given / std::filesystem::path(file).lexically_relative(found.folders.front()));
    }
  }
  if (paths.empty()) return fail(ErrorCode::kNotFound, "no images in {}", fmt::join(inputs, ", "));
  return paths;
}

Result<Embedded> embed_images(const EmbedArguments& arguments, EncoderBackend& encoder, Session& session) {
  const std::stop_token stop = session.interrupts.stop_cleanly();
  SACCADE_ASSIGN(const auto paths, find_images(arguments.images, stop, session.messages));
  DecodeOptions decode = arguments.limits;
  decode.apply_orientation = !arguments.as_stored;
  decode.processes = session.decoders.start(session.messages, decode.max_pixels);
  const PixelOptions options = pixel_options(encoder.preprocessing(), decode);
  ThreadPool pool(arguments.encoder.threads);
  ProgressLine progress(session.quiet);
  const ProgressCallback tell = progress.callback();

  Embedded result;
  std::vector<Matrix<float>> parts;
  const auto total = static_cast<int64_t>(paths.size());
  for (int64_t first = 0; first < total; first += arguments.batch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped, nothing written");
    const int64_t count = std::min<int64_t>(arguments.batch, total - first);
    const auto path_of = [&](int64_t i) -> const std::filesystem::path& {
      return paths[static_cast<size_t>(first + i)];
    };
    PixelBatch batch = read_pixels(
        count, [&](int64_t i) { return read_file(path_of(i), options.decode.max_bytes); }, options, pool);
    for (auto& [i, error] : batch.failed) {
      const std::string& name = path_of(i).native();
      result.failed.emplace_back(name, without_context(std::move(error), name));
    }
    for (const int64_t i : batch.which) result.names.push_back(path_of(i).native());
    if (batch.rows().rows() > 0) {
      SACCADE_ASSIGN(Matrix<float> rows,
                     encoder.encode_images(batch.rows())
                         .in(fmt::format("{} to {}", path_of(batch.which.front()).native(),
                                         path_of(batch.which.back()).native())));
      parts.push_back(std::move(rows));
    }
    if (tell) tell({"embedding", first + count, total, ""});
  }
  result.rows = stacked(parts, encoder.info().dim);
  return result;
}

Result<Embedded> embed_texts(const EmbedArguments& arguments, EncoderBackend& encoder, Session& session) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported, "the checkpoint has no tokenizer files: it cannot read text");
  }
  Embedded result;
  SACCADE_ASSIGN(result.names, read_texts(arguments.texts));

  const std::stop_token stop = session.interrupts.stop_cleanly();
  ProgressLine progress(session.quiet);
  const ProgressCallback tell = progress.callback();
  std::vector<Matrix<float>> parts;
  for (size_t first = 0; first < result.names.size(); first += static_cast<size_t>(arguments.batch)) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped, nothing written");
    const size_t end = std::min(result.names.size(), first + static_cast<size_t>(arguments.batch));
    std::vector<TokenizedText> tokenized;
    for (size_t i = first; i < end; ++i) {
      tokenized.push_back(encoder.tokenizer()->encode(result.names[i], encoder.info().context));
      if (tokenized.back().dropped > 0) ++result.cut;
      result.dropped_tokens += tokenized.back().dropped;
    }
    SACCADE_ASSIGN(Matrix<float> rows, encoder.encode_texts(tokenized).in(fmt::format(
                                           "{}: lines {} to {}", arguments.texts, first + 1, end)));
    parts.push_back(std::move(rows));
    if (tell) tell({"embedding", static_cast<int64_t>(end), static_cast<int64_t>(result.names.size()), ""});
  }
  result.rows = stacked(parts, encoder.info().dim);
  return result;
}

// FILE.npy.json
std::filesystem::path names_beside(const std::filesystem::path& output) {
  return output.string() + ".json";
}

// Returns the rules for output files, checked before anything is encoded.
Result<OutputRules> checked_rules(const std::filesystem::path& output, const EmbedArguments& arguments,
                                  const std::filesystem::path& checkpoint) {
  OutputRules rules{.overwrite = arguments.overwrite};
  // A folder of images is no place that is closed: people keep vectors beside them.
  for (const std::string& input : arguments.images) {
    std::error_code error;
    if (!std::filesystem::is_directory(input, error)) rules.inputs.emplace_back(input);
  }
  rules.inputs.emplace_back(arguments.texts);
  close_checkpoint(rules, checkpoint.string());
  const bool numpy = output.extension() == ".npy";
  SACCADE_TRY(check_output(output, numpy ? OutputKind::kNumpy : OutputKind::kSafetensors, rules));
  if (numpy) SACCADE_TRY(check_output(names_beside(output), OutputKind::kJson, rules));
  return rules;
}

// Rows with what they belong to: inside the file for safetensors, beside it (FILE.npy.json) for NumPy, which
// has no place for it. Rows and names come together or not at all.
Status write_rows(const std::filesystem::path& output, const OutputRules& rules, const Embedded& embedded,
                  const CheckpointId& checkpoint) {
  const Json names(embedded.names);
  if (output.extension() == ".npy") {
    const Json description = {
        {"checkpoint", checkpoint.name}, {"fingerprint", checkpoint.fingerprint}, {"names", names}};
    SACCADE_ASSIGN(OutputFile beside, OutputFile::open(names_beside(output), OutputKind::kJson, rules));
    SACCADE_TRY(beside.file().write(dump_json(description) + "\n"));
    SACCADE_ASSIGN(OutputFile rows, OutputFile::open(output, OutputKind::kNumpy, rules));
    SACCADE_TRY(write_npy(rows.file(), embedded.rows.view()));
    return commit_both(beside, rows);
  }
  SACCADE_TRY(check_output(output, OutputKind::kSafetensors, rules));
  const std::vector<NamedTensor> tensors = {{"rows",
                                             {DType::kF32,
                                              {embedded.rows.rows(), embedded.rows.columns()},
                                              std::as_bytes(embedded.rows.values())}}};
  return write_safetensors(output, tensors,
                           {{"checkpoint", checkpoint.name},
                            {"fingerprint", checkpoint.fingerprint},
                            {"names", dump_json(names)}});
}

Result<int> run_embed(EmbedArguments& arguments, Session& session) {
  if (arguments.images.empty() == arguments.texts.empty()) {
    return fail(ErrorCode::kUsage, "give either --images or --texts");
  }
  const std::filesystem::path output = arguments.output;
  if (output.extension() != ".npy" && output.extension() != ".safetensors") {
    return fail(ErrorCode::kUsage, "{}: the output's name must end in .safetensors or .npy",
                arguments.output);
  }
  std::filesystem::path checkpoint = arguments.checkpoint;
  if (checkpoint.empty()) {
    SACCADE_ASSIGN(checkpoint, starter_checkpoint());
  }
  SACCADE_ASSIGN(const OutputRules rules, checked_rules(output, arguments, checkpoint));
  SACCADE_TRY(settle_precision(checkpoint, arguments.encoder, session.messages));
  SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(checkpoint, arguments.encoder));
  SACCADE_ASSIGN(const Embedded embedded, arguments.texts.empty()
                                              ? embed_images(arguments, *loaded.encoder, session)
                                              : embed_texts(arguments, *loaded.encoder, session));
  if (embedded.names.empty()) {
    return fail(ErrorCode::kBadData, "none of {} could be read, the first: {}: {}; nothing written",
                counted(static_cast<int64_t>(embedded.failed.size()), "image"), embedded.failed.front().first,
                embedded.failed.front().second.message);
  }
  SACCADE_TRY(write_rows(output, rules, embedded, loaded.id));

  for (const auto& [name, error] : embedded.failed)
    session.messages.warning(fmt::format("{}: {}", name, with_option_names(error.message)));
  if (embedded.cut > 0) {
    session.messages.warning(fmt::format("{} cut, {} dropped: the model has no room for more",
                                         counted(embedded.cut, "text"),
                                         counted(embedded.dropped_tokens, "token")));
  }
  if (arguments.json) {
    Json failed = Json::array();
    for (const auto& [name, error] : embedded.failed) {
      failed.push_back({{"path", name}, {"code", saccade::name(error.code)}, {"reason", error.message}});
    }
    const Json json = {{"output", arguments.output},
                       {"checkpoint", loaded.id.name},
                       {"fingerprint", loaded.id.fingerprint},
                       {"rows", embedded.rows.rows()},
                       {"dim", embedded.rows.columns()},
                       {"texts_cut", embedded.cut},
                       {"tokens_dropped", embedded.dropped_tokens},
                       {"failed", std::move(failed)}};
    SACCADE_TRY(session.out.write_json(json));
  } else {
    SACCADE_TRY(session.out.write(fmt::format("{}: {} of {}\n", one_line(arguments.output),
                                              counted(embedded.rows.rows(), "embedding"),
                                              counted(embedded.rows.columns(), "dimension"))));
  }
  return embedded.failed.empty() ? kDone : kSomeFailed;
}

}  // namespace

void add_embed_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<EmbedArguments>();
  CLI::App* command = app.add_subcommand("embed", "Encode images or texts and write their embeddings");
  command->add_option("--images", arguments->images, "image files, or folders of them, to encode");
  command->add_option("--texts", arguments->texts, "file with one text per line, - for standard input");
  command->add_option("-m,--model", arguments->checkpoint,
                      std::string(kCheckpointHelp) + " (default: the starter)");
  command
      ->add_option("-o,--output", arguments->output,
                   "file to write: FILE.safetensors (tensor \"rows\") or FILE.npy")
      ->required();
  add_overwrite_option(*command, arguments->overwrite);
  command->add_flag("--as-stored", arguments->as_stored,
                    "ignore EXIF orientation, as reference pipelines do");
  add_number(*command, "--batch-size", arguments->batch, whole_number(1, 4096),
             "batch size: number of inputs encoded together");
  add_old_name(*command, "--batch-size", "--batch");
  add_encoder_options(*command, arguments->encoder);
  add_device_option(*command, arguments->encoder);
  add_decode_options(*command, arguments->limits);
  command->add_flag("--json", arguments->json, "print the result as JSON");
  group_options(*command,
                {{"Limits on files", {"--max-bytes", "--max-pixels", "--max-seconds", "--decode-memory"}},
                 {"Model and speed", {"-m", "--precision", "--threads", "--device", "--batch-size"}}});
  run_when_given(*command, chosen, arguments, run_embed);
}

}  // namespace saccade::app

// saccade index: pictures into a collection.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/choose_collection.h"
#include "saccade/collection/collection_json.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/caption_list.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/ascii.h"
#include "saccade/core/json.h"

#include "collection_choice.h"
#include "collection_settings.h"
#include "command_help.h"
#include "core_options.h"
#include "hand_over.h"
#include "load_checkpoint.h"
#include "own_process.h"
#include "print/ingest_report.h"
#include "product_commands.h"
#include "text_input.h"
#include "towns.h"
#include "walk_options.h"

namespace saccade::app {
namespace {

struct IndexArguments {
  std::vector<std::string> paths;
  std::string files_from;  // a list of further paths; "-": stdin
  std::string collection;
  std::string checkpoint;
  EncoderChoice encoder;
  IngestOptions ingest;
  std::string prune;  // empty, "true" or "force"
  std::string captions;
  std::string shard;  // "I/N"; empty: all
  CollectionSettings settings;
  bool json = false;
};

constexpr int64_t kMostListBytes = int64_t{1} << 30;

// Paths in a file, or on stdin for "-": one a line, or ended by NUL where there is any NUL.
Result<std::vector<std::filesystem::path>> read_path_list(const std::string& file) {
  SACCADE_ASSIGN(const std::string text, read_input(file, kMostListBytes).in("file list"));
  const char separator = text.find('\0') != std::string::npos ? '\0' : '\n';
  const std::vector<std::string_view> lines = split_ascii(text, {&separator, 1});
  std::vector<std::filesystem::path> paths(lines.begin(), lines.end());
  if (paths.empty()) {
    return fail(ErrorCode::kUsage, "the file list {} is empty", file == "-" ? "on standard input" : file);
  }
  return paths;
}

// Captions of a dataset by image file. A list in JSON Lines is read here; every other layout is read by saccade-lab,
// which prints such a list.
Result<CaptionList> read_captions(const std::string& dataset, const std::stop_token& stop) {
  const std::filesystem::path file = dataset;
  if (file.extension() == ".jsonl" || file.extension() == ".ndjson") return read_caption_list(file);
  std::error_code error;
  const std::filesystem::path found = dataset.substr(0, dataset.find('#'));
  if (!std::filesystem::exists(file, error) && !std::filesystem::exists(found, error)) {
    return fail(ErrorCode::kNotFound, "{}: no such file or folder", found.string());
  }
  const std::filesystem::path program = find_own_program("saccade-lab");
  if (program.empty()) {
    return fail(
        ErrorCode::kUnsupported,
        "{} is no .jsonl file; saccade-lab, which reads other layouts, is not installed beside this program",
        dataset);
  }
  const std::vector<std::string> arguments = {"--quiet", "dataset", "captions", "--", dataset};
  SACCADE_ASSIGN(const OwnProcess listed, run_process(program, arguments, {}, stop));
  if (listed.code != 0) {
    return fail(ErrorCode::kBadData, "saccade-lab could not read {} as a dataset (exit code {})", dataset,
                listed.code);
  }
  return parse_caption_list(listed.out, std::filesystem::path());
}

// Reads "I/N", 1 <= I <= N, into the options of ingest.
Status read_shard(const std::string& text, IngestOptions& options) {
  if (text.empty()) return {};
  const size_t slash = text.find('/');
  const auto number = [&](std::string_view part) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() ? value : 0;
  };
  const std::string_view whole = text;
  const int64_t of = slash == std::string::npos ? 0 : number(whole.substr(slash + 1));
  const int64_t shard = number(whole.substr(0, slash));
  if (of < 1 || shard < 1 || shard > of) {
    return fail(ErrorCode::kUsage, "--shard is {}, expected I/N with I from 1 to N, like 2/8", text);
  }
  options.shard = shard - 1;
  options.shards = of;
  return {};
}

Result<int> run_index(IndexArguments& arguments, Session& session) {
  std::vector<std::filesystem::path> inputs;
  const auto add_list = [&](const std::string& file) -> Status {
    SACCADE_ASSIGN(const auto listed, read_path_list(file));
    inputs.insert(inputs.end(), listed.begin(), listed.end());
    return {};
  };
  for (const std::string& path : arguments.paths) {
    if (path != "-") {
      inputs.emplace_back(path);
    } else {
      SACCADE_TRY(add_list(path));
    }
  }
  if (!arguments.files_from.empty()) SACCADE_TRY(add_list(arguments.files_from));
  if (inputs.empty()) {
    return fail(ErrorCode::kUsage, "nothing to add: name folders and files (PATH), or a list (--files-from)");
  }
  SACCADE_TRY(settle_collection_to_fill(arguments.collection, inputs, session.messages));
  arguments.ingest.prune = !arguments.prune.empty();
  SACCADE_TRY(read_shard(arguments.shard, arguments.ingest));
  if (arguments.prune == "force") arguments.ingest.prune_guard = PruneGuard::kNothing;
  if (!arguments.captions.empty()) {
    SACCADE_ASSIGN(arguments.ingest.captions,
                   read_captions(arguments.captions, session.interrupts.stop_cleanly()).in("captions"));
  }
  const bool fresh = !is_collection(arguments.collection);
  EngineCoreOptions options =
      core_options(arguments.collection, arguments.checkpoint, arguments.encoder, session);
  options.choices = choices_of(arguments.settings);
  if (!fresh) {
    // The collection's own precision, unless another one is to be mixed in.
    options.precision = arguments.encoder.precision;
    if (options.precision && !arguments.ingest.mix_precisions) {
      SACCADE_ASSIGN(const CollectionInfo info, read_collection_info(arguments.collection));
      SACCADE_TRY(check_same_precision(info, *options.precision)
                      .in(fmt::format("collection {}", arguments.collection)));
    }
  }
  SACCADE_ASSIGN(const std::unique_ptr<EngineCore> core, EngineCore::open(std::move(options)));
  DecodeOptions& limits = arguments.ingest.limits;
  limits.processes = session.decoders.start(session.messages, limits.max_pixels);
  const std::unique_ptr<Gazetteer> towns = find_towns();
  arguments.ingest.places = towns.get();
  const std::string why = !fresh                         ? "the collection's own"
                          : arguments.checkpoint.empty() ? "as no other was named (-m)"
                                                         : "as named";
  ProgressLine progress(session.quiet);
  auto report = core->index(inputs, arguments.ingest, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (is_collection(arguments.collection)) remember_collection(arguments.collection);
  if (!report) return fail(std::move(report).error());
  // Nothing was new where the model was not loaded.
  std::string encoder_name;
  if (core->encoder_is_loaded()) {
    SACCADE_ASSIGN(const LoadedEncoder* loaded, core->encoder());
    encoder_name = loaded->id.name;
  }
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}};
    if (!encoder_name.empty()) json["encoder"] = {{"name", encoder_name}, {"why", why}};
    json.update(ingest_json(*report));
    SACCADE_TRY(session.out.write_json(json));
  } else {
    std::string text = report_text(*report, arguments.ingest, arguments.collection);
    if (!encoder_name.empty()) text += fmt::format("  encoder: {}, {}\n", one_line(encoder_name), why);
    SACCADE_TRY(session.out.write(text));
  }
  warn_of_no_pictures(*report, arguments.paths.empty() ? arguments.files_from : arguments.paths.front(),
                      session.messages);
  if (!arguments.captions.empty() && report->given_captions == 0 && report->seen > 0 && !report->cancelled) {
    session.messages.warning(fmt::format(
        "--captions {}: its captions are for {}, none of which is among the {} found; images are matched by "
        "path",
        one_line(arguments.captions),
        counted(static_cast<int64_t>(arguments.ingest.captions.size()), "image"),
        counted(report->seen, "file")));
  }
  if (report->cancelled) {
    return fail(ErrorCode::kCancelled, "stopped; indexed images are kept, and the same command resumes");
  }
  return report->failed.empty() ? kDone : kSomeFailed;
}

}  // namespace

void add_index_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand("index", "Add images to a collection, or update it");
  command->add_option("PATH", arguments->paths,
                      "folders and files to add; - reads paths from stdin, separated by newlines or NULs");
  command->add_option(
      "--files-from", arguments->files_from,
      "file with paths of folders and files to add, separated by newlines or NULs; - reads stdin");
  command->add_option(
      "-c,--collection", arguments->collection,
      "folder of the collection, or weaviate://HOST:PORT/Name; created if missing (default: $SACCADE_COLLECTION, else .saccade in this "
      "folder or a parent, else a new .saccade in this folder)");
  command->add_option(
      "-m,--model", arguments->checkpoint,
      std::string(kCheckpointHelp) + " (default: the collection's own; starter for a new one)");
  command
      ->add_flag(
          "--prune", arguments->prune,
          "remove images below PATH whose files no longer exist. Refused if PATH is missing, empty or on "
          "another file system than before, because a disk may not be mounted; --prune=force removes them "
          "anyway")
      ->check(CLI::IsMember({"true", "force"}).description(""));
  add_walk_options(*command, arguments->ingest);
  command->add_option(
      "--shard", arguments->shard,
      "I/N: take part I of N of the files, by a hash of their paths, for N workers that index the same folders or list into a "
      "Weaviate cluster (default: all files)");
  command->add_option(
      "--captions", arguments->captions,
      "file with captions: JSON Lines ({\"image\": PATH, \"captions\": [TEXT]}) or, if saccade-lab is "
      "installed, any dataset");
  add_collection_settings(*command, arguments->settings, "Fixed when the collection is created");
  add_encoding_options(*command, arguments->ingest);
  add_encoder_options(*command, arguments->encoder, "the collection's own; fp32 for a new one");
  add_device_option(*command, arguments->encoder);
  command->add_flag("--mix-precisions", arguments->ingest.mix_precisions,
                    "allow a --precision that differs from the collection's own");
  command->add_flag("--json", arguments->json, "print the counts as JSON");
  group_options(*command,
                {{"Limits on files", {"--max-bytes", "--max-pixels", "--max-seconds", "--decode-memory"}},
                 {"Videos", {"--video-seconds", "--video-frames"}},
                 {"Model and speed",
                  {"-m", "--precision", "--mix-precisions", "--threads", "--device", "--batch-size"}}});
  run_when_given(*command, chosen, arguments, run_index);
}

}  // namespace saccade::app

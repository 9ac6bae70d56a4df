// saccade index: pictures into a collection.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/choose_collection.h"
#include "saccade/collection/collection.h"
#include "saccade/collection/collection_json.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/collection/ingest/caption_list.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/model/options/precision.h"
#include "saccade/model/checkpoints/receipt.h"

#include "checkpoint.h"
#include "choice.h"
#include "collection_choice.h"
#include "product_commands.h"
#include "command_help.h"
#include "hand_over.h"
#include "ingest_report.h"
#include "likelihoods.h"
#include "number.h"
#include "own_process.h"
#include "towns.h"
#include "walk_options.h"

namespace saccade::app {
namespace {

struct IndexArguments {
  std::vector<std::string> paths;
  std::string collection;
  std::string checkpoint;
  EncoderChoice encoder;
  IngestOptions ingest;
  std::string prune;  // empty, "true" or "force"
  std::string captions;
  std::optional<BackgroundPolicy> background;
  std::optional<Int8Policy> int8_rows;
  std::optional<RowPrecision> rows_precision;
  int64_t pool_rows = 0;  // 0: not given
  bool as_stored = false;
  bool convert_to_srgb = false;
  bool fast_decode = false;
  bool json = false;
};

// Paths on stdin: one a line, or ended by NUL where there is any NUL.
Result<std::vector<std::filesystem::path>> read_path_list() {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  std::string text;
  std::vector<char> block(1 << 16);
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read the file list from standard input");
    if (got == 0) break;
    text.append(block.data(), static_cast<size_t>(got));
    if (text.size() > kMaxBytes) {
      return fail(ErrorCode::kLimit, "the file list on standard input has more than {} bytes", kMaxBytes);
    }
  }
  const char separator = text.find('\0') != std::string::npos ? '\0' : '\n';
  std::vector<std::filesystem::path> paths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) paths.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (paths.empty()) return fail(ErrorCode::kUsage, "the file list on standard input is empty");
  return paths;
}

// Captions of a dataset by image file. A list in JSON Lines is read here; every other layout is read by saccade-lab,
// which prints such a list.
Result<CaptionList> read_captions(const std::string& dataset, const std::stop_token& stop) {
  const std::filesystem::path file = dataset;
  if (file.extension() == ".jsonl" || file.extension() == ".ndjson") return read_caption_list(file);
  const std::filesystem::path program = find_own_program("saccade-lab");
  if (program.empty()) {
    return fail(ErrorCode::kUnsupported,
                "{} is no .jsonl file; saccade-lab, which reads other layouts, is not installed beside this program",
                dataset);
  }
  const std::vector<std::string> arguments = {"--quiet", "dataset", "captions", "--", dataset};
  SACCADE_ASSIGN(const OwnProcess listed, run_process(program, arguments, {}, stop));
  if (listed.code != 0) {
    return fail(ErrorCode::kBadData, "saccade-lab could not read {} as a dataset (exit code {})", dataset, listed.code);
  }
  return parse_caption_list(listed.out, std::filesystem::path());
}

// An option that is settled when a collection is made, and what it came to in one that there is.
struct SettledOption {
  std::string_view name;
  std::string asked;  // empty: not given
  std::string made;   // empty: the collection has nothing of the kind
};

std::string on_or_off(bool value) {
  return value ? "on" : "off";
}

template <typename E>
std::string optional_word(const std::optional<E>& value) {
  return value ? std::string(enum_name(*value)) : std::string();
}

std::vector<SettledOption> settled_options(const IndexArguments& arguments, const IngestSettings& made) {
  const auto flag = [](bool given) { return given ? std::string("on") : std::string(); };
  const auto& late = made.late;
  return {
      {"--background", optional_word(arguments.background), std::string(enum_name(made.background))},
      {"--as-stored", flag(arguments.as_stored), on_or_off(!made.apply_orientation)},
      {"--convert-to-srgb", flag(arguments.convert_to_srgb), on_or_off(made.convert_to_srgb)},
      {"--fast-decode", flag(arguments.fast_decode), on_or_off(made.fast_decode)},
      {"--int8-rows", optional_word(arguments.int8_rows), std::string(enum_name(made.int8_rows))},
      {"--rows-precision", optional_word(arguments.rows_precision),
       late ? std::string(enum_name(late->precision)) : ""},
      {"--pool-rows", arguments.pool_rows > 0 ? std::to_string(arguments.pool_rows) : "",
       late ? std::to_string(late->pool) : ""},
  };
}

// Checks that an existing collection was created with these settings.
Status check_settled(const IndexArguments& arguments, const IngestSettings& made) {
  for (const SettledOption& option : settled_options(arguments, made)) {
    if (option.asked.empty() || option.asked == option.made) continue;
    if (option.made.empty()) {
      return fail(ErrorCode::kUsage, "{}: the collection has one row a picture", option.name);
    }
    return fail(ErrorCode::kUsage, "{} is {}, the collection was made with {}: leave it out, or make another",
                option.name, option.asked, option.made);
  }
  return {};
}

// Returns the settings of a new collection.
Result<IngestSettings> new_settings(const IndexArguments& arguments, EncoderBackend& encoder) {
  IngestSettings settings;
  settings.apply_orientation = !arguments.as_stored;
  settings.convert_to_srgb = arguments.convert_to_srgb;
  settings.fast_decode = arguments.fast_decode;
  settings.background = arguments.background.value_or(settings.background);
  settings.int8_rows = arguments.int8_rows.value_or(settings.int8_rows);
  const bool precision_given = arguments.rows_precision.has_value();
  const bool pool_given = arguments.pool_rows > 0;
  if (encoder.late_interaction() == nullptr && !precision_given && !pool_given) return settings;
  SACCADE_ASSIGN(settings.late, late_settings(encoder, arguments.rows_precision.value_or(RowPrecision::kFp16),
                                              pool_given ? arguments.pool_rows : 1)
                                    .in(precision_given ? "--rows-precision" : "--pool-rows"));
  return settings;
}

// Compares embeddings of the user's first readable images with their fp32 embeddings. Returns `nullopt` if no
// image can be read.
Result<std::optional<RowAgreement>> sample_receipt(EncoderBackend& encoder, const std::string& checkpoint,
                                                   const std::vector<std::filesystem::path>& inputs,
                                                   const IndexArguments& arguments, ThreadPool& pool) {
  constexpr size_t kPictures = 16;
  const IngestOptions& options = arguments.ingest;
  const auto files =
      first_pictures(inputs, kPictures, {options.follow_links, options.hidden, arguments.collection});
  const PixelOptions reading = pixel_options(encoder.preprocessing(), options.limits);
  const PixelBatch batch = read_pixels(
      static_cast<int64_t>(files.size()),
      [&](int64_t number) { return read_file(files[static_cast<size_t>(number)], options.limits.max_bytes); },
      reading, pool);
  if (batch.which.empty()) return std::nullopt;
  EncoderChoice exact = arguments.encoder;
  exact.precision = Precision::kFp32;
  SACCADE_ASSIGN(const LoadedEncoder reference, load_checkpoint(checkpoint, exact));
  return picture_agreement(encoder, *reference.encoder, batch.rows());
}

void tell_sample_receipt(const LoadedEncoder& loaded, const std::vector<std::filesystem::path>& inputs,
                         const IndexArguments& arguments, ThreadPool& pool, Messages& messages) {
  const auto sample = sample_receipt(*loaded.encoder, loaded.id.path, inputs, arguments, pool);
  if (!sample) {
    messages.warning("what the precision costs is not known: " + sample.error().message);
  } else if (*sample) {
    messages.info(fmt::format("{}: cosines of the first pictures' rows to fp32's: {}",
                              enum_name(loaded.encoder->info().precision),
                              agreement_text(**sample, "picture")));
  }
}

// Checks that -m names the collection's checkpoint, before loading it: if there are no new files, it is not
// loaded.
Status check_named(const CollectionInfo& collection, const std::string& named) {
  if (named.empty()) return {};
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(named));
  SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(folder, user_fingerprint_memory()));
  return check_same_checkpoint(collection, {named, folder.string(), fingerprint, collection.checkpoint.dim});
}

Result<int> run_index(IndexArguments& arguments, Session& session) {
  std::vector<std::filesystem::path> inputs;
  for (const std::string& path : arguments.paths) {
    if (path != "-") {
      inputs.emplace_back(path);
      continue;
    }
    SACCADE_ASSIGN(const auto listed, read_path_list());
    inputs.insert(inputs.end(), listed.begin(), listed.end());
  }
  SACCADE_TRY(settle_collection_to_fill(arguments.collection, inputs, session.messages));
  arguments.ingest.prune = !arguments.prune.empty();
  if (arguments.prune == "force") arguments.ingest.prune_guard = PruneGuard::kNothing;
  if (!arguments.captions.empty()) {
    SACCADE_ASSIGN(arguments.ingest.captions, read_captions(arguments.captions, session.interrupts.stop_cleanly()).in("captions"));
  }
  // Chooses the checkpoint before any weights are read: the collection's own, if it exists.
  std::filesystem::path checkpoint = arguments.checkpoint;
  const bool fresh = !is_collection(arguments.collection);
  if (!fresh) {
    SACCADE_ASSIGN(const CollectionInfo info, read_collection_info(arguments.collection));
    SACCADE_TRY(check_settled(arguments, info.settings));
    SACCADE_ASSIGN(checkpoint, checkpoint_of(info.checkpoint, arguments.checkpoint));
    SACCADE_TRY(check_named(info, arguments.checkpoint));
    // The collection's own precision, or what was asked for: whether that is mixed in, ingest() says.
    if (!arguments.encoder.precision) arguments.encoder.precision = info.settings.precision;
    if (!arguments.ingest.mix_precisions) {
      SACCADE_TRY(check_same_precision(info, *arguments.encoder.precision)
                      .in(fmt::format("collection {}", arguments.collection)));
    }
    arguments.encoder.fastest = false;
  } else {
    if (checkpoint.empty()) {
      SACCADE_ASSIGN(checkpoint, starter_checkpoint());
    }
  }
  ThreadPool pool(arguments.encoder.threads);
  DecodeOptions& limits = arguments.ingest.limits;
  limits.processes = session.decoders.start(session.messages, limits.max_pixels);
  const std::unique_ptr<Gazetteer> towns = find_towns();
  arguments.ingest.places = towns.get();
  const std::string why = !fresh                         ? "the collection's own"
                          : arguments.checkpoint.empty() ? "as no other was named (-m)"
                                                         : "as named";
  // Loaded at once for a new collection, which is bound to it; for one that there is, when something is new.
  std::optional<LoadedEncoder> loaded;
  const auto load = [&]() -> Result<EncoderBackend*> {
    if (loaded) return loaded->encoder.get();
    SACCADE_TRY(settle_precision(checkpoint, arguments.encoder, session.messages));
    SACCADE_ASSIGN(loaded, load_checkpoint(checkpoint, arguments.encoder, fresh));
    if (!fresh) remember_place(arguments.collection, arguments.checkpoint, *loaded, session.messages);
    warn_of_separate_spaces(*loaded, session.messages);
    warn_of_guessed_preprocessing(*loaded, session.messages);
    if (loaded->encoder->info().precision != Precision::kFp32) {
      tell_sample_receipt(*loaded, inputs, arguments, pool, session.messages);
    }
    return loaded->encoder.get();
  };
  IngestSettings settings;
  if (fresh) {
    SACCADE_ASSIGN(EncoderBackend * encoder, load());
    SACCADE_ASSIGN(settings, new_settings(arguments, *encoder));
    settings.precision = encoder->info().precision;
  }
  SACCADE_ASSIGN(CollectionWriter collection,
                 fresh ? CollectionWriter::create(arguments.collection, loaded->id, settings)
                       : CollectionWriter::open(arguments.collection));
  remember_collection(arguments.collection);
  ProgressLine progress(session.quiet);
  auto report = ingest(collection, EncoderSource(load), inputs, arguments.ingest, pool, progress.callback(),
                       session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    Json json = {{"collection", arguments.collection}};
    if (loaded) json["encoder"] = {{"name", loaded->id.name}, {"why", why}};
    json.update(ingest_json(*report));
    SACCADE_TRY(session.out.write_json(json));
  } else {
    std::string text = report_text(*report, arguments.collection);
    if (loaded) text += fmt::format("  encoder: {}, {}\n", one_line(loaded->id.name), why);
    SACCADE_TRY(session.out.write(text));
  }
  warn_of_no_pictures(*report, arguments.paths.front(), session.messages);
  if (!arguments.captions.empty() && report->given_captions == 0 && report->seen > 0 && !report->cancelled) {
    session.messages.warning(fmt::format(
        "--captions {}: none of the {} it has captions for is among the {} looked at; pictures are "
        "told by their paths",
        one_line(arguments.captions),
        counted(static_cast<int64_t>(arguments.ingest.captions.size()), "picture"),
        counted(report->seen, "file")));
  }
  if (const auto opened = Collection::open(arguments.collection)) warn_of_starter(*opened, session.messages);
  if (!report->cancelled) measure_likelihoods(arguments.collection, EncoderSource(load), pool, session);
  if (report->cancelled) {
    return fail(ErrorCode::kCancelled,
                "stopped; what was taken in is kept, the same command goes on from here");
  }
  return report->failed.empty() ? kDone : kSomeFailed;
}

}  // namespace

void add_index_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand("index", "Add pictures to a collection, or refresh it");
  command
      ->add_option(
          "PATH", arguments->paths,
          "folders and files to add; - reads a list of paths from stdin, separated by line ends or NULs")
      ->required();
  command->add_option(
      "-c,--collection", arguments->collection,
      "folder of the collection, made if it is not there (default: what SACCADE_COLLECTION names, else "
      ".saccade in this folder or one above it, else a new .saccade in this folder)");
  command->add_option(
      "-m,--model", arguments->checkpoint,
      std::string(kCheckpointHelp) + " (default: the collection's own, the starter for a new one)");
  command
      ->add_flag(
          "--prune", arguments->prune,
          "remove pictures below PATH whose files no longer exist. Refused where PATH is missing or empty or "
          "another file system is there than before, as a disk may not be mounted; --prune=force removes "
          "them even so")
      ->check(CLI::IsMember({"true", "force"}).description(""));
  add_walk_options(*command, arguments->ingest);
  command->add_option("--captions", arguments->captions, "captions to index with: a list in JSON Lines ({\"image\": PATH, \"captions\": [TEXT]}) or, with "
                       "saccade-lab installed, a dataset of any layout");
  add_choice(*command, "--background", arguments->background,
             "what to lay transparent pictures on: by contrast, white or dark grey (default), white, or what "
             "the checkpoint says; settled when the collection is made");
  command->add_flag("--as-stored", arguments->as_stored,
                    "ignore EXIF orientation; settled when the collection is made");
  command->add_flag(
      "--convert-to-srgb", arguments->convert_to_srgb,
      "convert the colors of images with an ICC profile (Display P3, Adobe RGB) to sRGB before "
      "encoding; off, the encoder gets the numbers in the file, as in training; settled when the "
      "collection is made");
  command->add_flag(
      "--fast-decode", arguments->fast_decode,
      "decode large JPEGs at a smaller size: faster, not bit-exact; settled when the collection is made");
  add_choice(
      *command, "--int8-rows", arguments->int8_rows,
      "keep the rows in eight bits a value too, for searches that read a quarter as much and answer the "
      "same: on, off, or auto (default), which is from 200,000 rows on; settled when the collection is "
      "made");
  add_choice(
      *command, "--rows-precision", arguments->rows_precision,
      "of late interaction: number format of the stored rows, fp16 (default) or int8; settled when the "
      "collection is made");
  command
      ->add_option(
          "--pool-rows", arguments->pool_rows,
          "of late interaction: number of neighbouring patches whose mean is stored as one row; settled when the "
          "collection is made")
      ->transform(whole_number(1, kMaxPool));
  command->add_option("--max-bytes", arguments->ingest.limits.max_bytes, "largest file to read, in bytes")
      ->transform(whole_number(1))
      ->capture_default_str();
  command
      ->add_option("--max-pixels", arguments->ingest.limits.max_pixels,
                   "largest picture to decode, in pixels")
      ->transform(whole_number(1))
      ->capture_default_str();
  command
      ->add_option("--max-seconds", arguments->ingest.limits.max_seconds,
                   "longest time to decode one file, in seconds; 0: no limit")
      ->transform(real_number(0))
      ->capture_default_str();
  command->add_option("--batch", arguments->ingest.batch, "number of pictures to encode at a time")
      ->transform(whole_number(1, 4096))
      ->capture_default_str();
  add_encoder_options(*command, arguments->encoder);
  command->add_flag("--mix-precisions", arguments->ingest.mix_precisions,
                    "take pictures in with another --precision than the collection's own");
  command->add_flag("--json", arguments->json, "print the counts as JSON");
  group_options(*command,
                {{"Settled when the collection is made",
                  {"--background", "--as-stored", "--convert-to-srgb", "--fast-decode", "--int8-rows",
                   "--rows-precision", "--pool-rows"}},
                 {"Limits on files", {"--max-bytes", "--max-pixels", "--max-seconds"}},
                 {"Videos", {"--video-seconds", "--video-frames"}},
                 {"Model and speed", {"-m", "--precision", "--mix-precisions", "--threads", "--batch"}}});
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_index(*arguments, session); };
  });
}

}  // namespace saccade::app

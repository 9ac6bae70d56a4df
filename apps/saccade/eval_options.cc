#include "eval_options.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "saccade/core/files.h"
#include "saccade/model/versions.h"

#include "number.h"

namespace saccade::app {
namespace {

namespace fs = std::filesystem;

// The arguments this program was started with.
std::vector<std::string> command_line() {
  std::vector<std::string> arguments;
  const auto text = read_file("/proc/self/cmdline", int64_t{4} << 20);
  if (!text) return arguments;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\0', begin), text->size());
    arguments.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

}  // namespace

void add_eval_inputs(CLI::App& command, EvalOptions& options) {
  command.add_option(
      "-m,--model", options.checkpoints,
      "checkpoints: folders, or OWNER/NAME[@REVISION] of the hub's cache (default: the starter)");
  command.add_option("--dataset", options.datasets, "datasets (docs/datasets.md): PATH or PATH#split=NAME");
  add_encoder_options(command, options.encoder);
  command
      .add_option("--transparent", options.transparent,
                  "transparent pictures: over white, or as the checkpoint says")
      ->check(CLI::IsMember({"white", "checkpoint"}))
      ->capture_default_str();
  command.add_flag("--as-stored", options.as_stored, "ignore EXIF orientation, as reference pipelines do");
  command.add_option("--batch", options.batch, "pictures decoded and encoded at a time")
      ->transform(whole_number(1, 4096))
      ->capture_default_str();
  auto* cache = command.add_option("--cache", options.cache,
                                   "folder that keeps rows (default: saccade/embeddings in ~/.cache)");
  command.add_flag("--no-cache", options.no_cache, "encode everything anew, keep nothing")->excludes(cache);
}

void add_bootstrap_options(CLI::App& command, EvalOptions& options) {
  command.add_option("--resamples", options.bootstrap.resamples, "of the bootstrap; 0: no intervals")
      ->transform(whole_number(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--confidence", options.bootstrap.confidence, "of the intervals")
      ->transform(real_number(0.5, 0.9999))
      ->capture_default_str();
  command.add_option("--seed", options.bootstrap.seed, "of the bootstrap")
      ->transform(whole_number(0))
      ->capture_default_str();
}

void add_run_options(CLI::App& command, EvalOptions& options) {
  command.add_option("-o,--run", options.run, "run folder (docs/runs.md) for `saccade report`");
  command.add_flag("--overwrite", options.overwrite, "replace a finished run of other inputs");
  command.add_flag("--json", options.json, "protocol, hashes and figures as JSON");
}

fs::path embedding_cache_folder(const EvalOptions& options) {
  if (options.no_cache) return {};
  if (!options.cache.empty()) return options.cache;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return fs::path(value == nullptr ? "" : value);
  };
  // As the XDG base directory specification has it: relative paths count as not set.
  if (const fs::path caches = variable("XDG_CACHE_HOME"); caches.is_absolute()) {
    return caches / "saccade/embeddings";
  }
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache/saccade/embeddings";
  return {};
}

EmbedOptions embed_options(const EvalOptions& options, ProgressLine& progress, Messages& messages,
                           std::stop_token stop) {
  EmbedOptions embed;
  embed.precision = precision_of(options.encoder);
  embed.transparency = options.transparent == "white" ? Transparency::kWhite : Transparency::kCheckpoint;
  embed.as_stored = options.as_stored;
  embed.batch = options.batch;
  embed.cache = embedding_cache_folder(options);
  embed.warning = [&messages, said = std::make_shared<std::set<std::string>>()](const std::string& text) {
    if (said->insert(text).second) messages.warning(text);
  };
  embed.progress = progress.callback();
  embed.stop = std::move(stop);
  return embed;
}

std::string picture_words(const EvalOptions& options) {
  return fmt::format("Transparent pictures {}; {}.",
                     options.transparent == "white" ? "lie on white" : "are as the checkpoint has them",
                     options.as_stored ? "EXIF orientation is ignored" : "EXIF orientation is applied");
}

Json picture_fields(const EvalOptions& options) {
  return {{"transparent", options.transparent}, {"as_stored", options.as_stored}};
}

Result<std::vector<std::string>> checkpoints_of(const EvalOptions& options) {
  if (!options.checkpoints.empty()) return options.checkpoints;
  SACCADE_ASSIGN(const fs::path starter, starter_checkpoint());
  return std::vector{starter.string()};
}

void make_unique(std::vector<std::string>& names) {
  std::map<std::string, int> seen = {{"chance", 1}};
  for (std::string& name : names) {
    std::string wanted = name;
    while (!seen.emplace(wanted, 1).second) wanted = fmt::format("{}-{}", name, ++seen[name]);
    name = std::move(wanted);
  }
}

Result<std::vector<NamedDataset>> read_datasets(const EvalOptions& options) {
  std::vector<NamedDataset> datasets;
  std::vector<std::string> names;
  for (const std::string& given : options.datasets) {
    SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(given));
    NamedDataset& named = datasets.emplace_back();
    named.given = given;
    SACCADE_ASSIGN(named.dataset, read_dataset(source));
    names.push_back(named.dataset.name);
  }
  make_unique(names);
  for (size_t i = 0; i < names.size(); ++i) datasets[i].name = names[i];
  return datasets;
}

RunDataset describe_dataset(const NamedDataset& named) {
  return {.name = named.name,
          .path = named.given,
          .layout = named.dataset.layout,
          .sha256 = named.dataset.hash,
          .pictures_sha256 = {},
          .images = 0,
          .texts = 0,
          .compositions = 0,
          .excluded = named.dataset.excluded};
}

RunCheckpoint describe_checkpoint(const LoadedEncoder& loaded, const EncoderChoice& choice) {
  const EncoderInfo& info = loaded.encoder->info();
  return {.name = loaded.id.name,
          .path = loaded.id.path,
          .fingerprint = info.fingerprint,
          .family = info.family,
          .precision = choice.precision,
          .parameters = info.parameters,
          .dim = info.dim,
          .context = info.context,
          .image_height = info.image_height,
          .image_width = info.image_width};
}

Result<std::vector<RunCheckpoint>> asked_checkpoints(std::span<const std::string> checkpoints,
                                                     const EvalOptions& options) {
  std::vector<RunCheckpoint> asked;
  for (const std::string& checkpoint : checkpoints) {
    RunCheckpoint& one = asked.emplace_back();
    one.name = checkpoint;
    one.precision = options.encoder.precision;
    SACCADE_ASSIGN(const fs::path folder, find_checkpoint(checkpoint));
    SACCADE_ASSIGN(one.fingerprint, checkpoint_fingerprint(folder));
  }
  return asked;
}

RunInfo describe_run(std::string_view kind, const EvalOptions& options, Json protocol, int threads) {
  RunInfo info;
  info.kind = kind;
  info.saccade = SACCADE_VERSION;
  info.command = command_line();
  info.protocol = std::move(protocol);
  info.seed = options.bootstrap.seed;
  info.resamples = options.bootstrap.resamples;
  info.confidence = options.bootstrap.confidence;
  info.libraries = library_versions();
  info.machine = this_machine(threads);
  return info;
}

Status for_each_checkpoint(
    std::span<const std::string> checkpoints, const EvalOptions& options, Session& session,
    const std::function<Status(LoadedEncoder& loaded, const RunCheckpoint& described)>& body) {
  std::vector<std::string> names;
  for (const std::string& checkpoint : checkpoints) {
    SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(checkpoint, options.encoder));
    if (loaded.encoder->tokenizer() == nullptr) {
      return fail(ErrorCode::kUsage, "checkpoint {}: no tokenizer files, so no texts", loaded.id.path);
    }
    warn_of_separate_spaces(loaded, session.messages);
    warn_of_guessed_preprocessing(loaded, session.messages);
    RunCheckpoint described = describe_checkpoint(loaded, options.encoder);
    names.push_back(described.name);
    make_unique(names);
    described.name = names.back();
    SACCADE_TRY(body(loaded, described).in(described.name));
  }
  return {};
}

Result<std::vector<int64_t>> unreadable_pictures(const EmbeddedPictures& embedded, bool leave_out,
                                                 int64_t pictures,
                                                 const std::function<std::string(int64_t)>& name) {
  std::vector<int64_t> unreadable;
  for (const auto& [number, error] : embedded.failed) unreadable.push_back(number);
  if (unreadable.empty() || leave_out) return unreadable;
  const Error& error = embedded.failed.front().second;
  const std::string first = name(unreadable.front());
  return fail(ErrorCode::kBadData,
              "{} of {} cannot be read, the first: {}{}; without them it would be another measurement: "
              "--leave-out leaves them out and says so",
              embedded.failed.size(), counted(pictures, "picture"),
              error.message.find(first) == std::string::npos ? first + ": " : "", error.message);
}

Status settle_pictures(std::span<const std::string> hashes, RunDataset& described, size_t dataset,
                       RunInfo& asked, const std::optional<RunWriter>& writer) {
  std::string hash = hash_of_hashes(hashes);
  if (!described.pictures_sha256.empty() && hash != described.pictures_sha256) {
    return fail(ErrorCode::kMismatch, "its pictures have changed while it was evaluated");
  }
  described.pictures_sha256 = std::move(hash);
  if (!writer) return {};
  asked.datasets[dataset].pictures_sha256 = described.pictures_sha256;
  return writer->check_inputs(asked);
}

std::vector<TokenizedText> tokenize(Encoder& encoder, std::span<const std::string_view> texts,
                                    CutTexts& cut) {
  std::vector<TokenizedText> tokenized;
  tokenized.reserve(texts.size());
  for (const std::string_view text : texts) {
    tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
    cut.texts += tokenized.back().dropped > 0 ? 1 : 0;
    cut.tokens += tokenized.back().dropped;
  }
  return tokenized;
}

std::string figure_text(const Json& figure) {
  if (!figure["value"].is_number()) return "-";
  const std::string value = fmt::format("{:.3f}", figure["value"].get<double>());
  if (!figure["low"].is_number()) return value;
  return fmt::format("{} [{:.3f}, {:.3f}]", value, figure["low"].get<double>(), figure["high"].get<double>());
}

std::string difference_text(const Json& comparison, std::string_view what, const Json& figure) {
  if (!figure["low"].is_number()) return {};
  return fmt::format(
      "  {} - {}, {}: {:+.3f} [{:+.3f}, {:+.3f}], p {:.3f}{}\n", one_line(comparison["a"].get<std::string>()),
      one_line(comparison["b"].get<std::string>()), what, figure["difference"].get<double>(),
      figure["low"].get<double>(), figure["high"].get<double>(), figure["p_value"].get<double>(),
      figure["told_apart"].get<bool>() ? "" : ": cannot be told apart");
}

}  // namespace saccade::app

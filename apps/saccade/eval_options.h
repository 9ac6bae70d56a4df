// What the commands of `saccade eval` share: options, datasets and checkpoints under names of their own, the
// run they write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/data/dataset.h"
#include "saccade/eval/figures/sample.h"
#include "saccade/eval/rows/embed.h"
#include "saccade/eval/run/run.h"

#include "checkpoint.h"
#include "command.h"

namespace saccade::app {

struct EvalOptions {
  std::vector<std::string> checkpoints;
  std::vector<std::string> datasets;
  EncoderChoice encoder;
  std::string transparent = "white";
  bool as_stored = false;
  int batch = 32;
  BootstrapOptions bootstrap;
  std::string run;
  bool overwrite = false;
  std::string cache;
  bool no_cache = false;
  bool json = false;
};

// -m, --dataset, --precision, --threads, --transparent, --as-stored, --batch, --cache, --no-cache.
void add_eval_inputs(CLI::App& command, EvalOptions& options);
// --seed, --resamples, --confidence.
void add_bootstrap_options(CLI::App& command, EvalOptions& options);
// -o, --overwrite, --json.
void add_run_options(CLI::App& command, EvalOptions& options);

// Where rows are kept: --cache, or saccade/embeddings in $XDG_CACHE_HOME or ~/.cache; empty with --no-cache
// or where there is no such folder.
std::filesystem::path embedding_cache_folder(const EvalOptions& options);
// `progress` and `messages` are borrowed. Each warning is said once.
EmbedOptions embed_options(const EvalOptions& options, ProgressLine& progress, Messages& messages,
                           std::stop_token stop);

// What is done to pictures before the encoder sees them: a run's protocol in words and in fields.
std::string picture_words(const EvalOptions& options);
Json picture_fields(const EvalOptions& options);

// -m as given, or the starter.
Result<std::vector<std::string>> checkpoints_of(const EvalOptions& options);

// A dataset that was read, under a name that no other of the command has.
struct NamedDataset {
  std::string name;
  std::string given;  // as on the command line
  Dataset dataset;
};
Result<std::vector<NamedDataset>> read_datasets(const EvalOptions& options);
RunDataset describe_dataset(const NamedDataset& named);
RunCheckpoint describe_checkpoint(const LoadedEncoder& loaded, const EncoderChoice& choice);
// What is known of checkpoints before they are loaded: enough to tell a run of others apart.
Result<std::vector<RunCheckpoint>> asked_checkpoints(std::span<const std::string> checkpoints,
                                                     const EvalOptions& options);
// Gives the names that are there twice a number: "clip", "clip-2"; and to a model's that is "chance", which
// in figures is guessing.
void make_unique(std::vector<std::string>& names);

// What a run says of itself beside its datasets and checkpoints.
RunInfo describe_run(std::string_view kind, const EvalOptions& options, Json protocol, int threads);

// Loads one checkpoint after the other, so that one is in memory at a time, and calls `body` with each and
// its number. Checkpoints without a tokenizer are errors; where pictures and texts were never brought
// together, a warning is said. The names are unique.
Status for_each_checkpoint(
    std::span<const std::string> checkpoints, const EvalOptions& options, Session& session,
    const std::function<Status(LoadedEncoder& loaded, const RunCheckpoint& described)>& body);

// The numbers of the pictures that could not be read, ascending. An error where nobody has said to leave them
// out: it names the first, as name(number) does, and how many of `pictures` they are.
Result<std::vector<int64_t>> unreadable_pictures(const EmbeddedPictures& embedded, bool leave_out,
                                                 int64_t pictures,
                                                 const std::function<std::string(int64_t)>& name);

// Enters the hash of a dataset's pictures, by the hashes of those that are left, in its description.
// kMismatch where they were others with the checkpoint before. With a writer, `asked` (of the same datasets)
// gets it too, and a folder that holds a run of other pictures is refused now, not after everything has been
// encoded and ranked.
Status settle_pictures(std::span<const std::string> hashes, RunDataset& described, size_t dataset,
                       RunInfo& asked, const std::optional<RunWriter>& writer);

// Tokenizes texts; how many were cut and by how many tokens is added to `cut`.
struct CutTexts {
  int64_t texts = 0;
  int64_t tokens = 0;
};
std::vector<TokenizedText> tokenize(Encoder& encoder, std::span<const std::string_view> texts, CutTexts& cut);

// "0.123 [0.101, 0.145]"
std::string figure_text(const Json& figure);
// A line on `a` - `b` of a comparison; empty where there is no interval.
std::string difference_text(const Json& comparison, std::string_view what, const Json& figure);

}  // namespace saccade::app

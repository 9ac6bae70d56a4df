// The frame of every evaluation: datasets x checkpoints.
//
// evaluate() reads the datasets and claims the run's folder. Then, with one checkpoint in memory at a time,
// it encodes the datasets' pictures (through the cache), finds out which can be read, and lets the study
// measure. Last it finishes the run. A Study says what is measured: its protocol in words and fields, what it
// takes of a dataset, the figures of one checkpoint, and how those come together. Retrieval, composition and
// length are studies, each in a file beside its figures.
//
// Nothing here prints. Progress, warnings and the wish to stop come and go through EmbedOptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "lab/data/dataset.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "lab/eval/run/run.h"
#include "saccade/model/encoder.h"
#include "saccade/model/checkpoints/locate.h"

namespace saccade::lab {

// How checkpoints are found and loaded by what the user calls them.
struct CheckpointSource {
  std::function<Result<std::filesystem::path>(const std::string& given)> find;
  // The checkpoint's fingerprint from its files alone: enough to tell runs apart before anything is loaded.
  std::function<Result<std::string>(const std::string& given)> fingerprint;
  std::function<Result<LoadedEncoder>(const std::string& given, Precision precision)> load;
};
// Folders, and models of the hub's cache (model/checkpoints/locate.h). Of the options, the precision is not looked at.
CheckpointSource located_checkpoints(const BackendOptions& options);

struct EvaluationOptions {
  std::vector<std::string> checkpoints;  // as CheckpointSource takes them
  std::vector<std::string> datasets;     // PATH or PATH#split=NAME (parse_dataset_source)
  // Each checkpoint is measured in each of them, as a model of its own; of
  // several, the precision ends its name.
  std::vector<Precision> precisions = {Precision::kFp32};
  // Pictures that cannot be read are left out and counted; otherwise one is an error.
  bool leave_out = false;
  EmbedOptions embed = {};  // its progress_detail is set anew for each dataset and checkpoint
  BootstrapOptions bootstrap = {};
  std::filesystem::path run = {};  // folder to write; empty: none
  bool overwrite = false;          // as RunWriter::open
  // The program's version and command line, for the run's description.
  std::string version = {};
  std::vector<std::string> command = {};
};

struct Evaluation {
  RunInfo info;
  Json metrics;                  // of metrics.json
  bool some_unreadable = false;  // pictures were left out because they cannot be read
};
// What --json prints: the figures, and the run's description without what differs between machines.
Json evaluation_json(const Evaluation& evaluation);

// A dataset that was read, under a name that is unique in the evaluation.
struct NamedDataset {
  std::string name;
  std::string given;  // as the user wrote it
  Dataset dataset;
};
Result<std::vector<NamedDataset>> read_datasets(std::span<const std::string> given);
RunDataset describe_dataset(const NamedDataset& named);
RunCheckpoint describe_checkpoint(const LoadedEncoder& loaded);
// What is known of checkpoints before they are loaded.
Result<std::vector<RunCheckpoint>> asked_checkpoints(const EvaluationOptions& options,
                                                     const CheckpointSource& checkpoints);
// Numbers names that occur twice: "clip", "clip-2". A model called "chance" gets a number too: in figures,
// that name stands for guessing.
void make_unique(std::vector<std::string>& names);
// What a run says of itself beside its datasets and checkpoints.
RunInfo describe_run(std::string_view kind, const EvaluationOptions& options, Json protocol, int threads);

// How pictures are treated before the encoder sees them, for a run's protocol: in words, and in fields.
std::string picture_words(const EmbedOptions& options);
Json picture_fields(const EmbedOptions& options);

// What is measured of a dataset, once it is known which of its pictures can be read.
struct SettledTask {
  std::vector<int64_t> pictures;  // numbers of the study's pictures that get rows, in the rows' order
  int64_t texts = 0;
  int64_t compositions = 0;
  std::vector<Exclusion> excluded = {};  // beside what the dataset left out
  const RunItems* items = nullptr;       // for the run; null: it keeps none. Borrowed from the study
  // How many independent clusters the intervals rest on, and what one is called: few are warned of.
  int64_t clusters = 0;
  std::string_view cluster = "picture";
};

// One model on one dataset.
struct StudyContext {
  size_t dataset = 0;  // its number
  const RunDataset& described;
  const RunCheckpoint& model;
  ThreadPool& pool;
  RunWriter* run = nullptr;  // null: none is written
};
// The same, for a model that is encoded with here (not one given as a file of rows or scores).
struct EncodedContext : StudyContext {
  EncoderBackend& encoder;
  const EmbeddedRows& pictures;  // those of SettledTask, in their order
  const EmbedOptions& embed;
};

// Texts cut to what the model has room for.
struct CutTexts {
  int64_t texts = 0;
  int64_t tokens = 0;
};
struct EmbeddedTexts {
  EmbeddedRows rows;
  CutTexts cut;
};
// Encodes texts. Those that are too long for the model are cut and counted, and a warning names the remedy.
// Errors are those of embed_texts.
Result<EmbeddedTexts> embed_study_texts(const EncodedContext& context,
                                        std::span<const std::string_view> texts);

class Study {
 public:
  virtual ~Study() = default;
  // Whether encoders of texts alone are measured too, which get no pictures.
  [[nodiscard]] virtual bool takes_text_models() const { return false; }
  // What the run is called: "retrieval".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  // "words", and the fields that tell one protocol from another.
  [[nodiscard]] virtual Json protocol() const = 0;
  // Takes the next dataset; they are numbered from 0.
  virtual Status add_dataset(const NamedDataset& dataset) = 0;
  // The pictures of a dataset that are read, by number.
  [[nodiscard]] virtual std::vector<ImageRef> pictures(size_t dataset) const = 0;
  // Called once for each dataset, before it is first measured. `unreadable`: numbers of pictures, ascending.
  virtual Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) = 0;
  // Figures of one checkpoint on one dataset: all datasets for the first checkpoint, then for the next.
  virtual Status measure(const EncodedContext& context) = 0;
  // metrics.json. `datasets`: their descriptions by number.
  [[nodiscard]] virtual Result<Json> metrics(std::span<const RunDataset> datasets) const = 0;
};

// Errors: those of reading, loading and encoding, with dataset or checkpoint in front; kUsage for a
// checkpoint without a tokenizer; kBadData for pictures that cannot be read, unless `leave_out` is true;
// kMismatch as RunWriter, and where a dataset's pictures change between two checkpoints; kCancelled, with
// what was encoded kept in the cache. Cost: encoding of what the cache does not have.
Result<Evaluation> evaluate(Study& study, const EvaluationOptions& options,
                            const CheckpointSource& checkpoints, ThreadPool& pool);

// What another program has computed, in a file that stands for a checkpoint.
struct GivenModel {
  RunCheckpoint described;  // `name` is made unique
  std::function<Status(const StudyContext&)> measure;
};
// One for each file, named after it: measure(context, path) measures what is in it.
Result<std::vector<GivenModel>> given_models(
    std::span<const std::filesystem::path> files,
    const std::function<Status(const StudyContext&, const std::filesystem::path&)>& measure);
// The same without checkpoints: no picture is read, and none is left out. `datasets` describes those that the
// study has been given.
Result<Evaluation> evaluate_given(Study& study, std::span<const RunDataset> datasets,
                                  std::vector<GivenModel> models, const EvaluationOptions& options,
                                  ThreadPool& pool);

}  // namespace saccade::lab

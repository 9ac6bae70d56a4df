// The framework of every evaluation: datasets x checkpoints.
//
// evaluate() reads the datasets and claims the run's folder. Then, with one checkpoint in memory at a time,
// it encodes the datasets' images (through the cache), finds out which can be read, and lets the study
// measure. Last it finishes the run. A Study defines the measurement: its protocol as text and fields, its
// use of a dataset, the figures of one checkpoint, and their combination. Retrieval, composition and length
// are studies, each in a file beside its figures.
//
// Nothing here prints. Progress, warnings and cancellation go through EmbedOptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "lab/eval/run/run.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

// Functions that find and load checkpoints by the names that the user gives.
struct CheckpointSource {
  std::function<Result<std::filesystem::path>(const std::string& given)> find;
  // Returns the checkpoint's fingerprint, computed from its files alone: enough to compare runs before
  // anything is loaded.
  std::function<Result<std::string>(const std::string& given)> fingerprint;
  std::function<Result<LoadedEncoder>(const std::string& given, Precision precision)> load;
};
// Returns a source of folders, and of models in the hub's cache (model/checkpoints/locate.h). The options'
// precision is ignored.
CheckpointSource located_checkpoints(const BackendOptions& options);

struct EvaluationOptions {
  std::vector<std::string> checkpoints;  // as CheckpointSource takes them
  std::vector<std::string> datasets;     // PATH or PATH#split=NAME (parse_dataset_source)
  // Precisions. Each checkpoint is measured in each of them, as a model of its own. If there are several, the
  // precision is appended to the model's name.
  std::vector<Precision> precisions = {Precision::kFp32};
  std::string device = "cpu";  // device of the encoders, for the run's description
  // If true, unreadable images are left out and counted; otherwise one is an error.
  bool leave_out = false;
  EmbedOptions embed = {};  // its progress_detail is set anew for each dataset and checkpoint
  BootstrapOptions bootstrap = {};
  std::filesystem::path run = {};  // folder to write; empty: no run
  bool overwrite = false;          // as RunWriter::open
  // Version of the program and its command line, for the run's description.
  std::string version = {};
  std::vector<std::string> command = {};
};

struct Evaluation {
  RunInfo info;
  Json metrics;                  // contents of metrics.json
  bool some_unreadable = false;  // images were left out because they cannot be read
};
// Returns the output of --json: the figures, and the run's description without machine-specific fields.
Json evaluation_json(const Evaluation& evaluation);

// A loaded dataset, under a name that is unique in the evaluation.
struct NamedDataset {
  std::string name;
  std::string given;  // as the user wrote it
  Dataset dataset;
};
Result<std::vector<NamedDataset>> read_datasets(std::span<const std::string> given);
RunDataset describe_dataset(const NamedDataset& named);
RunCheckpoint describe_checkpoint(const LoadedEncoder& loaded);
// Returns the descriptions of checkpoints that are available before they are loaded.
Result<std::vector<RunCheckpoint>> asked_checkpoints(const EvaluationOptions& options,
                                                     const CheckpointSource& checkpoints);
// Numbers duplicate names: "clip", "clip-2". A model called "chance" gets a number too, since in figures that
// name stands for random guessing.
void make_unique(std::vector<std::string>& names);
// Returns a run's description, apart from its datasets and checkpoints.
RunInfo describe_run(std::string_view kind, const EvaluationOptions& options, Json protocol, int threads);

// Returns the image preprocessing before the encoder, for a run's protocol: as text, and as fields.
std::string picture_words(const EmbedOptions& options);
Json picture_fields(const EmbedOptions& options);

// Task of a dataset, once its readable images are known.
struct SettledTask {
  std::vector<int64_t> pictures;  // numbers of the study's images that get rows, in the rows' order
  int64_t texts = 0;
  int64_t compositions = 0;
  std::vector<Exclusion> excluded = {};  // in addition to the dataset's own exclusions
  const RunItems* items = nullptr;       // items for the run, borrowed from the study; null: not stored
  // Number of independent clusters behind the intervals, and the noun for one. Few clusters cause a warning.
  int64_t clusters = 0;
  std::string_view cluster = "image";
};

// One model on one dataset.
struct StudyContext {
  size_t dataset = 0;  // its number
  const RunDataset& described;
  const RunCheckpoint& model;
  ThreadPool& pool;
  RunWriter* run = nullptr;  // null: no run is written
};
// The same, for a model that is encoded with here, not one given as a file of embeddings or scores.
struct EncodedContext : StudyContext {
  EncoderBackend& encoder;
  const EmbeddedRows& pictures;  // those of SettledTask, in their order
  const EmbedOptions& embed;
};

// Texts truncated to the model's context.
struct CutTexts {
  int64_t texts = 0;
  int64_t tokens = 0;
};
struct EmbeddedTexts {
  EmbeddedRows rows;
  CutTexts cut;
};
// Encodes texts. Those that are too long for the model are truncated and counted, and a warning names the
// remedy. Errors: those of embed_texts.
Result<EmbeddedTexts> embed_study_texts(const EncodedContext& context,
                                        std::span<const std::string_view> texts);
Result<EmbeddedTexts> embed_study_texts(const EncodedContext& context, const TextFunction& function,
                                        std::span<const std::string_view> texts);

class Study {
 public:
  virtual ~Study() = default;
  // Returns true if text-only encoders are measured too. They get no images.
  [[nodiscard]] virtual bool takes_text_models() const { return false; }
  // Returns the run's kind, such as "retrieval".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  // Returns "description", and the fields that distinguish one protocol from another.
  [[nodiscard]] virtual Json protocol() const = 0;
  // Adds the next dataset; they are numbered from 0.
  virtual Status add_dataset(const NamedDataset& dataset) = 0;
  // Returns the images of a dataset to read, by number.
  [[nodiscard]] virtual std::vector<ImageRef> pictures(size_t dataset) const = 0;
  // Fixes the task of a dataset. Called once for each dataset, before it is first measured. `unreadable`:
  // numbers of images, ascending.
  virtual Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) = 0;
  // Measures one checkpoint on one dataset. Called for all datasets with the first checkpoint, then with the
  // next.
  virtual Status measure(const EncodedContext& context) = 0;
  // Returns the contents of metrics.json. `datasets`: their descriptions by number.
  [[nodiscard]] virtual Result<Json> metrics(std::span<const RunDataset> datasets) const = 0;
};

// Runs an evaluation. Errors: those of reading, loading and encoding, prefixed with dataset or checkpoint;
// kUsage for a checkpoint without a tokenizer; kBadData for unreadable images, unless `leave_out` is true.
// Also kMismatch as RunWriter, and if a dataset's images change between two checkpoints; kCancelled, with the
// finished encodings kept in the cache. Cost: encoding of everything that the cache lacks.
Result<Evaluation> evaluate(Study& study, const EvaluationOptions& options,
                            const CheckpointSource& checkpoints, ThreadPool& pool);

// A file of another program's results, which stands for a checkpoint.
struct GivenModel {
  RunCheckpoint described;  // `name` is made unique
  std::function<Status(const StudyContext&)> measure;
};
// Makes one model for each file, named after it. measure(context, path) measures the file's contents.
Result<std::vector<GivenModel>> given_models(
    std::span<const std::filesystem::path> files,
    const std::function<Status(const StudyContext&, const std::filesystem::path&)>& measure);
// Runs an evaluation without checkpoints. No image is read, and none is left out. `datasets` describes those
// that were added to the study.
Result<Evaluation> evaluate_given(Study& study, std::span<const RunDataset> datasets,
                                  std::vector<GivenModel> models, const EvaluationOptions& options,
                                  ThreadPool& pool);

}  // namespace saccade::lab

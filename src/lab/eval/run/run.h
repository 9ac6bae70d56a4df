// A run: the folder that an evaluation writes, with its inputs, its results, and the data for a report.
// docs/runs.md describes every file and field.
//
//   run.json       protocol, hashes, versions, seed, machine; the names, sizes and hashes of the other files
//   metrics.json   the figures
//   items.jsonl    the images and texts that were ranked
//   ranks.jsonl    one line per query (or pairs.jsonl: one line per item of a test of composition)
//   embeddings/    embeddings of images and texts, one file per dataset and checkpoint
//
// run.json is written last and removed first. A folder without it is not a finished run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run_folder.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"

namespace saccade::lab {

inline constexpr int64_t kRunFormat = 1;

struct RunDataset {
  std::string name;  // unique in the run
  std::string path;  // as given
  std::string layout;
  std::string sha256;           // Dataset::hash: ids, groups, captions
  std::string pictures_sha256;  // over the SHA-256 of every image's bytes, in order; empty: not read
  int64_t images = 0;           // number scored, without exclusions
  int64_t texts = 0;
  int64_t compositions = 0;
  std::vector<Exclusion> excluded;
};

struct RunCheckpoint {
  std::string name;         // unique in the run
  std::string path;         // its folder, or the file of embeddings or scores that stands for it
  std::string fingerprint;  // fingerprint of the encoder, or SHA-256 of that file
  std::string family;       // empty for a file
  std::string precision;
  int64_t parameters = 0;
  int64_t dim = 0;
  int64_t context = 0;
  int64_t image_height = 0;
  int64_t image_width = 0;
};

struct RunMachine {
  std::string processor;
  int64_t threads = 0;
  int64_t memory_bytes = 0;
};
// Returns this machine's description; unknown values are empty or 0.
RunMachine this_machine(int threads);

// Inputs of a run.
struct RunInfo {
  std::string kind;                  // "retrieval", "winoground", "length", "speed"
  std::string saccade;               // the program's version
  std::vector<std::string> command;  // the arguments it was started with
  // "words": the protocol in sentences; the other members are its fields, by kind.
  Json protocol = Json::object();
  uint64_t seed = 0;
  int64_t resamples = 0;
  double confidence = 0.95;
  std::vector<RunDataset> datasets;
  std::vector<RunCheckpoint> checkpoints;
  std::map<std::string, std::string> libraries;  // name -> version
  RunMachine machine;
};

Json run_json(const RunInfo& info);
// Parses run.json. kBadData names the field; kUnsupported for another format.
Result<RunInfo> parse_run_info(const Json& json);

// Returns the differences between two runs' inputs, one line each with both values. It is empty if both would
// give the same figures. Paths, commands, versions and machines do not count, nor do hashes of images that
// are not known yet (empty).
std::vector<std::string> run_differences(const RunInfo& there, const RunInfo& asked);

// Returns {"r1": {"value", "low", "high", "bca_low", "bca_high"}, ...}; missing numbers are null.
Json figures_json(std::span<const Figure> figures);
// Returns {"r1": {"difference", "low", "high", "bca_low", "bca_high", "p_value", "told_apart"}, ...}.
Json differences_json(std::span<const Difference> differences);

// A dataset's queries and answers: line i of each kind is image or text i.
struct RunImage {
  std::string id;
  ImageRef image;
};
struct RunText {
  std::string text;
  std::vector<int64_t> images;  // the right ones, ascending
};
struct RunItems {
  std::vector<RunImage> images;
  std::vector<RunText> texts;
  std::vector<CompositionItem> compositions;
};

// A query's result: a line of ranks.jsonl.
struct RunAnswer {
  int64_t answer = 0;  // the index of an image (t2i) or of a text (i2t)
  double score = 0;
  bool right = false;
};
struct RunQuery {
  std::string dataset;
  std::string model;
  Direction direction = Direction::kTextToImage;
  int64_t query = 0;           // the index of a text (t2i) or of an image (i2t)
  std::vector<double> ranks;   // ranks of its right answers, ascending; empty: it has none
  bool tied = false;           // a wrong answer has exactly a right one's score
  std::vector<RunAnswer> top;  // the first few answers
};
Json run_query_json(const RunQuery& query);
Result<RunQuery> parse_run_query(const Json& json);

// Location of a dataset's image and text embeddings, for plots: a safetensors file in the format of `eval
// retrieval --embeddings`.
struct RunEmbeddings {
  std::string dataset;
  std::string model;
  std::string file;  // relative to the run's folder, or absolute
};

// Writes a run folder. The folder is locked by one process at a time. Existing files stay as they are until
// finish(); new files are staged beside them, and are deleted with an unfinished writer.
class RunWriter {
 public:
  // Claims the folder; errors as RunFolder::claim. Returns kMismatch, naming the differences, if it holds a
  // finished run of other inputs and `overwrite` is false.
  static Result<RunWriter> open(const std::filesystem::path& folder, const RunInfo& info, bool overwrite);

  // Appends a line to a file of JSON lines ("ranks.jsonl"); finish() puts it in place.
  Status add_line(const std::string& name, const Json& line);
  Status add_items(const std::string& dataset, const RunItems& items);
  Status add_query(const RunQuery& query) { return add_line("ranks.jsonl", run_query_json(query)); }
  // Adds embeddings. images: [n, d], texts: [m, d]; text_image: [m], -1 for a text without an image.
  Status add_embeddings(const std::string& dataset, const std::string& model, MatrixView<const float> images,
                        MatrixView<const float> texts, std::span<const int64_t> text_image,
                        const std::map<std::string, std::string>& metadata);
  // Refers to embeddings in a file elsewhere.
  void name_embeddings(RunEmbeddings embeddings) { embeddings_.push_back(std::move(embeddings)); }
  // Adds a whole file to the run under its name.
  Status add_file(const std::string& name, std::string_view content);

  // Returns kMismatch as open(), for inputs that have become known since.
  [[nodiscard]] Status check_inputs(const RunInfo& info) const;
  // Writes everything, run.json last, and removes files of the previous run that no longer exist. `info` is
  // that of open(), completed by what has become known since (hashes of images, counts). Returns kMismatch as
  // open() if these differ from the finished run in the folder.
  Status finish(const RunInfo& info, const Json& metrics);

 private:
  struct Lines;
  struct File {
    std::string name;
    int64_t bytes = 0;
    std::string sha256;
  };
  explicit RunWriter(RunFolder folder) : folder_(std::move(folder)) {}
  Status write_all_files(const Json& metrics);

  RunFolder folder_;
  bool overwrite_ = false;
  RunInfo there_;  // the finished run that is there
  std::map<std::string, std::shared_ptr<Lines>> lines_;
  std::map<std::string, std::string> contents_;  // contents of add_file
  std::vector<File> files_;
  std::vector<RunEmbeddings> embeddings_;
};

// A finished run, loaded.
struct Run {
  std::filesystem::path folder;
  RunInfo info;
  Json metrics;
  std::map<std::string, std::string> files;  // name -> SHA-256
  std::vector<RunEmbeddings> embeddings;     // `file` as a path from here
};

// Reads run.json and metrics.json. Errors: kNotFound for a folder without run.json (not a run, or an
// unfinished one); kBadData, naming file and field, for an invalid format, and for files that are missing or
// changed.
Result<Run> read_run(const std::filesystem::path& folder);
// Calls `line` for every line of one of the run's files of JSON lines, in order. Errors name file and line.
// The first error of `line` stops the reading.
Status read_run_lines(const Run& run, const std::string& name,
                      const std::function<Status(const Json&)>& line);
// Reads items.jsonl, by dataset.
Result<std::map<std::string, RunItems>> read_run_items(const Run& run);

}  // namespace saccade::lab

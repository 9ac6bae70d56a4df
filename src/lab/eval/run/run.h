// A run: the folder that an evaluation leaves behind, with what went in, what came out, and what a page about
// it needs. docs/runs.md describes every file and field.
//
//   run.json       protocol, hashes, versions, seed, machine; the names, sizes and hashes of the other files
//   metrics.json   the figures
//   items.jsonl    the pictures and texts that were ranked
//   ranks.jsonl    one line a query (or pairs.jsonl: one line an item of a test of composition)
//   embeddings/    rows of pictures and texts, a file a dataset and checkpoint
//
// run.json is written last and taken away first: a folder without it is no finished run.
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

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "lab/data/dataset.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run_folder.h"

namespace saccade::lab {

inline constexpr int64_t kRunFormat = 1;

struct RunDataset {
  std::string name;  // unique in the run
  std::string path;  // as given
  std::string layout;
  std::string sha256;           // Dataset::hash: ids, groups, captions
  std::string pictures_sha256;  // over the SHA-256 of every picture's bytes, in order; empty: not read
  int64_t images = 0;           // what was scored, exclusions taken off
  int64_t texts = 0;
  int64_t compositions = 0;
  std::vector<Exclusion> excluded;
};

struct RunCheckpoint {
  std::string name;         // unique in the run
  std::string path;         // its folder, or the file of embeddings or scores that stands for it
  std::string fingerprint;  // of the encoder, or SHA-256 of that file
  std::string family;       // empty where a file stands for it
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
// Of this machine; what cannot be found out is empty or 0.
RunMachine this_machine(int threads);

// What went into a run.
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
// kBadData names the field; kUnsupported for another format.
Result<RunInfo> parse_run_info(const Json& json);

// In what two runs' inputs differ, a line each with both values; empty where a run of one would give the
// figures of the other. Paths, commands, versions and machines do not count, nor do hashes of pictures that
// are not known yet (empty).
std::vector<std::string> run_differences(const RunInfo& there, const RunInfo& asked);

// {"r1": {"value", "low", "high", "bca_low", "bca_high"}, ...}, null for what there is none of.
Json figures_json(std::span<const Figure> figures);
// {"r1": {"difference", "low", "high", "bca_low", "bca_high", "p_value", "told_apart"}, ...}
Json differences_json(std::span<const Difference> differences);

// What a dataset's queries and answers are: line i of each kind is picture or text i.
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

// A query's outcome: a line of ranks.jsonl.
struct RunAnswer {
  int64_t answer = 0;  // the index of a picture (t2i) or of a text (i2t)
  double score = 0;
  bool right = false;
};
struct RunQuery {
  std::string dataset;
  std::string model;
  Direction direction = Direction::kTextToImage;
  int64_t query = 0;           // the index of a text (t2i) or of a picture (i2t)
  std::vector<double> ranks;   // of its right answers, ascending; empty: it has none
  bool tied = false;           // a wrong answer has exactly a right one's score
  std::vector<RunAnswer> top;  // the first few answers
};
Json run_query_json(const RunQuery& query);
Result<RunQuery> parse_run_query(const Json& json);

// Where the rows of a dataset's pictures and texts are, for maps of them: a safetensors file in the form
// that `eval retrieval --embeddings` reads.
struct RunEmbeddings {
  std::string dataset;
  std::string model;
  std::string file;  // relative to the run's folder, or absolute
};

// Writes a run folder. One process at a time holds one: the folder is locked. What is there stays as it is
// until finish(); what was added lies beside it until then, and goes with the writer.
class RunWriter {
 public:
  // Claims the folder; errors as RunFolder::claim. kMismatch where it holds a finished run of other inputs
  // (both are named) and `overwrite` is false.
  static Result<RunWriter> open(const std::filesystem::path& folder, const RunInfo& info, bool overwrite);

  // Appends a line to a file of JSON lines ("ranks.jsonl"); it comes into being with finish().
  Status add_line(const std::string& name, const Json& line);
  Status add_items(const std::string& dataset, const RunItems& items);
  Status add_query(const RunQuery& query) { return add_line("ranks.jsonl", run_query_json(query)); }
  // images: [n, d], texts: [m, d]; text_image: [m], -1 for a text without a picture.
  Status add_embeddings(const std::string& dataset, const std::string& model, MatrixView<const float> images,
                        MatrixView<const float> texts, std::span<const int64_t> text_image,
                        const std::map<std::string, std::string>& metadata);
  // Points to rows in a file elsewhere.
  void name_embeddings(RunEmbeddings embeddings) { embeddings_.push_back(std::move(embeddings)); }
  // A file of the run by its name, whole.
  Status add_file(const std::string& name, std::string_view content);

  // kMismatch as open(), for what has become known since.
  [[nodiscard]] Status check_inputs(const RunInfo& info) const;
  // Writes everything, run.json last; files of the run that was there and is no more are removed. `info` is
  // what open() got, with what has become known since (hashes of pictures, counts); kMismatch as open() where
  // that tells it from the finished run that is there.
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
  std::map<std::string, std::string> contents_;  // of add_file
  std::vector<File> files_;
  std::vector<RunEmbeddings> embeddings_;
};

// A finished run, read.
struct Run {
  std::filesystem::path folder;
  RunInfo info;
  Json metrics;
  std::map<std::string, std::string> files;  // name -> SHA-256
  std::vector<RunEmbeddings> embeddings;     // `file` as a path from here
};

// Reads run.json and metrics.json. kNotFound for a folder without run.json (no
// run, or one that was cut off); kBadData naming file and field for what breaks
// the format, and for files that are missing or not as they were written.
Result<Run> read_run(const std::filesystem::path& folder);
// Every line of one of the run's files of JSON lines, in order. Errors name file and line. The first error of
// `line` ends it.
Status read_run_lines(const Run& run, const std::string& name,
                      const std::function<Status(const Json&)>& line);
// items.jsonl, by dataset.
Result<std::map<std::string, RunItems>> read_run_items(const Run& run);

}  // namespace saccade::lab

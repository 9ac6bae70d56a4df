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
#include <vector>

#include "lab/eval/run/record_fields.h"
#include "lab/eval/run/run_folder.h"
#include "lab/eval/run/run_record.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"

namespace saccade::lab {

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
  Status add_query(const RunQuery& query) { return add_line("ranks.jsonl", record_json(query)); }
  // Adds embeddings. images: [n, d], texts: [m, d]; text_image: [m], -1 for a text without an image.
  Status add_embeddings(const std::string& dataset, const std::string& model, MatrixView<const float> images,
                        MatrixView<const float> texts, std::span<const int64_t> text_image,
                        const std::map<std::string, std::string>& metadata);
  // Refers to embeddings in a file elsewhere.
  void name_embeddings(RunEmbeddings embeddings) { embeddings_.push_back(std::move(embeddings)); }

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
// Returns the contents of metrics.json as the type of the run's kind, such as RetrievalMetrics. kBadData names the file and
// the key.
template <typename Metrics>
Result<Metrics> read_metrics(const Run& run) {
  return read_record<Metrics>(run.metrics).in((run.folder / "metrics.json").string());
}
// Calls `line` for every line of one of the run's files of JSON lines, in order. Errors name file and line.
// The first error of `line` stops the reading.
Status read_run_lines(const Run& run, const std::string& name,
                      const std::function<Status(const Json&)>& line);
// Reads items.jsonl, by dataset.
Result<std::map<std::string, RunItems>> read_run_items(const Run& run);

}  // namespace saccade::lab

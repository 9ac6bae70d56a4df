// Files that a command writes where its user says: they replace an earlier output, and never by accident the
// command's own inputs, a collection, or somebody's file of another kind.
//
//   OutputRules rules{.inputs = {dataset}, .closed = {checkpoint}, .overwrite = overwrite};
//   SACCADE_TRY(check_output(output, OutputKind::kJsonLines, rules));   // before the work begins
//   SACCADE_TRY(write_output(output, OutputKind::kJsonLines, rules, manifest));
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

// Formats of outputs. An existing file is of the format if its first bytes say so.
enum class OutputKind {
  kHtml,
  kJson,         // an object
  kJsonLines,    // an object a line
  kNumpy,        // .npy
  kSafetensors,  // vectors as `embed` writes them, not the weights of a checkpoint
  kShellScript,  // begins with #!/bin/sh
  kDocument,     // text that people write too: nothing tells it from theirs
};

struct OutputRules {
  // Files and folders that the command reads. Paths that do not exist are ignored.
  std::vector<std::filesystem::path> inputs = {};
  // Folders that belong to the program, in which no output may lie: collections and checkpoints.
  std::vector<std::filesystem::path> closed = {};
  // Replaces inputs and files of other kinds too; never what lies in a closed folder.
  bool overwrite = false;
};

// Checks that `path` may be written, and changes nothing. Devices, pipes and the process's own streams always may.
// kUsage for "-", which other programs take for standard output, for a path in a closed folder, and unless `overwrite` is
// set for
//   - a file that is one of the inputs, by whatever name (compared by device and inode),
//   - a file below a folder among the inputs, and a new file there whose name has not the ending of its kind,
//   - a file that is not empty and not of this kind.
// kNotFound if the folder to write in does not exist, kBadData if the path is a folder.
Status check_output(const std::filesystem::path& path, OutputKind kind, const OutputRules& rules);

// Checks that a folder that a command fills lies in no closed folder, and is none. kUsage if it does.
Status check_output_folder(const std::filesystem::path& folder, const OutputRules& rules);

// A checked output that is being written; discarded unless it is committed.
class OutputFile {
 public:
  static Result<OutputFile> open(const std::filesystem::path& path, OutputKind kind,
                                 const OutputRules& rules);
  [[nodiscard]] AtomicFile& file() { return file_; }
  Status commit() { return file_.commit(); }

 private:
  friend Status commit_both(OutputFile& first, OutputFile& second);
  OutputFile(std::filesystem::path end, AtomicFile file) : end_(std::move(end)), file_(std::move(file)) {}

  std::filesystem::path end_;  // the file that is replaced: the end of any links
  AtomicFile file_;
};

// Commits two outputs that belong together. If either fails, both paths have what they had before. A process that
// is killed in between may leave the new first file with the old second one.
Status commit_both(OutputFile& first, OutputFile& second);

// Writes a whole output.
Status write_output(const std::filesystem::path& path, OutputKind kind, const OutputRules& rules,
                    std::string_view content);

}  // namespace saccade

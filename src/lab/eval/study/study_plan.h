// The plan of a study of several checkpoints: its parts, its models, and how long each piece of work takes.
//
//   STUDY/study.json               the plan
//   STUDY/models/MODEL/PART/       a run (docs/runs.md) of one model and one part, written by a process of its own
//   STUDY/leaderboard.json         what all finished pieces say together (leaderboard.h)
//
// A part is a command of `saccade-lab eval` without its checkpoint. A piece is a part with a checkpoint and a precision. A
// piece whose folder holds a finished run of the model is done, so that a study goes on where it stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {

struct StudyDataset {
  std::string name;
  std::string given;  // as the user wrote it
  std::string sha256;
  int64_t images = 0;  // to encode
  int64_t texts = 0;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(name, given, sha256, images, texts); }
};

struct StudyPart {
  std::string kind;                // of the run: "retrieval", "winoground", "length", "speed"
  std::vector<std::string> words;  // the command that measures it, without checkpoint, precision and folder
  std::vector<StudyDataset> datasets = {};
  std::optional<std::string> table_sha256 = {};  // of the file of --by-table
  // Words that change no figure (threads, cache). They are not part of the plan.
  std::vector<std::string> process_words = {};
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(kind, words, datasets);
    field.if_set("table_sha256", self.table_sha256);
  }
};

// Rates of a model on this machine, for estimates.
struct StudyRates {
  double load_s = 0;
  double images_per_s = 0;
  double texts_per_s = 0;
  std::string scored_by;  // "cosine" or "maxsim"
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(load_s, images_per_s, texts_per_s, scored_by);
  }
};

struct StudyModel {
  std::string checkpoint;  // as given
  std::string name;        // display name (checkpoint_name)
  std::string precision;
  std::string fingerprint;
  std::string folder = {};  // relative to the study's
  std::optional<StudyRates> rates = {};
  // Reason why the device of the parts' words does not run the model, which is then measured on the processor;
  // empty if it does. Not recorded.
  std::string off_device = {};
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(checkpoint, name, precision, fingerprint, folder, rates);
  }
};

struct StudyPlan {
  static constexpr int64_t kFormat = 1;
  int64_t format = kFormat;
  uint64_t seed = 0;
  int64_t resamples = 0;
  double confidence = 0.95;
  std::vector<StudyPart> parts;
  std::vector<StudyModel> models;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(format, seed, resamples, confidence, parts, models);
  }
};

struct StudyOptions {
  std::filesystem::path folder;
  std::vector<std::string> checkpoints;
  std::vector<Precision> precisions = {Precision::kFp32};
  std::vector<StudyPart> parts;  // datasets and hashes are filled in by plan_study
  BootstrapOptions bootstrap;    // as in the parts' words
  bool texts_only =
      false;  // true if no part reads images; models are then not probed, and nothing is estimated
  int64_t speed_limit = 128;  // images of the part "speed"
  bool overwrite = false;     // true to remove what was measured, also if the parts are other ones
};

// Runs a command of this program in a process of its own, and returns what it printed. `words`: its arguments.
using StudyProcess = std::function<Result<std::string>(const std::vector<std::string>& words)>;

struct StudyPiece {
  size_t part = 0;
  size_t model = 0;
  bool done = false;
  // Estimated seconds for loading and encoding without a cache; ranking and intervals are not counted. nullopt: not known, or done.
  std::optional<double> seconds = {};
};

// A study that this process works on.
struct StudyWork {
  std::filesystem::path folder;
  StudyPlan plan = {};
  std::vector<StudyPiece> pieces = {};  // model by model, each with its parts in their order
  Descriptor lock = {};

  [[nodiscard]] std::filesystem::path piece_folder(const StudyPiece& piece) const;
};

// Makes the plan, or goes on with that of the folder. A model that the parts' --device does not run (check_runs_on_device) is
// measured on the processor. Each new model is loaded once in a process of its own and encodes a few
// images and texts, from which the estimates come. Errors: kUsage for a folder that is not empty and no study, and without
// parts or checkpoints; kMismatch if the folder's study has other parts and `overwrite` is false; kCancelled if another process works
// on it; those of reading datasets and of the processes.
Result<StudyWork> plan_study(const StudyOptions& options, const CheckpointSource& checkpoints,
                             const StudyProcess& process);

// Returns the arguments of a piece's process, without --device if that does not run the model.
std::vector<std::string> piece_words(const StudyWork& work, const StudyPiece& piece);

// Waits while another process writes into the piece's folder: the process of an earlier study that was killed is told to stop,
// and needs a moment. Errors: kCancelled if stopped.
Status wait_for_writer(const StudyWork& work, const StudyPiece& piece, const std::stop_token& stop);

// Returns true if the folder holds a study's plan.
bool is_study(const std::filesystem::path& folder);

}  // namespace saccade::lab

// The record of a run: its inputs, items and ranked queries, and their JSON. docs/runs.md describes every field.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

inline constexpr int64_t kRunFormat = 1;

struct RunDataset {
  std::string name;  // unique in the run
  std::string path;  // as given
  std::string layout;
  std::string sha256;         // Dataset::hash: ids, groups, captions
  std::string images_sha256;  // over the SHA-256 of every image's bytes, in order; empty: not read
  int64_t images = 0;         // number scored, without exclusions
  int64_t texts = 0;
  int64_t compositions = 0;
  std::vector<Exclusion> excluded;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(name, path);
    field.or_null("layout", self.layout);
    field.or_null("sha256", self.sha256);
    field.or_null("images_sha256", self.images_sha256);
    SACCADE_FIELDS(images, texts);
    field.added("compositions", self.compositions);
    SACCADE_FIELDS(excluded);
  }
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
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(name, path, fingerprint);
    field.or_null("family", self.family);
    field.or_null("precision", self.precision);
    SACCADE_FIELDS(parameters, dim, context, image_height, image_width);
  }
};

struct RunMachine {
  std::string processor;
  int64_t threads = 0;
  int64_t memory_bytes = 0;
  std::string device = "cpu";  // device of the encoders: "cpu", "cuda", "cuda:1"
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(processor, threads, memory_bytes);
    field.added("device", self.device);
  }
};
// Returns this machine's description; unknown values are empty or 0.
RunMachine this_machine(int threads);

// Inputs of a run.
struct RunInfo {
  std::string kind;                  // "retrieval", "winoground", "length", "speed"
  std::string saccade;               // the program's version
  std::vector<std::string> command;  // the arguments it was started with
  // "description": the protocol in sentences; the other members are its fields, by kind.
  Json protocol = Json::object();
  uint64_t seed = 0;
  int64_t resamples = 0;
  double confidence = 0.95;
  std::vector<RunDataset> datasets;
  std::vector<RunCheckpoint> checkpoints;
  std::map<std::string, std::string> libraries;  // name -> version
  RunMachine machine;
  static void fields(auto& self, auto& field) {
    int64_t format = kRunFormat;
    field("format", format);
    SACCADE_FIELDS(kind, saccade, command, protocol, seed, resamples, confidence, datasets, checkpoints,
                   libraries, machine);
  }
};

Json run_json(const RunInfo& info);
// Parses run.json. kBadData names the field; kUnsupported for another format.
Result<RunInfo> parse_run_info(const Json& json);

// Returns the differences between two runs' inputs, one line each with both values. It is empty if both would
// give the same figures. Paths, commands, versions and machines do not count, apart from the device, nor do
// hashes of images that are not known yet (empty).
std::vector<std::string> run_differences(const RunInfo& there, const RunInfo& asked);

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
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(answer, score, right); }
};
struct RunQuery {
  std::string dataset;
  std::string model;
  Direction direction = Direction::kTextToImage;
  int64_t query = 0;           // the index of a text (t2i) or of an image (i2t)
  std::vector<double> ranks;   // ranks of its right answers, ascending; empty: it has none
  bool tied = false;           // a wrong answer has exactly a right one's score
  std::vector<RunAnswer> top;  // the first few answers
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, direction, query);
    field.whole("ranks", self.ranks);
    SACCADE_FIELDS(tied, top);
  }
};

// Location of a dataset's image and text embeddings, for plots: a safetensors file in the format of `eval
// retrieval --embeddings`.
struct RunEmbeddings {
  std::string dataset;
  std::string model;
  std::string file;  // relative to the run's folder, or absolute
};

}  // namespace saccade::lab

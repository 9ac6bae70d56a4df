// Training and test data of heads: features of a frozen encoder, computed once from datasets through the
// cache of embeddings (eval/rows), or by another program. Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "lab/eval/rows/embed.h"
#include "lab/eval/run/run_folder.h"
#include "lab/train/data/feature_file.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/families/head.h"

namespace saccade::lab {

// A file under a temporary name until keep(). Otherwise the destructor deletes it, and the folders that were
// made for it.
class PendingFile {
 public:
  PendingFile() = default;
  // Makes the file's folder; kIo if it cannot be made.
  static Result<PendingFile> at(const std::filesystem::path& path);
  PendingFile(PendingFile&& other) noexcept { *this = std::move(other); }
  PendingFile& operator=(PendingFile&& other) noexcept;
  ~PendingFile();

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  // Gives the file its name; does nothing if it already has it.
  Status keep();

 private:
  MadeFolders folders_;         // removed after the file
  std::filesystem::path path_;  // empty: there is no temporary file
  std::filesystem::path temporary_;
};

// Images and texts whose features are requested. Text t belongs to image text_image[t].
struct FeatureItems {
  std::vector<ImageRef> pictures;
  std::vector<std::string_view> texts;
  std::vector<int64_t> text_image;
  std::vector<int64_t> text_number;  // text numbers for the file, ascending
};

struct BuiltFeatures {
  PendingFile file;
  FeatureFile features;
  std::vector<std::string> left_out;  // unreadable images, with the reasons
};
// Makes a file of the items' features at `path`. An existing file is used if it has the same inputs (images
// by their file stamps, core/files/file_stamp.h). Otherwise features come through the cache. An unreadable
// image is left out with its texts. `named`: the dataset, for messages. Errors: kUsage for an encoder without
// a tokenizer; kBadData if no pair is left; kCancelled. Memory: a chunk of a few thousand rows.
Result<BuiltFeatures> build_features(EncoderBackend& encoder, const HeadInput& input,
                                     const FeatureItems& items, const std::filesystem::path& path,
                                     const std::string& named, const EmbedOptions& options, ThreadPool& pool);

// Returns the first `count` of `all` numbers in an order shuffled by the seed, ascending. Subsets of one seed
// are nested. 0, or a count above `all`, returns all of them.
std::vector<int64_t> choose_pairs(int64_t all, int64_t count, uint64_t seed);

// The frozen encoder's own embeddings of a set's images and texts: "no head". The scores borrow the rows.
struct OwnRows {
  EmbeddedRows images;
  EmbeddedRows texts;
  std::unique_ptr<PairScores> scores;
};

// A set on which heads are measured.
struct HeadSet {
  std::string name;
  Json description;  // description in run.json
  RunDataset described;
  PendingFile file;
  FeatureFile features;
  RetrievalTask task;
  TieBreak ties;
  std::unique_ptr<OwnRows> own;  // null if image and text embeddings have different widths
};
// Makes a set of all images and texts of a dataset. An unreadable image is kBadData, since leaving it out
// would change the measurement.
Result<HeadSet> head_set_of_dataset(const NamedDataset& dataset, EncoderBackend& encoder,
                                    const HeadInput& input, CaptionPolicy captions,
                                    const std::filesystem::path& path, const EmbedOptions& options,
                                    ThreadPool& pool);
Result<HeadSet> head_set_of_file(const std::filesystem::path& path, CaptionPolicy captions);

// Measures a model by its embeddings of all the set's images and texts: [images, d], [texts, d].
Result<RetrievalOutcome> measure_rows(const HeadSet& set, MatrixView<const float> images,
                                      MatrixView<const float> texts, const BootstrapOptions& bootstrap,
                                      ThreadPool& pool);
// Embeddings of a head's checkpoint, encoded without libtorch. kMismatch for one that takes other widths.
struct HeadRows {
  Matrix<float> images;
  Matrix<float> texts;
};
Result<HeadRows> head_rows(FeatureHead& head, const HeadSet& set);
// Measures the encoder without a head; `nullopt` if it has no such embeddings.
Result<std::optional<RetrievalOutcome>> measure_own(const HeadSet& set, const BootstrapOptions& bootstrap,
                                                    ThreadPool& pool);

}  // namespace saccade::lab

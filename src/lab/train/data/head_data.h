// What heads are trained on and measured on: features of a frozen encoder, computed once from datasets
// through the cache of rows (eval/rows), or by another program. Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "lab/eval/evaluation.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "lab/eval/rows/embed.h"
#include "saccade/model/families/head.h"
#include "saccade/model/checkpoints/locate.h"
#include "lab/train/data/feature_file.h"

namespace saccade::lab {

// A file that is there under a temporary name until it is kept; gone with the object otherwise, and so are
// the folders that were made for it.
class PendingFile {
 public:
  PendingFile() = default;
  explicit PendingFile(std::filesystem::path path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&& other) noexcept;
  ~PendingFile();

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  // Gives it its name; nothing where it has that already.
  Status keep();

 private:
  void discard();
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::vector<std::filesystem::path> made_;
};

// Pictures and texts whose features are asked for: text t belongs to picture text_image[t].
struct FeatureItems {
  std::vector<ImageRef> pictures;
  std::vector<std::string_view> texts;
  std::vector<int64_t> text_image;
  std::vector<int64_t> text_number;  // what the file is to call them, ascending
};

struct BuiltFeatures {
  PendingFile file;
  FeatureFile features;
  std::vector<std::string> left_out;  // pictures that could not be read, with why
};
// Features of the items in a file at `path`, taken from the file that is there where it was made of the same
// (pictures by what their files look like, core/files/file_stamp.h), else through the cache. A picture that cannot
// be read is left out with its texts. `named`: the dataset, for messages. kUsage for an encoder without a
// tokenizer, kBadData where no pair is left, kCancelled. Memory: a chunk of a few thousand rows.
Result<BuiltFeatures> build_features(EncoderBackend& encoder, const HeadInput& input, const FeatureItems& items,
                                     const std::filesystem::path& path, const std::string& named,
                                     const EmbedOptions& options, ThreadPool& pool);

// The first `count` of `all` numbers in an order shuffled by the seed, ascending: subsets of one seed lie
// within each other. 0, or more than there are: all of them.
std::vector<int64_t> choose_pairs(int64_t all, int64_t count, uint64_t seed);

// What the frozen encoder itself makes of a set's pictures and texts: "no head". The scores borrow the rows.
struct OwnRows {
  EmbeddedRows images;
  EmbeddedRows texts;
  std::unique_ptr<PairScores> scores;
};

// What heads are measured on.
struct HeadSet {
  std::string name;
  Json description;  // for run.json
  RunDataset described;
  PendingFile file;
  FeatureFile features;
  RetrievalTask task;
  TieBreak ties;
  std::unique_ptr<OwnRows> own;  // null where pictures and texts have rows of different widths
};
// All pictures and texts of a dataset. A picture that cannot be read is kBadData, as without it this would be
// another measurement than the one that was asked for.
Result<HeadSet> head_set_of_dataset(const NamedDataset& dataset, EncoderBackend& encoder, const HeadInput& input,
                                    CaptionPolicy captions, const std::filesystem::path& path,
                                    const EmbedOptions& options, ThreadPool& pool);
Result<HeadSet> head_set_of_file(const std::filesystem::path& path, CaptionPolicy captions);

// Figures of a model whose rows of all the set's pictures and texts are given: [images, d], [texts, d].
Result<RetrievalOutcome> measure_rows(const HeadSet& set, MatrixView<const float> images,
                                      MatrixView<const float> texts, const BootstrapOptions& bootstrap,
                                      ThreadPool& pool);
// The same of a head's checkpoint, as it encodes without libtorch. kMismatch for one that takes other widths.
struct HeadRows {
  Matrix<float> images;
  Matrix<float> texts;
};
Result<HeadRows> head_rows(FeatureHead& head, const HeadSet& set);
// Of no head; none where there are no such rows.
Result<std::optional<RetrievalOutcome>> measure_own(const HeadSet& set, const BootstrapOptions& bootstrap,
                                                    ThreadPool& pool);

}  // namespace saccade::lab

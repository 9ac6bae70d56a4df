// Training data of composers: triplets, the images and texts they name, and held-out queries. Internal to the
// module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/composed/composed_task.h"
#include "lab/train/data/item_file.h"
#include "lab/train/options/composed_options.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/progress.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

struct ComposedTriplet {
  int32_t reference = 0;  // images' numbers, as all below
  int32_t pseudo = -1;    // the generated target; -1: none
  int32_t group = 0;
  int32_t targets_begin = 0;  // in ComposedData::targets, up to the next triplet's
  int32_t texts_begin = 0;    // likewise in ::wordings; its own wordings first, then its paraphrases
  int32_t own_wordings = 1;   // number of its own: more than one if its texts are joined in several ways
};

struct HeldOutQueries {
  std::string name;
  Dataset dataset;  // without paraphrases
  ComposedTask task;
  std::vector<int64_t> pictures;  // [task.pictures]: numbers
  std::vector<int64_t> texts;     // [task.asked]: numbers
};

struct ComposedData {
  std::vector<ImageRef> pictures;         // each once, by name
  std::vector<std::string> texts;         // each once
  std::vector<ComposedTriplet> triplets;  // and one behind them, for the ends
  std::vector<int32_t> targets;
  std::vector<int32_t> wordings;
  std::vector<HeldOutQueries> held_out;
  std::vector<HeldOutQueries> test;
  Json description;  // datasets, their hashes and counts

  [[nodiscard]] int64_t size() const { return std::ssize(triplets) - 1; }
  [[nodiscard]] std::span<const int32_t> targets_of(int64_t triplet) const;
  [[nodiscard]] std::span<const int32_t> wordings_of(int64_t triplet) const;
};

// Reads datasets and pseudo-targets without opening images. Errors: kUsage for a dataset of another kind, or
// a held-out one that is also trained on; kBadData for an invalid manifest of pseudo-targets, with the line.
Result<ComposedData> read_composed_data(const ComposedTrainingOptions& options);
// Leaves out the triplets with missing images, and fixes the held-out tasks. Returns kBadData if fewer
// triplets than a batch are left.
Status settle_composed_data(const ComposedTrainingOptions& options, const ItemFile& pictures,
                            ComposedData& data);

// Images as encoder inputs, with eight bits per value. The preprocessed values are (v / 255 - mean) / std.
struct StoredPixels {
  ItemFile file;
  Preprocessing preprocessing;
  // Reads an image into [3 * height * width] float32.
  void read(int64_t picture, std::span<float> out) const;
};
// Token states of a frozen encoder in half precision. Composers that need none get only the token that stands
// for the whole.
struct StoredTokens {
  ItemFile file;
  int64_t dim = 0;
  std::vector<int64_t> tokens;  // number of tokens of each item
};

Result<StoredPixels> store_pixels(const LoadedEncoder& loaded, const ComposedData& data,
                                  const std::filesystem::path& cache, const EmbedOptions& embed,
                                  ThreadPool& pool);
// Stores token states. all: every token; otherwise only the one that stands for the whole.
Result<StoredTokens> store_picture_tokens(const LoadedEncoder& loaded, const ComposedData& data, bool all,
                                          const std::filesystem::path& cache, const EmbedOptions& embed,
                                          ThreadPool& pool);
// Stores all states of the vision tower that a Q-Former asks; `dim` is their width.
Result<StoredTokens> store_vision_states(const LoadedEncoder& loaded, const ComposedData& data,
                                         const std::filesystem::path& cache, const EmbedOptions& embed,
                                         ThreadPool& pool);
Result<StoredTokens> store_text_tokens(const LoadedEncoder& loaded, std::span<const TokenizedText> texts,
                                       bool all, const std::filesystem::path& cache,
                                       const EmbedOptions& embed);

// An endless order of triplets, shuffled in each epoch. Up to `together` triplets of a group are adjacent. It
// is a function of seed and place alone.
class GroupedOrder {
 public:
  GroupedOrder(const ComposedData& data, int64_t together, uint64_t seed);
  int64_t at(int64_t place);

 private:
  std::vector<std::vector<int64_t>> groups_;
  int64_t size_ = 0;
  int64_t together_ = 1;
  uint64_t seed_ = 0;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace saccade::lab

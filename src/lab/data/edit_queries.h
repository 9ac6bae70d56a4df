// Edit queries and the images that they name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Index of the galleries' images in EditQueries::gallery. It copies their ids, so it may outlive them.
class GalleryIndex {
 public:
  explicit GalleryIndex(const EditQueries& edits);
  [[nodiscard]] std::optional<size_t> find(const std::string& gallery, const std::string& id) const;
  // Returns the image's index. Returns kBadData if it does not exist, naming image and gallery.
  [[nodiscard]] Result<size_t> at(const std::string& gallery, const std::string& id) const;

 private:
  std::unordered_map<std::string, std::unordered_map<std::string, size_t>> galleries_;
};

// Fills galleries without images of their own with the images that their queries name, in that order, each
// once. The id becomes the path.
void gather_galleries(EditQueries& edits);
// Returns kBadData for an image that occurs twice in a gallery.
Status check_galleries(const EditQueries& edits);
// Returns kBadData for a query without a text, or one that names an image missing from its gallery.
Status check_edit(const EditQuery& query, const GalleryIndex& pictures);

// Removes the images of galleries without queries.
void prune_galleries(EditQueries& edits);
// Removes, and counts, images whose file is missing according to `missing`, and the queries with one of them
// as reference, target or negative or in their subset. The dataset must be one of edit queries.
void drop_missing_pictures(Dataset& dataset, bool (*missing)(const ImageRef& image));

// Statistics of edit queries, for people and for --json.
struct EditCounts {
  int64_t queries = 0;
  int64_t pictures = 0;
  std::map<std::string, int64_t> galleries;  // -> images
  int64_t texts = 0;
  int64_t empty_texts = 0;      // queries whose texts are all empty
  int64_t paraphrased = 0;      // queries that have other wordings
  int64_t several_targets = 0;  // queries
  int64_t without_target = 0;
  int64_t with_subset = 0;
  int64_t with_negatives = 0;
  int64_t with_concept = 0;
};
EditCounts count_edits(const EditQueries& edits);

}  // namespace saccade::lab

// Edit queries and the pictures they name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "saccade/core/error.h"
#include "lab/data/dataset.h"

namespace saccade::lab {

// Where the pictures of a dataset's galleries are in Dataset::gallery. A copy of
// their ids: the dataset may go.
class GalleryIndex {
 public:
  explicit GalleryIndex(const Dataset& dataset);
  [[nodiscard]] std::optional<size_t> find(const std::string& gallery, const std::string& id) const;
  // Its picture. kBadData where it is not there, naming picture and gallery.
  [[nodiscard]] Result<size_t> at(const std::string& gallery, const std::string& id) const;

 private:
  std::unordered_map<std::string, std::unordered_map<std::string, size_t>> galleries_;
};

// Gives galleries that have no picture of their own the pictures that their queries name, in that order, each
// once; the id becomes the path.
void gather_galleries(Dataset& dataset);
// kBadData: a picture that is twice in a gallery.
Status check_galleries(const Dataset& dataset);
// kBadData: a query without a text, or that names a picture that its gallery lacks.
Status check_edit(const EditQuery& query, const GalleryIndex& pictures);

// Leaves out the pictures of galleries that no query is answered from.
void prune_galleries(Dataset& dataset);
// Leaves out, and counts, pictures whose file is not there by `missing`, and the queries whose reference,
// target, subset or negative is among them.
void drop_missing_pictures(Dataset& dataset, bool (*missing)(const ImageRef& image));

// What edit queries are made of, for people and for --json.
struct EditCounts {
  int64_t queries = 0;
  int64_t pictures = 0;
  std::map<std::string, int64_t> galleries;  // -> pictures
  int64_t texts = 0;
  int64_t empty_texts = 0;      // queries whose texts are all empty
  int64_t paraphrased = 0;      // queries that have other wordings
  int64_t several_targets = 0;  // queries
  int64_t without_target = 0;
  int64_t with_subset = 0;
  int64_t with_negatives = 0;
  int64_t with_concept = 0;
};
EditCounts count_edits(const Dataset& dataset);

}  // namespace saccade::lab

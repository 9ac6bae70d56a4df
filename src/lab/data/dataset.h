// Datasets: images, captions and the relation between them, with named splits, in any published layout.
// docs/datasets.md has each layout with an example.
//
// A reader drops no record silently. A record that breaks the layout is an error with its line or number. A
// valid record that has no place in a dataset (an image without a caption, a caption file without its image)
// is left out and counted in `Dataset::excluded`.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::lab {

// Location of an image's bytes: a file, a range of an archive, or a cell of a Parquet file. The latter two
// are read in place.
struct ImageRef {
  std::filesystem::path path;  // absolute, or relative to the current folder
  std::string member;          // in the archive `path`: its name; empty: `path` is the image itself
  int64_t offset = 0;          // in bytes, of archive members only
  int64_t size = 0;
  // Image column, if `path` is a Parquet file. Then `offset` is the row, from 0, `member` "row 17", and
  // `size` 0, since it is only known when the image is read.
  std::string column = {};

  [[nodiscard]] bool in_archive() const { return !member.empty(); }
  // Returns "path", "path: member" or "path: row 17 of image", for messages and as an identity.
  [[nodiscard]] std::string name() const;
  friend bool operator==(const ImageRef&, const ImageRef&) = default;
};
// Returns the images of items, in their order. `Items` is a range of records with a member `image`.
template <typename Items>
std::vector<ImageRef> image_list(const Items& items) {
  std::vector<ImageRef> images;
  for (const auto& item : items) images.push_back(item.image);
  return images;
}

struct DatasetItem {
  std::string id;  // unique in its dataset
  ImageRef image;
  std::vector<std::string> captions;
  std::string source;
  std::string licence;
  std::string group;  // images of one group show the same thing: they belong on one side of a split
  std::string split;
  friend bool operator==(const DatasetItem&, const DatasetItem&) = default;
};

// An item of a test of composition (Winoground, SugarCrepe): captions[k] belongs to images[k]. With one
// image, captions[0] is right and captions[1] wrong.
struct CompositionItem {
  std::string id;
  std::vector<ImageRef> images;       // one or two
  std::vector<std::string> captions;  // two
  std::string kind;                   // kind of change between the captions, named as in the layout
  std::string split;
  friend bool operator==(const CompositionItem&, const CompositionItem&) = default;
};

// A text, and whether it is visual: an example for training and evaluating visualness.
struct RatedText {
  std::string id;
  std::string text;
  std::optional<bool> visual;     // nullopt: ambiguous
  std::vector<double> ratings;    // people's ratings, 1 (not visual) to 7; may be empty
  std::optional<ImageRef> image;  // the text's image
  std::string source;
  std::string licence;
  std::string group;  // texts of one group belong on one side of a split
  std::string split;
  friend bool operator==(const RatedText&, const RatedText&) = default;
};

// An image of an edit query's gallery, or its reference.
struct GalleryPicture {
  std::string id;  // unique in its gallery
  ImageRef image;
  std::string gallery;
  friend bool operator==(const GalleryPicture&, const GalleryPicture&) = default;
};

// A query of the form "this image, but ...": a reference and its modification. Images are named by their ids
// in the query's gallery (lab/data/edit_queries.h finds them).
struct EditQuery {
  std::string id;
  std::string gallery;  // the images it is answered from
  std::string reference;
  std::vector<std::string> texts;        // the modification, in one text or in several that are joined
  std::vector<std::string> paraphrases;  // other wordings of all of that, each whole
  // Right answers, the one for which the texts were written first. Empty if the test's publishers withhold
  // them.
  std::vector<std::string> targets;
  std::vector<std::string> subset;     // a smaller ranking's candidates (CIRR), the reference among them
  std::vector<std::string> negatives;  // images that are explicitly wrong
  std::string shared_concept;          // common content of reference and targets, as text (CIRCO)
  std::string kind;                    // kind of modification, or Fashion-IQ's category
  std::string group;                   // queries of one group belong on one side of a split
  std::string split;
  friend bool operator==(const EditQuery&, const EditQuery&) = default;
};

// Records that were left out for the same reason.
struct Exclusion {
  std::string reason;  // "images without captions"
  int64_t count = 0;
  std::vector<std::string> examples;  // the first few, by name

  // JSON of runs (lab/eval/run/record_fields.h).
  static void fields(auto& self, auto& field) {
    field("reason", self.reason);
    field("count", self.count);
    field("examples", self.examples);
  }
};

// A file of records (not of images) from which the items came.
struct RecordFile {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;  // empty for archives, which are not read whole
};

// Kinds of datasets. `kName` names the items in messages; `kEvaluation` is the command of `saccade eval` that
// measures them.
struct CaptionedImages {
  static constexpr std::string_view kName = "images with captions";
  static constexpr std::string_view kEvaluation = "retrieval";
  std::vector<DatasetItem> items;
  friend bool operator==(const CaptionedImages&, const CaptionedImages&) = default;
};
struct CompositionTests {
  static constexpr std::string_view kName = "tests of composition";
  static constexpr std::string_view kEvaluation = "winoground";
  std::vector<CompositionItem> items;
  friend bool operator==(const CompositionTests&, const CompositionTests&) = default;
};
struct RatedTexts {
  static constexpr std::string_view kName = "rated texts";
  static constexpr std::string_view kEvaluation = "visualness";
  std::vector<RatedText> items;
  friend bool operator==(const RatedTexts&, const RatedTexts&) = default;
};
struct EditQueries {
  static constexpr std::string_view kName = "edit queries";
  static constexpr std::string_view kEvaluation = "composed";
  std::vector<EditQuery> items;
  std::vector<GalleryPicture> gallery;  // images of all queries' galleries
  friend bool operator==(const EditQueries&, const EditQueries&) = default;
};
using DatasetContent = std::variant<CaptionedImages, CompositionTests, RatedTexts, EditQueries>;

struct Dataset {
  std::string name =
      {};  // the file's name without its ending, or the folder's; with the split: "photos-test"
  std::string layout = {};  // name of its layout (docs/datasets.md)
  // SHA-256 over the items' ids, groups, captions, texts, labels, edit queries and galleries, in order. It is
  // equal for a dataset and its converted manifest, at any path. Images' bytes are not in it.
  std::string hash = {};
  DatasetContent content = {};
  std::vector<Exclusion> excluded = {};
  std::vector<RecordFile> files = {};
  // Number of items by split, before a split was chosen; "" for items without one.
  std::map<std::string, int64_t> split_sizes = {};

  // Counts a record that was left out; keeps the first few names.
  void exclude(std::string_view reason, std::string_view example);
  // Adds the exclusions of a part of the dataset.
  void exclude(const Exclusion& exclusion);

  // Returns the number of items.
  [[nodiscard]] int64_t size() const;
  // Returns the kind of items, for messages: "rated texts".
  [[nodiscard]] std::string_view kind() const;

  // Returns the content, which must be of this kind.
  template <typename Kind>
  [[nodiscard]] Kind& as() {
    return std::get<Kind>(content);
  }
  template <typename Kind>
  [[nodiscard]] const Kind& as() const {
    return std::get<Kind>(content);
  }
  // Returns the content if it is of this kind; otherwise `nullptr`.
  template <typename Kind>
  [[nodiscard]] const Kind* find() const {
    return std::get_if<Kind>(&content);
  }
  // Returns the content if it is of this kind and has items. Otherwise kUsage with the dataset's name, both
  // kinds, and the evaluation that measures what it is.
  template <typename Kind>
  [[nodiscard]] Result<const Kind*> need() const {
    if (const Kind* found = find<Kind>(); found != nullptr && !found->items.empty()) return found;
    return wrong_kind(Kind::kName);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong_kind(std::string_view wanted) const;
};

struct DatasetOptions {
  std::string format;  // name of a layout (docs/datasets.md); empty: told from the content
  std::string split;   // only items of this split, or of several: "train+restval"; empty: all
  // Folder to which image names are relative. If empty, the layout's usual places beside the file.
  std::filesystem::path images;
  // If true, items with a missing image file are left out and counted. Otherwise this is not checked, and
  // opening the file fails.
  bool skip_missing = false;
  // Column names by role, for layouts with named columns: "image", "caption", "id", "split" or "group".
  std::map<std::string, std::string> columns;
};

// Path of a dataset, with options for reading it.
struct DatasetSource {
  template <typename Path>
  requires std::convertible_to<Path, std::filesystem::path> DatasetSource(Path&& where,
                                                                          DatasetOptions how = {})
      : path(std::forward<Path>(where)), options(std::move(how)) {}

  std::filesystem::path path;
  DatasetOptions options;
};

}  // namespace saccade::lab

// A retrieval task: images and texts of a dataset under a caption policy, and their relevance.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/run/run.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Policy for captions. COCO's images have five captions and sometimes six or seven, and some captions belong
// to several images. Figures under different policies are not comparable.
enum class CaptionPolicy {
  kAll,         // every caption is a text; its one right image is its own
  kFirst5,      // the same with each image's first five captions
  kFirst1,      // the same with each image's first caption
  kDedup,       // equal captions are one text; right are all images that have it
  kOneCaption,  // each image's first caption; right are all with an equal first caption, in both directions
};
// Returns "all", "first5", ..., "one-caption", and each policy's meaning in a clause.
std::span<const EnumName<CaptionPolicy>> enum_names(CaptionPolicy);

struct SourceText {
  std::string caption;  // empty if unknown
  int64_t image = -1;   // -1: none
};

// Images and texts before a policy. If captions are known, texts come in the order of their images.
struct RetrievalSource {
  std::vector<RunImage> images;
  std::vector<SourceText> texts;
  bool captions_known = true;
};
// Returns a dataset's items and all their captions, in order. Returns kUsage for a test of composition.
Result<RetrievalSource> retrieval_source(const Dataset& dataset);

// The first caption of every image. They are the queries of some protocols, and the only texts of the symmetric one.
struct FirstCaptions {
  std::vector<int64_t> texts;  // [images]: their numbers in the task, ascending
  Relevance relevance;         // of these texts, in this order, and the task's images
};

struct RetrievalTask {
  RunItems items;               // images and texts
  std::vector<int64_t> images;  // numbers of the images in the source, ascending
  std::vector<int64_t> texts;   // numbers of the texts in the source, ascending; the first of equal ones
  Relevance relevance;
  std::vector<int64_t> image_of_text;  // the first right image of each text: its cluster
  std::vector<std::string> text_ids;   // unique: "ID#k", k the caption's number at its image, from 0
  std::optional<FirstCaptions> first;  // nullopt for policies that compare captions
  // True if only the first captions are queries of text to image. All texts are still the gallery of image to text.
  bool first_queries = false;
  std::vector<Exclusion> excluded;  // in addition to the dataset's own exclusions
};

// Makes the task. `unreadable`: images by number, ascending, that have no embeddings. An image that cannot be
// read or has no text, and a text without an image, would change the dataset's gallery. With leave_out they
// are left out and counted; otherwise kBadData names the first and says how many there are. Other errors:
// kBadData if nothing is left; kUsage for policies that need captions if they are not known.
Result<RetrievalTask> make_retrieval_task(const RetrievalSource& source, CaptionPolicy policy,
                                          std::span<const int64_t> unreadable, bool leave_out);

}  // namespace saccade::lab

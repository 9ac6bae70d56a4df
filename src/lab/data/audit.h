// Audit of a dataset before its figures are trusted: duplicates, leakage between splits, missing files,
// order, and captions that a model would truncate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/audit_options.h"
#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct Lengths {
  int64_t count = 0;
  int64_t min = 0;
  int64_t median = 0;
  int64_t p95 = 0;
  int64_t max = 0;
  double mean = 0;
};
Lengths lengths_of(std::vector<int64_t> values);

// Returns captions' lengths in characters (code points), and captions per item.
Lengths caption_characters(const Dataset& dataset);
Lengths captions_per_item(const Dataset& dataset);

struct AuditReport {
  struct Failure {
    std::string image;
    ErrorCode code = ErrorCode::kBadData;
    std::string reason;
  };
  struct NearPair {
    std::string a;  // ids
    std::string b;
    double distance = 0;  // bits that differ, or 1 - cosine
  };
  struct SharedCaption {
    std::string caption;
    int64_t items = 0;
  };
  // A leak between two splits, or between datasets audited together.
  struct Leak {
    std::string a;
    std::string b;
    int64_t same_images_a = 0;  // images of a with the same bytes in b
    int64_t same_images_b = 0;
    int64_t near_images_a = 0;  // with a near-duplicate, but no equal, in the other
    int64_t near_images_b = 0;
    int64_t captions_a = 0;  // captions of a that b has too, but for case, punctuation and spaces
    int64_t captions_b = 0;
    int64_t groups = 0;                 // groups with items in both
    std::vector<std::string> examples;  // "id of a = id of b" of images
  };

  // Findings on edit queries; all 0 if there are none. Images are equal if they have one name or the same
  // bytes.
  struct Edits {
    int64_t queries = 0;
    int64_t reference_is_target = 0;  // queries with their reference, or a copy, among the targets
    int64_t targets_seen = 0;         // queries of other splits with a target that "train" shows, too
    int64_t same_query_other_targets =
        0;  // queries that another has too (reference and plain texts), with other targets
    int64_t without_target = 0;
    int64_t empty_texts = 0;            // queries whose texts are blank
    std::vector<std::string> examples;  // ids, with the fault
  };

  int64_t items = 0;
  int64_t images = 0;  // different files or archive members
  std::vector<Failure> missing;
  std::vector<Failure> unreadable;
  std::vector<std::vector<std::string>> same_images;  // ids of images with the same bytes
  std::string near_method;
  std::vector<NearPair> near_images;

  int64_t captions = 0;
  int64_t distinct_captions = 0;
  int64_t distinct_plain_captions = 0;     // but for case, punctuation and spaces
  int64_t repeated_in_item = 0;            // captions that their item had already
  int64_t ambiguous_captions = 0;          // captions (plain) that several items have: more than one is right
  std::vector<SharedCaption> most_shared;  // the worst of these
  int64_t indistinguishable_compositions = 0;  // items whose two captions are equal (plain)
  int64_t contradicting_labels = 0;            // rated texts (plain) that are called visual and non-visual

  std::vector<Leak> leaks;
  Edits edits;

  bool ids_in_order = false;
  // Mean overlap of the words (Jaccard) of first captions: of adjacent items, and of others.
  double neighbour_overlap = 0;
  double random_overlap = 0;
  bool ordered_by_content = false;

  Lengths characters;
  std::optional<Lengths> tokens;  // without start and end
  int64_t cut_captions = 0;       // those longer than the context
  int64_t cut_tokens = 0;
};

// Audits datasets. Reads and decodes every image once. Several datasets are audited as one, each a split of
// its own. Errors: those of `encode`, and kCancelled. Cost: decoding, then n^2 / 2 comparisons of hashes or
// embeddings of n images.
Result<AuditReport> audit_datasets(std::span<const Dataset> datasets, const AuditOptions& options,
                                   ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab

// Labels of visual texts from people's ratings: Verma et al. 2023, section 3.2.
//
// A table (CSV with a heading) of ratings from 1 (not visual) to 7 (visual), in one of two forms:
//
//   text,rater,rating          one rating per line
//   text,anna,ben,carla        one text per line, one rater per column; an empty cell is not rated
//
// Columns `id`, `image`, `group`, `split` and `source` are optional, and are passed on. A text with a value
// in column `check` is an attention check: the value is the rating that it tells raters to give. Raters who
// fail one are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Distance between two ratings (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C).
enum class AlphaMetric {
  kNominal,   // the same or not
  kOrdinal,   // by how many ratings lie between
  kInterval,  // the squared difference
};
std::span<const EnumName<AlphaMetric>> enum_names(AlphaMetric);  // "nominal", "ordinal", "interval"

// Computes Krippendorff's alpha: 1 - observed / expected disagreement; 1 is agreement, 0 is chance. units[u]
// are the ratings of unit u, by any raters; units with fewer than two do not count. Returns `nullopt` if all
// ratings are the same, or none can be paired. Cost: ratings, and the square of the number of distinct
// values.
std::optional<double> krippendorff_alpha(std::span<const std::vector<double>> units, AlphaMetric metric);

struct RatedSentence {
  std::string text;
  std::vector<double> ratings;  // in the order of the raters
  std::optional<bool> visual;   // by majority; nullopt: ambiguous
  std::string id;
  std::string image;
  std::string group;
  std::string split;
  std::string source;
};

struct Ratings {
  std::vector<RatedSentence> texts;      // in the table's order; checks are not among them
  int64_t raters = 0;                    // number of raters that count
  std::vector<std::string> inattentive;  // raters who failed a check
  int64_t checks = 0;
  int64_t ratings = 0;
  int64_t too_few = 0;  // texts with fewer ratings than asked for, left out
  int64_t clear = 0;    // visual and non-visual texts with at most one rating outside their class
};

// Reads ratings. A text is visual if more than half of the ratings are 5, 6 or 7, non-visual if more than
// half are 1, 2 or 3, else ambiguous. Texts with fewer than min_ratings are left out and counted. Errors:
// kUsage for a table without texts. kBadData names the line and the fault: a rating that is not a whole
// number from 1 to 7, a rater who rates a text twice, or a text with two values of one field.
Result<Ratings> read_ratings(std::string_view table, int min_ratings);

// Returns {"raters", ..., "alpha": {"nominal", "ordinal", "interval"}}; an undefined alpha is null.
Json ratings_json(const Ratings& ratings);
// Returns the texts as a dataset of rated texts (docs/datasets.md); relative images are taken from `folder`.
Dataset ratings_dataset(const Ratings& ratings, const std::filesystem::path& folder);

}  // namespace saccade::lab

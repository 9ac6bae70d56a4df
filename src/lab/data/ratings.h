// People's ratings of how much a text pictures, made into labels: Verma et al. 2023, section 3.2.
//
// A table (CSV with a heading) of ratings from 1 ("pictures nothing") to 7, in one of two forms:
//
//   text,rater,rating          a line a rating
//   text,anna,ben,carla        a line a text, a column a rater; an empty cell: not rated
//
// `id`, `image`, `group`, `split` and `source` may stand beside them, and are passed on. A text
// whose column `check` is filled in is an attention check: the rating that it tells raters to give.
// Raters who fail one are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/enum_names.h"
#include "lab/data/dataset.h"

namespace saccade::lab {

// How far two ratings are apart (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C).
enum class AlphaMetric {
  kNominal,   // the same or not
  kOrdinal,   // by how many ratings lie between
  kInterval,  // the squared difference
};
std::span<const EnumName<AlphaMetric>> enum_names(AlphaMetric);  // "nominal", "ordinal", "interval"

// Krippendorff's alpha: 1 - observed / expected disagreement; 1 is agreement, 0 what chance gives.
// units[u] are the ratings that unit u was given, by whomever; units with fewer than two count for
// nothing. None where all ratings are the same, or none can be paired. Cost: ratings, and the square of
// how many different values there are.
std::optional<double> krippendorff_alpha(std::span<const std::vector<double>> units, AlphaMetric metric);

struct RatedSentence {
  std::string text;
  std::vector<double> ratings;  // in the order of the raters
  std::optional<bool> visual;   // by majority; nothing: ambiguous
  std::string id;
  std::string image;
  std::string group;
  std::string split;
  std::string source;
};

struct Ratings {
  std::vector<RatedSentence> texts;      // in the table's order; checks are not among them
  int64_t raters = 0;                    // who count
  std::vector<std::string> inattentive;  // raters who failed a check
  int64_t checks = 0;
  int64_t ratings = 0;
  int64_t too_few = 0;  // texts with fewer ratings than asked for, left out
  int64_t clear = 0;    // visual and non-visual texts with at most one rating outside their class
};

// Visual where more than half of the ratings are 5, 6 or 7, non-visual where more than half are 1, 2 or 3,
// else ambiguous. Texts with fewer than min_ratings are left out and counted. kBadData names the line and
// what is wrong with it: a rating that is no whole number from 1 to 7, a rater who rates a text twice, a text
// with two values of one field; kUsage for a table without texts.
Result<Ratings> read_ratings(std::string_view table, int min_ratings);

// {"raters", ..., "alpha": {"nominal", "ordinal", "interval"}}; an alpha that does not exist is null.
Json ratings_json(const Ratings& ratings);
// The texts as a dataset of rated texts (docs/datasets.md); relative images are taken from `folder`.
Dataset ratings_dataset(const Ratings& ratings, const std::filesystem::path& folder);

}  // namespace saccade::lab

// Groups of text queries by their kind: figures of text to image for long and short queries, for those that name a color, a
// number or a place, and for those of each value of a field of the dataset. Hits of one model on all queries hide where it fails.
//
// A query is in one group of every kind. Words are runs of ASCII letters and digits in lower case, compared whole. The lists are
// English and short. "one" is no number word here, because captions mostly use it as a pronoun. "in" and "on" are no spatial
// words, because nearly every caption has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

enum class TextQueryKind {
  kLength,   // own tokens of the query, uncut, in steps
  kColor,    // color words
  kNumber,   // number words from two on, and words of digits alone
  kSpatial,  // words for places and directions
  kSource,   // fields of the dataset's images
  kLicence,
  kGroup,
  kSplit,
};
// Returns "length", "color" (or "colour"), "number", "spatial", "source", "licence", "group", "split".
std::span<const EnumName<TextQueryKind>> enum_names(TextQueryKind);
// Returns true for kinds that are fields of the dataset's images.
bool is_field(TextQueryKind kind);

// Groups that the user has made: a name of a group for each caption.
struct QueryTable {
  std::string name;  // of the file, without its extension
  std::unordered_map<std::string, std::string> groups = {};
};
// Reads lines of a caption, a tab and its group; empty lines are skipped. Returns kBadData with the line's number for a line
// without a tab, with an empty group, or with a caption that an earlier line has in another group.
Result<QueryTable> read_query_table(const std::filesystem::path& path);

// Group of queries that are in no line of a table.
inline constexpr std::string_view kNotInTable = "(not in the table)";

// Captions of text queries, and the data by which they are grouped.
struct QueryTexts {
  std::vector<std::string_view> captions;
  std::vector<int64_t> tokens = {};            // own tokens; empty if nothing is tokenized
  std::vector<const DatasetItem*> items = {};  // of each caption; empty without a dataset
};
// The groups of one kind.
struct QueryGrouping {
  std::string kind;
  std::vector<std::string> names = {};       // of groups, in the order to show them
  std::vector<int64_t> group_of_query = {};  // [queries], each a number of `names`
};
// Groups the queries. Returns kUsage for kLength without tokens, and for a field without items.
Result<QueryGrouping> group_by_kind(TextQueryKind kind, const QueryTexts& queries);
// Groups the queries by their captions in the table. Captions that it lacks are in the group "(not in the table)".
QueryGrouping group_by_table(const QueryTable& table, const QueryTexts& queries);

// Returns the figures of all groups that have a query with a right answer. owner: [queries], the image of each query. Figures that
// would be 1 for any model are blank. Cost: one bootstrap for each group.
std::vector<QueryGroupFigures> query_groups(const QueryGrouping& grouping, const QueryRanks& ranks,
                                            std::span<const int64_t> owner, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool);

}  // namespace saccade::lab

// Filters (catalog/filter.h) as Weaviate's `where`. Not for use outside this module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/filter.h"

namespace saccade::weaviate {

// A `where` argument in GraphQL's and in JSON's form.
struct Where {
  std::string graphql;  // "{operator:And,operands:[...]}"; empty: all objects meet it
  // False if Weaviate cannot express the filter: then all objects that meet the filter meet this too, and others may. Globs
  // with a set of characters ("[a-z]") are such filters.
  bool exact = true;
};

Where where_of(const FilterNode& filter);
// Joins conditions; an empty one is true.
std::string both(const std::string& a, const std::string& b);

// Returns a text as properties hold it: between "=" and "=", so that nothing is trimmed and nothing is empty. Control
// characters and wildcards are replaced by one code point each of a private use area.
std::string kept_text(std::string_view text);

// Returns the condition that a property equals a text.
std::string equals(std::string_view property, std::string_view text);
// Returns the condition that an object's UUID is one of these, in GraphQL's form.
std::string any_of_ids(const std::vector<std::string>& ids);
// Returns the condition that an object does not meet another one. Weaviate's Not also yields objects that were removed or
// written again since; every stored object has a format, by which these are left out.
std::string not_met(const std::string& condition);
// Returns the condition that a stored path is `path` or below it as a folder.
std::string path_under(std::string_view path);

}  // namespace saccade::weaviate

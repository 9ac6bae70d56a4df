// Files of JSON records, parsed one record at a time. Published files reach gigabytes, and one document in
// memory takes many times its text. A scanner finds where the values of a document begin and end, and each is
// parsed separately.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab::data {

// Calls element(number from 1, text) for each element of the array `text`. An error of `element` gains
// "record N". Returns kBadData if the text is not an array; elements themselves are not checked.
Status for_each_element(std::string_view text,
                        const std::function<Status(int64_t number, std::string_view element)>& element);

// Does the same for an object: member(key, text of the value).
Status for_each_member(std::string_view text,
                       const std::function<Status(const std::string& key, std::string_view value)>& member);

// Do the same with the value parsed, which must be an object.
Status for_each_record(std::string_view array,
                       const std::function<Status(int64_t number, const Json& record)>& record);

// Outline of a JSON text, from its first value: enough to recognize layouts.
struct JsonOutline {
  bool array = false;  // else an object
  bool more = false;   // something follows the first value, as in JSON Lines
  std::vector<std::pair<std::string, std::string_view>> members;  // members of an object, the first 32
  std::string_view value;                                         // the first value
  std::string_view first;                                         // an array's first element

  // Returns the text of a member; empty if it does not exist.
  [[nodiscard]] std::string_view member(std::string_view key) const;
};
// Returns the outline; `nullopt` if the text does not begin with a complete object or array.
std::optional<JsonOutline> outline_json(std::string_view text);

// Returns true if a value's text is an object with all these keys. Values longer than 1 MiB are not searched.
bool has_keys(std::string_view value, std::initializer_list<std::string_view> keys);
// Returns the first element of an array's text; empty if there is none.
std::string_view first_element(std::string_view array);

}  // namespace saccade::lab::data

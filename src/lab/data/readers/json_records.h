// Files of JSON records, a record at a time: published files reach gigabytes, and one document in memory
// takes many times its text. A scanner finds where the values of a document begin and end; each is then
// parsed by itself.
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

// Calls element(number from 1, text) for each element of the array that `text` is. An error of `element`
// gains "record N". kBadData where the text is no array; elements themselves are not looked into.
Status for_each_element(std::string_view text,
                        const std::function<Status(int64_t number, std::string_view element)>& element);

// The same for an object: member(key, text of the value).
Status for_each_member(std::string_view text,
                       const std::function<Status(const std::string& key, std::string_view value)>& member);

// Both with the value parsed, which must be an object.
Status for_each_record(std::string_view array,
                       const std::function<Status(int64_t number, const Json& record)>& record);

// What a text looks like as JSON, from its first value: enough to tell layouts apart.
struct JsonOutline {
  bool array = false;  // else an object
  bool more = false;   // something follows the first value, as in JSON Lines
  std::vector<std::pair<std::string, std::string_view>> members;  // of an object, the first 32
  std::string_view value;                                         // the first value
  std::string_view first;                                         // an array's first element

  // The text of a member; empty if it is not there.
  [[nodiscard]] std::string_view member(std::string_view key) const;
};
// nullopt where the text does not begin with an object or array that ends.
std::optional<JsonOutline> outline_json(std::string_view text);

// Whether a value's text is an object with all these keys. Longer values than 1 MiB are not looked into.
bool has_keys(std::string_view value, std::initializer_list<std::string_view> keys);
// The first element of an array's text; empty if there is none.
std::string_view first_element(std::string_view array);

}  // namespace saccade::lab::data

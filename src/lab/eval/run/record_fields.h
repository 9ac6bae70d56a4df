// Records: structs whose JSON keys are named once, to write them and to read them back.
//
// A struct lists its fields in a static function, in the order that its JSON object has:
//
//   struct Point {
//     int64_t n = 0;
//     std::optional<double> share;
//     static void fields(auto& self, auto& field) { SACCADE_FIELDS(n, share); }
//   };
//
// record_json() calls it to write {"n": 3, "share": null}, read_record<Point>() to read that. `field` has these forms:
//
// clang-format off
//   SACCADE_FIELDS(a, b)          field("a", self.a); field("b", self.b);
//   field(key, value)             always written; must be there to be read
//   field.added(key, value)       the same, but older runs lack it: the value stays as it was
//   field.or_null(key, value)     null stands for T(): an empty text, 0; older runs may lack it
//   field.nullable(key, value, b) null if b, which reading sets
//   field.if_set(key, value)      left out while it is nullopt or NaN
//   field.whole(key, values)      doubles, whole ones without a point
//   field.object(key, list)       an object whose fields list(in) names
//   field.rest(values)            the last: members of this object itself, each under its value's own name
// clang-format on
//
// A key that was renamed is also found under its earlier name (earlier_keys.h).
//
// Values are booleans, whole numbers, texts, enums by their names (core/enum_names.h), Json as it is, doubles (null for
// one that is not finite), optionals (null or missing for nullopt), records, and vectors of all these. A map is an
// object; so is a vector of pairs of name and value, and a vector of records that have a name: those with
// `static auto& record_name(auto& self)`.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lab/eval/run/earlier_keys.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

#define SACCADE_FIELDS_PARENTHESES ()
// Each level reads its argument four times more than the one before: enough for 20 fields.
#define SACCADE_FIELDS_READ(...) __VA_ARGS__
#define SACCADE_FIELDS_READ_4(...) \
  SACCADE_FIELDS_READ(SACCADE_FIELDS_READ(SACCADE_FIELDS_READ(SACCADE_FIELDS_READ(__VA_ARGS__))))
#define SACCADE_FIELDS_READ_16(...) \
  SACCADE_FIELDS_READ_4(SACCADE_FIELDS_READ_4(SACCADE_FIELDS_READ_4(SACCADE_FIELDS_READ_4(__VA_ARGS__))))
#define SACCADE_FIELDS_NEXT() SACCADE_FIELDS_EACH
#define SACCADE_FIELDS_EACH(name, ...) \
  field(#name, self.name);             \
  __VA_OPT__(SACCADE_FIELDS_NEXT SACCADE_FIELDS_PARENTHESES(__VA_ARGS__))
// Lists the fields whose keys are the members' names, in a record's fields(self, field).
#define SACCADE_FIELDS(...) SACCADE_FIELDS_READ_16(SACCADE_FIELDS_EACH(__VA_ARGS__)) static_assert(true)

namespace saccade::lab {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsMap = false;
template <typename T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename T>
inline constexpr bool kIsPair<std::pair<std::string, T>> = true;
template <typename T>
concept NamedRecord = requires(T& value) {
  T::record_name(value);
};

class RecordWriter {
 public:
  template <typename T>
  void operator()(std::string_view key, const T& value) {
    json[std::string(key)] = json_of(value);
  }
  template <typename T>
  void added(std::string_view key, const T& value) {
    (*this)(key, value);
  }
  template <typename T>
  void or_null(std::string_view key, const T& value) {
    nullable(key, value, value == T());
  }
  template <typename T>
  void nullable(std::string_view key, const T& value, bool is_null) {
    json[std::string(key)] = is_null ? Json() : json_of(value);
  }
  template <typename T>
  void if_set(std::string_view key, const T& value) {
    Json set = json_of(value);
    if (!set.is_null()) json[std::string(key)] = std::move(set);
  }
  void whole(std::string_view key, const std::vector<double>& values) {
    Json array = Json::array();
    for (const double value : values) {
      const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
      array.push_back(is_whole ? Json(static_cast<int64_t>(value)) : json_of(value));
    }
    json[std::string(key)] = std::move(array);
  }
  template <typename List>
  void object(std::string_view key, const List& list) {
    RecordWriter in;
    list(in);
    json[std::string(key)] = std::move(in.json);
  }
  template <NamedRecord T>
  void rest(const std::vector<T>& values) {
    for (const T& value : values) (*this)(T::record_name(value), value);
  }

  template <typename T>
  static Json json_of(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value) ? Json(value) : Json();
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, Json>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(enum_name(value));
    } else if constexpr (kIsOptional<T>) {
      return value ? json_of(*value) : Json();
    } else if constexpr (kIsMap<T>) {
      return list_json(
          std::vector<std::pair<std::string, typename T::mapped_type>>(value.begin(), value.end()));
    } else if constexpr (kIsVector<T>) {
      return list_json(value);
    } else {
      RecordWriter writer;
      T::fields(value, writer);
      return std::move(writer.json);
    }
  }

  Json json = Json::object();

 private:
  template <typename T>
  static Json list_json(const std::vector<T>& values) {
    RecordWriter object;
    Json array = Json::array();
    for (const T& value : values) {
      if constexpr (NamedRecord<T>) {
        object(T::record_name(value), value);
      } else if constexpr (kIsPair<T>) {
        object(value.first, value.second);
      } else {
        array.push_back(json_of(value));
      }
    }
    return NamedRecord<T> || kIsPair<T> ? std::move(object.json) : std::move(array);
  }
};

class RecordReader {
 public:
  // Borrows the object.
  explicit RecordReader(const Json& object) : object_(object) {}
  // The first error: kBadData, naming the key and what is expected there.
  [[nodiscard]] const Status& status() const { return status_; }

  template <typename T>
  void operator()(std::string_view key, T& value) {
    if (const Json* found = find(key)) {
      keep(read(key, *found, value));
    } else if constexpr (!kIsOptional<T>) {
      keep(fail(ErrorCode::kBadData, "\"{}\" is missing", key));
    }
  }
  template <typename T>
  void added(std::string_view key, T& value) {
    if (const Json* found = find(key)) keep(read(key, *found, value));
  }
  template <typename T>
  void or_null(std::string_view key, T& value) {
    const Json* found = find(key);
    if (found != nullptr && !found->is_null()) keep(read(key, *found, value));
  }
  template <typename T>
  void nullable(std::string_view key, T& value, bool& is_null) {
    const Json* found = find(key);
    is_null = found != nullptr && found->is_null();
    if (!is_null) (*this)(key, value);
  }
  template <typename T>
  void if_set(std::string_view key, T& value) {
    added(key, value);
  }
  void whole(std::string_view key, std::vector<double>& values) { (*this)(key, values); }
  template <typename List>
  void object(std::string_view key, const List& list) {
    if (const Json* found = find(key)) {
      keep(read_object(key, *found, list));
    } else {
      keep(fail(ErrorCode::kBadData, "\"{}\" is missing", key));
    }
  }
  template <NamedRecord T>
  void rest(std::vector<T>& values) {
    for (const auto& [key, json] : object_.items()) {
      if (!json.is_object() || std::ranges::find(taken_, key) != taken_.end()) continue;
      keep(read_named(key, json, values));
    }
  }

  template <typename T>
  static Status read(std::string_view key, const Json& json, T& value) {
    if constexpr (std::is_same_v<T, double>) {
      value = std::numeric_limits<double>::quiet_NaN();
      if (json.is_null()) return {};
      SACCADE_ASSIGN(value, detail::json_as<double>(key, json));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      SACCADE_ASSIGN(value, detail::json_as<T>(key, json));
    } else if constexpr (std::is_enum_v<T>) {
      SACCADE_ASSIGN(const std::string name, detail::json_as<std::string>(key, json));
      const std::optional<T> found = from_name<T>(name);
      if (!found) return detail::wrong_kind(key, json, "one of " + list_of_names<T>());
      value = *found;
    } else if constexpr (std::is_same_v<T, Json>) {
      value = json;
    } else if constexpr (kIsOptional<T>) {
      if (!json.is_null()) return read(key, json, value.emplace());
    } else if constexpr (kIsMap<T>) {
      std::vector<std::pair<std::string, typename T::mapped_type>> members;
      SACCADE_TRY(read_list(key, json, members));
      value.insert(members.begin(), members.end());
    } else if constexpr (kIsVector<T>) {
      return read_list(key, json, value);
    } else {
      return read_object(key, json, [&](RecordReader& reader) { T::fields(value, reader); });
    }
    return {};
  }

 private:
  const Json* find(std::string_view key) {
    taken_.push_back(key);
    auto found = object_.find(std::string(key));
    const auto renamed = std::ranges::find(kRenamedFields, key, &RenamedKey::now);
    if (found == object_.end() && renamed != kRenamedFields.end()) {
      taken_.push_back(renamed->earlier);
      found = object_.find(std::string(renamed->earlier));
    }
    return found == object_.end() ? nullptr : &*found;
  }
  void keep(Status status) {
    if (status_) status_ = std::move(status);
  }

  template <typename List>
  static Status read_object(std::string_view key, const Json& json, const List& list) {
    if (!json.is_object()) return detail::wrong_kind(key, json, "an object");
    RecordReader reader(json);
    list(reader);
    return std::move(reader.status_).in(fmt::format("\"{}\"", key));
  }
  template <typename T>
  static Status read_named(const std::string& key, const Json& json, std::vector<T>& values) {
    T& value = values.emplace_back();
    if constexpr (kIsPair<T>) {
      value.first = key;
      return read(key, json, value.second);
    } else {
      T::record_name(value) = key;
      return read(key, json, value);
    }
  }
  template <typename T>
  static Status read_list(std::string_view key, const Json& json, std::vector<T>& values) {
    constexpr bool kIsObject = NamedRecord<T> || kIsPair<T>;
    if (kIsObject ? !json.is_object() : !json.is_array()) {
      return detail::wrong_kind(key, json, kIsObject ? "an object" : "an array");
    }
    values.clear();
    if constexpr (kIsObject) {
      for (const auto& [name, member] : json.items()) {
        SACCADE_TRY(read_named(name, member, values).in(fmt::format("\"{}\"", key)));
      }
    } else {
      for (const Json& element : json) {
        const std::string place = fmt::format("{}[{}]", key, values.size());
        SACCADE_TRY(read(place, element, values.emplace_back()));
      }
    }
    return {};
  }

  const Json& object_;
  std::vector<std::string_view> taken_;  // keys that were asked for
  Status status_;
};

template <typename T>
Json record_json(const T& value) {
  return RecordWriter::json_of(value);
}

// Returns the record that an object holds. Keys that it does not know are passed over. kBadData names the key, with the
// keys around it, and what is expected there.
template <typename T>
Result<T> read_record(const Json& json) {
  if (!json.is_object()) {
    return fail(ErrorCode::kBadData, "{} where an object is expected", json_kind(json));
  }
  T value;
  RecordReader reader(json);
  T::fields(value, reader);
  if (!reader.status()) return fail(reader.status().error());
  return value;
}

// Returns the record of that name; nullptr if there is none.
template <NamedRecord T>
const T* find_named(const std::vector<T>& values, std::string_view name) {
  const auto found =
      std::ranges::find_if(values, [&](const T& value) { return T::record_name(value) == name; });
  return found == values.end() ? nullptr : &*found;
}

}  // namespace saccade::lab

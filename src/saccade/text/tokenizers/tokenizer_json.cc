#include "saccade/text/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <charconv>

namespace saccade::tokenizer_json {

std::string shown(std::string_view text) {
  return std::string(text.substr(0, 60));
}

Result<Vocabulary> parse_vocabulary(const Json& json) {
  if (!json.is_object())
    return fail(ErrorCode::kBadData, "{}, not an object of pieces and ids", json_kind(json));
  Vocabulary vocabulary;
  vocabulary.reserve(json.size());
  for (const auto& [piece, id] : json.items()) {
    SACCADE_ASSIGN(const auto value, detail::json_as<int32_t>(shown(piece), id));
    vocabulary.emplace(piece, value);
  }
  return vocabulary;
}

Status check_ids(const Vocabulary& vocabulary) {
  std::vector<const std::string*> piece_of(vocabulary.size(), nullptr);
  for (const auto& [piece, id] : vocabulary) {
    if (id < 0 || static_cast<size_t>(id) >= piece_of.size()) {
      return fail(ErrorCode::kBadData,
                  "piece \"{}\" has id {} among {} pieces: ids must be 0 to {} without gaps", shown(piece),
                  id, piece_of.size(), piece_of.size() - 1);
    }
    const std::string*& other = piece_of[static_cast<size_t>(id)];
    if (other != nullptr) {
      // Named in a fixed order, independent of the hash table's.
      const auto [first, second] = std::minmax(*other, piece);
      return fail(ErrorCode::kBadData, "pieces \"{}\" and \"{}\" both have id {}", shown(first),
                  shown(second), id);
    }
    other = &piece;
  }
  return {};
}

Result<int32_t> id_of(const Vocabulary& vocabulary, const std::string& token, std::string_view what) {
  const auto found = vocabulary.find(token);
  if (found != vocabulary.end()) return found->second;
  return fail(ErrorCode::kBadData, "{} \"{}\" is not in the vocabulary", what, shown(token));
}

Result<BpeMerge> parse_merge(std::string_view text, std::string place) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
      text.find(' ', space + 1) != std::string_view::npos) {
    return fail(ErrorCode::kBadData, "{}: \"{}\" is not two pieces with a space between", place, shown(text));
  }
  return BpeMerge{std::string(text.substr(0, space)), std::string(text.substr(space + 1)), std::move(place)};
}

Result<std::vector<BpeMerge>> parse_merges(const Json& json) {
  if (!json.is_array()) return fail(ErrorCode::kBadData, "\"merges\" is {}, not an array", json_kind(json));
  std::vector<BpeMerge> merges;
  merges.reserve(json.size());
  for (const Json& merge : json) {
    std::string place = fmt::format("merge {}", merges.size());
    if (merge.is_string()) {
      SACCADE_ASSIGN(BpeMerge parsed, parse_merge(merge.get_ref<const std::string&>(), std::move(place)));
      merges.push_back(std::move(parsed));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>(), std::move(place)});
    } else {
      return fail(ErrorCode::kBadData, "{} is {}, not \"a b\" or [\"a\", \"b\"]", place, json_kind(merge));
    }
  }
  return merges;
}

Status check_token_length(std::string_view content) {
  if (content.size() <= kMaxTokenBytes) return {};
  return fail(ErrorCode::kLimit, "a token of {} bytes, limit {}: \"{}\"", content.size(), kMaxTokenBytes,
              shown(content));
}

Status for_each_added_token(const Json& tokenizer_json, const Json& config, size_t limit,
                            const std::function<Status(const Json& token, int32_t id)>& add) {
  const auto list_of = [&](const Json& object, const char* key, Json::value_t type,
                           const char* wanted) -> Result<const Json*> {
    const Json& list = member(object, key);
    if (!list.is_null() && list.type() != type) {
      return fail(ErrorCode::kBadData, "{}: {}, not {}", key, json_kind(list), wanted);
    }
    if (list.size() > limit) {
      return fail(ErrorCode::kLimit, "{}: {} added tokens, limit {}", key, list.size(), limit);
    }
    return &list;
  };
  const auto add_checked = [&](const Json& token, int32_t id) -> Status {
    SACCADE_ASSIGN(const auto content, json_field_or<std::string>(token, "content", ""));
    SACCADE_TRY(check_token_length(content));
    return add(token, id);
  };
  constexpr char kList[] = "added_tokens";
  SACCADE_ASSIGN(const Json* list, list_of(tokenizer_json, kList, Json::value_t::array, "an array"));
  for (const Json& token : *list) {
    SACCADE_ASSIGN(const auto id, json_field<int32_t>(token, "id").in(kList));
    SACCADE_TRY(add_checked(token, id).in(kList));
  }
  constexpr char kDecoder[] = "added_tokens_decoder";
  SACCADE_ASSIGN(const Json* decoder, list_of(config, kDecoder, Json::value_t::object, "an object"));
  for (const auto& [key, token] : decoder->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return fail(ErrorCode::kBadData, "{}: \"{}\" is not an id", kDecoder, shown(key));
    }
    SACCADE_TRY(add_checked(token, id).in(kDecoder));
  }
  return {};
}

Result<std::string> token_name(const Json& config, const char* key, std::string_view otherwise) {
  const Json& value = member(config, key);
  if (value.is_null()) return std::string(otherwise);
  SACCADE_ASSIGN(std::string name, value.is_object() ? json_field<std::string>(value, "content").in(key)
                                                     : json_field<std::string>(config, key));
  SACCADE_TRY(check_token_length(name).in(key));
  return name;
}

Status require(const Json& object, const char* key, const Json& wanted, bool absent_is_fine) {
  const Json& value = member(object, key);
  if ((value.is_null() && absent_is_fine) || value == wanted) return {};
  return fail(ErrorCode::kUnsupported, "\"{}\": {} is not supported, only {}", key, shown(dump_json(value)),
              dump_json(wanted));
}

std::string type_of(const Json& json) {
  const Json& type = member(json, "type");
  return type.is_string() ? type.get<std::string>() : std::string(json_kind(json));
}

Result<std::vector<Json>> steps_of(const Json& json, const char* key) {
  if (json.is_null()) return std::vector<Json>{};
  if (type_of(json) != "Sequence") return std::vector<Json>{json};
  const Json& list = member(json, key);
  if (!list.is_array()) return fail(ErrorCode::kBadData, "\"{}\" is {}, not an array", key, json_kind(list));
  return std::vector<Json>(list.begin(), list.end());
}

}  // namespace saccade::tokenizer_json

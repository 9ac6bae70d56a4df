// Parsers for parts of tokenizer.json that several kinds of tokenizer use, with errors that name them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/text/tokenizers/bpe.h"

namespace saccade::tokenizer_json {

// Returns the beginning of a text, for messages.
std::string shown(std::string_view text);

// Parses {"piece": id, ...}.
Result<Vocabulary> parse_vocabulary(const Json& json);

// Checks that the ids are 0 to size - 1, each once.
Status check_ids(const Vocabulary& vocabulary);

Result<int32_t> id_of(const Vocabulary& vocabulary, const std::string& token, std::string_view what);

// Parses "left right", with one space between.
Result<BpeMerge> parse_merge(std::string_view text, std::string place);

// Parses ["left right", ...] or [["left", "right"], ...].
Result<std::vector<BpeMerge>> parse_merges(const Json& json);

// Maximum length of a token matched in texts, because each position of a text may cost as many steps.
// Published ones have at most about 90 bytes (Gemma's runs of spaces).
constexpr size_t kMaxTokenBytes = 256;
// Returns kLimit for a longer token.
Status check_token_length(std::string_view content);

// Calls `add` for each token of tokenizer.json's "added_tokens", [{"id": 49407, "content": ...}, ...], then
// each of tokenizer_config.json's "added_tokens_decoder", {"49407": {"content": ...}, ...}. A later token
// replaces an earlier one of the same spelling. Either list may be absent. Lists of more than `limit` tokens
// and tokens of more than kMaxTokenBytes are rejected.
Status for_each_added_token(const Json& tokenizer_json, const Json& config, size_t limit,
                            const std::function<Status(const Json& token, int32_t id)>& add);

// Returns a special token's name in tokenizer_config.json: text, or the "content" of an object; `otherwise`
// if absent or null.
Result<std::string> token_name(const Json& config, const char* key, std::string_view otherwise);

// Checks that a flag has the required value; it may be absent if `absent_is_fine`.
Status require(const Json& object, const char* key, const Json& wanted, bool absent_is_fine = true);

// Returns "type" as text, or a description of the value found.
std::string type_of(const Json& json);

// Returns the steps of a Sequence, or the single step; empty for null.
Result<std::vector<Json>> steps_of(const Json& json, const char* key);

}  // namespace saccade::tokenizer_json

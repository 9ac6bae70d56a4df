// Parts of tokenizer.json that several kinds of tokenizer read, with errors that name them.
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

// The beginning of a text, for messages.
std::string shown(std::string_view text);

// Returns an object's member, or null if it is absent.
const Json& member(const Json& object, const char* key);

// {"piece": id, ...}
Result<Vocabulary> parse_vocabulary(const Json& json);

// Ids must be 0 to size - 1, each once.
Status check_ids(const Vocabulary& vocabulary);

Result<int32_t> id_of(const Vocabulary& vocabulary, const std::string& token, std::string_view what);

// "left right", one space between.
Result<BpeMerge> parse_merge(std::string_view text, std::string place);

// ["left right", ...] or [["left", "right"], ...]
Result<std::vector<BpeMerge>> parse_merges(const Json& json);

// The longest token that is looked for in texts: each place of a text may cost as many steps. Published ones
// have some 90 bytes at most (Gemma's runs of spaces).
constexpr size_t kMaxTokenBytes = 256;
// kLimit for a longer one.
Status check_token_length(std::string_view content);

// Gives `add` each token of tokenizer.json's "added_tokens", [{"id": 49407, "content": ...}, ...], then each
// of tokenizer_config.json's "added_tokens_decoder", {"49407": {"content": ...}, ...}: of two that are
// spelled alike the later stands. Either list may be absent; more than `limit` tokens in one are refused, and
// tokens of more than kMaxTokenBytes.
Status for_each_added_token(const Json& tokenizer_json, const Json& config, size_t limit,
                            const std::function<Status(const Json& token, int32_t id)>& add);

// A special token's name in tokenizer_config.json: text, or an object with it as "content"; `otherwise` where
// it is absent or null.
Result<std::string> token_name(const Json& config, const char* key, std::string_view otherwise);

// A flag that must have one value, or be absent where `absent_is_fine` says that this means the same.
Status require(const Json& object, const char* key, const Json& wanted, bool absent_is_fine = true);

// "type" as text, or what stands there instead.
std::string type_of(const Json& json);

// Returns the steps of a Sequence, or the single step; empty for null.
Result<std::vector<Json>> steps_of(const Json& json, const char* key);

}  // namespace saccade::tokenizer_json

#include "saccade/text/tokenizers/clip_spec.h"

#include <algorithm>

#include "saccade/core/ascii.h"
#include "saccade/text/tokenizers/tokenizer_json.h"

namespace saccade {

using namespace tokenizer_json;

namespace {

constexpr std::string_view kStart = "<|startoftext|>";
constexpr std::string_view kEnd = "<|endoftext|>";
// Maximum number of added tokens, because each is searched in every text; real files have two or three.
constexpr size_t kMaxAddedTokens = 1000;

Result<std::vector<NormalizerStep>> parse_normalizer(const Json& json) {
  SACCADE_ASSIGN(const std::vector<Json> parts, steps_of(json, "normalizers"));
  std::vector<NormalizerStep> steps;
  for (const Json& part : parts) {
    const std::string type = type_of(part);
    if (type == "NFC") {
      steps.push_back(NormalizerStep::kNfc);
    } else if (type == "Lowercase") {
      steps.push_back(NormalizerStep::kLowercase);
    } else if (type == "Replace") {
      SACCADE_TRY(require(part, "pattern", Json{{"Regex", "\\s+"}}, false));
      SACCADE_TRY(require(part, "content", " ", false));
      steps.push_back(NormalizerStep::kCollapseWhiteSpace);
    } else {
      return fail(ErrorCode::kUnsupported, "{} is not supported, only NFC, Replace and Lowercase",
                  shown(type));
    }
  }
  return steps;
}

Result<SpecialWords> parse_pre_tokenizer(const Json& json) {
  constexpr std::string_view kPattern = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  constexpr std::string_view kSpecials = R"(<\|startoftext\|>|<\|endoftext\|>|)";
  SACCADE_ASSIGN(const std::vector<Json> parts, steps_of(json, "pretokenizers"));
  if (parts.size() != 2 || type_of(parts[0]) != "Split" || type_of(parts[1]) != "ByteLevel") {
    return fail(ErrorCode::kUnsupported, "{} is not supported, only Split followed by ByteLevel",
                shown(dump_json(json)));
  }
  SACCADE_TRY(require(parts[0], "behavior", "Removed", false));
  SACCADE_TRY(require(parts[0], "invert", true, false));
  const Json& pattern = member(member(parts[0], "pattern"), "Regex");
  const std::string regex =
      pattern.is_string() ? pattern.get<std::string>() : dump_json(member(parts[0], "pattern"));
  const bool with_specials = regex == std::string(kSpecials) + std::string(kPattern);
  if (!with_specials && regex != kPattern) {
    return fail(ErrorCode::kUnsupported, "pattern {} is not CLIP's", regex.substr(0, 200));
  }
  SACCADE_TRY(require(parts[1], "add_prefix_space", false, false));
  SACCADE_ASSIGN(const bool use_regex, json_field_or<bool>(parts[1], "use_regex", true));
  if (!with_specials) return SpecialWords::kPlain;
  return use_regex ? SpecialWords::kSplit : SpecialWords::kWhole;
}

// Adds a token; of two with the same content the later one wins.
Status add_token(const Json& token, int32_t id, ClipTokenizerSpec& spec) {
  AddedToken added;
  added.id = id;
  SACCADE_ASSIGN(added.content, json_field<std::string>(token, "content"));
  SACCADE_ASSIGN(added.normalized, json_field_or<bool>(token, "normalized", false));
  if (added.content.empty()) return fail(ErrorCode::kBadData, "token {} is empty", added.id);
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    SACCADE_TRY(require(token, key, false).in(fmt::format("token \"{}\"", shown(added.content))));
  }
  const auto [known, is_new] = spec.vocabulary.emplace(added.content, added.id);
  if (!is_new && known->second != added.id) {
    return fail(ErrorCode::kBadData, "token \"{}\" has id {}, and {} in the vocabulary", shown(added.content),
                added.id, known->second);
  }
  std::erase_if(spec.added_tokens, [&](const AddedToken& other) { return other.content == added.content; });
  spec.added_tokens.push_back(std::move(added));
  return {};
}

Status read_added_tokens(const Json& tokenizer_json, const Json& config, ClipTokenizerSpec& spec) {
  return for_each_added_token(tokenizer_json, config, kMaxAddedTokens,
                              [&](const Json& token, int32_t id) { return add_token(token, id, spec); });
}

// ["<|endoftext|>", 49407]
Result<int32_t> parse_token_pair(const Json& json, const char* key, const Vocabulary& vocabulary) {
  const Json& pair = member(json, key);
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, expected [token, id]", key, shown(dump_json(pair)));
  }
  SACCADE_ASSIGN(const auto id, detail::json_as<int32_t>(key, pair[1]));
  SACCADE_ASSIGN(const int32_t known, id_of(vocabulary, pair[0].get<std::string>(), key));
  if (id != known) {
    return fail(ErrorCode::kBadData, "\"{}\" has id {}, and {} in the vocabulary", key, id, known);
  }
  return id;
}

Status parse_post_processor(const Json& json, ClipTokenizerSpec& spec) {
  const std::string type = type_of(json);
  if (type == "RobertaProcessing") {
    SACCADE_ASSIGN(spec.start_id, parse_token_pair(json, "cls", spec.vocabulary));
    SACCADE_ASSIGN(spec.end_id, parse_token_pair(json, "sep", spec.vocabulary));
    return {};
  }
  if (type != "TemplateProcessing") {
    return fail(ErrorCode::kUnsupported, "{} is not supported, only RobertaProcessing and TemplateProcessing",
                shown(type));
  }
  const Json& single = member(json, "single");
  const bool framed =
      single.is_array() && single.size() == 3 && member(single[0], "SpecialToken").is_object() &&
      member(single[1], "Sequence").is_object() && member(single[2], "SpecialToken").is_object();
  if (!framed) {
    return fail(ErrorCode::kUnsupported, "\"single\": {} is not one start token, the text, one end token",
                shown(dump_json(single)));
  }
  for (const size_t side : {size_t{0}, size_t{2}}) {
    SACCADE_ASSIGN(const auto token, json_field<std::string>(member(single[side], "SpecialToken"), "id"));
    SACCADE_ASSIGN(const int32_t id, id_of(spec.vocabulary, token, "token"));
    const Json& ids = member(member(member(json, "special_tokens"), token.c_str()), "ids");
    if (ids != Json::array({id})) {
      return fail(ErrorCode::kBadData, "token \"{}\" stands for {}, and for {} in the vocabulary",
                  shown(token), shown(dump_json(ids)), id);
    }
    (side == 0 ? spec.start_id : spec.end_id) = id;
  }
  return {};
}

// A special token of tokenizer_config.json: its name, or an object with its name as "content".
struct SpecialToken {
  std::string content;
  bool normalized = false;
  bool is_name = true;
  bool operator==(const SpecialToken&) const = default;
};
Result<SpecialToken> special_token(const Json& config, const char* key, std::string_view fallback) {
  const Json& value = member(config, key);
  if (value.is_null()) return SpecialToken{.content = std::string(fallback)};
  if (value.is_object()) {
    SpecialToken token{.content = {}, .normalized = false, .is_name = false};
    SACCADE_ASSIGN(token.content, json_field<std::string>(value, "content").in(key));
    SACCADE_TRY(check_token_length(token.content).in(key));
    SACCADE_ASSIGN(token.normalized, json_field_or<bool>(value, "normalized", false).in(key));
    for (const char* flag : {"single_word", "lstrip", "rstrip"})
      SACCADE_TRY(require(value, flag, false).in(key));
    return token;
  }
  SACCADE_ASSIGN(auto content, json_field<std::string>(config, key));
  if (content.empty()) return fail(ErrorCode::kBadData, "\"{}\" is empty", key);
  SACCADE_TRY(check_token_length(content).in(key));
  return SpecialToken{.content = std::move(content)};
}

struct SpecialTokens {
  SpecialToken start, end, unknown, pad;
};
Result<SpecialTokens> special_tokens(const Json& config) {
  SpecialTokens tokens;
  SACCADE_ASSIGN(tokens.start, special_token(config, "bos_token", kStart));
  SACCADE_ASSIGN(tokens.end, special_token(config, "eos_token", kEnd));
  SACCADE_ASSIGN(tokens.unknown, special_token(config, "unk_token", kEnd));
  SACCADE_ASSIGN(tokens.pad, special_token(config, "pad_token", kEnd));
  return tokens;
}

// Adds the special tokens, which are also matched in texts: a padding token of "!" makes every "!" a token.
// Follows transformers: descriptions in the lists of added tokens take precedence. Among several distinct
// descriptions of another token, the one that first appears last wins.
void add_special_tokens(const SpecialTokens& tokens, ClipTokenizerSpec& spec) {
  const auto listed = static_cast<std::ptrdiff_t>(spec.added_tokens.size());
  std::vector<SpecialToken> seen;
  for (const SpecialToken& token : {tokens.start, tokens.end, tokens.unknown, tokens.pad}) {
    const auto same = [&](const AddedToken& added) { return added.content == token.content; };
    auto& added = spec.added_tokens;
    const auto piece = spec.vocabulary.find(token.content);
    if (piece == spec.vocabulary.end() || std::any_of(added.begin(), added.begin() + listed, same) ||
        std::find(seen.begin(), seen.end(), token) != seen.end()) {
      continue;
    }
    seen.push_back(token);
    std::erase_if(added, same);
    added.push_back({token.content, piece->second, token.normalized});
  }
}

}  // namespace

Result<ClipTokenizerSpec> clip_spec_from_tokenizer_json(const Json& json, const Json& config) {
  const Json& model = member(json, "model");
  if (type_of(model) != "BPE") {
    return fail(ErrorCode::kUnsupported, "model {} is not supported, only BPE", shown(type_of(model)));
  }
  SACCADE_TRY(require(model, "continuing_subword_prefix", "").in("model"));
  SACCADE_TRY(require(model, "byte_fallback", false).in("model"));
  SACCADE_TRY(require(model, "fuse_unk", false).in("model"));
  SACCADE_TRY(require(model, "ignore_merges", false).in("model"));
  if (member(model, "dropout") != 0) SACCADE_TRY(require(model, "dropout", nullptr).in("model"));

  ClipTokenizerSpec spec;
  SACCADE_ASSIGN(spec.vocabulary, parse_vocabulary(member(model, "vocab")).in("model: vocab"));
  SACCADE_ASSIGN(spec.merges, parse_merges(member(model, "merges")).in("model"));
  SACCADE_ASSIGN(spec.suffix, json_field_or<std::string>(model, "end_of_word_suffix", "").in("model"));
  SACCADE_TRY(read_added_tokens(json, config, spec));
  SACCADE_TRY(check_ids(spec.vocabulary).in("vocabulary"));
  SACCADE_ASSIGN(const auto unknown, json_field_or<std::string>(model, "unk_token", "").in("model"));
  if (!unknown.empty()) {
    SACCADE_ASSIGN(spec.unknown, id_of(spec.vocabulary, unknown, "unk_token").in("model"));
  }
  SACCADE_ASSIGN(spec.normalizer, parse_normalizer(member(json, "normalizer")).in("normalizer"));
  SACCADE_ASSIGN(spec.special_words, parse_pre_tokenizer(member(json, "pre_tokenizer")).in("pre_tokenizer"));
  SACCADE_TRY(parse_post_processor(member(json, "post_processor"), spec).in("post_processor"));

  SACCADE_ASSIGN(const SpecialTokens special, special_tokens(config));
  add_special_tokens(special, spec);
  spec.pad_id = spec.end_id;
  if (const Json& padding = member(json, "padding"); padding.is_object()) {
    SACCADE_ASSIGN(spec.pad_id, json_field<int32_t>(padding, "pad_id").in("padding"));
    if (spec.pad_id < 0 || static_cast<size_t>(spec.pad_id) >= spec.vocabulary.size()) {
      return fail(ErrorCode::kBadData, "padding: \"pad_id\" is {} in a vocabulary of {}", spec.pad_id,
                  spec.vocabulary.size());
    }
  } else if (!member(config, "pad_token").is_null()) {
    SACCADE_ASSIGN(spec.pad_id, id_of(spec.vocabulary, special.pad.content, "pad_token"));
  }
  return spec;
}

Result<ClipTokenizerSpec> clip_spec_from_vocab_and_merges(const Json& vocab, std::string_view merges,
                                                          const Json& config) {
  ClipTokenizerSpec spec;
  SACCADE_ASSIGN(spec.vocabulary, parse_vocabulary(vocab).in("vocab.json"));
  SACCADE_TRY(read_added_tokens({}, config, spec));
  SACCADE_TRY(check_ids(spec.vocabulary).in("vocab.json"));
  int64_t number = 0;
  for (std::string_view line : Lines(merges)) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    SACCADE_ASSIGN(BpeMerge merge, parse_merge(line, fmt::format("merges.txt line {}", number)));
    spec.merges.push_back(std::move(merge));
  }
  spec.normalizer = {NormalizerStep::kNfc, NormalizerStep::kCollapseWhiteSpace, NormalizerStep::kLowercase};

  SACCADE_ASSIGN(const SpecialTokens special, special_tokens(config));
  SACCADE_ASSIGN(spec.start_id, id_of(spec.vocabulary, special.start.content, "bos_token"));
  SACCADE_ASSIGN(spec.end_id, id_of(spec.vocabulary, special.end.content, "eos_token"));
  SACCADE_ASSIGN(spec.unknown, id_of(spec.vocabulary, special.unknown.content, "unk_token"));
  SACCADE_ASSIGN(spec.pad_id, id_of(spec.vocabulary, special.pad.content, "pad_token"));
  add_special_tokens(special, spec);
  return spec;
}

}  // namespace saccade

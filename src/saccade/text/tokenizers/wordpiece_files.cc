// Loader of BERT's tokenizer from a checkpoint folder: tokenizer.json, or vocab.txt, with
// tokenizer_config.json.
#include <algorithm>

#include "saccade/core/files/files.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"
#include "saccade/text/tokenizers/tokenizer_files.h"
#include "saccade/text/tokenizers/tokenizer_json.h"
#include "saccade/text/tokenizers/wordpiece.h"
#include "saccade/text/utf8.h"

namespace saccade {

using namespace tokenizer_json;

namespace {

constexpr size_t kMaxAddedTokens = 1000;
constexpr int64_t kMaxWordChars = 1000;  // ten times BERT's: a word costs the square of its length at worst
constexpr int64_t kMaxVocabularyBytes = int64_t{256} << 20;

struct Spec {
  Vocabulary vocabulary;
  WordPiece::Options options;
  std::string unknown = "[UNK]";
  AddedTokens added;
  int32_t highest_id = -1;
};

// Reads one piece per line, with the line number as id; a later duplicate replaces an earlier one, as in
// transformers.
Status read_lines(std::string_view text, Vocabulary& vocabulary) {
  int32_t line = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    const std::string piece(text.substr(begin, end - begin));
    if (to_valid_utf8(piece) != piece) {
      return fail(ErrorCode::kBadData, "line {} is not UTF-8", line + 1);
    }
    vocabulary[piece] = line;
    begin = text.substr(end).starts_with("\r\n") ? end + 2 : end + 1;
  }
  if (vocabulary.empty()) return fail(ErrorCode::kBadData, "has no pieces");
  return {};
}

// Reads a flag of tokenizer_config.json, which overrides tokenizer.json (transformers rebuilds the normalizer
// from it).
Status read_flag(const Json& config, const char* key, bool& flag) {
  if (member(config, key).is_null()) return {};
  SACCADE_ASSIGN(flag, json_field<bool>(config, key));
  return {};
}

Status read_config(const Json& config, Spec& spec, bool accents_follow_case) {
  BertNormalization& normalization = spec.options.normalization;
  SACCADE_TRY(read_flag(config, "do_lower_case", normalization.lowercase));
  SACCADE_TRY(read_flag(config, "tokenize_chinese_chars", normalization.separate_chinese));
  // By default accents are stripped if text is lower-cased.
  if (accents_follow_case) normalization.strip_accents = normalization.lowercase;
  SACCADE_TRY(read_flag(config, "strip_accents", normalization.strip_accents));
  SACCADE_TRY(require(config, "do_basic_tokenize", true));
  SACCADE_TRY(require(config, "truncation_side", "right"));
  const Json& never = member(config, "never_split");
  if (!never.empty()) {
    return fail(ErrorCode::kUnsupported, "\"never_split\": {} is not supported", shown(dump_json(never)));
  }
  return {};
}

Status read_added_tokens(const TokenizerFiles& files, Spec& spec) {
  const auto add = [&](const Json& token, int32_t id) -> Status {
    SACCADE_ASSIGN(const auto content, json_field<std::string>(token, "content"));
    const std::string where = fmt::format("token \"{}\"", shown(content));
    SACCADE_TRY(require(token, "normalized", false).in(where));
    const auto known = spec.vocabulary.find(content);
    if (known != spec.vocabulary.end() && known->second != id) {
      return fail(ErrorCode::kBadData, "{} has id {}, and {} in the vocabulary", where, id, known->second);
    }
    return spec.added.insert_listed(token, id, spec.vocabulary.size(), kMaxAddedTokens);
  };
  return for_each_added_token(files.tokenizer_json, files.config, kMaxAddedTokens, add);
}

// Returns the id of a special token by its name in the config; the token is also matched in texts.
Result<int32_t> special_token(const Json& config, const char* key, const std::string& otherwise, Spec& spec) {
  SACCADE_ASSIGN(const std::string name, token_name(config, key, otherwise));
  if (const int32_t added = spec.added.find(name); added >= 0) return added;
  SACCADE_ASSIGN(const int32_t id, id_of(spec.vocabulary, name, key));
  spec.added.insert(name, {.id = id});
  return id;
}

// Checks the frame: "BertProcessing" {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}, or a template of one
// token, the text, one token.
Status check_frame(const Json& json, int32_t start, int32_t end) {
  if (json.is_null()) return {};
  Json before, after;
  if (type_of(json) == "BertProcessing") {
    const Json& cls = member(json, "cls");
    const Json& sep = member(json, "sep");
    before = cls.is_array() && cls.size() == 2 ? cls[1] : Json();
    after = sep.is_array() && sep.size() == 2 ? sep[1] : Json();
  } else if (type_of(json) == "TemplateProcessing") {
    const Json& single = member(json, "single");
    const auto id_of_part = [&](size_t part) -> Json {
      const Json& name = member(member(single[part], "SpecialToken"), "id");
      if (!name.is_string()) return {};
      const Json& ids =
          member(member(member(json, "special_tokens"), name.get_ref<const std::string&>().c_str()), "ids");
      return ids.is_array() && ids.size() == 1 ? ids[0] : Json();
    };
    if (single.is_array() && single.size() == 3 && member(single[1], "Sequence").is_object()) {
      before = id_of_part(0);
      after = id_of_part(2);
    }
  } else {
    return fail(ErrorCode::kUnsupported, "{} is not supported, only BertProcessing and TemplateProcessing",
                shown(type_of(json)));
  }
  if (before == start && after == end) return {};
  return fail(ErrorCode::kUnsupported, "{} is not token {}, the text, token {}", shown(dump_json(json)),
              start, end);
}

Status read_tokenizer_json(const Json& json, Spec& spec, bool& accents_follow_case) {
  const Json& model = member(json, "model");
  SACCADE_ASSIGN(spec.vocabulary, parse_vocabulary(member(model, "vocab")).in("model: vocab"));
  SACCADE_ASSIGN(spec.unknown, json_field_or<std::string>(model, "unk_token", "[UNK]").in("model"));
  SACCADE_ASSIGN(spec.options.prefix,
                 json_field_or<std::string>(model, "continuing_subword_prefix", "##").in("model"));
  SACCADE_ASSIGN(spec.options.max_word_chars,
                 json_field_or<int64_t>(model, "max_input_chars_per_word", 100).in("model"));
  if (spec.options.prefix.empty() || spec.options.max_word_chars < 0) {
    return fail(ErrorCode::kBadData,
                "model: \"continuing_subword_prefix\" is empty or \"max_input_chars_per_word\" below 0");
  }
  if (spec.options.max_word_chars > kMaxWordChars) {
    return fail(ErrorCode::kLimit, "model: \"max_input_chars_per_word\" is {}, limit {}",
                spec.options.max_word_chars, kMaxWordChars);
  }
  const Json& normalizer = member(json, "normalizer");
  if (type_of(normalizer) != "BertNormalizer") {
    return fail(ErrorCode::kUnsupported, "normalizer: {} is not supported, only BertNormalizer",
                shown(type_of(normalizer)));
  }
  BertNormalization& normalization = spec.options.normalization;
  SACCADE_TRY(read_flag(normalizer, "clean_text", normalization.clean).in("normalizer"));
  SACCADE_TRY(read_flag(normalizer, "handle_chinese_chars", normalization.separate_chinese).in("normalizer"));
  SACCADE_TRY(read_flag(normalizer, "lowercase", normalization.lowercase).in("normalizer"));
  accents_follow_case = member(normalizer, "strip_accents").is_null();
  SACCADE_TRY(read_flag(normalizer, "strip_accents", normalization.strip_accents).in("normalizer"));
  if (type_of(member(json, "pre_tokenizer")) != "BertPreTokenizer") {
    return fail(ErrorCode::kUnsupported, "pre_tokenizer: {} is not supported, only BertPreTokenizer",
                shown(type_of(member(json, "pre_tokenizer"))));
  }
  return {};
}

Result<PieceTokenizer> make(const TokenizerFiles& files) {
  Spec spec;
  bool accents_follow_case = true;
  if (files.tokenizer_json.is_null()) {
    SACCADE_ASSIGN(const std::string text, read_file(files.folder / "vocab.txt", kMaxVocabularyBytes));
    SACCADE_TRY(read_lines(text, spec.vocabulary).in("vocab.txt"));
  } else {
    SACCADE_TRY(read_tokenizer_json(files.tokenizer_json, spec, accents_follow_case).in("tokenizer.json"));
  }
  for (const auto& [piece, id] : spec.vocabulary) {
    if (id < 0) return fail(ErrorCode::kBadData, "piece \"{}\" has id {}", shown(piece), id);
    spec.highest_id = std::max(spec.highest_id, id);
  }
  SACCADE_TRY(read_config(files.config, spec, accents_follow_case).in("tokenizer_config.json"));
  SACCADE_TRY(read_added_tokens(files, spec));

  PieceTokenizer result;
  const Json& config = files.config;
  SACCADE_ASSIGN(result.start_id, special_token(config, "cls_token", "[CLS]", spec));
  SACCADE_ASSIGN(result.end_id, special_token(config, "sep_token", "[SEP]", spec));
  SACCADE_ASSIGN(result.pad_id, special_token(config, "pad_token", "[PAD]", spec));
  SACCADE_ASSIGN(spec.options.unknown_id, special_token(config, "unk_token", spec.unknown, spec));
  // Only masked-language modeling needs it, and not all vocabularies have it.
  if (!member(config, "mask_token").is_null() || spec.vocabulary.contains("[MASK]")) {
    SACCADE_TRY(special_token(config, "mask_token", "[MASK]", spec));
  }
  SACCADE_TRY(check_frame(member(files.tokenizer_json, "post_processor"), result.start_id, result.end_id)
                  .in("tokenizer.json: post_processor"));
  result.before = {result.start_id};
  result.after = {result.end_id};
  result.vocabulary_size = int64_t{std::max(spec.highest_id, spec.added.highest_id())} + 1;
  result.encoder = std::make_shared<const WordPiece>(spec.vocabulary, spec.options);
  result.added = std::move(spec.added);
  return result;
}

}  // namespace

bool is_wordpiece_tokenizer(const TokenizerFiles& files) {
  return files.model_type() == "WordPiece" || (files.tokenizer_json.is_null() && files.has("vocab.txt"));
}

Result<std::unique_ptr<Tokenizer>> load_wordpiece_tokenizer(const TokenizerFiles& files,
                                                            TextCleanup cleanup) {
  SACCADE_ASSIGN(PieceTokenizer pieces, make(files).in(files.folder.string()));
  return make_framed_tokenizer(std::move(pieces), cleanup);
}

}  // namespace saccade

#include "saccade/text/tokenizers/piece_json.h"

#include <algorithm>
#include <optional>

#include "saccade/core/base64.h"
#include "saccade/text/normalize.h"
#include "saccade/text/tokenizers/sentencepiece.h"
#include "saccade/text/tokenizers/tokenizer_json.h"
#include "saccade/text/utf8.h"

namespace saccade {

using namespace tokenizer_json;

namespace {

constexpr const char* kSpace = "\u2581";

// Combined effect of the steps before the model.
struct Steps {
  bool lower = false;
  bool escape_spaces = false;  // " " to U+2581
  bool prepend_space = false;  // a U+2581 in front
  bool collapse_spaces = false;
  bool strip_right = false;
  bool split_at_spaces = false;
  std::string charsmap;
};

Status read_replace(const Json& step, Steps& steps) {
  const Json& pattern = member(step, "pattern");
  const Json& content = member(step, "content");
  if (pattern == Json{{"String", " "}} && content == kSpace) {
    steps.escape_spaces = true;
  } else if (pattern == Json{{"Regex", " {2,}"}} && (content == kSpace || content == " ")) {
    steps.collapse_spaces = true;
  } else {
    return fail(ErrorCode::kUnsupported, "Replace of {} by {} is not supported", shown(dump_json(pattern)),
                shown(dump_json(content)));
  }
  return {};
}

Status read_metaspace(const Json& step, Steps& steps) {
  SACCADE_TRY(require(step, "replacement", kSpace));
  SACCADE_ASSIGN(const bool prefix, json_field_or<bool>(step, "add_prefix_space", true));
  SACCADE_ASSIGN(const auto scheme,
                 json_field_or<std::string>(step, "prepend_scheme", prefix ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return fail(ErrorCode::kUnsupported, "prepend_scheme \"{}\" is not supported", shown(scheme));
  }
  steps.escape_spaces = true;
  steps.prepend_space = steps.prepend_space || scheme != "never";
  return {};
}

Status read_step(const Json& step, Steps& steps) {
  const std::string type = type_of(step);
  if (type == "Lowercase") {
    steps.lower = true;
  } else if (type == "Replace") {
    return read_replace(step, steps);
  } else if (type == "Prepend") {
    SACCADE_TRY(require(step, "prepend", kSpace, false));
    steps.prepend_space = true;
  } else if (type == "Strip") {
    SACCADE_ASSIGN(steps.strip_right, json_field_or<bool>(step, "strip_right", true));
  } else if (type == "Precompiled") {
    SACCADE_ASSIGN(const auto map, json_field_or<std::string>(step, "precompiled_charsmap", ""));
    SACCADE_ASSIGN(steps.charsmap, decode_base64(map).in("\"precompiled_charsmap\""));
  } else if (type == "Metaspace") {
    return read_metaspace(step, steps);
  } else if (type == "WhitespaceSplit") {
    steps.split_at_spaces = true;
  } else if (type == "Split") {
    // Gemma's pre-tokenizer: spaces are already U+2581, so it cuts nothing.
    SACCADE_TRY(require(step, "pattern", Json{{"String", " "}}, false));
    if (!steps.escape_spaces) {
      return fail(ErrorCode::kUnsupported, "Split at spaces that the normalizer keeps");
    }
  } else {
    return fail(ErrorCode::kUnsupported, "{} is not supported", shown(type));
  }
  return {};
}

Result<Steps> read_steps(const Json& json) {
  Steps steps;
  SACCADE_ASSIGN(const std::vector<Json> normalizer,
                 steps_of(member(json, "normalizer"), "normalizers").in("normalizer"));
  for (const Json& step : normalizer) SACCADE_TRY(read_step(step, steps).in("normalizer"));
  SACCADE_ASSIGN(const std::vector<Json> pre_tokenizer,
                 steps_of(member(json, "pre_tokenizer"), "pretokenizers").in("pre_tokenizer"));
  for (const Json& step : pre_tokenizer) SACCADE_TRY(read_step(step, steps).in("pre_tokenizer"));
  return steps;
}

// Adds the tokens that the model lacks, and checks that the others agree.
Status add_added_tokens(const Json& json, Vocabulary& vocabulary) {
  const Json& added = member(json, "added_tokens");
  if (added.is_null()) return {};
  if (!added.is_array()) return fail(ErrorCode::kBadData, "added_tokens: {}, not an array", json_kind(added));
  for (const Json& token : added) {
    SACCADE_ASSIGN(const auto id, json_field<int32_t>(token, "id").in("added_tokens"));
    SACCADE_ASSIGN(const auto content, json_field<std::string>(token, "content").in("added_tokens"));
    const auto [known, is_new] = vocabulary.emplace(content, id);
    if (!is_new && known->second != id) {
      return fail(ErrorCode::kBadData, "added_tokens: token \"{}\" has id {}, and {} in the vocabulary",
                  shown(content), id, known->second);
    }
  }
  return {};
}

// One character a piece, its bytes where the vocabulary lacks it, then merges.
class ByteFallbackBpe : public PieceEncoder {
 public:
  static Result<std::shared_ptr<const ByteFallbackBpe>> make(const Vocabulary& vocabulary,
                                                             const std::vector<BpeMerge>& merges, Steps steps,
                                                             std::optional<int32_t> unknown,
                                                             bool fuse_unknown) {
    SACCADE_ASSIGN(Bpe bpe, Bpe::make_merges(vocabulary, merges));
    std::shared_ptr<ByteFallbackBpe> result(new ByteFallbackBpe(std::move(bpe), std::move(steps)));
    result->unknown_ = unknown;
    result->fuse_unknown_ = fuse_unknown;
    for (const auto& [piece, id] : vocabulary) {
      size_t size = 0;
      next_code_point(piece.empty() ? " " : piece, size);
      if (size == piece.size()) result->characters_.emplace(piece, id);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto found = vocabulary.find(byte_fallback_piece(static_cast<uint8_t>(byte)));
      result->bytes_[byte] = found == vocabulary.end() ? -1 : found->second;
      if (found == vocabulary.end() && !unknown) {
        return fail(ErrorCode::kBadData, "piece \"{}\" is not in the vocabulary, and no unknown token",
                    byte_fallback_piece(static_cast<uint8_t>(byte)));
      }
    }
    return std::shared_ptr<const ByteFallbackBpe>(std::move(result));
  }

  void append_ids(std::string_view text, std::vector<int32_t>& ids) const override {
    const std::string normalized = normalize(text);
    std::vector<int32_t> pieces;
    pieces.reserve(normalized.size());
    bool after_unknown = false;
    for (size_t begin = 0; begin < normalized.size();) {
      size_t end = begin;
      next_code_point(normalized, end);
      const std::string character = normalized.substr(begin, end - begin);
      begin = end;
      const auto found = characters_.find(character);
      bool unknown = false;
      if (found != characters_.end()) {
        pieces.push_back(found->second);
      } else if (std::all_of(character.begin(), character.end(),
                             [&](char byte) { return bytes_[static_cast<uint8_t>(byte)] >= 0; })) {
        for (const char byte : character) pieces.push_back(bytes_[static_cast<uint8_t>(byte)]);
      } else {
        unknown = true;
        if (!after_unknown || !fuse_unknown_) pieces.push_back(*unknown_);
      }
      after_unknown = unknown;
    }
    Bpe::Scratch scratch;
    bpe_.join(pieces, scratch, ids);
  }

 private:
  ByteFallbackBpe(Bpe bpe, Steps steps) : bpe_(std::move(bpe)), steps_(std::move(steps)) {}

  [[nodiscard]] std::string normalize(std::string_view text) const {
    const std::string lower = steps_.lower ? lowercase_each(text) : std::string(text);
    std::string out;
    if (steps_.prepend_space && !lower.empty() && !lower.starts_with(' ')) out += kSpace;
    for (const char c : lower) {
      if (c == ' ' && steps_.escape_spaces) {
        out += kSpace;
      } else {
        out += c;
      }
    }
    return out;
  }

  Bpe bpe_;
  Steps steps_;
  std::unordered_map<std::string, int32_t> characters_;
  int32_t bytes_[256] = {};
  std::optional<int32_t> unknown_;
  bool fuse_unknown_ = false;
};

}  // namespace

Result<JsonPieces> json_bpe_pieces(const Json& json) {
  const Json& model = member(json, "model");
  SACCADE_TRY(require(model, "continuing_subword_prefix", "").in("model"));
  SACCADE_TRY(require(model, "end_of_word_suffix", "").in("model"));
  SACCADE_TRY(require(model, "ignore_merges", false).in("model"));
  if (member(model, "dropout") != 0) SACCADE_TRY(require(model, "dropout", nullptr).in("model"));
  JsonPieces pieces;
  SACCADE_ASSIGN(pieces.vocabulary, parse_vocabulary(member(model, "vocab")).in("model: vocab"));
  SACCADE_ASSIGN(const std::vector<BpeMerge> merges, parse_merges(member(model, "merges")).in("model"));
  SACCADE_ASSIGN(const auto unknown, json_field_or<std::string>(model, "unk_token", "").in("model"));
  std::optional<int32_t> unknown_id;
  if (!unknown.empty()) {
    SACCADE_ASSIGN(unknown_id, id_of(pieces.vocabulary, unknown, "unk_token").in("model"));
  }
  SACCADE_ASSIGN(const bool fuse, json_field_or<bool>(model, "fuse_unk", false).in("model"));
  SACCADE_ASSIGN(Steps steps, read_steps(json));
  if (!steps.charsmap.empty() || steps.collapse_spaces || steps.strip_right || steps.split_at_spaces) {
    return fail(ErrorCode::kUnsupported,
                "normalizer: only Lowercase, Prepend, Replace of spaces and Metaspace "
                "are supported before BPE with byte fallback");
  }
  SACCADE_ASSIGN(
      pieces.encoder,
      ByteFallbackBpe::make(pieces.vocabulary, merges, std::move(steps), unknown_id, fuse).in("model"));
  SACCADE_TRY(add_added_tokens(json, pieces.vocabulary));
  SACCADE_TRY(check_ids(pieces.vocabulary).in("vocabulary"));
  return pieces;
}

Result<JsonPieces> json_unigram_pieces(const Json& json) {
  const Json& model = member(json, "model");
  const Json& vocab = member(model, "vocab");
  if (!vocab.is_array()) {
    return fail(ErrorCode::kBadData, "model: vocab: {}, not an array of pieces and scores", json_kind(vocab));
  }
  SentencePieceModel spm;
  JsonPieces pieces;
  for (const Json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return fail(ErrorCode::kBadData, "model: vocab: entry {} is {}, not [piece, score]", spm.pieces.size(),
                  shown(dump_json(entry)));
    }
    SACCADE_ASSIGN(const auto score, detail::json_as<float>("score", entry[1]));
    pieces.vocabulary.emplace(entry[0].get<std::string>(), static_cast<int32_t>(spm.pieces.size()));
    spm.pieces.push_back({entry[0].get<std::string>(), score, SentencePieceModel::Type::kNormal});
  }
  SACCADE_ASSIGN(const auto unknown, json_field<int64_t>(model, "unk_id").in("model"));
  if (unknown < 0 || unknown >= static_cast<int64_t>(spm.pieces.size())) {
    return fail(ErrorCode::kBadData, "model: unk_id {} among {} pieces", unknown, spm.pieces.size());
  }
  spm.pieces[static_cast<size_t>(unknown)].type = SentencePieceModel::Type::kUnknown;
  SACCADE_ASSIGN(spm.byte_fallback, json_field_or<bool>(model, "byte_fallback", false).in("model"));
  for (int byte = 0; spm.byte_fallback && byte < 256; ++byte) {
    const auto found = pieces.vocabulary.find(byte_fallback_piece(static_cast<uint8_t>(byte)));
    if (found == pieces.vocabulary.end()) continue;  // the check says which is missing
    spm.pieces[static_cast<size_t>(found->second)].type = SentencePieceModel::Type::kByte;
  }
  SACCADE_ASSIGN(Steps steps, read_steps(json));
  if (steps.lower || !steps.escape_spaces || (steps.collapse_spaces != steps.strip_right)) {
    return fail(
        ErrorCode::kUnsupported,
        "normalizer: only Precompiled, Strip with Replace of \" {{2,}}\", WhitespaceSplit and Metaspace "
        "are supported before Unigram");
  }
  spm.charsmap = std::move(steps.charsmap);
  spm.add_dummy_prefix = steps.prepend_space;
  spm.remove_extra_spaces = steps.collapse_spaces || steps.split_at_spaces;
  // Special tokens are matched before segmentation, and never assembled from pieces.
  SACCADE_TRY(add_added_tokens(json, pieces.vocabulary));
  if (const Json& added = member(json, "added_tokens"); added.is_array()) {
    for (const Json& token : added) {
      const auto id = static_cast<size_t>(token["id"].get<int32_t>());
      SACCADE_ASSIGN(const bool special, json_field_or<bool>(token, "special", false).in("added_tokens"));
      if (special && id < spm.pieces.size() && spm.pieces[id].type == SentencePieceModel::Type::kNormal) {
        spm.pieces[id].type = SentencePieceModel::Type::kControl;
      }
    }
  }
  SACCADE_ASSIGN(pieces.encoder, SentencePieceEncoder::make(std::move(spm)).in("model"));
  SACCADE_TRY(check_ids(pieces.vocabulary).in("vocabulary"));
  return pieces;
}

Result<JsonFrame> json_frame(const Json& post_processor) {
  JsonFrame frame;
  if (post_processor.is_null()) return frame;
  const std::string type = type_of(post_processor);
  const Json& single = member(post_processor, "single");
  if (type != "TemplateProcessing" || !single.is_array()) {
    return fail(ErrorCode::kUnsupported, "post_processor: {} is not supported, only TemplateProcessing",
                shown(type));
  }
  bool behind = false;
  for (const Json& part : single) {
    if (member(part, "Sequence").is_object()) {
      if (behind) return fail(ErrorCode::kUnsupported, "post_processor: the text stands there twice");
      behind = true;
      continue;
    }
    SACCADE_ASSIGN(const auto token,
                   json_field<std::string>(member(part, "SpecialToken"), "id").in("post_processor"));
    const Json& ids = member(member(member(post_processor, "special_tokens"), token.c_str()), "ids");
    if (!ids.is_array() || ids.empty()) {
      return fail(ErrorCode::kBadData, "post_processor: token \"{}\" stands for {}", shown(token),
                  shown(dump_json(ids)));
    }
    for (const Json& id : ids) {
      SACCADE_ASSIGN(const auto value, detail::json_as<int32_t>("ids", id));
      (behind ? frame.after : frame.before).push_back(value);
    }
  }
  if (!behind) return fail(ErrorCode::kBadData, "post_processor: the text stands nowhere");
  return frame;
}

}  // namespace saccade

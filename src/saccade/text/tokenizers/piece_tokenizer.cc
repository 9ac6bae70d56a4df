// Selection of a folder's SentencePiece-style tokenizer, and the frames of the known tokenizer classes.
#include <algorithm>

#include "saccade/core/files/files.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"
#include "saccade/text/tokenizers/piece_json.h"
#include "saccade/text/tokenizers/sentencepiece.h"
#include "saccade/text/tokenizers/tokenizer_json.h"

namespace saccade {

using namespace tokenizer_json;

namespace {

constexpr std::string_view kModelFiles[] = {"spiece.model", "tokenizer.model"};
constexpr size_t kMaxAddedPieces = 100'000;

// Defaults of transformers' classes for values missing from tokenizer_config.json.
struct Convention {
  std::string_view tokenizer_class;
  std::string_view start, end, pad;  // names of tokens
  bool adds_start = false;
  bool adds_end = false;
};
constexpr Convention kConventions[] = {
    {"SiglipTokenizer", "", "</s>", "</s>", false, true},
    {"T5Tokenizer", "", "</s>", "<pad>", false, true},
    {"GemmaTokenizer", "<bos>", "<eos>", "<pad>", true, false},
    {"Siglip2Tokenizer", "<bos>", "<eos>", "<pad>", false, true},
    {"LlamaTokenizer", "<s>", "</s>", "</s>", true, false},
};

// Returns the convention for a folder without a tokenizer class. T5 and SigLIP name their file spiece.model;
// other files are distinguished by the name of their end token.
const Convention& convention_without_class(const TokenizerFiles& files, bool has_gemma_end) {
  if (files.has("spiece.model")) return kConventions[0];
  return has_gemma_end ? kConventions[2] : kConventions[4];
}

const Convention* convention_of(std::string_view tokenizer_class) {
  for (const Convention& convention : kConventions) {
    if (convention.tokenizer_class == tokenizer_class) return &convention;
  }
  return nullptr;
}

Status read_added_tokens(const TokenizerFiles& files, int64_t vocabulary, AddedTokens& added) {
  return for_each_added_token(
      files.tokenizer_json, files.config, kMaxAddedPieces, [&](const Json& token, int32_t id) {
        return added.insert_listed(token, id, static_cast<size_t>(vocabulary), kMaxAddedPieces);
      });
}

template <typename IdOf>
Status read_special_tokens(const TokenizerFiles& files, const Convention& convention, const IdOf& id_of_piece,
                           PieceTokenizer& result) {
  const auto id_named = [&](const char* key, std::string_view fallback, bool needed) -> Result<int32_t> {
    // Null, unlike an absent member, means that there is no such token.
    const bool without = files.config.contains(key) && files.config[key].is_null();
    SACCADE_ASSIGN(const std::string name, token_name(files.config, key, without ? "" : fallback));
    const int32_t in_list = result.added.find(name);
    const int32_t id = name.empty() ? -1 : in_list >= 0 ? in_list : id_of_piece(name);
    if (id >= 0 || !needed) return id;
    return fail(ErrorCode::kBadData, "{} \"{}\" is not in the vocabulary", key, shown(name));
  };
  SACCADE_ASSIGN(const bool adds_start,
                 json_field_or<bool>(files.config, "add_bos_token", convention.adds_start));
  SACCADE_ASSIGN(const bool adds_end,
                 json_field_or<bool>(files.config, "add_eos_token", convention.adds_end));
  SACCADE_ASSIGN(result.end_id, id_named("eos_token", convention.end, true));
  SACCADE_ASSIGN(const int32_t start, id_named("bos_token", convention.start, adds_start));
  SACCADE_ASSIGN(const int32_t pad, id_named("pad_token", convention.pad, false));
  result.start_id = start >= 0 ? start : result.end_id;
  result.pad_id = pad >= 0 ? pad : result.end_id;
  if (adds_start) result.before = {start};
  if (adds_end) result.after = {result.end_id};
  return {};
}

bool is_byte_fallback_bpe(const TokenizerFiles& files) {
  return files.model_type() == "BPE" &&
         member(member(files.tokenizer_json, "model"), "byte_fallback") == true;
}

Result<PieceTokenizer> load_from_json(const TokenizerFiles& files) {
  const bool bpe = is_byte_fallback_bpe(files);
  SACCADE_ASSIGN(JsonPieces pieces,
                 bpe ? json_bpe_pieces(files.tokenizer_json) : json_unigram_pieces(files.tokenizer_json));
  PieceTokenizer result;
  result.encoder = std::move(pieces.encoder);
  const auto vocabulary = static_cast<int64_t>(pieces.vocabulary.size());
  SACCADE_TRY(read_added_tokens(files, vocabulary, result.added));
  result.vocabulary_size = std::max<int64_t>(vocabulary, result.added.highest_id() + 1);
  const auto id_of_piece = [&](const std::string& name) {
    const auto found = pieces.vocabulary.find(name);
    return found == pieces.vocabulary.end() ? -1 : found->second;
  };
  const Convention* known = convention_of(files.tokenizer_class());
  const Convention& convention =
      known != nullptr ? *known : convention_without_class(files, id_of_piece("<eos>") >= 0);
  SACCADE_TRY(read_special_tokens(files, convention, id_of_piece, result));
  // Classes with the two switches rebuild the frame from them; otherwise the file's own frame is used.
  const bool switched = files.config.contains("add_bos_token") || files.config.contains("add_eos_token");
  if (switched || member(files.tokenizer_json, "post_processor").is_null()) return result;
  SACCADE_ASSIGN(JsonFrame frame, json_frame(member(files.tokenizer_json, "post_processor")));
  for (const int32_t id : frame.before) {
    if (id < 0 || id >= result.vocabulary_size) {
      return fail(ErrorCode::kBadData, "post_processor: id {} in a vocabulary of {}", id,
                  result.vocabulary_size);
    }
  }
  for (const int32_t id : frame.after) {
    if (id < 0 || id >= result.vocabulary_size) {
      return fail(ErrorCode::kBadData, "post_processor: id {} in a vocabulary of {}", id,
                  result.vocabulary_size);
    }
  }
  result.before = std::move(frame.before);
  result.after = std::move(frame.after);
  return result;
}

Result<PieceTokenizer> load_from_model(const TokenizerFiles& files, std::string_view name) {
  SACCADE_ASSIGN(const std::string bytes, read_file(files.folder / name, int64_t{64} << 20));
  SACCADE_ASSIGN(SentencePieceModel model, parse_sentencepiece_model(bytes));
  const std::string tokenizer_class = files.tokenizer_class();
  const Convention* convention = convention_of(tokenizer_class);
  if (tokenizer_class.empty()) convention = &convention_without_class(files, model.find("<eos>") >= 0);
  if (convention == nullptr) {
    std::string known;
    for (const Convention& one : kConventions) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.tokenizer_class);
    }
    return fail(ErrorCode::kUnsupported, "tokenizer_class \"{}\" is not known for such a file; known: {}",
                shown(tokenizer_class), known);
  }
  SACCADE_ASSIGN(const std::shared_ptr<const SentencePieceEncoder> encoder,
                 SentencePieceEncoder::make(std::move(model)));
  PieceTokenizer result;
  result.encoder = encoder;
  const auto pieces = static_cast<int64_t>(encoder->model().pieces.size());
  SACCADE_TRY(read_added_tokens(files, pieces, result.added));
  result.vocabulary_size = std::max<int64_t>(pieces, result.added.highest_id() + 1);
  const auto id_of_piece = [&](const std::string& piece) { return encoder->model().find(piece); };
  SACCADE_TRY(read_special_tokens(files, *convention, id_of_piece, result));
  return result;
}

// Returns the name of the model file, or "".
std::string_view model_file(const TokenizerFiles& files) {
  for (const std::string_view name : kModelFiles) {
    if (files.has(name)) return name;
  }
  return {};
}

}  // namespace

bool is_piece_tokenizer(const TokenizerFiles& files) {
  if (files.tokenizer_json.is_null()) return !model_file(files).empty();
  return is_byte_fallback_bpe(files) || files.model_type() == "Unigram";
}

Result<PieceTokenizer> load_piece_tokenizer(const TokenizerFiles& files) {
  // tokenizer.json describes BPE completely; a Unigram model is simpler to read from the model file.
  const std::string_view model = model_file(files);
  const bool json = is_byte_fallback_bpe(files) || (model.empty() && files.model_type() == "Unigram");
  if (json) return load_from_json(files).in((files.folder / "tokenizer.json").string());
  if (model.empty()) {
    return fail(ErrorCode::kNotFound,
                "{}: neither spiece.model, tokenizer.model nor a tokenizer.json of that kind",
                files.folder.string());
  }
  return load_from_model(files, model).in((files.folder / model).string());
}

Result<std::unique_ptr<Tokenizer>> load_framed_tokenizer(const TokenizerFiles& files, TextCleanup cleanup) {
  SACCADE_ASSIGN(PieceTokenizer pieces, load_piece_tokenizer(files));
  return make_framed_tokenizer(std::move(pieces), cleanup);
}

}  // namespace saccade

#include "saccade/text/tokenizers/tokenizer_files.h"

#include <array>

#include "saccade/text/token_decoder.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Kinds with the most specific files come first.
constexpr std::array kKinds = {
    TokenizerKind{"SentencePiece", "spiece.model, tokenizer.model, or tokenizer.json", is_piece_tokenizer,
                  load_framed_tokenizer},
    TokenizerKind{"WordPiece", "tokenizer.json, or vocab.txt", is_wordpiece_tokenizer,
                  load_wordpiece_tokenizer},
    TokenizerKind{"CLIP's BPE", "tokenizer.json, or vocab.json with merges.txt", is_clip_tokenizer,
                  load_clip_tokenizer},
};

// Reads a JSON object from a file; empty if there is no such file.
Result<Json> read_object(const fs::path& path) {
  Result<Json> file = read_json(path);
  if (!file && file.error().code == ErrorCode::kNotFound) return Json::object();
  SACCADE_TRY(file);
  if (!file->is_object()) {
    return fail(ErrorCode::kBadData, "{}: {}, not an object", path.string(), json_kind(*file));
  }
  return file;
}

// Reads tokenizer_config.json, overridden by special_tokens_map.json unless the former has the newer
// "added_tokens_decoder", which replaced it (as in transformers).
Result<Json> read_config(const fs::path& folder) {
  SACCADE_ASSIGN(Json config, read_object(folder / "tokenizer_config.json"));
  SACCADE_ASSIGN(const Json map, read_object(folder / "special_tokens_map.json"));
  if (!config.contains("added_tokens_decoder")) config.update(map);
  return config;
}

std::string string_at(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

// Tokenizer that cleans each text before passing it on.
class CleaningTokenizer : public Tokenizer, public DecodableTokenizer {
 public:
  CleaningTokenizer(std::unique_ptr<Tokenizer> tokenizer, TextCleanup cleanup)
      : tokenizer_(std::move(tokenizer)), cleanup_(cleanup) {}

  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    constexpr size_t kMaxTextBytes = size_t{1} << 28;  // as Tokenizer says
    return tokenizer_->encode(clean_text(to_valid_utf8(text.substr(0, kMaxTextBytes)), cleanup_), max_tokens);
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return tokenizer_->vocabulary_size(); }
  [[nodiscard]] int32_t start_id() const override { return tokenizer_->start_id(); }
  [[nodiscard]] int32_t end_id() const override { return tokenizer_->end_id(); }
  [[nodiscard]] int32_t pad_id() const override { return tokenizer_->pad_id(); }
  [[nodiscard]] std::unique_ptr<TokenDecoder> make_decoder() const override {
    return token_decoder(*tokenizer_);
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  TextCleanup cleanup_;
};

}  // namespace

bool TokenizerFiles::has(std::string_view name) const {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

std::string TokenizerFiles::model_type() const {
  return tokenizer_json.is_object() && tokenizer_json.contains("model")
             ? string_at(tokenizer_json["model"], "type")
             : std::string();
}

std::string TokenizerFiles::tokenizer_class() const {
  std::string name = string_at(config, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

Result<TokenizerFiles> read_tokenizer_files(const fs::path& folder) {
  TokenizerFiles files;
  files.folder = folder;
  SACCADE_ASSIGN(files.config, read_config(folder));
  Result<Json> json = read_json(folder / "tokenizer.json");
  if (json) {
    files.tokenizer_json = *std::move(json);
  } else if (json.error().code != ErrorCode::kNotFound) {
    return fail(std::move(json).error());
  }
  return files;
}

std::unique_ptr<Tokenizer> with_cleanup(std::unique_ptr<Tokenizer> tokenizer, TextCleanup cleanup) {
  return std::make_unique<CleaningTokenizer>(std::move(tokenizer), cleanup);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const fs::path& folder, TextCleanup cleanup) {
  SACCADE_ASSIGN(const TokenizerFiles files, read_tokenizer_files(folder));
  std::string known;
  for (const TokenizerKind& kind : kKinds) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", kind.name, kind.files);
    if (!kind.recognizes(files)) continue;
    // OpenAI's clean-up is part of its tokenizer, because it changes how words are cut.
    const bool own = cleanup == TextCleanup::kTokenizerFile || cleanup == TextCleanup::kOpenAi;
    SACCADE_ASSIGN(std::unique_ptr<Tokenizer> tokenizer,
                   kind.load(files, own ? cleanup : TextCleanup::kTokenizerFile));
    if (own) return tokenizer;
    return with_cleanup(std::move(tokenizer), cleanup);
  }
  if (files.tokenizer_json.is_null()) {
    return fail(ErrorCode::kNotFound, "{}: no tokenizer's files; known kinds: {}", folder.string(), known);
  }
  return fail(ErrorCode::kUnsupported, "{}: model {} is not a known kind of tokenizer; known: {}",
              (folder / "tokenizer.json").string(),
              files.model_type().empty() ? "without a type" : files.model_type(), known);
}

}  // namespace saccade

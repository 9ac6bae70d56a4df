// Tokenizer files of a checkpoint's folder, read once, and the table of tokenizer kinds.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/tokenizer.h"

namespace saccade {

struct TokenizerFiles {
  std::filesystem::path folder;
  Json tokenizer_json;  // null without the file
  // tokenizer_config.json, over which special_tokens_map.json counts; an object, empty without either.
  Json config = Json::object();

  [[nodiscard]] bool has(std::string_view name) const;
  // Returns tokenizer.json's "model"."type" ("BPE", "WordPiece", "Unigram"), or an empty string.
  [[nodiscard]] std::string model_type() const;
  // Returns tokenizer_config.json's "tokenizer_class" without the suffix "Fast", or an empty string.
  [[nodiscard]] std::string tokenizer_class() const;
};

Result<TokenizerFiles> read_tokenizer_files(const std::filesystem::path& folder);

// A kind of tokenizer: the first in the table that recognizes the files loads them. Loaders take
// TextCleanup::kTokenizerFile and what is theirs alone; load_tokenizer does the clean-ups that suit all.
struct TokenizerKind {
  std::string_view name;
  std::string_view files;  // what it is read from, for messages
  bool (*recognizes)(const TokenizerFiles& files) = nullptr;
  Result<std::unique_ptr<Tokenizer>> (*load)(const TokenizerFiles& files, TextCleanup cleanup) = nullptr;
};

// The kinds, each in a file of its own.
bool is_clip_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_clip_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

bool is_piece_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_framed_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

bool is_wordpiece_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_wordpiece_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

// The tokenizer, its texts cleaned before it sees them.
std::unique_ptr<Tokenizer> with_cleanup(std::unique_ptr<Tokenizer> tokenizer, TextCleanup cleanup);

}  // namespace saccade

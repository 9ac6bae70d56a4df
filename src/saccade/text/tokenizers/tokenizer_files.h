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
  // Contents of tokenizer_config.json, overridden by special_tokens_map.json; an empty object without either.
  Json config = Json::object();

  [[nodiscard]] bool has(std::string_view name) const;
  // Returns tokenizer.json's "model"."type" ("BPE", "WordPiece", "Unigram"), or an empty string.
  [[nodiscard]] std::string model_type() const;
  // Returns tokenizer_config.json's "tokenizer_class" without the suffix "Fast", or an empty string.
  [[nodiscard]] std::string tokenizer_class() const;
};

Result<TokenizerFiles> read_tokenizer_files(const std::filesystem::path& folder);

// Kind of tokenizer: the first in the table that recognizes the files loads them. Loaders handle
// TextCleanup::kTokenizerFile and clean-ups specific to them; load_tokenizer handles the general ones.
struct TokenizerKind {
  std::string_view name;
  std::string_view files;  // names of its files, for messages
  bool (*recognizes)(const TokenizerFiles& files) = nullptr;
  Result<std::unique_ptr<Tokenizer>> (*load)(const TokenizerFiles& files, TextCleanup cleanup) = nullptr;
};

// Functions of the kinds, each in a file of its own.
bool is_clip_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_clip_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

bool is_piece_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_framed_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

bool is_wordpiece_tokenizer(const TokenizerFiles& files);
Result<std::unique_ptr<Tokenizer>> load_wordpiece_tokenizer(const TokenizerFiles& files, TextCleanup cleanup);

// Wraps a tokenizer so that its texts are cleaned first.
std::unique_ptr<Tokenizer> with_cleanup(std::unique_ptr<Tokenizer> tokenizer, TextCleanup cleanup);

}  // namespace saccade

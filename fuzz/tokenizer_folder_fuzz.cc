// The files of a tokenizer's folder: tokenizer.json, a zero byte, tokenizer_config.json, a zero byte,
// special_tokens_map.json, a zero byte, vocab.txt. An empty one is not there. What loads cuts texts.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/tokenizer.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kFiles = {"tokenizer.json", "tokenizer_config.json",
                                                    "special_tokens_map.json", "vocab.txt"};
constexpr std::array<std::string_view, 52> kWords = {"model",
                                                     "type",
                                                     "BPE",
                                                     "WordPiece",
                                                     "Unigram",
                                                     "vocab",
                                                     "merges",
                                                     "unk_token",
                                                     "[UNK]",
                                                     "[CLS]",
                                                     "[SEP]",
                                                     "[PAD]",
                                                     "<unk>",
                                                     "</s>",
                                                     "<pad>",
                                                     "added_tokens",
                                                     "id",
                                                     "content",
                                                     "special",
                                                     "single_word",
                                                     "lstrip",
                                                     "rstrip",
                                                     "normalized",
                                                     "normalizer",
                                                     "BertNormalizer",
                                                     "lowercase",
                                                     "strip_accents",
                                                     "handle_chinese_chars",
                                                     "clean_text",
                                                     "pre_tokenizer",
                                                     "BertPreTokenizer",
                                                     "Metaspace",
                                                     "replacement",
                                                     "\u2581",
                                                     "prepend_scheme",
                                                     "split",
                                                     "post_processor",
                                                     "TemplateProcessing",
                                                     "decoder",
                                                     "ByteLevel",
                                                     "byte_fallback",
                                                     "tokenizer_class",
                                                     "BertTokenizer",
                                                     "GemmaTokenizer",
                                                     "model_max_length",
                                                     "continuing_subword_prefix",
                                                     "##",
                                                     "max_input_chars_per_word",
                                                     "Sequence",
                                                     "Replace",
                                                     "pattern",
                                                     "String"};
constexpr std::array<std::string_view, 8> kLines = {"[UNK]\n",   "##a\n",    "a\n",  "\n",
                                                    "[CLS]\r\n", "\u00e9\n", "##\n", "\xff\n"};

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static const TemporaryFolder base = TemporaryFolder::make().value();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const std::string_view name : kFiles) {
    const size_t zero = std::min(rest.find('\0'), rest.size());
    const std::string_view content = rest.substr(0, zero);
    rest.remove_prefix(std::min(zero + 1, rest.size()));
    fs::remove(base.path() / name);
    if (!content.empty()) FUZZ_CHECK(write_file_atomic(base.path() / name, content));
  }
  for (const TextCleanup cleanup : {TextCleanup::kTokenizerFile, TextCleanup::kOpenAi}) {
    const auto tokenizer = load_tokenizer(base.path(), cleanup);
    if (!tokenizer) {
      FUZZ_CHECK(!tokenizer.error().message.empty());
      continue;
    }
    for (const std::string_view text :
         {"a photo  of Cafe\u0301 \uff21 cats\u3000!", "", "\xff [CLS] \u4f60\u597d a"}) {
      const auto all = (*tokenizer)->encode(text, INT64_MAX);
      for (const int32_t id : all.ids) FUZZ_CHECK(id >= 0 && id < (*tokenizer)->vocabulary_size());
      const auto cut = (*tokenizer)->encode(text, 9);
      FUZZ_CHECK(cut.ids.size() <= 9 && cut.used + cut.dropped == all.used);
    }
  }
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  const Mutation json = [&](std::string_view text) { return mutate_json(text, kWords, random); };
  const std::array<Mutation, 4> kinds = {
      json, json, json, [&](std::string_view text) { return mutate_lines(text, kLines, kWords, random); }};
  return mutate_part(input, '\0', kinds, random);
}

// A tokenizer's own files, in memory. The first byte chooses:
// tokenizer.json, or vocab.json, a zero byte, merges.txt.
#include <array>
#include <string>
#include <string_view>

#include "saccade/core/json.h"
#include "saccade/text/tokenizers/clip_spec.h"

#include "fuzz.h"
#include "mutators.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool whole = data[0] == 'T';
  const size_t zero = whole ? rest.size() : std::min(rest.find('\0'), rest.size());
  auto json = parse_json(rest.substr(0, zero));
  if (!json) return 0;
  // A vocabulary of all bytes is unlikely to be found by chance, so "bytes" stands for it.
  Json* vocab = &*json;
  if (whole && json->is_object() && json->contains("model") && (*json)["model"].is_object()) {
    vocab = &(*json)["model"]["vocab"];
  }
  if (vocab->is_object() && vocab->contains("bytes")) {
    Json full = Json::object();
    int id = 0;
    for (const char* suffix : {"", "</w>"}) {
      for (int byte = 0; byte < 256; ++byte) {
        full.get_ref<Json::object_t&>().emplace_back(byte_piece(static_cast<uint8_t>(byte)) + suffix, id++);
      }
    }
    for (const auto& [piece, value] : vocab->items()) {
      if (piece != "bytes" && !full.contains(piece)) full[piece] = value;
    }
    *vocab = std::move(full);
  }
  const auto spec =
      whole ? clip_spec_from_tokenizer_json(*json, Json::object())
            : clip_spec_from_vocab_and_merges(*json, rest.substr(std::min(zero + 1, rest.size())), {});
  if (!spec) {
    FUZZ_CHECK(!spec.error().message.empty());
    return 0;
  }
  for (const TextCleanup cleanup : {TextCleanup::kTokenizerFile, TextCleanup::kOpenAi}) {
    const auto tokenizer = make_clip_tokenizer(*spec, cleanup);
    if (!tokenizer) continue;
    for (const int32_t id : (*tokenizer)->encode("ab <|ENDOFTEXT|> \u00e9!<|endoftext|>", 77).ids) {
      FUZZ_CHECK(id >= 0 && id < (*tokenizer)->vocabulary_size());
    }
  }
  return 0;
}

namespace {

constexpr std::array<std::string_view, 22> kWords = {"model",
                                                     "vocab",
                                                     "merges",
                                                     "bytes",
                                                     "added_tokens",
                                                     "content",
                                                     "id",
                                                     "<|startoftext|>",
                                                     "<|endoftext|>",
                                                     "a</w>",
                                                     "b",
                                                     "a b",
                                                     "ab</w>",
                                                     "type",
                                                     "BPE",
                                                     "unk_token",
                                                     "end_of_word_suffix",
                                                     "</w>",
                                                     "post_processor",
                                                     "pre_tokenizer",
                                                     "normalizer",
                                                     "#version: 0.2"};
constexpr std::array<std::string_view, 6> kLines = {"#version: 0.2\n", "a b\n", "a b</w>\n",
                                                    "ab c\n",          "\n",    "a  b\r\n"};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  if (input.empty()) return "T{}";
  const std::array<Mutation, 2> kinds = {
      [&](std::string_view text) { return mutate_json(text, kWords, random); },
      [&](std::string_view text) { return mutate_lines(text, kLines, kWords, random); }};
  return input[0] + mutate_part(std::string_view(input).substr(1), '\0', kinds, random);
}

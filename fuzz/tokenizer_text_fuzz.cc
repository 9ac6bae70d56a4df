// Fuzzer of texts through CLIP's tokenizer: any bytes give ids of the vocabulary, and truncation gives a
// prefix.
#include <algorithm>
#include <memory>
#include <string_view>

#include "saccade/core/source_dir.h"
#include "saccade/tokenizer.h"

#include "fuzz.h"

namespace {

void check(const saccade::Tokenizer& tokenizer, std::string_view text) {
  const auto all = tokenizer.encode(text, INT64_MAX);
  FUZZ_CHECK(all.dropped == 0 && all.used + 2 == static_cast<int64_t>(all.ids.size()));
  FUZZ_CHECK(all.ids.front() == tokenizer.start_id() && all.ids.back() == tokenizer.end_id());
  for (const int32_t id : all.ids) FUZZ_CHECK(id >= 0 && id < tokenizer.vocabulary_size());
  const auto cut = tokenizer.encode(text, 9);
  FUZZ_CHECK(cut.ids.size() <= 9 && cut.used + cut.dropped == all.used);
  FUZZ_CHECK(cut.ids.back() == tokenizer.end_id());
  FUZZ_CHECK(std::equal(cut.ids.begin(), cut.ids.end() - 1, all.ids.begin()));
}

std::unique_ptr<saccade::Tokenizer> load(saccade::TextCleanup cleanup) {
  auto tokenizer = saccade::load_tokenizer(
      std::string(saccade::test::kSourceDir) + "/tests/golden/tokenizers/clip", cleanup);
  FUZZ_CHECK(tokenizer);
  return *std::move(tokenizer);
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static const auto as_file = load(saccade::TextCleanup::kTokenizerFile);
  static const auto as_openai = load(saccade::TextCleanup::kOpenAi);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(*as_file, text);
  check(*as_openai, text);
  return 0;
}

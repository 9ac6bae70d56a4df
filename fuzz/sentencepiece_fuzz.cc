// Fuzzer of a SentencePiece model file in memory, and of text tokenized by the models that load.

#include "saccade/text/tokenizers/sentencepiece.h"

#include "fuzz.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  auto model = parse_sentencepiece_model({reinterpret_cast<const char*>(data), size});
  if (!model) {
    FUZZ_CHECK(!model.error().message.empty());
    return 0;
  }
  const auto pieces = static_cast<int32_t>(model->pieces.size());
  const auto encoder = SentencePieceEncoder::make(*std::move(model));
  if (!encoder) return 0;
  std::vector<int32_t> ids;
  (*encoder)->append_ids(" a photo  of \u00bd \uff21 cats\u3000\ufb01!", ids);
  for (const int32_t id : ids) FUZZ_CHECK(id >= 0 && id < pieces);
  return 0;
}

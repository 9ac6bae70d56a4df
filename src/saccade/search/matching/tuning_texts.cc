#include "saccade/search/matching/tuning_texts.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "saccade/core/random.h"
#include "saccade/index/likelihood.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

// Number of images whose captions are looked at: reading those of all would take minutes in a large collection.
constexpr int64_t kCaptionedSample = 4000;
constexpr uint64_t kTextSeed = 1;  // other texts than those of the calibration

Result<std::vector<std::string>> some_captions(const CollectionReader& collection) {
  std::vector<int64_t> there;
  for (const int64_t id : collection.ids()) {
    if (id != 0) there.push_back(id);
  }
  std::vector<std::string> captions;
  const auto count = std::min(kCaptionedSample, std::ssize(there));
  for (int64_t i = 0; i < count; ++i) {
    SACCADE_ASSIGN(Item item, collection.item(there[static_cast<size_t>(i * std::ssize(there) / count)]));
    if (!item.caption.empty()) captions.push_back(std::move(item.caption));
  }
  return captions;
}

}  // namespace

Result<Matrix<float>> tuning_texts(const CollectionReader& collection, EncoderBackend& encoder, int64_t count,
                                   const std::stop_token& stop) {
  SACCADE_TRY(collection.check_has_rows("an approximate index"));
  SACCADE_TRY(check_same_checkpoint(collection.info(),
                                    {"the encoder", "", encoder.info().fingerprint, encoder.info().dim}));
  if (encoder.tokenizer() == nullptr || !encoder.info().shared_space) return Matrix<float>();
  SACCADE_ASSIGN(const std::vector<std::string> captions, some_captions(collection));
  std::set<std::string> known;
  std::vector<std::string> texts;
  const auto add = [&](std::string text) {
    if (known.insert(text).second) texts.push_back(std::move(text));
  };
  for (CaptionQuery& query : CaptionIndex(captions).draw(count - count / 3, kMostRight, kTextSeed)) {
    add(std::move(query.text));
  }
  for (const std::string_view word : everyday_words()) {
    if (std::ssize(texts) >= count) break;
    add(std::string(word));
  }
  SplitMix random(kTextSeed, 0);
  random.shuffle(texts);
  return encode_all_texts(encoder, texts, stop).in("texts that recall is measured on");
}

}  // namespace saccade

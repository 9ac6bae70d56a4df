#include "saccade/search/caption_texts.h"

#include <algorithm>
#include <cstdint>

#include "saccade/core/rows.h"

namespace saccade {
namespace {

constexpr int64_t kTextBatch = 64;

}  // namespace

Result<std::vector<std::string>> captions_by_row(const Collection& collection) {
  std::vector<std::string> captions(static_cast<size_t>(collection.rows().rows()));
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    captions[static_cast<size_t>(item.row)] = item.caption;
    return {};
  }));
  return captions;
}

Result<Matrix<float>> encode_all_texts(Encoder& encoder, const std::vector<std::string>& texts,
                                       const std::stop_token& stop) {
  Matrix<float> rows(std::ssize(texts), encoder.info().dim);
  for (int64_t first = 0; first < rows.rows(); first += kTextBatch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    std::vector<TokenizedText> batch;
    const int64_t end = std::min(first + kTextBatch, rows.rows());
    for (int64_t t = first; t < end; ++t) {
      batch.push_back(encoder.tokenizer()->encode(texts[static_cast<size_t>(t)], encoder.info().context));
    }
    SACCADE_ASSIGN(const Matrix<float> encoded, encoder.encode_texts(batch));
    for (int64_t r = 0; r < encoded.rows(); ++r) {
      SACCADE_TRY(check_unit_row(encoded.row(r)).in("the encoder gave"));
      std::ranges::copy(encoded.row(r), rows.row(first + r).begin());
    }
  }
  return rows;
}

}  // namespace saccade

#include "saccade/search/keywords/caption_texts.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

constexpr size_t kTextBatch = 64;

}  // namespace

Result<std::vector<std::string>> captions_by_row(const CollectionReader& collection) {
  std::vector<std::string> captions(static_cast<size_t>(collection.rows().rows()));
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    captions[static_cast<size_t>(item.row)] = item.caption;
    return {};
  }));
  return captions;
}

Result<std::vector<std::string>> descriptions_by_row(const CollectionReader& collection) {
  std::vector<std::string> texts(static_cast<size_t>(collection.rows().rows()));
  std::vector<std::pair<size_t, std::vector<std::string>>> names;  // of items without captions, by row
  std::map<std::string, int64_t> counts;                           // of names that have a word
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    if (!item.caption.empty()) {
      texts[static_cast<size_t>(item.row)] = item.caption;
      return {};
    }
    std::vector<std::string> words = caption_words(std::filesystem::path(file_of(item.path)).stem().string());
    std::erase_if(words, [](const std::string& word) {
      return word.size() < 3 || std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
    });
    for (const std::string& word : std::set(words.begin(), words.end())) ++counts[word];
    names.emplace_back(static_cast<size_t>(item.row), std::move(words));
    return {};
  }));
  const int64_t most = std::max<int64_t>(1, std::ssize(names) / 10);
  for (const auto& [row, words] : names) {
    std::string& text = texts[row];
    for (const std::string& word : words) {
      if (counts[word] <= most) text += (text.empty() ? "" : " ") + word;
    }
  }
  return texts;
}

Result<Matrix<float>> encode_all_texts(EncoderBackend& encoder, const std::vector<std::string>& texts,
                                       const std::stop_token& stop) {
  Matrix<float> rows(std::ssize(texts), encoder.info().dim);
  std::vector<TokenizedText> tokenized;
  for (const std::string& text : texts) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
  }
  // A batch costs as many tokens as its longest text: single words apart from sentences.
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t t) { return tokenized[t].ids.size(); });
  for (size_t first = 0; first < order.size(); first += kTextBatch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    const auto items = std::span(order).subspan(first, std::min(kTextBatch, order.size() - first));
    std::vector<TokenizedText> batch;
    for (const size_t item : items) batch.push_back(std::move(tokenized[item]));
    SACCADE_ASSIGN(const Matrix<float> encoded, encoder.encode_texts(batch));
    for (size_t i = 0; i < items.size(); ++i) {
      const auto row = encoded.row(static_cast<int64_t>(i));
      SACCADE_TRY(check_unit_row(row).in("the encoder gave"));
      std::ranges::copy(row, rows.row(static_cast<int64_t>(items[i])).begin());
    }
  }
  return rows;
}

}  // namespace saccade

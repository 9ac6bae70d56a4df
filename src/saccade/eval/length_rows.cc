#include "saccade/eval/length_rows.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

// Texts an encoder call: enough for its batches, few enough to stop between them.
constexpr size_t kTextsAtOnce = 512;

int64_t rows_of(const RowSets& sets, int64_t item) {
  const auto i = static_cast<size_t>(item);
  return sets.begin[i + 1] - sets.begin[i];
}

// Copies an item's rows behind those that `to` has already.
void append_item(const RowSets& from, int64_t item, RowSets& to) {
  const int64_t first = from.begin[static_cast<size_t>(item)];
  const int64_t at = to.begin.back();
  for (int64_t r = 0; r < rows_of(from, item); ++r) {
    std::ranges::copy(from.rows.row(first + r), to.rows.row(at + r).begin());
  }
  to.begin.push_back(at + rows_of(from, item));
}

}  // namespace

RowSets gather_rows(const RowSets& from, std::span<const int64_t> places) {
  int64_t total = 0;
  for (const int64_t place : places) total += rows_of(from, place);
  RowSets sets;
  sets.rows = Matrix<float>(total, from.rows.columns());
  sets.begin.reserve(places.size() + 1);
  for (const int64_t place : places) append_item(from, place, sets);
  return sets;
}

size_t RowCache::Hash::operator()(const std::vector<int32_t>& ids) const {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, an id at a time
  for (const int32_t id : ids) hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001b3U;
  return static_cast<size_t>(hash ^ (hash >> 32));
}

void RowCache::begin() {
  wanted_.clear();
  texts_.clear();
}

std::vector<int64_t> RowCache::add(std::span<const TokenizedText> texts) {
  std::vector<int64_t> places;
  places.reserve(texts.size());
  for (const TokenizedText& text : texts) {
    const auto [found, fresh] = wanted_.try_emplace(text.ids, static_cast<int64_t>(texts_.size()));
    if (fresh) texts_.push_back(text);
    places.push_back(found->second);
  }
  return places;
}

Status RowCache::finish(const std::stop_token& stop) {
  // Where each text's rows are: in what the last round left, or in what is encoded now.
  struct Source {
    size_t batch = 0;  // 0: the last round
    int64_t item = 0;
  };
  std::vector<RowSets> batches;
  batches.push_back(std::exchange(rows_, {}));
  std::vector<Source> sources(texts_.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto kept = places_.find(texts_[i].ids);
    if (kept == places_.end()) {
      missing.push_back(i);
    } else {
      sources[i].item = kept->second;
    }
  }
  for (size_t begin = 0; begin < missing.size(); begin += kTextsAtOnce) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    const size_t end = std::min(missing.size(), begin + kTextsAtOnce);
    std::vector<TokenizedText> batch;
    for (size_t m = begin; m < end; ++m) {
      sources[missing[m]] = {batches.size(), static_cast<int64_t>(m - begin)};
      batch.push_back(texts_[missing[m]]);
    }
    SACCADE_ASSIGN(RowSets encoded, encode_(batch));
    if (encoded.begin.size() != batch.size() + 1) {
      return fail(ErrorCode::kInternal, "rows of {} texts came back for {}", encoded.begin.size() - 1,
                  batch.size());
    }
    encoded_ += static_cast<int64_t>(batch.size());
    batches.push_back(std::move(encoded));
  }
  int64_t total = 0;
  int64_t width = 0;
  for (const Source& source : sources) {
    total += rows_of(batches[source.batch], source.item);
    width = batches[source.batch].rows.columns();
  }
  rows_.rows = Matrix<float>(total, width);
  for (const Source& source : sources) append_item(batches[source.batch], source.item, rows_);
  places_ = std::exchange(wanted_, {});
  return {};
}

}  // namespace saccade

#include "lab/eval/length/length_rows.h"

#include <algorithm>
#include <utility>

namespace saccade::lab {
namespace {

// Appends an item's embeddings to `to`.
void append_item(const RowSets& from, int64_t item, RowSets& to) {
  const int64_t first = from.begin[static_cast<size_t>(item)];
  const int64_t count = from.begin[static_cast<size_t>(item) + 1] - first;
  const int64_t at = to.begin.back();
  for (int64_t r = 0; r < count; ++r) {
    std::ranges::copy(from.rows.row(first + r), to.rows.row(at + r).begin());
  }
  to.begin.push_back(at + count);
}

}  // namespace

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

Status RowCache::finish(const std::string& detail) {
  std::vector<TokenizedText> missing;
  for (const TokenizedText& text : texts_) {
    if (!places_.contains(text.ids)) missing.push_back(text);
  }
  EmbeddedRows encoded;
  encoded.late = rows_.late;
  if (!missing.empty()) {
    SACCADE_ASSIGN(encoded, encode_(missing, detail));
    if (encoded.size() != static_cast<int64_t>(missing.size())) {
      return fail(ErrorCode::kInternal, "rows of {} texts came back for {}", encoded.size(), missing.size());
    }
    encoded_ += encoded.size();
  }
  // Gathers the embeddings of the last round that are requested again, and the new ones, in order of their
  // places.
  EmbeddedRows rows;
  rows.late = encoded.late;
  std::vector<std::pair<const RowSets*, int64_t>> sources;
  sources.reserve(texts_.size());
  int64_t next = 0;
  int64_t total = 0;
  for (const TokenizedText& text : texts_) {
    const auto kept = places_.find(text.ids);
    const bool fresh = kept == places_.end();
    const auto& [from, item] =
        sources.emplace_back(fresh ? &encoded.sets : &rows_.sets, fresh ? next++ : kept->second);
    total += from->begin[static_cast<size_t>(item) + 1] - from->begin[static_cast<size_t>(item)];
  }
  if (!sources.empty()) rows.sets.rows = Matrix<float>(total, sources.front().first->rows.columns());
  for (const auto& [from, item] : sources) append_item(*from, item, rows.sets);
  rows_ = std::move(rows);
  places_ = std::exchange(wanted_, {});
  return {};
}

}  // namespace saccade::lab

#include "lab/eval/length/length.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/length/length_rows.h"
#include "lab/eval/retrieval/retrieval.h"
#include "saccade/core/random.h"
#include "saccade/text/sentences.h"
#include "saccade/text/token_decoder.h"

namespace saccade::lab {
namespace {

constexpr std::array<int64_t, 1> kFirst = {1};

size_t place_of(Direction direction) {
  return direction == Direction::kTextToImage ? 0 : 1;
}

// A random choice of images with all their texts, and the relevance among them.
struct Subset {
  std::vector<int64_t> images;         // ascending
  std::vector<int64_t> texts;          // ascending
  std::vector<int64_t> image_of_text;  // for each of `texts`, a place in `images`
  Relevance relevance;                 // between the places in both
};

// A curve under construction, in both directions.
struct Hits {
  std::array<HitTable, 2> whole;
  std::array<std::vector<SubsetHits>, 2> subsets;
};

// Returns 1, 1 + step, 1 + 2 step, ... up to `last`.
std::vector<int64_t> even_lengths(int64_t step, int64_t last) {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= last; n += step) {
    lengths.push_back(n);
    if (step > last - n) break;
  }
  return lengths;
}

class Study {
 public:
  Study(const LengthTexts& texts, const LengthModel& model, const LengthOptions& options, ThreadPool& pool,
        std::stop_token stop)
      : texts_(texts),
        model_(model),
        options_(options),
        pool_(pool),
        stop_(std::move(stop)),
        rows_(model.encode) {}

  Result<LengthOutcome> run() {
    SACCADE_TRY(prepare());
    SACCADE_TRY(measure_curves());
    if (options_.chunking && study_.token_lengths.beyond > 0) SACCADE_TRY(measure_chunks());
    study_.encoded = rows_.encoded();
    return std::move(study_);
  }

 private:
  using Texts = std::vector<TokenizedText>;

  [[nodiscard]] int64_t images() const { return model_.images->size(); }

  Status check() const {
    const LengthOptions& o = options_;
    if (!(o.share > 0) || !(o.share <= 1)) {
      return fail(ErrorCode::kUsage, "share is {}, expected above 0 and at most 1", o.share);
    }
    if (o.subsets < 0 || o.subset_items < 1) {
      return fail(ErrorCode::kUsage, "{} subsets of {} images, expected 0 or more of 1 or more", o.subsets,
                  o.subset_items);
    }
    for (const int64_t n : o.lengths) {
      if (n < 1) return fail(ErrorCode::kUsage, "length {}, expected 1 or more", n);
    }
    if (o.length_step < 0)
      return fail(ErrorCode::kUsage, "lengths in steps of {}, expected 1 or more", o.length_step);
    if (o.cut == LengthCut::kRetokenize && !model_.decode) {
      return fail(ErrorCode::kUnsupported,
                  "cut {}: this tokenizer cannot decode tokens to text; CLIP's and BERT's can",
                  enum_name(o.cut));
    }
    if (o.chunk_tokens < 0 || o.chunk_tokens > model_.context) {
      return fail(ErrorCode::kUsage, "chunks of {} tokens, this model reads 1 to {}", o.chunk_tokens,
                  model_.context);
    }
    if (texts_.texts.empty() || images() < 1) {
      return fail(ErrorCode::kBadData, "{} texts and {} images: there is nothing to measure",
                  texts_.texts.size(), images());
    }
    const auto count = static_cast<int64_t>(texts_.texts.size());
    if (texts_.relevance.texts() != count || texts_.relevance.images() != images() ||
        texts_.image_of_text.size() != texts_.texts.size()) {
      return fail(ErrorCode::kMismatch, "{} texts and {} images, but a relation of {} with {}", count,
                  images(), texts_.relevance.texts(), texts_.relevance.images());
    }
    return {};
  }

  // Computes everything that does not depend on a length.
  Status prepare() {
    SACCADE_TRY(check());
    const auto count = static_cast<int64_t>(texts_.texts.size());
    study_.images = images();
    study_.texts = count;
    whole_.resize(texts_.texts.size());
    pool_.parallel_for(count, 64, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        whole_[i] = model_.tokenizer->encode(texts_.texts[i], kWholeText);
      }
    });
    const TokenizedText nothing = model_.tokenizer->encode("", kWholeText);
    const int64_t behind = frame_size(nothing) - nothing.first;
    chunk_ids_ = options_.chunk_tokens > 0 ? options_.chunk_tokens : model_.context;
    if (chunk_ids_ <= frame_size(nothing)) {
      return fail(ErrorCode::kUsage, "texts of at most {} tokens: start, end and prompt alone take {}",
                  chunk_ids_, frame_size(nothing));
    }
    study_.first = nothing.first;
    study_.limit = chunk_ids_ - behind;
    for (const TokenizedText& text : whole_) study_.text_tokens.push_back(text.used);
    study_.token_lengths = token_lengths(study_.text_tokens, study_.limit - study_.first);
    longest_ = study_.token_lengths.lengths.max + study_.first;
    set_lengths();
    SACCADE_TRY(draw_subsets());
    if (options_.controls) SACCADE_TRY(permute());
    steps_ = std::ssize(lengths_) +
             (options_.chunking ? std::ssize(options_.chunks) * std::ssize(chunk_lengths_) : 0);
    return {};
  }

  void set_lengths() {
    const int64_t last = std::max<int64_t>(1, std::min(study_.limit, longest_));
    std::vector<int64_t> asked = options_.lengths;
    if (options_.length_step > 0) asked = even_lengths(options_.length_step, longest_);
    lengths_ = asked.empty() ? default_lengths(last) : asked;
    if (asked.empty()) {
      for (int64_t n = 2 * study_.limit; n < longest_; n *= 2) chunk_lengths_.push_back(n);
    } else {
      std::ranges::copy_if(asked, std::back_inserter(chunk_lengths_),
                           [&](int64_t n) { return n > study_.limit && n < longest_; });
    }
    std::erase_if(lengths_, [&](int64_t n) { return n > last; });
    lengths_.push_back(last);
    if (longest_ > study_.limit) chunk_lengths_.push_back(longest_);
    for (std::vector<int64_t>* grid : {&lengths_, &chunk_lengths_}) {
      std::ranges::sort(*grid);
      grid->erase(std::unique(grid->begin(), grid->end()), grid->end());
    }
  }

  Status draw_subsets() {
    if (options_.subsets == 0 || images() <= options_.subset_items) return {};
    study_.subset_items = options_.subset_items;
    for (int64_t s = 0; s < options_.subsets; ++s) {
      SplitMix random(options_.bootstrap.seed, -1 - s);  // resamples count up from 0
      std::vector<int64_t> order(static_cast<size_t>(images()));
      std::iota(order.begin(), order.end(), 0);
      for (size_t i = 0; i < static_cast<size_t>(options_.subset_items); ++i) {
        std::swap(order[i], order[i + random.below(static_cast<uint32_t>(order.size() - i))]);
      }
      order.resize(static_cast<size_t>(options_.subset_items));
      std::ranges::sort(order);
      SACCADE_ASSIGN(Subset subset, subset_of(std::move(order)));
      if (!subset.texts.empty()) subsets_.push_back(std::move(subset));
    }
    return {};
  }

  // Returns the images with the texts that are relevant to one of them.
  [[nodiscard]] Result<Subset> subset_of(std::vector<int64_t> images) const {
    Subset subset;
    subset.images = std::move(images);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t t = 0; t < study_.texts; ++t) {
      const auto text = static_cast<int64_t>(subset.texts.size());
      int64_t owner_place = -1;
      for (const int64_t image : texts_.relevance.right(Direction::kTextToImage, t)) {
        const auto at = std::ranges::lower_bound(subset.images, image);
        if (at == subset.images.end() || *at != image) continue;
        const int64_t place = at - subset.images.begin();
        pairs.emplace_back(text, place);
        if (owner_place < 0 || image == texts_.image_of_text[static_cast<size_t>(t)]) owner_place = place;
      }
      if (owner_place < 0) continue;
      subset.texts.push_back(t);
      subset.image_of_text.push_back(owner_place);
    }
    SACCADE_ASSIGN(subset.relevance,
                   Relevance::from_pairs(static_cast<int64_t>(subset.texts.size()),
                                         static_cast<int64_t>(subset.images.size()), std::move(pairs)));
    return subset;
  }

  Status permute() {
    permuted_ = whole_;
    for (size_t i = 0; i < texts_.texts.size(); ++i) {
      const uint64_t seed = SplitMix(options_.bootstrap.seed, static_cast<int64_t>(i)).next();
      SACCADE_ASSIGN(const std::string text, permute_sentences(texts_.texts[i], seed));
      if (text == texts_.texts[i]) continue;
      permuted_[i] = model_.tokenizer->encode(text, kWholeText);
      ++study_.texts_of_sentences;
    }
    return {};
  }

  // Returns empty hits for `lengths`.
  [[nodiscard]] Hits empty_hits(const std::vector<int64_t>& lengths, bool with_subsets) {
    Hits hits;
    const auto columns = static_cast<int64_t>(lengths.size());
    for (const Direction direction : kBothDirections) {
      HitTable& table = hits.whole[place_of(direction)];
      table.lengths = lengths;
      for (const int64_t n : lengths) table.sample.mean_names.push_back(fmt::format("r1 at {}", n));
      int64_t queries = 0;
      for (int64_t q = 0; q < texts_.relevance.queries(direction); ++q) {
        if (texts_.relevance.right(direction, q).empty()) continue;
        ++queries;
        table.sample.cluster.push_back(owner(direction, q));
      }
      table.sample.clusters = images();
      table.chance = chance_figures(texts_.relevance, direction, kFirst).front();
      table.sample.values = Matrix<double>(queries, columns);
      (direction == Direction::kTextToImage ? study_.queries_t2i : study_.queries_i2t) = queries;
      if (!with_subsets) continue;
      for (const Subset& subset : subsets_) {
        SubsetHits& part = hits.subsets[place_of(direction)].emplace_back();
        part.sums = Matrix<double>(static_cast<int64_t>(subset.images.size()), columns);
        part.counts.assign(subset.images.size(), 0);
        for (int64_t q = 0; q < subset.relevance.queries(direction); ++q) {
          if (subset.relevance.right(direction, q).empty()) continue;
          ++part.counts[static_cast<size_t>(subset_owner(subset, direction, q))];
        }
      }
    }
    return hits;
  }

  [[nodiscard]] int64_t owner(Direction direction, int64_t query) const {
    return direction == Direction::kTextToImage ? texts_.image_of_text[static_cast<size_t>(query)] : query;
  }
  [[nodiscard]] static int64_t subset_owner(const Subset& subset, Direction direction, int64_t query) {
    return direction == Direction::kTextToImage ? subset.image_of_text[static_cast<size_t>(query)] : query;
  }

  // Calls found(query, hit) for every query that has a right answer, in order.
  template <typename Found>
  Status rank(const EmbeddedRows& texts, const EmbeddedRows& images, const Relevance& relevance,
              Direction direction, const Found& found) {
    SACCADE_ASSIGN(const auto pairs, scores_of(texts, images));
    SACCADE_ASSIGN(const QueryRanks ranks, rank_right_answers(*pairs, relevance, direction, {}, pool_));
    for (int64_t q = 0; q < ranks.queries(); ++q) {
      if (!ranks.of(q).empty()) found(q, ranks.of(q).front() <= 1);
    }
    return {};
  }

  // Ranks by the texts' embeddings and fills column `column`.
  Status enter(const EmbeddedRows& texts, int64_t column, Hits& hits) {
    if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    for (const Direction direction : kBothDirections) {
      const size_t d = place_of(direction);
      Matrix<double>& values = hits.whole[d].sample.values;
      int64_t row = 0;
      SACCADE_TRY(rank(texts, *model_.images, texts_.relevance, direction,
                       [&](int64_t, bool hit) { values(row++, column) = hit ? 1 : 0; }));
    }
    for (size_t s = 0; s < hits.subsets[0].size(); ++s) {
      const Subset& subset = subsets_[s];
      const EmbeddedRows some_texts = select_rows(texts, subset.texts);
      const EmbeddedRows some_images = select_rows(*model_.images, subset.images);
      for (const Direction direction : kBothDirections) {
        SubsetHits& part = hits.subsets[place_of(direction)][s];
        SACCADE_TRY(rank(some_texts, some_images, subset.relevance, direction, [&](int64_t q, bool hit) {
          part.sums(subset_owner(subset, direction, q), column) += hit ? 1 : 0;
        }));
      }
    }
    return {};
  }

  [[nodiscard]] LengthCurves curves_of(const Hits& hits) {
    LengthCurves curves;
    for (const Direction direction : kBothDirections) {
      const size_t d = place_of(direction);
      curves.of(direction) =
          length_curve(hits.whole[d], hits.subsets[d], options_.share, options_.bootstrap, pool_);
    }
    return curves;
  }

  // Returns the text of a progress line.
  std::string detail(int64_t n) { return fmt::format("{} tokens, {} of {}", n, ++step_, steps_); }

  Status measure_curves() {
    plain_ = empty_hits(lengths_, true);
    const bool controls = options_.controls;
    const bool sentences = controls && study_.texts_of_sentences > 0;
    Hits permuted = controls ? empty_hits(lengths_, false) : Hits{};
    Hits last = controls ? empty_hits(lengths_, false) : Hits{};
    for (size_t column = 0; column < lengths_.size(); ++column) {
      const int64_t n = lengths_[column];
      const auto cut = [&](const Texts& texts, TokenizedText (*keep)(const TokenizedText&, int64_t)) {
        Texts parts(texts.size());
        pool_.parallel_for(std::ssize(texts), 64, [&](int64_t begin, int64_t end) {
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            parts[i] = as_read(keep(texts[i], n), chunk_ids_);
          }
        });
        return rows_.add(parts);
      };
      rows_.begin();
      const auto plain_places = cut(whole_, &keep_first);
      const auto permuted_places = sentences ? cut(permuted_, &keep_first) : std::vector<int64_t>();
      const auto last_places = controls ? cut(whole_, &keep_last) : std::vector<int64_t>();
      SACCADE_TRY(rows_.finish(detail(n)));
      const auto at = static_cast<int64_t>(column);
      SACCADE_TRY(enter(select_rows(rows_.rows(), plain_places), at, plain_));
      if (sentences) SACCADE_TRY(enter(select_rows(rows_.rows(), permuted_places), at, permuted));
      if (controls) SACCADE_TRY(enter(select_rows(rows_.rows(), last_places), at, last));
    }
    study_.plain = curves_of(plain_);
    if (sentences) study_.permuted = curves_of(permuted);
    if (controls) study_.last = curves_of(last);
    return {};
  }

  // Returns the text of a cut text's own tokens.
  [[nodiscard]] std::string decoded(const TokenizedText& part) const {
    return model_.decode(std::span<const int32_t>(part.ids).subspan(static_cast<size_t>(part.first),
                                                                    static_cast<size_t>(part.used)));
  }

  // Returns a cut text as the option `cut` makes it, with at most `max_ids` ids if it is tokenized again.
  [[nodiscard]] TokenizedText as_read(TokenizedText part, int64_t max_ids) const {
    if (options_.cut == LengthCut::kTokens) return part;
    return model_.tokenizer->encode(decoded(part), max_ids);
  }

  // All chunks of all texts, grouped by text.
  struct Chunks {
    Texts texts;
    std::vector<size_t> begin = {0};
  };

  // `wholes` are the chunks of the whole texts; unused for equal chunks.
  [[nodiscard]] Result<Chunks> chunks_at(Chunking chunking, int64_t n,
                                         const std::vector<Texts>& wholes) const {
    Chunks chunks;
    for (size_t i = 0; i < whole_.size(); ++i) {
      SACCADE_ASSIGN(Texts parts, chunks_of(i, chunking, n, wholes));
      std::ranges::move(parts, std::back_inserter(chunks.texts));
      chunks.begin.push_back(chunks.texts.size());
    }
    return chunks;
  }

  // Returns the chunks of the first n ids of text `i`.
  [[nodiscard]] Result<Texts> chunks_of(size_t i, Chunking chunking, int64_t n,
                                        const std::vector<Texts>& wholes) const {
    if (chunking == Chunking::kEqual) {
      return equal_chunks(as_read(keep_first(whole_[i], n), kWholeText), chunk_ids_);
    }
    if (chunking == Chunking::kWords && options_.cut == LengthCut::kRetokenize) {
      return word_chunks(*model_.tokenizer, decoded(keep_first(whole_[i], n)), chunk_ids_);
    }
    // A decoded text has lost the punctuation and case that end sentences, so its chunks are cut, not the text.
    Texts parts = keep_first(std::span<const TokenizedText>(wholes[i]), n);
    for (TokenizedText& part : parts) part = as_read(std::move(part), chunk_ids_);
    return parts;
  }

  // Returns one row set per text, pooled from those of its chunks, which lie at `places` in rows_.
  [[nodiscard]] Result<EmbeddedRows> pooled_rows(const Chunks& chunks, const std::vector<int64_t>& places,
                                                 std::optional<ChunkPooling> pooling) const {
    const EmbeddedRows all = select_rows(rows_.rows(), places);
    EmbeddedRows pooled;
    if (!pooling) {
      pooled.late = true;
      pooled.sets.rows = all.sets.rows.copy();
      pooled.sets.begin.clear();
      for (const size_t chunk : chunks.begin) pooled.sets.begin.push_back(all.sets.begin[chunk]);
      return pooled;
    }
    const auto texts = static_cast<int64_t>(chunks.begin.size()) - 1;
    pooled.sets.rows = Matrix<float>(texts, all.sets.rows.columns());
    for (int64_t t = 0; t < texts; ++t) {
      const size_t first = chunks.begin[static_cast<size_t>(t)];
      const size_t end = chunks.begin[static_cast<size_t>(t) + 1];
      std::vector<int64_t> tokens;
      for (size_t c = first; c < end; ++c) tokens.push_back(chunks.texts[c].used);
      const auto rows =
          all.sets.rows.view().slice(static_cast<int64_t>(first), static_cast<int64_t>(end - first));
      SACCADE_ASSIGN(const std::vector<float> row,
                     pool_chunks(rows, tokens, *pooling).in(fmt::format("text {}", t)));
      std::ranges::copy(row, pooled.sets.rows.row(t).begin());
      pooled.sets.begin.push_back(t + 1);
    }
    return pooled;
  }

  Status measure_chunks() {
    std::vector<std::optional<ChunkPooling>> poolings(kChunkPoolings.begin(), kChunkPoolings.end());
    if (model_.images->late) poolings = {std::nullopt};
    for (const Chunking chunking : options_.chunks) {
      SACCADE_ASSIGN(const std::vector<Texts> wholes, chunks_of_wholes(chunking));
      std::vector<Hits> hits(poolings.size());
      for (Hits& one : hits) one = empty_hits(chunk_lengths_, false);
      int64_t count = 0;
      for (size_t column = 0; column < chunk_lengths_.size(); ++column) {
        SACCADE_ASSIGN(const Chunks chunks, chunks_at(chunking, chunk_lengths_[column], wholes));
        count = static_cast<int64_t>(chunks.texts.size());
        rows_.begin();
        const std::vector<int64_t> places = rows_.add(chunks.texts);
        SACCADE_TRY(rows_.finish(detail(chunk_lengths_[column])));
        for (size_t p = 0; p < poolings.size(); ++p) {
          SACCADE_ASSIGN(const EmbeddedRows pooled, pooled_rows(chunks, places, poolings[p]));
          SACCADE_TRY(enter(pooled, static_cast<int64_t>(column), hits[p]));
        }
      }
      for (size_t p = 0; p < poolings.size(); ++p) {
        ChunkedTexts result;
        result.chunking = chunking;
        result.pooling = poolings[p];
        result.chunks = count;
        SACCADE_TRY(summarize(hits[p], result));
        study_.chunked.push_back(std::move(result));
      }
    }
    return {};
  }

  // Returns the chunks of every whole text, which are cut at each length; nothing for equal chunks.
  [[nodiscard]] Result<std::vector<Texts>> chunks_of_wholes(Chunking chunking) const {
    std::vector<Texts> wholes;
    if (chunking == Chunking::kEqual) return wholes;
    wholes.resize(whole_.size());
    for (size_t i = 0; i < whole_.size(); ++i) {
      // A text that fits is one chunk, however many sentences it has.
      if (whole_[i].used + study_.first <= study_.limit) {
        wholes[i] = {whole_[i]};
        continue;
      }
      SACCADE_ASSIGN(wholes[i], chunk_text(*model_.tokenizer, texts_.texts[i], chunk_ids_, chunking));
    }
    return wholes;
  }

  // Computes the curves that continue the plain ones, and the difference of their ends.
  Status summarize(const Hits& hits, ChunkedTexts& result) {
    for (const Direction direction : kBothDirections) {
      const HitTable& short_ones = plain_.whole[place_of(direction)];
      const HitTable& long_ones = hits.whole[place_of(direction)];
      HitTable joined;
      joined.lengths = short_ones.lengths;
      joined.lengths.insert(joined.lengths.end(), long_ones.lengths.begin(), long_ones.lengths.end());
      joined.sample.mean_names = short_ones.sample.mean_names;
      joined.sample.mean_names.insert(joined.sample.mean_names.end(), long_ones.sample.mean_names.begin(),
                                      long_ones.sample.mean_names.end());
      joined.sample.cluster = short_ones.sample.cluster;
      joined.sample.clusters = short_ones.sample.clusters;
      joined.chance = short_ones.chance;
      const auto before = static_cast<int64_t>(short_ones.lengths.size());
      joined.sample.values =
          Matrix<double>(short_ones.sample.queries(), static_cast<int64_t>(joined.lengths.size()));
      for (int64_t q = 0; q < joined.sample.queries(); ++q) {
        std::ranges::copy(short_ones.sample.values.row(q), joined.sample.values.row(q).begin());
        std::ranges::copy(long_ones.sample.values.row(q), joined.sample.values.row(q).begin() + before);
      }
      LengthCurve curve = length_curve(joined, {}, options_.share, options_.bootstrap, pool_);
      curve.points.erase(curve.points.begin(), curve.points.begin() + before);
      result.curves.of(direction) = std::move(curve);

      const auto end_of = [&](const HitTable& table) {
        ClusteredSample sample;
        sample.mean_names = {"r1"};
        sample.cluster = table.sample.cluster;
        sample.clusters = table.sample.clusters;
        sample.values = Matrix<double>(table.sample.queries(), 1);
        for (int64_t q = 0; q < sample.queries(); ++q)
          sample.values(q, 0) = table.sample.values.row(q).back();
        return estimate(sample, options_.bootstrap, pool_);
      };
      SACCADE_ASSIGN(const auto differences, paired_differences(end_of(long_ones), end_of(short_ones),
                                                                options_.bootstrap.confidence));
      (direction == Direction::kTextToImage ? result.t2i : result.i2t) = differences.front();
    }
    return {};
  }

  const LengthTexts& texts_;
  const LengthModel& model_;
  const LengthOptions& options_;
  ThreadPool& pool_;
  std::stop_token stop_;
  RowCache rows_;

  LengthOutcome study_;
  Texts whole_;     // all tokens of each text
  Texts permuted_;  // with the sentences in another order
  std::vector<Subset> subsets_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> chunk_lengths_;
  int64_t longest_ = 0;    // ids of the longest text before its frame's end
  int64_t chunk_ids_ = 0;  // at most, frame included
  Hits plain_;
  int64_t step_ = 0;
  int64_t steps_ = 0;
};

// Returns the narrowest of 1, 2, 5, 10, 20, 50, ... that gives at most 64 bins.
int64_t bin_width(int64_t largest) {
  constexpr int64_t kMaxBins = 64;
  for (int64_t step = 1;; step *= 10) {
    for (const int64_t width : {step, 2 * step, 5 * step}) {
      if (largest / width < kMaxBins) return width;
    }
  }
}

}  // namespace

std::span<const EnumName<LengthCut>> enum_names(LengthCut) {
  static constexpr EnumName<LengthCut> kNames[] = {{LengthCut::kTokens, "tokens"},
                                                   {LengthCut::kRetokenize, "retokenize"}};
  return kNames;
}

TokenLengths token_lengths(std::span<const int64_t> own_tokens, std::optional<int64_t> limit) {
  TokenLengths result;
  result.lengths = lengths_of({own_tokens.begin(), own_tokens.end()});
  result.limit = limit;
  if (limit) result.beyond = std::ranges::count_if(own_tokens, [&](int64_t n) { return n > *limit; });
  if (own_tokens.empty()) return result;
  result.width = bin_width(result.lengths.max);
  result.counts.resize(static_cast<size_t>(result.lengths.max / result.width + 1));
  for (const int64_t n : own_tokens) ++result.counts[static_cast<size_t>(n / result.width)];
  return result;
}

std::vector<int64_t> default_lengths(int64_t last) {
  std::vector<int64_t> lengths;
  for (int64_t n = 2; n < last;) {
    lengths.push_back(n);
    n += n < 20 ? 1 : n < 60 ? 5 : n < 120 ? 10 : n < 260 ? 20 : n < 510 ? 50 : n;
  }
  lengths.push_back(last);
  return lengths;
}

Result<LengthModel> length_model(EncoderBackend& encoder, const EmbeddedRows& images,
                                 const EmbedOptions& options) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported, "the checkpoint has no tokenizer files, so it reads no texts");
  }
  LengthModel model;
  model.tokenizer = encoder.tokenizer();
  model.context = encoder.info().context;
  model.images = &images;
  if (std::shared_ptr<const TokenDecoder> decoder = token_decoder(*model.tokenizer)) {
    model.decode = [decoder](std::span<const int32_t> ids) { return decoder->decode(ids); };
  }
  model.encode = [&encoder, options](std::span<const TokenizedText> texts, const std::string& detail) {
    EmbedOptions one = options;
    one.progress_detail += (one.progress_detail.empty() ? "" : ", ") + detail;
    return embed_texts(encoder, texts, one);
  };
  return model;
}

Result<LengthOutcome> study_length(const LengthTexts& texts, const LengthModel& model,
                                   const LengthOptions& options, ThreadPool& pool, std::stop_token stop) {
  return Study(texts, model, options, pool, std::move(stop)).run();
}

}  // namespace saccade::lab

#include "saccade/search/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "saccade/collection/filter.h"
#include "saccade/collection/picture.h"
#include "saccade/index/exact_search.h"

namespace saccade {
namespace {

Status normalize(std::span<float> row) {
  double square = 0;
  for (const float value : row) square += double{value} * value;
  const double length = std::sqrt(square);
  // Two unit rows whose sum is this short point in opposite directions: what is left is rounding.
  if (!(length > 1e-4)) {
    return fail(ErrorCode::kBadData, "the text's row and the picture's row cancel out (sum of length {:.1e})",
                length);
  }
  for (float& value : row) value = static_cast<float>(value / length);
  return {};
}

Result<std::vector<float>> encode_picture(const Collection& collection, Encoder& encoder,
                                          const Query& query) {
  const IngestSettings& settings = collection.info().settings;
  const Preprocessing& preprocessing = encoder.preprocessing();
  SACCADE_ASSIGN(const DecodedImage decoded,
                 decode_image_file(query.image, picture_decode_options(settings, preprocessing, query.limits))
                     .in(fmt::format("picture {}", query.image.string())));
  Matrix<float> pixels(1, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  SACCADE_TRY(preprocess_picture(decoded.image, preprocessing, settings, pixels.row(0))
                  .in(fmt::format("picture {}", query.image.string())));
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels.view()));
  return std::vector<float>(rows.row(0).begin(), rows.row(0).end());
}

struct Candidate {
  int64_t row = 0;
  int64_t id = 0;
  float score = 0;
};

// The best rows by score, then id: the first `count` at least, or all there are. Rows of equal score at the
// end are there together or not at all, since exact_search orders them by row number, which may not be id
// order.
struct Candidates {
  std::vector<Candidate> best;
  bool complete = false;  // nothing ranks behind them
};

Result<Candidates> find_candidates(const Collection& collection, MatrixView<const float> query, int64_t count,
                                   std::span<const uint8_t> allowed, ThreadPool& pool) {
  SACCADE_ASSIGN(const auto answers, exact_search(collection.rows(), query, count, pool, allowed));
  Candidates found;
  for (const RowScore& row : answers.front()) {
    found.best.push_back({row.row, collection.ids()[static_cast<size_t>(row.row)], row.score});
  }
  found.complete = static_cast<int64_t>(found.best.size()) < count;
  if (!found.complete) {
    const float last = found.best.back().score;
    while (!found.best.empty() && found.best.back().score == last) found.best.pop_back();
  }
  std::ranges::sort(found.best, [](const Candidate& a, const Candidate& b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
  });
  return found;
}

// A hit to be, and what is folded under it.
struct Group {
  Candidate first;
  std::vector<Candidate> others;
};

struct Folding {
  std::vector<Group> groups;
  bool settled = false;  // candidates further down would not change the groups
};

// Walks down the candidates until the group after the k-th would begin. Files of the same bytes have the same
// row, so that the cosine covers them too.
Folding fold(const Candidates& candidates, MatrixView<const float> rows, const Query& query) {
  Folding folding;
  for (const Candidate& candidate : candidates.best) {
    Group* like = nullptr;
    if (query.fold_duplicates) {
      const auto row = rows.row(candidate.row);
      const auto found = std::ranges::find_if(folding.groups, [&](const Group& group) {
        const auto other = rows.row(group.first.row);
        return std::inner_product(row.begin(), row.end(), other.begin(), 0.0F) >= query.duplicate_cosine;
      });
      if (found != folding.groups.end()) like = &*found;
    }
    if (like != nullptr) {
      like->others.push_back(candidate);
    } else if (static_cast<int64_t>(folding.groups.size()) == query.k) {
      folding.settled = true;
      return folding;
    } else {
      folding.groups.push_back({candidate, {}});
    }
  }
  folding.settled = candidates.complete;
  return folding;
}

Status check(const Query& query) {
  if (query.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", query.k);
  return {};
}

}  // namespace

Result<EncodedQuery> encode_query(const Collection& collection, Encoder& encoder, const Query& query) {
  SACCADE_TRY(check(query));
  const bool has_text = query.text.find_first_not_of(" \t\r\n\f\v") != std::string::npos;
  if (!has_text && query.image.empty()) {
    return fail(ErrorCode::kUsage, "the query is empty: give a text, a picture or both");
  }
  SACCADE_TRY(check_same_checkpoint(collection.info(),
                                    {"the encoder", "", encoder.info().fingerprint, encoder.info().dim}));

  EncodedQuery encoded;
  if (has_text) {
    if (encoder.tokenizer() == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  "the checkpoint has no tokenizer files: it can be searched by pictures, not by text");
    }
    const TokenizedText text = encoder.tokenizer()->encode(query.text, encoder.info().context);
    encoded.tokens = {text.used, text.dropped};
    SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts({&text, 1}));
    encoded.row.assign(rows.row(0).begin(), rows.row(0).end());
  }
  if (!query.image.empty()) {
    SACCADE_ASSIGN(std::vector<float> row, encode_picture(collection, encoder, query));
    if (!has_text) {
      encoded.row = std::move(row);
    } else {
      for (size_t i = 0; i < row.size(); ++i) encoded.row[i] += row[i];
      SACCADE_TRY(normalize(encoded.row));
    }
  }
  return encoded;
}

Result<Answer> search_row(const Collection& collection, std::span<const float> row, const Query& query,
                          ThreadPool& pool) {
  SACCADE_TRY(check(query));
  if (static_cast<int64_t>(row.size()) != collection.info().checkpoint.dim) {
    return fail(ErrorCode::kMismatch, "the query's row has {} columns, the collection's have {}", row.size(),
                collection.info().checkpoint.dim);
  }
  std::vector<uint8_t> filtered;
  std::span<const uint8_t> allowed = collection.alive();
  if (!query.filter.empty()) {
    SACCADE_ASSIGN(const Filter filter, parse_filter(query.filter).in("filter"));
    SACCADE_ASSIGN(filtered, collection.allowed(filter));
    allowed = filtered;
  }

  Answer answer;
  answer.query = query;
  answer.searched = std::ranges::count_if(allowed, [](uint8_t flag) { return flag != 0; });
  if (answer.searched == 0) return answer;

  const MatrixView<const float> query_row(row.data(), 1, static_cast<int64_t>(row.size()));
  // Enough to begin with that pictures with a few copies each need no second pass; never more than there are,
  // and one more, so that `complete` can be seen.
  Folding folding;
  for (int64_t count = std::min(query.k, answer.searched) * 2 + 32; !folding.settled; count *= 4) {
    count = std::min(count, answer.searched + 1);
    SACCADE_ASSIGN(const Candidates candidates, find_candidates(collection, query_row, count, allowed, pool));
    folding = fold(candidates, collection.rows(), query);
  }

  for (Group& group : folding.groups) {
    Hit hit;
    hit.rank = static_cast<int64_t>(answer.hits.size()) + 1;
    hit.score = group.first.score;
    SACCADE_ASSIGN(hit.item, collection.item(group.first.id));
    for (const Candidate& other : group.others) {
      SACCADE_ASSIGN(Item item, collection.item(other.id));
      const bool same_bytes = item.hash == hit.item.hash;
      hit.folded.push_back({std::move(item), other.score, same_bytes});
    }
    answer.hits.push_back(std::move(hit));
  }
  return answer;
}

Result<Answer> search(const Collection& collection, Encoder& encoder, const Query& query, ThreadPool& pool) {
  SACCADE_ASSIGN(const EncodedQuery encoded, encode_query(collection, encoder, query));
  SACCADE_ASSIGN(Answer answer, search_row(collection, encoded.row, query, pool));
  answer.tokens = encoded.tokens;
  return answer;
}

}  // namespace saccade

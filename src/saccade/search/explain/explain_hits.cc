#include "saccade/search/explain/explain_hits.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "saccade/index/max_sim.h"
#include "saccade/search/hit_pictures.h"
#include "saccade/search/query_rows.h"
#include "saccade/text/words.h"

namespace saccade {
namespace {

constexpr const char* kFamiliesThatCan =
    "clip (with a vision transformer), siglip, jina_clip, blip-2, colpali, and heads on the first four";

// Explanation method of an encoder.
struct Way {
  std::optional<MapMethod> method;  // nothing: by the similarity of patches' rows
  bool late = false;                // scores are MaxSim
  bool own = false;                 // it is the collection's encoder: rows need not be computed
};

bool has_patch_rows(EncoderBackend& encoder) {
  const LateInteraction* late = encoder.late_interaction();
  return late != nullptr && late->patch_rows() > 0 && late->patch_columns() > 0;
}

Result<std::optional<MapMethod>> choose_method(EncoderBackend& encoder, const ExplainOptions& options) {
  const MapMethod method = options.method.value_or(MapMethod::kLegrad);
  if (encoder.picture_mapper() != nullptr) return std::optional(method);
  if (!options.method && has_patch_rows(encoder)) return std::optional<MapMethod>();
  const std::string& family = encoder.info().family;
  if (has_patch_rows(encoder)) {
    return fail(
        ErrorCode::kUnsupported,
        "explain: {} has no maps by {}: its images' patches have rows of their own, by whose similarity its maps "
        "are made where no method is named",
        family, enum_name(method));
  }
  return fail(
      ErrorCode::kUnsupported,
      "explain: this checkpoint of the family {} has no maps: its images do not go through a transformer's blocks "
      "to the row that is searched by; families that have are {}",
      family, kFamiliesThatCan);
}

struct Words {
  std::vector<WordWeight> places;
  std::vector<std::string> texts;  // the text without each of them
};

Result<Words> words_of(const std::string& text) {
  Words words;
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, split_words(text));
  for (const TextSegment& segment : segments) {
    if (!segment.is_word || std::ssize(words.places) == kMostWeighedWords) continue;
    const auto begin = static_cast<size_t>(segment.text.data() - text.data());
    const size_t end = begin + segment.text.size();
    words.places.push_back({begin, end});
    // With the space behind it, that no two are left in a row.
    const size_t rest = end < text.size() && text[end] == ' ' ? end + 1 : end;
    words.texts.push_back(text.substr(0, begin) + text.substr(rest));
  }
  return words;
}

// Words of a query: the whole query, then without each word of each part. Positions are bytes of the text as
// typed.
struct PartWords {
  std::vector<WordWeight> places;
  std::vector<std::vector<QueryPart>> queries;
};

Result<PartWords> words_of_parts(EncoderBackend& encoder, const SearchQuery& query) {
  const std::span<const QueryPart> parts = query.text.parts();
  PartWords words;
  int64_t texts = 0;  // to encode for the words so far
  words.queries.emplace_back(parts.begin(), parts.end());
  for (size_t p = 0; p < parts.size(); ++p) {
    SACCADE_ASSIGN(const Words own, words_of(parts[p].text));
    SACCADE_ASSIGN(const int64_t pieces, count_pieces(encoder, query.long_text, parts[p].text));
    for (size_t w = 0; w < own.places.size(); ++w) {
      texts += pieces;
      if (std::ssize(words.places) == kMostWeighedWords || texts > kMostWeighedTexts) return words;
      const WordWeight& place = own.places[w];
      const std::vector<size_t>& at = parts[p].at;
      words.places.push_back(at.empty() ? place : WordWeight{at[place.begin], at[place.end - 1] + 1});
      std::vector<QueryPart>& without = words.queries.emplace_back(parts.begin(), parts.end());
      without[p].text = own.texts[w];
      // Without its last word it is no part; without its last part a query is the empty text.
      if (own.places.size() == 1 && parts.size() > 1)
        without.erase(without.begin() + static_cast<ptrdiff_t>(p));
    }
  }
  return words;
}

float dot_of(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
}

// The rows of one picture: one, or those of late interaction, with where they lie in the picture.
struct PictureRows {
  Matrix<float> rows;
  PatchGrid grid;
  int64_t pool = 1;
};

// Each query's score for a picture.
std::vector<float> scores_of(std::span<const EncodedQuery> queries, const PictureRows& picture, bool late) {
  std::vector<float> scores;
  for (const EncodedQuery& query : queries) {
    scores.push_back(late ? max_sim_total(max_sim_matches_plain(query.late.view(), picture.rows.view()))
                          : dot_of(query.row, picture.rows.row(0)));
  }
  return scores;
}

// To a sum of 1.
void set_map(std::span<const float> relevance, PatchGrid grid, HitExplanation& explanation) {
  explanation.grid = grid;
  explanation.map.assign(relevance.begin(), relevance.end());
  const double sum = std::accumulate(relevance.begin(), relevance.end(), 0.0);
  if (!(sum > 0)) return;
  for (float& value : explanation.map) value = static_cast<float>(value / sum);
}

// Computes by how much each patch's dot products with the query's rows exceed those rows' mean over the
// patches.
std::vector<float> similarity_map(MatrixView<const float> query, const PictureRows& picture) {
  const PatchGrid grid = picture.grid;
  std::vector<float> map(static_cast<size_t>(grid.rows * grid.columns));
  for (int64_t q = 0; q < query.rows(); ++q) {
    std::vector<float> dots(map.size());
    double mean = 0;
    for (int64_t r = 0; r < picture.rows.rows(); ++r) {
      const auto block = patches_of_row(r, grid, picture.pool);
      if (!block) continue;
      const float dot = dot_of(query.row(q), picture.rows.row(r));
      for (int64_t y = block->row; y < block->row + block->rows; ++y) {
        for (int64_t x = block->column; x < block->column + block->columns; ++x) {
          dots[static_cast<size_t>(y * grid.columns + x)] = dot;
          mean += dot;
        }
      }
    }
    mean /= static_cast<double>(map.size());
    for (size_t i = 0; i < map.size(); ++i) map[i] += std::max(0.0F, dots[i] - static_cast<float>(mean));
  }
  return map;
}

class Explainer {
 public:
  Explainer(const CollectionReader& collection, EncoderBackend& encoder, const ExplainOptions& options,
            const Way& way, const SearchQuery& query)
      : collection_(collection), encoder_(encoder), options_(options), way_(way), query_(query) {}

  Status prepare() {
    const IngestSettings& settings = collection_.info().settings;
    SACCADE_ASSIGN(PartWords words, words_of_parts(encoder_, query_));
    places_ = std::move(words.places);
    SACCADE_ASSIGN(queries_, encode_query_parts(settings, encoder_, query_, way_.late, words.queries));
    return {};
  }

  // Returns true if the images must be read; false if the collection's own rows suffice.
  [[nodiscard]] bool needs_pictures() const { return way_.method.has_value() || !way_.own; }

  Status explain(std::span<SearchHit> hits, ThreadPool& pool) {
    std::vector<HitExplanation> explanations(hits.size());
    for (size_t i = 0; i < hits.size(); ++i) {
      explanations[i].model = options_.name;
      explanations[i].score_by = way_.late ? "maxsim" : "cosine";
      explanations[i].method = way_.method ? std::string(enum_name(*way_.method)) : "similarity";
      explanations[i].box = grid_box(encoder_.preprocessing(), hits[i].item.width, hits[i].item.height);
      if (way_.own) {
        const PictureRows rows = own_rows(hits[i]);
        weigh(rows, explanations[i]);
        if (!way_.method) draw(rows, explanations[i]);
      }
    }
    if (needs_pictures()) SACCADE_TRY(look(hits, explanations, pool));
    for (size_t i = 0; i < hits.size(); ++i) hits[i].explanations.push_back(std::move(explanations[i]));
    return {};
  }

 private:
  [[nodiscard]] PictureRows own_rows(const SearchHit& hit) const {
    PictureRows picture;
    if (way_.late) {
      const LateSettings& settings = *collection_.info().settings.late;
      picture.grid = settings.grid;
      picture.pool = settings.pool;
      picture.rows = restore_rows(collection_.late_rows(hit.item.row));
      return picture;
    }
    const auto row = collection_.rows().row(hit.item.row);
    picture.rows = Matrix<float>(1, std::ssize(row));
    std::ranges::copy(row, picture.rows.row(0).begin());
    return picture;
  }

  void weigh(const PictureRows& rows, HitExplanation& explanation) const {
    const std::vector<float> scores = scores_of(queries_, rows, way_.late);
    explanation.score = scores.front();
    explanation.words = places_;
    for (size_t w = 0; w < explanation.words.size(); ++w) {
      explanation.words[w].drop = scores.front() - scores[w + 1];
    }
  }

  void draw(const PictureRows& rows, HitExplanation& explanation) const {
    set_map(similarity_map(queries_.front().late.view(), rows), rows.grid, explanation);
  }

  // Maps, and of another encoder than the collection's scores too, from the pictures.
  Status look(std::span<const SearchHit> hits, std::span<HitExplanation> explanations, ThreadPool& pool) {
    const HitPictures pictures =
        read_hit_pictures(hits, collection_.info().settings, encoder_.preprocessing(), query_.limits, pool);
    for (size_t i = 0; i < hits.size(); ++i) {
      if (pictures.problems[i]) explanations[i].no_map = pictures.problems[i]->text;
    }
    if (pictures.read.empty()) return {};
    const auto pixels = pictures.pixels.view().slice(0, std::ssize(pictures.read));
    if (!way_.own) SACCADE_TRY(look_at_rows(pixels, pictures.read, explanations));
    if (!way_.method) return {};
    SACCADE_ASSIGN(const PictureMaps maps,
                   encoder_.picture_mapper()->map_pictures(pixels, queries_.front().row, *way_.method));
    for (size_t i = 0; i < pictures.read.size(); ++i) {
      set_map(maps.relevance.row(static_cast<int64_t>(i)), {maps.rows, maps.columns},
              explanations[pictures.read[i]]);
    }
    return {};
  }

  Status look_at_rows(MatrixView<const float> pixels, const std::vector<size_t>& read,
                      std::span<HitExplanation> explanations) {
    SACCADE_ASSIGN(const RowSets sets, way_.late ? encoder_.late_interaction()->encode_image_rows(pixels)
                                                 : one_each(encoder_.encode_images(pixels)));
    for (size_t i = 0; i < read.size(); ++i) {
      PictureRows picture;
      const int64_t count = sets.begin[i + 1] - sets.begin[i];
      picture.rows = Matrix<float>(count, sets.rows.columns());
      for (int64_t r = 0; r < count; ++r) {
        std::ranges::copy(sets.rows.row(sets.begin[i] + r), picture.rows.row(r).begin());
      }
      weigh(picture, explanations[read[i]]);
      if (way_.method) continue;
      const LateInteraction& late = *encoder_.late_interaction();
      picture.grid = {late.patch_rows(), late.patch_columns()};
      draw(picture, explanations[read[i]]);
    }
    return {};
  }

  const CollectionReader& collection_;
  EncoderBackend& encoder_;
  const ExplainOptions& options_;
  const Way way_;
  const SearchQuery& query_;
  std::vector<WordWeight> places_;     // of the words that are weighed
  std::vector<EncodedQuery> queries_;  // of the whole text, then without each word
};

}  // namespace

Status check_explains(EncoderBackend& encoder, const ExplainOptions& options) {
  SACCADE_TRY(choose_method(encoder, options));
  return {};
}

Status explain_hits(const CollectionReader& collection, EncoderBackend& encoder,
                    const ExplainOptions& options, SearchAnswer& answer, ThreadPool& pool,
                    const ProgressCallback& progress, std::stop_token stop) {
  Way way;
  SACCADE_ASSIGN(way.method, choose_method(encoder, options));
  // Rows that are not on this host are computed anew from the images.
  way.own =
      collection.index() == nullptr && encoder.info().fingerprint == collection.info().checkpoint.fingerprint;
  way.late = way.own ? collection.has_late_rows() : encoder.late_interaction() != nullptr;
  // Uses the reranking method if there was one. A matching head has no maps, so its underlying rows are used.
  if (!way.own && answer.reranking && answer.reranking->method == "cosine") way.late = false;
  if (!way.method && !way.late) {
    return fail(ErrorCode::kUnsupported, "explain: without its patches' rows {} has no maps",
                encoder.info().family);
  }
  Explainer explainer(collection, encoder, options, way, answer.query);
  SACCADE_TRY(explainer.prepare().in("explain"));
  const auto total = std::ssize(answer.hits);
  const auto batch = std::max<int64_t>(1, options.batch);
  for (int64_t first = 0; first < total; first += batch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop while explaining");
    const int64_t count = std::min(batch, total - first);
    SACCADE_TRY(
        explainer
            .explain(std::span(answer.hits).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                     pool)
            .in("explain"));
    if (progress && explainer.needs_pictures()) progress({"explaining", first + count, total, {}});
  }
  return {};
}

}  // namespace saccade

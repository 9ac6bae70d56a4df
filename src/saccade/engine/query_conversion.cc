#include "saccade/engine/query_conversion.h"

#include <cmath>
#include <utility>

#include "saccade/image/image_codec.h"
#include "saccade/search/fusion.h"
#include "saccade/search/listing.h"
#include "saccade/search/query_language.h"

namespace saccade {
namespace {

// option: its name, which is the same in C++, in Python and over HTTP.
Status check_share(std::string_view option, double value) {
  if (value >= 0 && value <= 1) return {};
  return fail(ErrorCode::kUsage, "{} is {}, expected 0 to 1", option, value);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

// The image as the search module takes it: a file, or bytes. Decoded pixels become a PNG, which loses nothing.
Result<QueryImage> image_of(const ImageInput& input, float weight) {
  if (const auto* file = std::get_if<std::filesystem::path>(&input.content())) {
    return QueryImage{*file, weight};
  }
  QueryImage image;
  if (const auto* encoded = std::get_if<ImageInput::Bytes>(&input.content())) {
    image = QueryImage::of_bytes("image", encoded->bytes);
  } else {
    SACCADE_ASSIGN(std::string png, encode_png(std::get<Image>(input.content())));
    image = QueryImage::of_bytes("image", std::move(png));
  }
  image.weight = weight;
  return image;
}

Status add_images(const Query& query, SearchQuery& asked) {
  for (const auto& [input, weight] : query.images()) {
    if (!std::isfinite(weight) || weight == 0 || std::abs(weight) > kMostWeight) {
      return fail(ErrorCode::kUsage, "an image has weight {}, expected a number up to {}, not 0", weight,
                  kMostWeight);
    }
    SACCADE_ASSIGN(asked.images.emplace_back(), image_of(input, weight));
  }
  return {};
}

}  // namespace

Result<SearchQuery> search_query(const SearchOptions& options) {
  SearchQuery asked;
  if (options.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", options.k);
  if (options.offset < 0) {
    return fail(ErrorCode::kUsage, "offset is {}, expected 0 or more", options.offset);
  }
  if (options.candidates < 0) {
    return fail(ErrorCode::kUsage, "candidates is {}, expected 0 or more", options.candidates);
  }
  if (options.exact_rescore < 0 || options.exact_rescore > kMostExactRescore) {
    return fail(ErrorCode::kUsage, "exact_rescore is {}, expected 0 to {}", options.exact_rescore,
                kMostExactRescore);
  }
  if (options.rerank_depth < 1) {
    return fail(ErrorCode::kUsage, "rerank_depth is {}, expected 1 or more", options.rerank_depth);
  }
  if (options.explain_by && !options.explain) {
    return fail(ErrorCode::kUsage, "explain_by is for explanations: explain is not true");
  }
  SACCADE_TRY(check_share("keyword_weight", options.keyword_weight));
  if (options.min_probability) SACCADE_TRY(check_share("min_probability", *options.min_probability));
  SACCADE_TRY(check_share("group_above", options.group_above));
  asked.k = options.k;
  asked.filter = options.filter;
  asked.keyword_weight = options.keyword_weight;
  asked.min_probability = options.min_probability;
  asked.group_duplicates = options.group_duplicates;
  asked.duplicate_cosine = static_cast<float>(options.group_above);
  asked.order = options.order;
  asked.long_text = options.chunk_long_text ? LongText::kChunk : LongText::kTruncate;
  asked.candidates = options.candidates;
  asked.exact = options.exact;
  asked.rescore = options.exact_rescore;
  asked.stop = options.stop;
  return asked;
}

Result<SearchQuery> search_query(const Query& query, const SearchOptions& options) {
  SACCADE_ASSIGN(SearchQuery asked, search_query(options));
  if (query.liked() && *query.liked() < 1) {
    return fail(ErrorCode::kNotFound, "id {}: no such item", *query.liked());
  }
  if (query.liked() && !query.images().empty()) {
    return fail(
        ErrorCode::kUsage,
        "an image of the collection (\"like\") and another one: one image is enough, leave one of them out");
  }
  const bool composes =
      query.method() || query.text_weight() || !query.composer().empty() || !query.description().empty();
  if (composes && !query.liked() && query.images().empty()) {
    return fail(
        ErrorCode::kUsage,
        "compose, text_weight and was say how an image and a text are combined: the query has no image");
  }
  SACCADE_TRY(add_images(query, asked));  // first: an unwanted image gives a single text its weight
  std::string typed = query.typed().value_or("");
  if (is_blank(typed)) typed.clear();
  if (query.is_literal()) {
    asked.text = std::move(typed);
  } else {
    SACCADE_ASSIGN(asked.text, read_query_text(typed, asked.images));
  }
  for (const std::string& unwanted : query.unwanted()) {
    if (is_blank(unwanted)) return fail(ErrorCode::kUsage, "a text that is not wanted is empty");
    asked.text.leave_out(unwanted);
  }
  if (!query.composer().empty() && !query.description().empty()) {
    return fail(ErrorCode::kUsage,
                "a description of the image is for Compose::kDirection, not for a composer");
  }
  SACCADE_ASSIGN(asked.fusion, make_fusion(query.method().value_or(Compose::kSum), query.text_weight(),
                                           query.description()));
  if (!query.liked() && is_listing(asked) && asked.filter.empty()) {
    return fail(
        ErrorCode::kUsage,
        "nothing to search for: give a text, an image, or both; or a filter alone, which lists what passes");
  }
  return asked;
}

}  // namespace saccade

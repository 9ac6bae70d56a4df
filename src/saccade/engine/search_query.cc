#include "saccade/engine/search_query.h"

#include <cmath>
#include <memory>
#include <utility>

#include "saccade/image/image.h"
#include "saccade/search/fusion.h"
#include "saccade/search/query_language.h"

namespace saccade {
namespace {

Status check_share(std::string_view what, double value) {
  if (value >= 0 && value <= 1) return {};
  return fail(ErrorCode::kUsage, "{} is {}, expected 0 to 1", what, value);
}

// The image as the search module takes it: a file, or bytes. Decoded pixels become a PNG, which loses nothing.
Result<QueryPicture> picture_of(const ImageInput& input, float weight) {
  QueryPicture picture{.image = "image", .bytes = {}, .weight = weight};
  if (const auto* file = std::get_if<std::filesystem::path>(&input.content())) {
    picture.image = *file;
  } else if (const auto* encoded = std::get_if<ImageInput::Bytes>(&input.content())) {
    picture.bytes = std::make_shared<const std::string>(encoded->bytes);
  } else {
    SACCADE_ASSIGN(std::string png, encode_png(std::get<Image>(input.content())));
    picture.bytes = std::make_shared<const std::string>(std::move(png));
  }
  return picture;
}

Status add_images(const Query& query, SearchQuery& asked) {
  for (size_t i = 0; i < query.images().size(); ++i) {
    const auto& [input, weight] = query.images()[i];
    if (!std::isfinite(weight) || weight == 0 || std::abs(weight) > kMostWeight) {
      return fail(ErrorCode::kUsage, "an image has weight {}, expected a number up to {}, not 0", weight,
                  kMostWeight);
    }
    SACCADE_ASSIGN(QueryPicture picture, picture_of(input, weight));
    if (i == 0) {
      asked.image = std::move(picture.image);
      asked.image_bytes = std::move(picture.bytes);
      asked.image_weight = weight;
    } else {
      asked.more_images.push_back(std::move(picture));
    }
  }
  return {};
}

}  // namespace

Result<SearchQuery> search_query(const SearchOptions& options) {
  SearchQuery asked;
  if (options.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", options.k);
  if (options.candidates < 0) {
    return fail(ErrorCode::kUsage, "candidates is {}, expected 0 or more", options.candidates);
  }
  SACCADE_TRY(check_share("keyword_weight", options.keyword_weight));
  if (options.min_probability) SACCADE_TRY(check_share("min_probability", *options.min_probability));
  asked.k = options.k;
  asked.filter = options.filter;
  asked.word_share = options.keyword_weight;
  asked.cut = options.min_probability;
  asked.fold_duplicates = options.group_duplicates;
  asked.order = options.order == Order::kDate ? HitOrder::kDate : HitOrder::kScore;
  asked.long_text = options.chunk_long_text ? LongText::kChunk : LongText::kTruncate;
  asked.candidates = options.candidates;
  return asked;
}

Result<SearchQuery> search_query(const Query& query, const SearchOptions& options) {
  SACCADE_ASSIGN(SearchQuery asked, search_query(options));
  std::string typed = query.typed().value_or("");
  if (query.is_literal()) {
    asked.text = std::move(typed);
  } else {
    SACCADE_TRY(read_query_text(typed, asked));
  }
  for (const std::string& unwanted : query.unwanted()) {
    if (asked.parts.empty() && !asked.text.empty()) asked.parts.push_back({.text = asked.text});
    asked.parts.push_back({.text = unwanted, .weight = kUnwantedWeight});
  }
  SACCADE_TRY(add_images(query, asked));
  if (asked.text.empty() && asked.parts.empty() && !asked.has_image()) {
    return fail(ErrorCode::kUsage, "a query without content, expected a text, an image, or both");
  }
  SACCADE_ASSIGN(asked.fusion, make_fusion(query.method().value_or(Compose::kSum), query.text_weight(),
                                           query.description()));
  return asked;
}

}  // namespace saccade

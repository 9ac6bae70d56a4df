#include "saccade/search/query_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/collection/picture.h"
#include "saccade/core/rows.h"
#include "saccade/image/read_pixels.h"

namespace saccade {
namespace {

// Nothing is found by a row that is no direction: no picture is close to it.
Status check_rows(MatrixView<const float> rows) {
  if (rows.rows() < 1) return fail(ErrorCode::kBadData, "the encoder gave no rows");
  for (int64_t r = 0; r < rows.rows(); ++r) SACCADE_TRY(check_unit_row(rows.row(r)).in("the encoder gave"));
  return {};
}

Result<std::vector<float>> mean_row(const RowSets& sets) {
  SACCADE_TRY(check_rows(sets.rows.view()));
  return unit_row(sum_rows(sets.rows.view()), kShortestSum).in("its rows cancel out");
}

// The text as the query wants it read: all that fits, or all in chunks.
Result<std::vector<TokenizedText>> query_texts(Encoder& encoder, const Query& query) {
  SACCADE_ASSIGN(TokenizedText text, tokenize_query(encoder, query));
  if (query.long_text == LongText::kChunk && text.dropped > 0) {
    return chunk_text(*encoder.tokenizer(), query.text, encoder.info().context, kQueryChunking);
  }
  std::vector<TokenizedText> texts;
  texts.push_back(std::move(text));
  return texts;
}

TokenCount count_tokens(const std::vector<TokenizedText>& texts) {
  TokenCount count;
  count.chunks = static_cast<int64_t>(texts.size());
  for (const TokenizedText& text : texts) {
    count.used += text.used;
    count.dropped += text.dropped;
    count.longest_chunk = std::max(count.longest_chunk, text.used);
  }
  return count;
}

// The row of the words for what the picture shows now.
Result<std::vector<float>> was_row(Encoder& encoder, const Fusion& fusion) {
  const std::string words = fusion.was.empty() ? kAnyPicture : fusion.was;
  const TokenizedText text = encoder.tokenizer()->encode(words, encoder.info().context);
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(std::span(&text, 1)));
  SACCADE_TRY(check_rows(rows.view()).in("the picture's words"));
  return std::vector(rows.row(0).begin(), rows.row(0).end());
}

// The text's part of the query, and its rows of late interaction.
Result<RowSets> encode_text_part(Encoder& encoder, const Query& query, bool late, EncodedQuery& encoded) {
  SACCADE_ASSIGN(const std::vector<TokenizedText> texts, query_texts(encoder, query));
  encoded.tokens = count_tokens(texts);
  if (!late) {
    SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(texts));
    SACCADE_TRY(check_rows(rows.view()).in("the text"));
    std::vector<int64_t> tokens;
    for (const TokenizedText& text : texts) tokens.push_back(text.used);
    SACCADE_ASSIGN(encoded.row, pool_chunks(rows.view(), tokens, kQueryPooling).in("the text"));
    return RowSets();
  }
  SACCADE_ASSIGN(RowSets rows, encoder.late_interaction()->encode_text_rows(texts));
  encoded.text_rows = rows.rows.rows();
  std::vector<int32_t> ids;
  for (const TokenizedText& text : texts) ids.insert(ids.end(), text.ids.begin(), text.ids.end());
  if (encoded.text_rows == static_cast<int64_t>(ids.size())) encoded.text_ids = std::move(ids);
  SACCADE_ASSIGN(encoded.row, mean_row(rows).in("the text"));
  return rows;
}

}  // namespace

bool has_words(const Query& query) {
  return query.text.find_first_not_of(" \t\r\n\f\v") != std::string::npos;
}

Result<TokenizedText> tokenize_query(Encoder& encoder, const Query& query) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "the checkpoint has no tokenizer files: it can be searched by pictures, not by text");
  }
  return encoder.tokenizer()->encode(query.text, encoder.info().context);
}

Result<Matrix<float>> query_pixels(const IngestSettings& settings, Encoder& encoder, const Query& query) {
  const Preprocessing& preprocessing = encoder.preprocessing();
  const DecodeOptions options = picture_decode_options(settings, preprocessing, query.limits);
  const std::string name = query.image.empty() ? "picture" : "picture " + query.image.string();
  SACCADE_ASSIGN(const DecodedImage decoded,
                 (query.image_bytes ? decode_image(std::as_bytes(std::span(*query.image_bytes)), options)
                                    : decode_image_file(query.image, options))
                     .in(name));
  Matrix<float> pixels(1, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  SACCADE_TRY(preprocess_picture(decoded.image, preprocessing, settings, pixels.row(0)).in(name));
  return pixels;
}

Result<EncodedQuery> encode_query_rows(const IngestSettings& settings, Encoder& encoder, const Query& query,
                                       bool late) {
  if (!has_words(query) && !query.has_image()) {
    return fail(ErrorCode::kUsage, "the query is empty: give a text, a picture or both");
  }
  const Fusion& fusion = query.fusion;
  if (!std::isfinite(fusion.text_weight) || !std::isfinite(fusion.image_weight)) {
    return fail(ErrorCode::kUsage, "the parts' weights are {} and {}, expected finite numbers",
                fusion.text_weight, fusion.image_weight);
  }
  if (late && fusion.method != Compose::kSum && has_words(query) && query.has_image()) {
    return fail(ErrorCode::kUnsupported,
                "late interaction composes text and picture by their sum alone, not by {}",
                word_of(fusion.method));
  }
  // One row of each part, and with late interaction many, whose mean that one is.
  EncodedQuery encoded;
  RowSets text_rows;
  RowSets picture_rows;
  if (has_words(query)) {
    SACCADE_ASSIGN(text_rows, encode_text_part(encoder, query, late, encoded));
  }
  if (query.has_image()) {
    SACCADE_ASSIGN(const Matrix<float> pixels, query_pixels(settings, encoder, query));
    std::vector<float> row;
    if (late) {
      SACCADE_ASSIGN(picture_rows, encoder.late_interaction()->encode_image_rows(pixels.view()));
      SACCADE_ASSIGN(row, mean_row(picture_rows).in("the picture"));
    } else {
      SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels.view()));
      SACCADE_TRY(check_rows(rows.view()).in("the picture"));
      row.assign(rows.row(0).begin(), rows.row(0).end());
    }
    if (encoded.row.empty()) {
      encoded.row = std::move(row);
    } else {
      std::vector<float> was;
      if (fusion.method == Compose::kDirection) {
        SACCADE_ASSIGN(was, was_row(encoder, fusion));
      }
      SACCADE_ASSIGN(encoded.row,
                     compose_rows(fusion.method, {.picture = fusion.image_weight, .text = fusion.text_weight},
                                  row, encoded.row, was));
    }
  }
  if (!late) return encoded;
  // A picture has a thousand rows where a text has twenty: together each counts by its rows' mean.
  const bool both = text_rows.rows.rows() > 0 && picture_rows.rows.rows() > 0;
  const auto weight = [&](const RowSets& part) {
    if (!both) return 1.0F;
    return (&part == &text_rows ? fusion.text_weight : fusion.image_weight) /
           static_cast<float>(part.rows.rows());
  };
  encoded.text_weight = weight(text_rows);
  encoded.late = Matrix<float>(text_rows.rows.rows() + picture_rows.rows.rows(), encoder.info().dim);
  auto to = encoded.late.values().begin();
  for (const RowSets* part : {&text_rows, &picture_rows}) {
    for (const float value : part->rows.values()) *to++ = weight(*part) * value;
  }
  return encoded;
}

}  // namespace saccade

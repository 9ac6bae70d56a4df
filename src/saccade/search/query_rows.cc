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

Result<std::vector<float>> mean_row(MatrixView<const float> rows) {
  SACCADE_TRY(check_rows(rows));
  return unit_row(sum_rows(rows), kShortestSum).in("its rows cancel out");
}

Result<TokenizedText> tokenize(Encoder& encoder, const std::string& text) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "the checkpoint has no tokenizer files: it can be searched by pictures, not by text");
  }
  return encoder.tokenizer()->encode(text, encoder.info().context);
}

// A text as the query wants it read: all that fits, or all in chunks.
Result<std::vector<TokenizedText>> pieces_of(Encoder& encoder, LongText long_text, const std::string& text) {
  std::vector<TokenizedText> texts;
  SACCADE_ASSIGN(texts.emplace_back(), tokenize(encoder, text));
  if (long_text == LongText::kChunk && texts.front().dropped > 0) {
    return chunk_text(*encoder.tokenizer(), text, encoder.info().context, kQueryChunking);
  }
  return texts;
}

TokenCount count_tokens(std::span<const TokenizedText> texts) {
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

// One text's part of a query: its row, its rows of late interaction, its tokens.
struct TextPart {
  std::vector<float> row;
  Matrix<float> late;
  TokenCount tokens;
  std::vector<int32_t> ids;  // one a row of late interaction, or none
};

// texts: the pieces that one query's text is read in; rows: the encoder's, of these alone.
Result<TextPart> text_part(std::span<const TokenizedText> texts, MatrixView<const float> rows, bool late) {
  TextPart part;
  part.tokens = count_tokens(texts);
  SACCADE_TRY(check_rows(rows).in("the text"));
  if (!late) {
    std::vector<int64_t> tokens;
    for (const TokenizedText& text : texts) tokens.push_back(text.used);
    SACCADE_ASSIGN(part.row, pool_chunks(rows, tokens, kQueryPooling).in("the text"));
    return part;
  }
  part.late = Matrix<float>(rows.rows(), rows.columns());
  for (int64_t r = 0; r < rows.rows(); ++r) std::ranges::copy(rows.row(r), part.late.row(r).begin());
  for (const TokenizedText& text : texts) part.ids.insert(part.ids.end(), text.ids.begin(), text.ids.end());
  if (std::ssize(part.ids) != rows.rows()) part.ids.clear();
  SACCADE_ASSIGN(part.row, mean_row(rows).in("the text"));
  return part;
}

// All texts together.
Result<std::vector<TextPart>> encode_texts(Encoder& encoder, LongText long_text, bool late,
                                           std::span<const std::string> texts) {
  std::vector<TokenizedText> pieces;
  std::vector<size_t> first = {0};  // piece of each text
  for (const std::string& text : texts) {
    SACCADE_ASSIGN(const std::vector<TokenizedText> own, pieces_of(encoder, long_text, text));
    pieces.insert(pieces.end(), own.begin(), own.end());
    first.push_back(pieces.size());
  }
  RowSets sets;
  if (late) {
    SACCADE_ASSIGN(sets, encoder.late_interaction()->encode_text_rows(pieces));
  } else {
    SACCADE_ASSIGN(sets.rows, encoder.encode_texts(pieces));
    for (int64_t i = 0; i < sets.rows.rows(); ++i) sets.begin.push_back(i + 1);
  }
  std::vector<TextPart> parts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto rows = std::as_const(sets.rows).view().slice(sets.begin[first[i]],
                                                            sets.begin[first[i + 1]] - sets.begin[first[i]]);
    SACCADE_ASSIGN(parts.emplace_back(),
                   text_part(std::span(pieces).subspan(first[i], first[i + 1] - first[i]), rows, late));
  }
  return parts;
}

// The picture's part of a query.
struct PicturePart {
  std::vector<float> row;
  Matrix<float> late;
  std::vector<float> was;  // of the words for what it shows now, where these are composed with
};

Result<PicturePart> encode_picture(const IngestSettings& settings, Encoder& encoder, const Query& query,
                                   bool late) {
  PicturePart part;
  SACCADE_ASSIGN(const Matrix<float> pixels, query_pixels(settings, encoder, query));
  if (late) {
    SACCADE_ASSIGN(RowSets sets, encoder.late_interaction()->encode_image_rows(pixels.view()));
    SACCADE_ASSIGN(part.row, mean_row(std::as_const(sets.rows).view()).in("the picture"));
    part.late = std::move(sets.rows);
    return part;
  }
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels.view()));
  SACCADE_TRY(check_rows(rows.view()).in("the picture"));
  part.row.assign(rows.row(0).begin(), rows.row(0).end());
  return part;
}

// One row of each part, and with late interaction many, whose mean that one is. Either may be nullptr.
Result<EncodedQuery> joined(const TextPart* text, const PicturePart* picture, const Fusion& fusion, bool late,
                            int64_t dim) {
  EncodedQuery encoded;
  if (text != nullptr) {
    encoded.row = text->row;
    encoded.tokens = text->tokens;
    encoded.text_rows = text->late.rows();
    encoded.text_ids = text->ids;
  }
  if (picture != nullptr && text == nullptr) encoded.row = picture->row;
  if (picture != nullptr && text != nullptr) {
    SACCADE_ASSIGN(encoded.row,
                   compose_rows(fusion.method, {.picture = fusion.image_weight, .text = fusion.text_weight},
                                picture->row, text->row, picture->was));
  }
  if (!late) return encoded;
  // A picture has a thousand rows where a text has twenty: together each counts by its rows' mean.
  const bool both = text != nullptr && picture != nullptr;
  const auto add = [&](const Matrix<float>& rows, float weight, std::span<float>::iterator to) {
    if (both) weight /= static_cast<float>(rows.rows());
    for (const float value : rows.values()) *to++ = (both ? weight : 1.0F) * value;
    return to;
  };
  const int64_t picture_rows = picture == nullptr ? 0 : picture->late.rows();
  encoded.late = Matrix<float>(encoded.text_rows + picture_rows, dim);
  auto to = encoded.late.values().begin();
  if (text != nullptr) to = add(text->late, fusion.text_weight, to);
  if (picture != nullptr) to = add(picture->late, fusion.image_weight, to);
  encoded.text_weight = both ? fusion.text_weight / static_cast<float>(encoded.text_rows) : 1.0F;
  return encoded;
}

}  // namespace

bool has_words(const Query& query) {
  return query.text.find_first_not_of(" \t\r\n\f\v") != std::string::npos;
}

Result<TokenizedText> tokenize_query(Encoder& encoder, const Query& query) {
  return tokenize(encoder, query.text);
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
  SACCADE_ASSIGN(std::vector<EncodedQuery> encoded,
                 encode_query_texts(settings, encoder, query, late, {&query.text, 1}));
  return std::move(encoded.front());
}

Result<std::vector<EncodedQuery>> encode_query_texts(const IngestSettings& settings, Encoder& encoder,
                                                     const Query& query, bool late,
                                                     std::span<const std::string> texts) {
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
  std::vector<TextPart> parts;
  if (has_words(query)) {
    SACCADE_ASSIGN(parts, encode_texts(encoder, query.long_text, late, texts));
  }
  std::optional<PicturePart> picture;
  if (query.has_image()) {
    SACCADE_ASSIGN(picture, encode_picture(settings, encoder, query, late));
    if (!parts.empty() && fusion.method == Compose::kDirection) {
      SACCADE_ASSIGN(picture->was, was_row(encoder, fusion));
    }
  }
  std::vector<EncodedQuery> encoded;
  for (size_t i = 0; i < texts.size(); ++i) {
    SACCADE_ASSIGN(encoded.emplace_back(),
                   joined(parts.empty() ? nullptr : &parts[i], picture ? &*picture : nullptr, fusion, late,
                          encoder.info().dim));
  }
  return encoded;
}

}  // namespace saccade

#include "saccade/search/query_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "saccade/collection/picture.h"
#include "saccade/core/rows.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/composers/composer.h"
#include "saccade/search/composed/composed_query.h"

namespace saccade {
namespace {

// Refuses a row that has no direction: no image is close to it.
Status check_rows(MatrixView<const float> rows) {
  if (rows.rows() < 1) return fail(ErrorCode::kBadData, "the encoder gave no rows");
  for (int64_t r = 0; r < rows.rows(); ++r) SACCADE_TRY(check_unit_row(rows.row(r)).in("the encoder gave"));
  return {};
}

Result<std::vector<float>> mean_row(MatrixView<const float> rows) {
  SACCADE_TRY(check_rows(rows));
  return unit_row(sum_rows(rows), kShortestSum).in("its rows cancel out");
}

Result<TokenizedText> tokenize(EncoderBackend& encoder, const std::string& text) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "the checkpoint has no tokenizer files: it can be searched by images, not by text");
  }
  return encoder.tokenizer()->encode(text, encoder.info().context);
}

// A text as the query wants it read: all that fits, or all in chunks.
Result<std::vector<TokenizedText>> pieces_of(EncoderBackend& encoder, LongText long_text,
                                             const std::string& text) {
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
Result<std::vector<float>> was_row(EncoderBackend& encoder, const Fusion& fusion) {
  const std::string words = fusion.was.empty() ? kAnyPicture : fusion.was;
  const TokenizedText text = encoder.tokenizer()->encode(words, encoder.info().context);
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(std::span(&text, 1)));
  SACCADE_TRY(check_rows(rows.view()).in("the image's words"));
  return std::vector(rows.row(0).begin(), rows.row(0).end());
}

// texts: the pieces that one query's text is read in; rows: the encoder's, of these alone.
Result<EncodedText> text_part(std::span<const TokenizedText> texts, MatrixView<const float> rows, bool late) {
  EncodedText part;
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

// A text in the pieces that the encoder reads.
using TextPieces = std::vector<TokenizedText>;

// All texts together, in one call of the encoder.
Result<std::vector<EncodedText>> encode_pieces(EncoderBackend& encoder, bool late,
                                               std::span<const TextPieces> texts) {
  TextPieces pieces;
  for (const TextPieces& own : texts) pieces.insert(pieces.end(), own.begin(), own.end());
  SACCADE_ASSIGN(const RowSets sets, late ? encoder.late_interaction()->encode_text_rows(pieces)
                                          : one_each(encoder.encode_texts(pieces)));
  std::vector<EncodedText> parts;
  size_t first = 0;  // piece of the text
  for (const TextPieces& own : texts) {
    const int64_t begin = sets.begin[first];
    first += own.size();
    const auto rows = sets.rows.view().slice(begin, sets.begin[first] - begin);
    SACCADE_ASSIGN(parts.emplace_back(), text_part(own, rows, late));
  }
  return parts;
}

// Sum of the unwanted rows, each times its weight, which is below 0; empty if there are none.
using Unwanted = std::vector<double>;

void add_row(std::span<const float> row, float weight, std::vector<double>& sum) {
  sum.resize(row.size());
  for (size_t c = 0; c < row.size(); ++c) sum[c] += double{weight} * row[c];
}

// Weights of what is wanted.
struct WantedWeights {
  double sum = 0;
  int64_t count = 0;

  void add(float weight) {
    sum += weight;
    ++count;
  }
};

// Subtracts unwanted parts. row: of length 1, or empty if there are no wanted parts. Its weight is the mean
// weight of its parts, so that only the ratio of wanted to unwanted weights counts; parts without weights
// weigh 1 together.
Status leave_out(const Unwanted& texts, const Unwanted& pictures, const WantedWeights& wanted,
                 std::vector<float>& row) {
  if (texts.empty() && pictures.empty()) return {};
  std::vector<double> sum(std::max(texts.size(), pictures.size()));
  for (const Unwanted* unwanted : {&texts, &pictures}) {
    for (size_t c = 0; c < unwanted->size(); ++c) sum[c] += (*unwanted)[c];
  }
  if (!row.empty()) add_row(row, static_cast<float>(wanted.sum / static_cast<double>(wanted.count)), sum);
  SACCADE_ASSIGN(row, unit_row(sum, kShortestSum).in("what is wanted and what is not cancel out"));
  return {};
}

Status check_late_weight(bool late, float weight) {
  if (!late || weight > 0) return {};
  return fail(
      ErrorCode::kUnsupported,
      "late interaction cannot search for what is not there: every row of a text looks for the part of "
      "an image that is most like it");
}

// One query's texts, encoded, as one: `wanted` is their sum by their weights; of late interaction the rows of
// all, each times its text's weight.
struct TextParts {
  std::optional<EncodedText> wanted;
  std::optional<TokenCount> tokens;
  WantedWeights weights;
  Unwanted unwanted;
};

// Encoded texts by their content. Borrowed.
using TextsByContent = std::map<std::string_view, const EncodedText*>;

Result<TextParts> joined_texts(std::span<const QueryPart> parts, const TextsByContent& encoded, bool late) {
  TextParts all;
  std::vector<double> sum;
  for (const QueryPart& asked : parts) {
    const EncodedText& part = *encoded.at(asked.text);
    const float weight = asked.weight;
    SACCADE_TRY(check_late_weight(late, weight));
    TokenCount& tokens = all.tokens ? *all.tokens : all.tokens.emplace(TokenCount{.chunks = 1});
    tokens.used += part.tokens.used;
    tokens.dropped += part.tokens.dropped;
    tokens.chunks += part.tokens.chunks - 1;
    tokens.longest_chunk = std::max(tokens.longest_chunk, part.tokens.longest_chunk);
    if (weight < 0) {
      add_row(part.row, weight, all.unwanted);
      continue;
    }
    all.weights.add(weight);
    add_row(part.row, weight, sum);
    if (all.weights.count == 1) {
      all.wanted = EncodedText{part.row, part.late.copy(), part.tokens, part.ids};
      for (float& value : all.wanted->late.values()) value *= weight;
      continue;
    }
    EncodedText& first = *all.wanted;
    if (!late) continue;
    Matrix<float> rows(first.late.rows() + part.late.rows(), first.late.columns());
    auto to = std::ranges::copy(first.late.values(), rows.values().begin()).out;
    for (const float value : part.late.values()) *to++ = weight * value;
    first.late = std::move(rows);
    // One a row, or none.
    if (first.ids.empty() || part.ids.empty())
      first.ids.clear();
    else
      first.ids.insert(first.ids.end(), part.ids.begin(), part.ids.end());
  }
  if (all.weights.count > 1) {
    SACCADE_ASSIGN(all.wanted->row, unit_row(sum, kShortestSum).in("the texts cancel out"));
  }
  return all;
}

// The picture's part of a query.
struct PicturePart {
  std::vector<float> row;
  Matrix<float> late;
  std::vector<float> was;  // of the words for what it shows now, where these are composed with
};

Result<PicturePart> encode_picture(const IngestSettings& settings, EncoderBackend& encoder,
                                   const QueryImage& image, const DecodeOptions& limits, bool late) {
  PicturePart part;
  SACCADE_ASSIGN(const Matrix<float> pixels, query_pixels(settings, encoder, image, limits));
  if (late) {
    SACCADE_ASSIGN(RowSets sets, encoder.late_interaction()->encode_image_rows(pixels.view()));
    SACCADE_ASSIGN(part.row, mean_row(std::as_const(sets.rows).view()).in("the image"));
    part.late = std::move(sets.rows);
    return part;
  }
  SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels.view()));
  SACCADE_TRY(check_rows(rows.view()).in("the image"));
  part.row.assign(rows.row(0).begin(), rows.row(0).end());
  return part;
}

// All the pictures of a query, as one.
struct PictureParts {
  std::optional<PicturePart> wanted;
  WantedWeights weights;
  Unwanted unwanted;
};

Result<PictureParts> encode_pictures(const IngestSettings& settings, EncoderBackend& encoder,
                                     const SearchQuery& query, bool late) {
  PictureParts all;
  std::vector<double> sum;
  for (const QueryImage& image : query.images) {
    const float weight = image.weight;
    if (!std::isfinite(weight)) return fail(ErrorCode::kUsage, "an image weighs {}", weight);
    SACCADE_TRY(check_late_weight(late, weight));
    if (late && all.weights.count > 0) {
      return fail(ErrorCode::kUnsupported, "late interaction searches by one image, not by several");
    }
    SACCADE_ASSIGN(PicturePart part, encode_picture(settings, encoder, image, query.limits, late));
    if (weight < 0) {
      add_row(part.row, weight, all.unwanted);
      continue;
    }
    add_row(part.row, weight, sum);
    all.weights.add(weight);
    if (all.weights.count == 1) all.wanted = std::move(part);
  }
  if (all.weights.count > 1) {
    SACCADE_ASSIGN(all.wanted->row, unit_row(sum, kShortestSum).in("the images cancel out"));
  }
  return all;
}

// One row of each part, and with late interaction many, whose mean that one is. Either may be nullptr.
Result<EncodedQuery> joined(const EncodedText* text, const PicturePart* picture, const Fusion& fusion,
                            bool late, int64_t dim) {
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

Result<int64_t> count_pieces(EncoderBackend& encoder, LongText long_text, const std::string& text) {
  if (long_text == LongText::kTruncate) return 1;
  SACCADE_ASSIGN(const std::vector<TokenizedText> pieces, pieces_of(encoder, long_text, text));
  return std::ssize(pieces);
}

Result<TokenizedText> tokenize_query(EncoderBackend& encoder, const SearchQuery& query) {
  return tokenize(encoder, query.text.str());
}

Result<Matrix<float>> query_pixels(const IngestSettings& settings, EncoderBackend& encoder,
                                   const QueryImage& image, const DecodeOptions& limits) {
  const Preprocessing& preprocessing = encoder.preprocessing();
  const DecodeOptions options = picture_decode_options(settings, preprocessing, limits);
  const std::filesystem::path file = image.name();
  const std::string name = file.empty() ? "image" : "image " + file.string();
  const std::string* bytes = image.bytes();
  SACCADE_ASSIGN(const DecodedImage decoded,
                 bytes != nullptr ? decode_image(std::as_bytes(std::span(*bytes)), options).in(name)
                                  : decode_image_file(file, options).in("image"));
  Matrix<float> pixels(1, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  SACCADE_TRY(preprocess_picture(decoded, preprocessing, settings, pixels.row(0)).in(name));
  return pixels;
}

EncodedTexts encode_texts_ahead(EncoderBackend& encoder, std::span<const SearchQuery* const> queries,
                                bool late) {
  // Largest batch: makes good use of a product, and fits the memory beside a large model.
  constexpr size_t kPieces = 64;
  constexpr int64_t kTokens = 4096;
  EncodedTexts ahead;
  if (queries.empty()) return ahead;
  ahead.long_text = queries.front()->long_text;
  std::set<std::string_view> different;
  for (const SearchQuery* query : queries) {
    const bool composes = query->composer() != nullptr && !query->images.empty();
    if (composes || query->long_text != ahead.long_text) continue;
    for (const QueryPart& part : query->text.parts()) different.insert(part.text);
  }
  struct Text {
    std::string_view text;
    TextPieces pieces;
    int64_t tokens = 0;
  };
  std::vector<Text> texts;
  for (const std::string_view text : different) {
    auto pieces = pieces_of(encoder, ahead.long_text, std::string(text));
    if (!pieces) continue;
    Text& one = texts.emplace_back(Text{text, *std::move(pieces)});
    for (const TokenizedText& piece : one.pieces) one.tokens += std::ssize(piece.ids);
  }
  std::ranges::stable_sort(texts, {}, &Text::tokens);
  for (size_t begin = 0, end = 0; begin < texts.size(); begin = end) {
    if (queries.front()->stop.stop_requested()) break;
    std::vector<TextPieces> batch;
    size_t pieces = 0;
    int64_t tokens = 0;
    while (end < texts.size() && (batch.empty() || (pieces + texts[end].pieces.size() <= kPieces &&
                                                    tokens + texts[end].tokens <= kTokens))) {
      pieces += texts[end].pieces.size();
      tokens += texts[end].tokens;
      batch.push_back(std::move(texts[end++].pieces));
    }
    auto encoded = encode_pieces(encoder, late, batch);
    if (!encoded) continue;  // each query meets the error of its own texts
    for (size_t i = 0; i < batch.size(); ++i) {
      ahead.texts.emplace(texts[begin + i].text, std::move((*encoded)[i]));
    }
  }
  return ahead;
}

Result<EncodedQuery> encode_query_rows(const IngestSettings& settings, EncoderBackend& encoder,
                                       const SearchQuery& query, bool late, const EncodedTexts* ahead) {
  const std::vector<QueryPart> parts(query.text.parts().begin(), query.text.parts().end());
  SACCADE_ASSIGN(std::vector<EncodedQuery> encoded,
                 encode_query_parts(settings, encoder, query, late, {&parts, 1}, ahead));
  return std::move(encoded.front());
}

Result<std::vector<EncodedQuery>> encode_query_parts(const IngestSettings& settings, EncoderBackend& encoder,
                                                     const SearchQuery& query, bool late,
                                                     std::span<const std::vector<QueryPart>> queries,
                                                     const EncodedTexts* ahead) {
  const bool has_words = query.text.has_words();
  const bool has_image = !query.images.empty();
  if (!has_words && !has_image) {
    return fail(ErrorCode::kUsage, "the query is empty: give a text, an image or both");
  }
  const Fusion fusion = query.weights();
  Composer* composer = query.composer();
  if (composer != nullptr && !query.is_plain()) {
    return fail(ErrorCode::kUsage, "a composer takes one image and one text, without weights");
  }
  if (!std::isfinite(fusion.text_weight) || !std::isfinite(fusion.image_weight)) {
    return fail(ErrorCode::kUsage, "the parts' weights are {} and {}, expected finite numbers",
                fusion.text_weight, fusion.image_weight);
  }
  if (late && fusion.method != Compose::kSum && has_words && has_image) {
    return fail(ErrorCode::kUnsupported,
                "late interaction composes text and image by their sum alone, not by {}",
                enum_name(fusion.method));
  }
  // An encoder that re-ranks or explains beside the collection's is not the composer's: its rows are summed.
  const bool composes = composer != nullptr && composer->check_encoder(encoder).has_value();
  if (composes && has_words && has_image) {
    if (late && !composer->kind().late) {
      return fail(
          ErrorCode::kUnsupported,
          "late interaction composes text and image by their sum, or by a composer made for it, not by "
          "one of kind {}",
          composer->kind().name);
    }
    std::vector<std::string> words;
    for (const std::vector<QueryPart>& parts : queries)
      words.push_back(parts.empty() ? "" : parts.front().text);
    SACCADE_ASSIGN(const Matrix<float> pixels,
                   query_pixels(settings, encoder, query.images.front(), query.limits));
    SACCADE_ASSIGN(std::vector<EncodedQuery> composed,
                   compose_query(encoder, *composer, pixels.view(), words));
    for (EncodedQuery& one : composed) {
      if (!late) break;
      one.late = Matrix<float>(1, std::ssize(one.row));
      std::ranges::copy(one.row, one.late.row(0).begin());
    }
    return composed;
  }
  TextsByContent encoded_texts;
  std::vector<EncodedText> own;
  if (has_words) {
    const bool known = ahead != nullptr && ahead->long_text == query.long_text;
    std::vector<std::string_view> texts;
    std::vector<TextPieces> pieces;
    for (const std::vector<QueryPart>& parts : queries) {
      for (const QueryPart& part : parts) {
        const auto [entry, is_new] = encoded_texts.emplace(part.text, nullptr);
        if (!is_new) continue;
        if (const EncodedText* found = known ? ahead->find(part.text) : nullptr) {
          entry->second = found;
          continue;
        }
        texts.push_back(part.text);
        SACCADE_ASSIGN(pieces.emplace_back(), pieces_of(encoder, query.long_text, part.text));
      }
    }
    if (!texts.empty()) {
      SACCADE_ASSIGN(own, encode_pieces(encoder, late, pieces));
    }
    for (size_t i = 0; i < texts.size(); ++i) encoded_texts[texts[i]] = &own[i];
  }
  PictureParts pictures;
  if (has_image) {
    SACCADE_ASSIGN(pictures, encode_pictures(settings, encoder, query, late));
    if (has_words && pictures.wanted && fusion.method == Compose::kDirection) {
      SACCADE_ASSIGN(pictures.wanted->was, was_row(encoder, fusion));
    }
  }
  std::vector<EncodedQuery> encoded;
  for (const std::vector<QueryPart>& parts : queries) {
    TextParts words;
    if (has_words) {
      SACCADE_ASSIGN(words, joined_texts(parts, encoded_texts, late));
    }
    EncodedQuery& one = encoded.emplace_back();
    SACCADE_ASSIGN(
        one, joined(words.wanted ? &*words.wanted : nullptr, pictures.wanted ? &*pictures.wanted : nullptr,
                    fusion, late, encoder.info().dim));
    one.tokens = words.tokens;
    const WantedWeights weights{words.weights.sum + pictures.weights.sum,
                                words.weights.count + pictures.weights.count};
    SACCADE_TRY(leave_out(words.unwanted, pictures.unwanted, weights, one.row));
  }
  return encoded;
}

}  // namespace saccade

// Texts and pictures of clients, encoded in the order they came in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "saccade/image/read_pixels.h"
#include "saccade/serve/service.h"
#include "saccade/tokenizer.h"

namespace saccade::serve {

struct Input {
  std::string text;
  std::string picture;       // a file's bytes; empty: it is a text
  std::string address = {};  // where the picture is; fetch_addresses turns it into that
  // Token ids of the model's own tokenizer in place of `text`, with or without its start and end tokens.
  std::vector<int32_t> tokens = {};
  // Maximum number of tokens of the text, start and end excluded; the model's own limit also applies.
  int64_t most_tokens = kWholeText;
  bool may_be_empty = false;  // an empty text is encoded as its start and end tokens, not refused

  [[nodiscard]] bool is_text() const { return picture.empty() && address.empty(); }
};

// Fetches the images that inputs give by address, several at a time, into Input::picture. Errors of fetch_pictures, with name(i)
// of the input in front.
Status fetch_addresses(const Context& context, std::vector<Input>& inputs,
                       const std::function<std::string(size_t)>& name);
// Likewise for a model. kUnsupported if there are such images and it reads none. Errors name the input's number, from 0.
Status fetch_addresses(const Context& context, const ServedModel& model, std::vector<Input>& inputs);

struct EncodedInputs {
  Matrix<float> rows;          // one an input
  int64_t tokens = 0;          // read
  int64_t dropped_tokens = 0;  // of texts too long for the model
};

// The embeddings as lists of numbers: [[0.1, ...], ...].
Json rows_json(const Matrix<float>& rows);

// kUsage for none, more than ServiceOptions::most_inputs, and an empty text; kUnsupported where the model
// reads no texts, or no pictures; errors of fetch_pictures. Errors about one input name its number, from 0.
Result<EncodedInputs> encode_inputs(const Context& context, ServedModel& model, std::vector<Input> inputs);

// The texts among inputs, in their order; numbers in errors are those of all.
struct TokenizedInputs {
  std::vector<TokenizedText> texts;
  int64_t tokens = 0;
  int64_t dropped_tokens = 0;
};
Result<TokenizedInputs> tokenize_inputs(const Context& context, const ServedModel& model,
                                        const EncoderBackend& encoder, std::span<const Input* const> inputs);

// Pictures are decoded to many times their bytes: so many at a time.
inline constexpr size_t kPicturesAtATime = 32;
// One row a picture. Errors name the input's number, the first being `first`.
Result<PixelBatch> input_pixels(const Context& context, const EncoderBackend& encoder,
                                std::span<const Input* const> pictures, int64_t first);

// Parses a text field, which may be an image: "data:image/..." is one. A remote address is a text.
Result<Input> input_of(const std::string& text);
// Parses an image field: a data address, base64 alone, or a remote address. kBadData.
Result<Input> picture_of(const std::string& text);
// Parses an input from JSON: a text; Jina's {"text"} or {"image"}, older {"bytes"} or {"url"}; a content
// part, {"type": "text", "text"} or {"type": "image_url", "image_url": {"url"}}; or an object with one of
// these as "content". With `picture` a text represents an image.
// Errors: kUsage for a text and an image in one input; kBadData.
Result<Input> input_of_json(const Json& json, bool picture = false);

// Token ids that a client sends in place of a text; kBadData for anything but a list of whole numbers.
Result<Input> input_of_tokens(const Json& json);

// Adds headers with the numbers of tokens read and dropped, for formats that have no field for them.
HttpResponse with_tokens(HttpResponse response, int64_t tokens, int64_t dropped_tokens);

}  // namespace saccade::serve

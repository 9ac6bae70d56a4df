#include "saccade/serve/inputs.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/base64.h"
#include "saccade/core/seconds_since.h"

namespace saccade::serve {
namespace {

// Rows of the inputs `which`, put where these stand in `result`.
void put(const Matrix<float>& rows, std::span<const int64_t> which, Matrix<float>& result) {
  for (size_t i = 0; i < which.size(); ++i) {
    std::ranges::copy(rows.row(static_cast<int64_t>(i)), result.row(which[i]).begin());
  }
}

// "content": a text, or one content part. A dual encoder has a row for a text, a row for a picture, and none
// for both of them.
Result<Input> input_of_content(const Json& content) {
  if (content.is_string()) return Input{.text = content.get<std::string>(), .picture = {}};
  if (!content.is_array() || content.size() != 1 || !content[0].is_object()) {
    return fail(ErrorCode::kUsage,
                "\"content\": a text or one content part is expected: a text and an image have a row each");
  }
  return input_of_json(content[0]);
}

// Frames token ids with the start and end tokens (and a prompt) that the tokenizer adds to a text, truncated
// like a text. kUsage for an id that the model does not have.
Result<TokenizedText> framed_tokens(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                    int64_t most_tokens) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= tokenizer.vocabulary_size()) {
      return fail(ErrorCode::kUsage, "token {}, the model has {}", token, tokenizer.vocabulary_size());
    }
  }
  TokenizedText framed = tokenizer.encode("a", most_tokens);
  const auto begin = framed.ids.begin() + framed.first;
  const std::vector<int32_t> before(framed.ids.begin(), begin);
  const std::vector<int32_t> after(begin + framed.used, framed.ids.end());
  // Tokenizers add them or not, as their callers say.
  if (std::ranges::equal(tokens.first(std::min(before.size(), tokens.size())), before))
    tokens = tokens.subspan(before.size());
  if (std::ranges::equal(tokens.last(std::min(after.size(), tokens.size())), after))
    tokens = tokens.first(tokens.size() - after.size());
  const auto around = std::ssize(before) + std::ssize(after);
  framed.used = std::min(std::ssize(tokens), std::max<int64_t>(most_tokens - around, 0));
  framed.dropped = std::ssize(tokens) - framed.used;
  framed.ids = before;
  std::ranges::copy(tokens.first(static_cast<size_t>(framed.used)), std::back_inserter(framed.ids));
  std::ranges::copy(after, std::back_inserter(framed.ids));
  return framed;
}

}  // namespace

Status fetch_addresses(const Context& context, std::vector<Input>& inputs,
                       const std::function<std::string(size_t)>& name) {
  std::vector<size_t> which;
  std::vector<std::string> addresses;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].address.empty()) continue;
    which.push_back(i);
    addresses.push_back(inputs[i].address);
  }
  if (which.empty()) return {};
  std::vector<Result<std::string>> fetched = fetch_pictures(context, addresses);
  for (size_t i = 0; i < fetched.size(); ++i) {
    Input& input = inputs[which[i]];
    SACCADE_ASSIGN(input.picture, std::move(fetched[i]).in(name(which[i])));
    input.address.clear();
  }
  return {};
}

Status fetch_addresses(const Context& context, const ServedModel& model, std::vector<Input>& inputs) {
  const bool any = std::ranges::any_of(inputs, [](const Input& input) { return !input.address.empty(); });
  if (any && model.info.image_width == 0) {
    return fail(ErrorCode::kUnsupported, "{} reads no images", model.name);
  }
  return fetch_addresses(context, inputs, [](size_t i) { return fmt::format("input {}", i); });
}

Result<Input> input_of(const std::string& text) {
  if (!text.starts_with("data:image/")) return Input{.text = text, .picture = {}};
  return picture_of(text);
}

Result<Input> picture_of(const std::string& text) {
  Input input;
  if (is_remote(text)) {
    input.address = text;
  } else {
    SACCADE_ASSIGN(input.picture, decode_picture_text(text));
  }
  return input;
}

Result<Input> input_of_json(const Json& json, bool picture) {
  if (json.is_string()) {
    const auto text = json.get<std::string>();
    return picture ? picture_of(text) : input_of(text);
  }
  if (json.is_number() || json.is_array()) {
    return fail(
        ErrorCode::kUsage,
        "tokens in place of a text: another tokenizer's mean nothing to this model; if they are of its own, "
        "say so with \"tokenizer\", the model's name");
  }
  if (!json.is_object())
    return fail(ErrorCode::kBadData, "{}, expected a text or an object", json_kind(json));
  if (json.contains("content")) return input_of_content(json["content"]);
  for (const char* field : {"image_url", "image", "bytes", "url"}) {
    if (!json.contains(field)) continue;
    if (json.contains("text") && !json["text"].is_null()) {
      return fail(ErrorCode::kUsage, "\"text\" and \"{}\" in one: a text and an image have a row each",
                  field);
    }
    const Json& address = json[field];
    const bool part = std::string_view(field) == "image_url" && address.is_object();
    SACCADE_ASSIGN(const std::string text,
                   part ? json_field<std::string>(address, "url") : json_field<std::string>(json, field));
    return picture_of(text);
  }
  SACCADE_ASSIGN(std::string text, json_field<std::string>(json, "text"));
  return Input{.text = std::move(text), .picture = {}};
}

Result<Input> input_of_tokens(const Json& json) {
  Input input;
  if (!json.is_array() || json.empty()) return fail(ErrorCode::kBadData, "an empty list, expected token ids");
  for (const Json& id : json) {
    if (!id.is_number_integer() || !std::in_range<int32_t>(id.get<int64_t>()))
      return fail(ErrorCode::kBadData, "{} in a list of token ids", dump_json(id).substr(0, 60));
    input.tokens.push_back(id.get<int32_t>());
  }
  return input;
}

HttpResponse with_tokens(HttpResponse response, int64_t tokens, int64_t dropped_tokens) {
  response.headers.emplace_back("X-Saccade-Tokens", std::to_string(tokens));
  response.headers.emplace_back("X-Saccade-Dropped-Tokens", std::to_string(dropped_tokens));
  return response;
}

Json rows_json(const Matrix<float>& rows) {
  Json list = Json::array();
  for (int64_t i = 0; i < rows.rows(); ++i) {
    const auto row = rows.row(i);
    list.emplace_back(std::vector<float>(row.begin(), row.end()));
  }
  return list;
}

Result<TokenizedInputs> tokenize_inputs(const Context& context, const ServedModel& model,
                                        const EncoderBackend& encoder, std::span<const Input* const> inputs) {
  TokenizedInputs result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = *inputs[i];
    if (!input.picture.empty()) continue;
    if (!model.reads_texts) return fail(ErrorCode::kUnsupported, "{} reads no texts", model.name);
    if (!input.tokens.empty()) {
      SACCADE_ASSIGN(TokenizedText framed,
                     framed_tokens(*encoder.tokenizer(), input.tokens, model.info.context)
                         .in(fmt::format("input {}", i)));
      result.tokens += framed.used;
      result.dropped_tokens += framed.dropped;
      result.texts.push_back(std::move(framed));
      continue;
    }
    if (input.text.empty() && !input.may_be_empty)
      return fail(ErrorCode::kUsage, "input {}: an empty text", i);
    SACCADE_TRY(check_text(context, input.text).in(fmt::format("input {}", i)));
    TokenizedText text = encoder.tokenizer()->encode(input.text, model.info.context);
    if (text.used > input.most_tokens) {
      const int64_t around = std::ssize(text.ids) - text.used;
      text = encoder.tokenizer()->encode(input.text, input.most_tokens + around);
    }
    result.texts.push_back(std::move(text));
    result.tokens += result.texts.back().used;
    result.dropped_tokens += result.texts.back().dropped;
  }
  return result;
}

Result<PixelBatch> input_pixels(const Context& context, const EncoderBackend& encoder,
                                std::span<const Input* const> pictures, int64_t first) {
  if (encoder.info().image_width == 0) {
    return fail(ErrorCode::kUnsupported, "input {}: the model reads no images", first);
  }
  PixelOptions options = pixel_options(encoder.preprocessing(), context.limits());
  options.all_or_none = true;
  PixelBatch batch = read_pixels(
      std::ssize(pictures),
      [&](int64_t i) -> Result<std::string> { return pictures[static_cast<size_t>(i)]->picture; }, options,
      context.pool);
  context.metrics.spent("decode", batch.seconds.decode);
  context.metrics.spent("preprocess", batch.seconds.use);
  if (!batch.failed.empty()) {
    const auto& [number, error] = batch.failed.front();
    return fail(error.in(fmt::format("input {}", first + number)));
  }
  return batch;
}

Result<EncodedInputs> encode_inputs(const Context& context, ServedModel& model, std::vector<Input> inputs) {
  if (inputs.empty()) return fail(ErrorCode::kUsage, "no input");
  if (std::ssize(inputs) > context.options.most_inputs) {
    return fail(ErrorCode::kUsage, "{} inputs, at most {} are taken at a time", inputs.size(),
                context.options.most_inputs);
  }
  SACCADE_TRY(fetch_addresses(context, model, inputs));
  SACCADE_ASSIGN(const std::shared_ptr<EncoderBackend> encoder, context.lend(model));
  std::vector<const Input*> all;
  std::vector<int64_t> texts;
  std::vector<int64_t> pictures;
  for (const Input& input : inputs) {
    (input.is_text() ? texts : pictures).push_back(std::ssize(all));
    all.push_back(&input);
  }
  if (!pictures.empty() && model.info.image_width == 0) {
    return fail(ErrorCode::kUnsupported, "{} reads no images", model.name);
  }
  SACCADE_ASSIGN(const TokenizedInputs tokenized, tokenize_inputs(context, model, *encoder, all));
  EncodedInputs result;
  result.tokens = tokenized.tokens;
  result.dropped_tokens = tokenized.dropped_tokens;
  result.rows = Matrix<float>(std::ssize(inputs), model.info.dim);
  if (!texts.empty()) {
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const Matrix<float> rows, encoder->encode_texts(tokenized.texts));
    context.metrics.spent("encode", seconds_since(start));
    put(rows, texts, result.rows);
  }
  for (size_t begin = 0; begin < pictures.size();) {
    // Neighbours alone share a batch, so that an error's number is the input's.
    size_t end = begin + 1;
    while (end < pictures.size() && end - begin < kPicturesAtATime && pictures[end] == pictures[end - 1] + 1)
      ++end;
    const std::span<const int64_t> some = std::span(pictures).subspan(begin, end - begin);
    const auto first = static_cast<size_t>(some.front());
    SACCADE_ASSIGN(const PixelBatch batch,
                   input_pixels(context, *encoder, std::span(all).subspan(first, some.size()), some.front()));
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const Matrix<float> rows, encoder->encode_images(batch.rows()));
    context.metrics.spent("encode", seconds_since(start));
    put(rows, some, result.rows);
    begin = end;
  }
  return result;
}

}  // namespace saccade::serve

#include "saccade/serve/inputs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "saccade/core/seconds_since.h"
#include "saccade/image/read_pixels.h"

namespace saccade::serve {
namespace {

// Rows of the inputs `which`, put where these stand in `result`.
void put(const Matrix<float>& rows, const std::vector<int64_t>& which, Matrix<float>& result) {
  for (size_t i = 0; i < which.size(); ++i) {
    std::ranges::copy(rows.row(static_cast<int64_t>(i)), result.row(which[i]).begin());
  }
}

}  // namespace

Result<Input> input_of(const std::string& text) {
  if (!text.starts_with("data:image/")) return Input{text, ""};
  SACCADE_ASSIGN(std::string bytes, picture_bytes(text));
  return Input{"", std::move(bytes)};
}

HttpResponse with_tokens(HttpResponse response, const EncodedInputs& encoded) {
  response.headers.emplace_back("X-Saccade-Tokens", std::to_string(encoded.tokens));
  response.headers.emplace_back("X-Saccade-Dropped-Tokens", std::to_string(encoded.dropped_tokens));
  return response;
}

Result<EncodedInputs> encode_inputs(const Context& context, ServedModel& model,
                                    const std::vector<Input>& inputs) {
  if (inputs.empty()) return fail(ErrorCode::kUsage, "no input");
  if (std::ssize(inputs) > context.options.most_inputs) {
    return fail(ErrorCode::kUsage, "{} inputs, at most {} are taken at a time", inputs.size(),
                context.options.most_inputs);
  }
  SharedEncoder& encoder = *model.encoder;
  EncodedInputs result;
  std::vector<int64_t> texts;
  std::vector<int64_t> pictures;
  std::vector<TokenizedText> tokenized;
  for (int64_t i = 0; i < std::ssize(inputs); ++i) {
    const Input& input = inputs[static_cast<size_t>(i)];
    if (!input.picture.empty()) {
      pictures.push_back(i);
      continue;
    }
    if (encoder.tokenizer() == nullptr) return fail(ErrorCode::kUnsupported, "{} reads no texts", model.name);
    if (input.text.empty()) return fail(ErrorCode::kUsage, "input {}: an empty text", i);
    texts.push_back(i);
    tokenized.push_back(encoder.tokenizer()->encode(input.text, encoder.info().context));
    result.tokens += tokenized.back().used;
    result.dropped_tokens += tokenized.back().dropped;
  }
  if (!pictures.empty() && encoder.info().image_width == 0) {
    return fail(ErrorCode::kUnsupported, "{} reads no pictures", model.name);
  }
  result.rows = Matrix<float>(std::ssize(inputs), encoder.info().dim);
  if (!texts.empty()) {
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(tokenized));
    context.metrics.spent("encode", seconds_since(start));
    put(rows, texts, result.rows);
  }
  if (!pictures.empty()) {
    const auto start = std::chrono::steady_clock::now();
    const PixelBatch batch = read_pixels(
        std::ssize(pictures),
        [&](int64_t i) -> Result<std::string> {
          return inputs[static_cast<size_t>(pictures[static_cast<size_t>(i)])].picture;
        },
        pixel_options(encoder.preprocessing(), context.options.limits), context.pool);
    context.metrics.spent("decode", seconds_since(start));
    if (!batch.failed.empty()) {
      const auto& [number, error] = batch.failed.front();
      return fail(error.in(fmt::format("input {}", pictures[static_cast<size_t>(number)])));
    }
    const auto encoding = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(batch.rows()));
    context.metrics.spent("encode", seconds_since(encoding));
    put(rows, pictures, result.rows);
  }
  return result;
}

}  // namespace saccade::serve

#include "saccade/imagegen/checked_answer.h"

#include <array>
#include <span>
#include <utility>

#include "saccade/image/image_view.h"
#include "saccade/imagegen/http_engine.h"

namespace saccade {

Result<PictureAnswer> look_at_answer(std::string_view bytes, const AnswerLimits& limits) {
  if (bytes.empty()) return fail(ErrorCode::kBadData, "nothing was sent, expected an image");
  PictureAnswer answer;
  std::string format;
  const Status decoded =
      decode_for(std::as_bytes(std::span(bytes)), limits.decode, [&](const PictureView& picture) -> Status {
        answer.width = picture.image.width;
        answer.height = picture.image.height;
        format = picture.format;
        return {};
      });
  if (!decoded) {
    const Error& error = decoded.error();
    if (error.code == ErrorCode::kUnsupported) {
      return fail(ErrorCode::kBadData, "no image was sent but {}", said_in(bytes));
    }
    return fail(error.in("the image that was sent"));
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKinds = {
      {{"png", "png"}, {"jpeg", "jpg"}, {"webp", "webp"}}};
  for (const auto& [name, extension] : kKinds) {
    if (format == name) answer.extension = extension;
  }
  if (answer.extension.empty()) {
    return fail(ErrorCode::kUnsupported, "an image of the kind {} was sent, expected png, jpeg or webp",
                format);
  }
  if (limits.width > 0 && (answer.width != limits.width || answer.height != limits.height)) {
    return fail(ErrorCode::kMismatch, "an image of {} x {} was sent, {} x {} was asked for", answer.width,
                answer.height, limits.width, limits.height);
  }
  return answer;
}

}  // namespace saccade

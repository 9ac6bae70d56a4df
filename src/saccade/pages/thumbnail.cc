#include "saccade/pages/thumbnail.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/file_state.h"
#include "saccade/collection/small_picture.h"
#include "saccade/pages/html.h"

namespace saccade {
namespace {

Result<Thumbnail> make_thumbnail(Result<DecodedImage> decoded, int side) {
  if (!decoded) return fail(std::move(decoded).error());
  SACCADE_ASSIGN(const SmallPicture small, small_picture(std::move(decoded->image), side));
  return Thumbnail{data_url(small.type, small.bytes), small.background, ""};
}

Thumbnail or_problem(Result<Thumbnail> thumbnail) {
  return thumbnail ? *std::move(thumbnail) : problem_thumbnail(thumbnail.error());
}

}  // namespace

Thumbnail problem_thumbnail(const Error& error) {
  return Thumbnail{"", "", "Cannot be shown: " + error.message};
}

Thumbnail file_thumbnail(const std::filesystem::path& path, int side, const DecodeOptions& limits) {
  return or_problem(make_thumbnail(decode_image_file(path, small_picture_decoding(side, limits)), side));
}

Thumbnail item_thumbnail(const Item& item, int side, const DecodeOptions& limits) {
  if (auto here = check_file_here(item); !here) return problem_thumbnail(here.error());
  return file_thumbnail(item.path, side, limits);
}

Thumbnail bytes_thumbnail(std::string_view bytes, int side, const DecodeOptions& limits) {
  return or_problem(make_thumbnail(
      decode_image(std::as_bytes(std::span(bytes)), small_picture_decoding(side, limits)), side));
}

std::string picture_html(const Thumbnail& thumbnail, std::string_view alternative) {
  if (thumbnail.url.empty()) return fmt::format("<span>{}</span>", escape_html(thumbnail.problem));
  return fmt::format(R"(<img src="{}" alt="{}" decoding="async">)", thumbnail.url, escape_html(alternative));
}

}  // namespace saccade

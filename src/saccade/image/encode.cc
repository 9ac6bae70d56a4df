#include <array>

#include "saccade/image/decode/vips_support.h"
#include "saccade/image/decode/webp.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"

namespace saccade {
namespace {

// A libvips image that borrows the pixels of `image`.
Result<VipsHandle> borrow(const Image& image) {
  const std::string failure = start_vips();
  if (!failure.empty()) return fail(ErrorCode::kInternal, "{}", failure);
  SACCADE_TRY(check_pixels(image));
  const VipsHandle plain(vips_image_new_from_memory(image.pixels.data(), image.pixels.size(), image.width,
                                                    image.height, image.channels, VIPS_FORMAT_UCHAR));
  if (!plain) return fail(ErrorCode::kInternal, "{}", take_vips_error());
  VipsImage* named = nullptr;
  const VipsInterpretation meaning = image.channels < 3 ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB;
  if (vips_copy(plain.get(), &named, "interpretation", meaning, nullptr) != 0) {
    return fail(ErrorCode::kInternal, "{}", take_vips_error());
  }
  return VipsHandle(named);
}

// Takes a saver's output in `buffer`, which libvips allocated.
Result<std::string> take_buffer(int status, void* buffer, size_t size, std::string_view format) {
  if (status != 0) return fail(ErrorCode::kInternal, "{}: {}", format, take_vips_error());
  std::string bytes(static_cast<const char*>(buffer), size);
  g_free(buffer);
  return bytes;
}

}  // namespace

Result<std::string> encode_png(const Image& image) {
  SACCADE_ASSIGN(const VipsHandle source, borrow(image));
  void* buffer = nullptr;
  size_t size = 0;
  const int status = vips_pngsave_buffer(source.get(), &buffer, &size, nullptr);
  return take_buffer(status, buffer, size, "PNG");
}

Result<std::string> encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100) return fail(ErrorCode::kUsage, "JPEG quality of {}, 1 to 100", quality);
  SACCADE_ASSIGN(const VipsHandle source, borrow(image));
  // JPEG has no transparency: it shows over white.
  constexpr std::array<double, 3> kWhite = {255, 255, 255};
  VipsArrayDouble* background = vips_array_double_new(kWhite.data(), image.channels < 3 ? 1 : 3);
  void* buffer = nullptr;
  size_t size = 0;
  const int status =
      vips_jpegsave_buffer(source.get(), &buffer, &size, "Q", quality, "background", background, nullptr);
  vips_area_unref(VIPS_AREA(background));
  return take_buffer(status, buffer, size, "JPEG");
}

Result<std::string> encode_webp(const Image& image, int quality) {
  if (quality < 1 || quality > 100) return fail(ErrorCode::kUsage, "WebP quality of {}, 1 to 100", quality);
  SACCADE_ASSIGN(const VipsHandle source, borrow(image));
  void* buffer = nullptr;
  size_t size = 0;
  const int status = vips_webpsave_buffer(source.get(), &buffer, &size, "Q", quality, nullptr);
  if (status != 0) return fail(ErrorCode::kUnsupported, "WebP: {}", take_vips_error());
  return take_buffer(status, buffer, size, "WebP");
}

std::string image_library_version() {
  if (!start_vips().empty()) return "none";
  return fmt::format("{}.{}.{}", vips_version(0), vips_version(1), vips_version(2));
}

}  // namespace saccade

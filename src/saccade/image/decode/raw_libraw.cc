// RAW files by LibRaw (https://www.libraw.org/docs/API-CXX.html). Part of saccade-decode alone.
#include "saccade/image/decode/raw.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <libraw/libraw.h>
#include <memory>
#include <new>
#include <optional>

namespace saccade {
namespace {

// The longer side from which on the camera's own picture is taken as it is. Smaller ones (DNG's of 256
// pixels) are for the camera's screen: then the sensor's data are developed.
constexpr int kLeastPreview = 512;

// LIBRAW_OPTIONS_NO_DATAERR_CALLBACK, which 0.20 spells otherwise: nothing is written to stderr.
constexpr unsigned kSilent = 2;

struct FreeProcessed {
  void operator()(libraw_processed_image_t* image) const { LibRaw::dcraw_clear_mem(image); }
};
using Processed = std::unique_ptr<libraw_processed_image_t, FreeProcessed>;

tl::unexpected<Error> failure(int code) {
  const ErrorCode kind = code == LIBRAW_UNSUFFICIENT_MEMORY || code == ENOMEM ? ErrorCode::kIo
                         : code == LIBRAW_FILE_UNSUPPORTED                    ? ErrorCode::kUnsupported
                                                                              : ErrorCode::kBadData;
  return fail(kind, "raw: {}", LibRaw::strerror(code));
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const DecodeOptions& options) : bytes_(bytes), options_(options) {}

  Result<RawPicture> read() {
    // LibRaw only reads them; its first versions say so nowhere.
    auto* const file = const_cast<std::byte*>(bytes_.data());
    if (const int code = raw_->open_buffer(file, bytes_.size()); code != LIBRAW_SUCCESS) return failure(code);
    const libraw_image_sizes_t& sizes = raw_->imgdata.sizes;
    RawPicture picture;
    picture.width = sizes.width;
    picture.height = sizes.height;
    if (picture.width < 1 || picture.height < 1) {
      return fail(ErrorCode::kBadData, "raw: size {} x {}", picture.width, picture.height);
    }
    if (picture.height > options_.max_pixels / picture.width) {
      return fail(ErrorCode::kLimit, "{} x {} pixels; the limit is {} pixels", picture.width, picture.height,
                  options_.max_pixels);
    }
    constexpr int kOnItsSide = 4;
    if (options_.apply_orientation && (sizes.flip & kOnItsSide) != 0)
      std::swap(picture.width, picture.height);
    if (take_preview(picture, kLeastPreview)) return picture;
    const Status developed = develop(picture);
    // A small picture is better than none.
    if (!developed && !take_preview(picture, 1)) return fail(developed.error());
    return picture;
  }

 private:
  // Takes the largest image that the camera embedded, if it is a JPEG of that size. If the JPEG has no
  // orientation, LibRaw adds that of the file.
  bool take_preview(RawPicture& picture, int least) {
    if (!unpacked_) unpacked_ = raw_->unpack_thumb();  // a second call is an error
    if (*unpacked_ != LIBRAW_SUCCESS) return false;
    const libraw_thumbnail_t& thumbnail = raw_->imgdata.thumbnail;
    if (thumbnail.tformat != LIBRAW_THUMBNAIL_JPEG ||
        std::max<int>(thumbnail.twidth, thumbnail.theight) < least) {
      return false;
    }
    int code = LIBRAW_SUCCESS;
    const Processed made(raw_->dcraw_make_mem_thumb(&code));
    if (!made || made->type != LIBRAW_IMAGE_JPEG) return false;
    picture.jpeg.assign(reinterpret_cast<const char*>(made->data), made->data_size);
    return true;
  }

  // The colours as the camera balanced them, each block of four sensors one pixel where there are many.
  Status develop(RawPicture& picture) {
    libraw_output_params_t& output = raw_->imgdata.params;
    output.half_size = std::min(picture.width, picture.height) >= 2 * kLeastPreview ? 1 : 0;
    output.use_camera_wb = 1;
    output.output_bps = 8;
    output.user_flip = options_.apply_orientation ? -1 : 0;
    if (const int code = raw_->unpack(); code != LIBRAW_SUCCESS) return failure(code);
    if (const int code = raw_->dcraw_process(); code != LIBRAW_SUCCESS) return failure(code);
    int code = LIBRAW_SUCCESS;
    const Processed made(raw_->dcraw_make_mem_image(&code));
    if (!made) return failure(code);
    const auto size = size_t{made->width} * made->height * made->colors;
    if (made->type != LIBRAW_IMAGE_BITMAP || made->bits != 8 || (made->colors != 1 && made->colors != 3) ||
        size == 0 || made->data_size != size) {
      return fail(ErrorCode::kUnsupported, "raw: {} colours of {} bits", made->colors, made->bits);
    }
    picture.image = {made->width, made->height, made->colors,
                     made->colors == 1 ? PixelMode::kGrey : PixelMode::kRgb,
                     std::vector<uint8_t>(made->data, made->data + size)};
    return {};
  }

  std::span<const std::byte> bytes_;
  const DecodeOptions& options_;
  std::optional<int> unpacked_;  // what became of the picture that the camera has put there
  std::unique_ptr<LibRaw> raw_ = std::make_unique<LibRaw>(kSilent);
};

}  // namespace

Result<RawPicture> read_raw(std::span<const std::byte> bytes, const DecodeOptions& options) {
  try {
    return Reader(bytes, options).read();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kIo, "not enough memory for its pixels");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kBadData, "raw: {}", error.what());
  } catch (...) {
    return fail(ErrorCode::kBadData, "raw: broken");
  }
}

}  // namespace saccade

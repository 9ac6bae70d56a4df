// Decoding through libvips, within limits, to plain 8-bit pixels as Pillow would return them.
//
// Loaders: libvips marks loaders that are unsafe for foreign files as "untrusted". SVG is among them, HEIF is
// not. Here every loader is blocked except those of the formats that Saccade names. SVG is permitted because
// librsvg, a Rust parser, opens no other file for an image that has no address of its own, and bytes in
// memory have none.
//
// Pixels are pulled strip by strip on the calling thread. Files are decoded in parallel, so a file needs no
// threads, and the deadline can be checked between strips. The pixels of a JPEG come from libjpeg itself
// (jpeg.h), once libvips has read its header. A decoder that works on whole images (WebP, HEIF, interlaced
// PNG, progressive JPEG, librsvg's filters) cannot be interrupted. In a decoder process the kernel ends it
// (decoder_pool.h). Without one, the limits on pixels, bytes and scans bound the time; for drawings the time
// of small renderings is measured.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/installed.h"
#include "saccade/image/decode/bmp.h"
#include "saccade/image/decode/deadline.h"
#include "saccade/image/decode/decode_here.h"
#include "saccade/image/decode/jpeg.h"
#include "saccade/image/decode/jpeg_scans.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/decode/svg_content.h"
#include "saccade/image/decode/svg_size.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/decode/vips_support.h"
#include "saccade/image/icc_profile.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"

namespace saccade {
namespace {

// The loaders that may run, by the beginnings of their class names.
constexpr std::array<const char*, 7> kLoaders = {
    "VipsForeignLoadJpeg", "VipsForeignLoadPng",  "VipsForeignLoadWebp", "VipsForeignLoadNsgif",
    "VipsForeignLoadTiff", "VipsForeignLoadHeif", "VipsForeignLoadSvg"};

}  // namespace

SACCADE_VIPS_FUNCTIONS(SACCADE_LATE_DEFINE)

std::optional<std::filesystem::path> bundled_vips() {
  return bundled_libraries(SACCADE_VIPS_FILE);
}

namespace {

// Starts libvips. One that was installed together with Saccade looks for its modules beside itself: those of the system
// are another build's. Returns false on failure.
//
// vips_init() takes the folder from the environment alone, and adds the variable itself if it is missing. Every start of
// libvips thus changes the environment. A thread that reads it in this instant may fail, unless the C library guards
// against that (glibc does from 2.41 on). The value that was there is put back: another libvips in this process, as that
// of pyvips, would take our modules for its own. Decoder processes (decoder_pool.h) start libvips before they have threads.
bool initialize_vips() {
  const auto bundled = bundled_vips();
  if (!bundled) return VIPS_INIT("saccade") == 0;
  constexpr const char* kHome = "VIPSHOME";
  const char* value = std::getenv(kHome);
  const std::optional<std::string> before =
      value == nullptr ? std::nullopt : std::optional<std::string>(value);
  ::setenv(kHome, bundled->c_str(), 1);
  const bool started = VIPS_INIT("saccade") == 0;
  if (before) {
    ::setenv(kHome, before->c_str(), 1);
  } else {
    ::unsetenv(kHome);
  }
  return started;
}

}  // namespace

std::string start_vips() {
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] {
    LateLibrary library(SACCADE_VIPS_FILE);
#define SACCADE_BIND(name) library.bind(name, #name);
    SACCADE_VIPS_FUNCTIONS(SACCADE_BIND)
#undef SACCADE_BIND
    if (!library.failure().empty()) {
      failure = "libvips does not load: " + library.failure();
      return;
    }
    if (!initialize_vips()) {
      failure = "libvips does not start: " + take_vips_error();
      return;
    }
    vips_concurrency_set(1);
    vips_cache_set_max(0);
    vips_cache_set_max_mem(0);
    vips_operation_block_set("VipsForeignLoad", TRUE);
    for (const char* loader : kLoaders) vips_operation_block_set(loader, FALSE);
    // Messages of a decoder about a file are returned as errors or suppressed.
    const auto silent = [](const gchar*, GLogLevelFlags, const gchar*, gpointer) {};
    constexpr auto kQuiet =
        static_cast<GLogLevelFlags>(G_LOG_LEVEL_WARNING | G_LOG_LEVEL_MESSAGE | G_LOG_LEVEL_INFO);
    g_log_set_handler("VIPS", kQuiet, silent, nullptr);
    // libvips hands on an SVG's absurd size as a property out of range, and GObject would say so on stderr.
    g_log_set_handler("GLib-GObject", kQuiet, silent, nullptr);
  });
  return failure;
}

std::string take_vips_error() {
  constexpr size_t kMost = 300;
  char* buffer = vips_error_buffer_copy();  // copied and cleared under libvips' own lock
  std::string text;
  for (const char* c = buffer; c != nullptr && *c != '\0' && text.size() < kMost; ++c) {
    if (*c != '\n') {
      text.push_back(static_cast<unsigned char>(*c) < ' ' ? ' ' : *c);
    } else if (c[1] != '\0') {
      text.append("; ");
    }
  }
  g_free(buffer);
  return text;
}

namespace {

// Maximum number of scans of a JPEG. A typical progressive image has ten. Each scan is a pass over all
// blocks, and takes at least a dozen bytes. libjpeg-turbo's own fuzzers stop there too.
constexpr int64_t kMostScans = 500;
// Drawings that a drawing may lie in: each is drawn, and in it those within it.
constexpr int kMostNested = 3;

struct RegionUnref {
  void operator()(VipsRegion* region) const { g_object_unref(region); }
};
using RegionHandle = std::unique_ptr<VipsRegion, RegionUnref>;

bool starts_with(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() &&
         std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

// Returns the error for bytes that no loader accepts. It describes what they look like, to help the user.
tl::unexpected<Error> not_an_image(std::span<const std::byte> bytes) {
  struct Kind {
    size_t offset;
    std::string_view magic;
    std::string_view name;
  };
  static constexpr std::array<Kind, 12> kKinds = {
      {{0, "%PDF", "a PDF document"},
       {0, "8BPS", "a Photoshop document"},
       {0, "\xff\x0a", "a JPEG XL image"},
       {4, "JXL ", "a JPEG XL image"},
       {4, "jP  ", "a JPEG 2000 image"},
       {4, "ftypavi", "an AVIF image, which this libvips cannot read"},
       {4, "ftyphei", "a HEIF image, which this libvips cannot read"},
       {4, "ftypmif1", "a HEIF image, which this libvips cannot read"},
       {4, "ftyp", "a video"},
       {0, "PK\x03\x04", "a ZIP archive"},
       {0, "\x1f\x8b", "a gzip file"},
       {0, "<!DOCTYPE html", "a web page"}}};
  for (const Kind& kind : kKinds) {
    if (starts_with(bytes, kind.offset, kind.magic)) {
      return fail(ErrorCode::kUnsupported, "not an image in a format known here: it looks like {}",
                  kind.name);
    }
  }
  return fail(ErrorCode::kUnsupported, "not an image in a format known here");
}

tl::unexpected<Error> broken(std::string_view format) {
  const std::string text = take_vips_error();
  // libheif's words for a codec that it was built without.
  const bool unsupported = text.find("Unsupported codec") != std::string::npos ||
                           text.find("Unsupported feature") != std::string::npos;
  // The system refused memory: nothing is wrong with the file.
  const ErrorCode code = speaks_of_memory(text) ? ErrorCode::kIo
                         : unsupported          ? ErrorCode::kUnsupported
                                                : ErrorCode::kBadData;
  // A feature of the format that the library lacks is no damage.
  if (code != ErrorCode::kBadData || text.find("upport") != std::string::npos) {
    return fail(code, "{}: {}", format, text);
  }
  return fail(code, "{}: broken or cut off{}", format, text.empty() ? "" : fmt::format(" ({})", text));
}

// "jpegload_buffer" -> "jpeg"
std::string format_of(std::string_view loader) {
  const std::string name(loader.substr(0, loader.find("load")));
  return name;
}

// Returns true if an image of that size is to be returned without its pixels.
bool size_only(const DecodeOptions& options, int64_t width, int64_t height) {
  return options.size_only_above > 0 && height > options.size_only_above / width;
}

// Returns the destination of `bytes` of pixels: `pixels`, or the caller's buffer.
Result<uint8_t*> room_for(size_t bytes, const DecodeHere& here, std::vector<uint8_t>& pixels) {
  if (!here.room) {
    pixels.resize(bytes);
    return pixels.data();
  }
  uint8_t* room = here.room(bytes);
  if (room == nullptr) return fail(ErrorCode::kIo, "not enough memory for its pixels");
  return room;
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const DecodeOptions& options, const DecodeHere& here, int nested)
      : bytes_(bytes), options_(options), here_(here), nested_(nested) {}

  Result<DecodedImage> run() {
    SACCADE_TRY(open());
    SACCADE_TRY(deadline_.check());
    SACCADE_TRY(choose_size());
    SACCADE_TRY(to_bytes());
    SACCADE_TRY(read_pixels());
    return std::move(result_);
  }

 private:
  template <typename... Options>
  VipsHandle load(Options... options) {
    // Truncated files fail: a photograph that is half grey would be found by what it does not show.
    return VipsHandle(vips_image_new_from_buffer(bytes_.data(), bytes_.size(), "", "access",
                                                 VIPS_ACCESS_SEQUENTIAL, "fail_on", VIPS_FAIL_ON_ERROR,
                                                 options..., nullptr));
  }

  Status open() {
    const char* loader = vips_foreign_find_load_buffer(bytes_.data(), bytes_.size());
    // Blocked loaders are found all the same; they only refuse to run.
    const auto is_loader = [&](const char* known) { return g_str_has_prefix(loader, known) != 0; };
    if (loader == nullptr || std::ranges::none_of(kLoaders, is_loader)) {
      vips_error_clear();
      return not_an_image(bytes_);
    }
    if (g_str_has_prefix(loader, "VipsForeignLoadSvg") != 0) {
      result_.format = "svg";
      SACCADE_TRY(prepare_svg());
      return open_svg();
    }
    if (g_str_has_prefix(loader, "VipsForeignLoadJpeg") != 0) SACCADE_TRY(check_scans());
    // Some is taken for the header already, for tables of where what lies.
    SACCADE_TRY(claim({static_cast<int64_t>(bytes_.size()) / 4, 0}));
    // libheif ends the process over some that have been cut off (an assertion of version 1.19).
    if (g_str_has_prefix(loader, "VipsForeignLoadHeif") != 0 && !here_.in_own_process) {
      return fail(ErrorCode::kIo, "a HEIC or AVIF image, which is decoded by saccade-decode alone");
    }
    image_ = load();
    if (!image_) return broken("image header");
    const char* name = "";
    if (vips_image_get_string(image_.get(), VIPS_META_LOADER, &name) != 0) vips_error_clear();
    result_.format = format_of(name);
    if (result_.format == "heif" && text_field("heif-compression") == "av1") result_.format = "avif";
    orientation_ = vips_image_get_orientation(image_.get());
    remember_header();
    stored_width_ = vips_image_get_width(image_.get());
    stored_height_ = vips_image_get_height(image_.get());
    return check_pixels(stored_width_, stored_height_);
  }

  // Each scan of a JPEG costs a walk over all its blocks, however few its bytes.
  [[nodiscard]] Status check_scans() {
    const int64_t scans = jpeg_scans(bytes_);
    header_.interlaced = scans > 1;
    if (scans > kMostScans) return fail(ErrorCode::kLimit, "jpeg: {} scans, limit {}", scans, kMostScans);
    return {};
  }

  // Facts on which the memory for decoding depends, before anything is converted.
  void remember_header() {
    header_.format = result_.format;
    header_.width = vips_image_get_width(image_.get());
    header_.height = vips_image_get_height(image_.get());
    header_.bands = vips_image_get_bands(image_.get());
    header_.sample_bytes = vips_image_get_format(image_.get()) == VIPS_FORMAT_UCHAR ? 1 : 2;
    constexpr size_t kInterlace = 28;  // of IHDR, which is always first
    if (result_.format == "png" && bytes_.size() > kInterlace) {
      header_.interlaced = std::to_integer<int>(bytes_[kInterlace]) != 0;
    }
  }

  [[nodiscard]] Status claim(const DecodeNeed& need) const {
    const bool known = header_.width > 0;
    return claim_memory(here_, need, known ? describe(header_) : fmt::format("{} bytes", bytes_.size()));
  }

  void take_svg(std::string text) {
    svg_ = std::move(text);
    bytes_ = std::as_bytes(std::span(svg_));
  }

  [[nodiscard]] std::string_view svg_text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Decompresses a packed document, checks its embedded images, and converts its size to pixels.
  Status prepare_svg() {
    if (nested_ > kMostNested)
      return fail(ErrorCode::kLimit, "svg: drawings within drawings, {} deep", nested_);
    if (starts_with(bytes_, 0, "\x1f\x8b")) {
      SACCADE_ASSIGN(std::string text, unpack_gzip(bytes_, options_.max_bytes));
      take_svg(std::move(text));
    }
    SACCADE_TRY(check_pictures_within(svg_text()));
    if (auto resized = svg_with_pixel_size(svg_text())) take_svg(*std::move(resized));
    return {};
  }

  // Decodes each embedded image first, within the limits for all together; one that fails fails the file.
  // librsvg reads embedded images of any format and size. It silently omits those that it cannot read or has
  // no memory for, so the drawing would be incomplete. Every librsvg reads PNG, JPEG and GIF.
  Status check_pictures_within(std::string_view svg) {
    SACCADE_ASSIGN(const std::vector<std::string> pictures, pictures_within(svg));
    int64_t pixels = 0;
    for (const std::string& picture : pictures) {
      DecodeOptions options = options_;
      options.max_pixels -= pixels;
      options.shrink_to_side = 0;
      options.size_only_above = 0;
      SACCADE_TRY(deadline_.check());
      SACCADE_ASSIGN(const int64_t more, pixels_within(std::as_bytes(std::span(picture)), options));
      pixels += more;
    }
    // 4 bytes a pixel as read, 4 as drawn, and one more copy: whether there is memory shows now, or never.
    within_bytes_ = 12 * pixels;
    SACCADE_TRY(claim({svg_bytes(), 0}));
    if (pixels > 0) ::operator delete(::operator new(static_cast<size_t>(within_bytes_)));
    return {};
  }

  // Working memory for the document and the images within it: elements take many times their text.
  [[nodiscard]] int64_t svg_bytes() const {
    constexpr int64_t kTextTimes = 16;
    return kTextTimes * static_cast<int64_t>(svg_text().size()) + within_bytes_;
  }

  // Returns the number of pixels of an image embedded in this document, once it has been decoded. An embedded
  // document counts with its own number.
  Result<int64_t> pixels_within(std::span<const std::byte> picture, const DecodeOptions& options) {
    constexpr std::string_view kWithin = "svg: an image within it";
    if (picture.empty()) return fail(ErrorCode::kBadData, "{} is empty", kWithin);
    if (options.max_pixels < 1) {
      return fail(ErrorCode::kLimit, "{}: all together have more than {} pixels", kWithin,
                  options_.max_pixels);
    }
    DecodeHere inner{.room = {}, .in_own_process = here_.in_own_process};
    if (here_.claim) {
      inner.claim = [this](const DecodeNeed& need, const std::string& what) {
        return here_.claim({need.working + need.output, 0}, what);
      };
    }
    auto decoded = Decoder(picture, options, inner, nested_ + 1).run();
    if (!decoded) return fail(decoded.error().in(kWithin));
    const std::string& format = decoded->format;
    if (format != "png" && format != "jpeg" && format != "gif" && format != "svg") {
      return fail(ErrorCode::kUnsupported, "{} is {}, known there are PNG, JPEG, GIF and SVG", kWithin,
                  format);
    }
    return int64_t{decoded->image.width} * decoded->image.height;
  }

  // libvips rounds a vector picture's own size to whole pixels, so a tiny one is scaled in two steps.
  Status open_svg() {
    image_ = load();
    double scale = 1;
    if (!image_) {  // too large to be an image at its own size, maybe not at a thousandth of it
      const std::string text = take_vips_error();
      scale = 0.001;
      image_ = load("scale", scale);
      if (!image_) {
        vips_error_clear();
        return fail(ErrorCode::kBadData, "svg: {}", text.empty() ? "broken or cut off" : text);
      }
    }
    stored_width_ = static_cast<int>(std::min(vips_image_get_width(image_.get()) / scale, 2e9));
    stored_height_ = static_cast<int>(std::min(vips_image_get_height(image_.get()) / scale, 2e9));
    for (int attempt = 0; attempt < 4; ++attempt) {
      const int width = vips_image_get_width(image_.get());
      const int height = vips_image_get_height(image_.get());
      const int side = std::min(width, height);
      if (side == options_.vector_side && attempt > 0) break;
      scale = std::clamp(scale * options_.vector_side / side, 0.001, 100'000.0);
      const double longer = static_cast<double>(std::max(width, height)) * options_.vector_side / side;
      SACCADE_TRY(check_pixels(static_cast<int64_t>(longer), options_.vector_side));
      image_ = load("scale", scale);
      if (!image_) return broken("svg");
    }
    SACCADE_TRY(check_pixels(vips_image_get_width(image_.get()), vips_image_get_height(image_.get())));
    remember_header();
    return check_drawing_time(scale);
  }

  // Estimates the drawing time. Nothing in this process can stop librsvg inside one drawing, and layers
  // (filters, masks, transparent groups) can take any time. So such images are drawn at a sixteenth of the
  // scale first, at an eighth, and so on. Drawing is given up once the growth of the time predicts that the
  // whole would be too late. Costs at most a third of the time of the whole.
  [[nodiscard]] Status check_drawing_time(double scale) {
    constexpr std::array<std::string_view, 5> kSlow = {"filter", "opacity", "mask", "blend", "pattern"};
    const auto in_text = [&](std::string_view word) {
      return svg_text().find(word) != std::string_view::npos;
    };
    if (here_.in_own_process || options_.max_seconds <= 0 || std::ranges::none_of(kSlow, in_text)) return {};
    double before = 0;
    for (int shrink = 16; shrink > 1; shrink /= 2) {
      const VipsHandle small = load("scale", scale / shrink);
      const double start = thread_seconds();
      if (!small ||
          !prepared(small.get())) {  // too small to be an image; what is broken is said of the whole
        vips_error_clear();
        continue;
      }
      const double seconds = thread_seconds() - start;
      // Twice the side has four times the pixels, and a filter may look at an area of neighbours for each;
      // what any drawing costs, however small, does not grow.
      const double growth = before > 0 ? std::clamp(seconds / before, 1.0, 16.0) : 1.0;
      const double whole = seconds * std::pow(growth, std::log2(shrink));
      if (whole > options_.max_seconds) {
        return fail(ErrorCode::kLimit, "it would take about {:.2g} seconds to draw, limit {}", whole,
                    options_.max_seconds);
      }
      before = seconds;
    }
    return {};
  }

  // Computes all pixels of a picture in this thread, and forgets them.
  static bool prepared(VipsImage* image) {
    const RegionHandle region(vips_region_new(image));
    const VipsRect all = {0, 0, vips_image_get_width(image), vips_image_get_height(image)};
    return vips_region_prepare(region.get(), &all) == 0;
  }

  [[nodiscard]] Status check_pixels(int64_t width, int64_t height) const {
    if (width <= 0 || height <= 0) return fail(ErrorCode::kBadData, "size {} x {}", width, height);
    if (height > options_.max_pixels / width) {
      return fail(ErrorCode::kLimit, "{} x {} pixels; the limit is {} pixels", width, height,
                  options_.max_pixels);
    }
    return {};
  }

  // Chooses a smaller size for a JPEG, if requested. Opens it again at that size, unless libjpeg decodes it.
  // libwebp's own scaling is not used: of stripes ten pixels wide, its halves are 8 levels off (root mean square).
  Status choose_size() {
    if (options_.shrink_to_side <= 0 || result_.format != "jpeg") return {};
    const int side = std::min(stored_width_, stored_height_);
    int shrink = 8;
    while (shrink > 1 && side / shrink < options_.shrink_to_side) shrink /= 2;
    if (shrink == 1) return {};
    shrink_ = shrink;
    if (!from_libjpeg()) image_ = load("shrink", shrink);
    if (!image_) return broken(result_.format);
    result_.shrunk = {stored_width_,
                      stored_height_,
                      0,
                      0,
                      static_cast<double>(stored_width_) / shrink,
                      static_cast<double>(stored_height_) / shrink};
    return {};
  }

  // Returns true if libjpeg gives the pixels of this JPEG (jpeg.h): grey or RGB, not to be converted. libvips
  // gives those of the others.
  [[nodiscard]] bool from_libjpeg() const {
    return result_.format == "jpeg" && vips_image_get_bands(image_.get()) <= 3 && !converted_ &&
           (shrink_ == 1 || !options_.convert_to_srgb);
  }

  // 8 bits a channel in 1 to 4 channels, except CMYK, which read_pixels converts.
  Status to_bytes() {
    VipsImage* next = nullptr;
    if (options_.convert_to_srgb) convert_profile();
    const VipsInterpretation meaning = vips_image_get_interpretation(image_.get());
    if (meaning == VIPS_INTERPRETATION_LAB || meaning == VIPS_INTERPRETATION_LABS ||
        meaning == VIPS_INTERPRETATION_XYZ) {
      if (vips_colourspace(image_.get(), &next, VIPS_INTERPRETATION_sRGB, nullptr) != 0)
        return broken(result_.format);
      image_.reset(next);
    }
    const VipsBandFormat format = vips_image_get_format(image_.get());
    if (format == VIPS_FORMAT_USHORT) {
      // The upper byte, as Pillow takes it.
      if (vips_cast(image_.get(), &next, VIPS_FORMAT_UCHAR, "shift", TRUE, nullptr) != 0)
        return broken(result_.format);
      image_.reset(next);
    } else if (format != VIPS_FORMAT_UCHAR) {
      return fail(ErrorCode::kUnsupported, "{}: samples of kind {}, known are 8 and 16 bits unsigned",
                  result_.format, vips_enum_nick(VIPS_TYPE_BAND_FORMAT, format));
    }
    const int bands = vips_image_get_bands(image_.get());
    cmyk_ = meaning == VIPS_INTERPRETATION_CMYK && bands >= 4;
    if (bands > (cmyk_ ? 5 : 4)) {
      return fail(ErrorCode::kUnsupported, "{}: {} channels, known are 1 to 4", result_.format, bands);
    }
    return {};
  }

  // Converts the colors to sRGB if the file has a profile of another color space. Without libvips' support for
  // profiles, and for one that is broken or of another kind of samples, the numbers stay as they are.
  void convert_profile() {
    const void* profile = nullptr;
    size_t size = 0;
    if (vips_image_get_typeof(image_.get(), VIPS_META_ICC_NAME) == 0 ||
        vips_image_get_blob(image_.get(), VIPS_META_ICC_NAME, &profile, &size) != 0) {
      vips_error_clear();
      return;
    }
    if (is_srgb_profile({static_cast<const std::byte*>(profile), size})) return;
    VipsImage* next = nullptr;
    if (vips_icc_transform(image_.get(), &next, "srgb", "embedded", TRUE, "depth", 8, nullptr) != 0) {
      vips_error_clear();
      return;
    }
    image_.reset(next);
    converted_ = true;
  }

  Status read_pixels() {
    Image& out = result_.image;
    out.width = vips_image_get_width(image_.get());
    out.height = vips_image_get_height(image_.get());
    const bool from_jpeg = from_libjpeg();
    if (from_jpeg) {
      out.width = (out.width + shrink_ - 1) / shrink_;
      out.height = (out.height + shrink_ - 1) / shrink_;
    }
    const auto bands = static_cast<size_t>(vips_image_get_bands(image_.get()));
    out.channels = cmyk_ ? 3 : static_cast<int>(bands);
    out.mode = mode(out.channels);
    const bool turned = options_.apply_orientation && orientation_ >= 5;
    result_.original_width = turned ? stored_height_ : stored_width_;
    result_.original_height = turned ? stored_width_ : stored_height_;

    const bool has_turn = options_.apply_orientation && orientation_ > 1;
    if (has_turn && result_.shrunk) turn(result_.shrunk, out.width, out.height);
    if (size_only(options_, out.width, out.height)) {
      if (turned) std::swap(out.width, out.height);
      return {};
    }
    const auto width = static_cast<size_t>(out.width);
    const size_t out_stride = width * static_cast<size_t>(out.channels);
    const size_t size = out_stride * static_cast<size_t>(out.height);
    const int64_t turning = has_turn ? static_cast<int64_t>(size) : 0;
    const int64_t document = result_.format == "svg" ? svg_bytes() : 0;
    SACCADE_TRY(claim({working_bytes(header_) + document + turning, static_cast<int64_t>(size)}));
    std::vector<uint8_t> stored;  // before they are turned
    uint8_t* to = nullptr;
    if (has_turn) {
      stored.resize(size);
      to = stored.data();
    } else {
      SACCADE_ASSIGN(to, room_for(size, here_, out.pixels));
    }
    if (from_jpeg) {
      SACCADE_TRY(read_jpeg(bytes_, {out.width, out.height, out.channels, shrink_}, deadline_, to));
      return has_turn ? orient(stored) : Status();
    }
    const RegionHandle region(vips_region_new(image_.get()));
    constexpr int kStrip = 64;
    for (int top = 0; top < out.height; top += kStrip) {
      const VipsRect strip = {0, top, out.width, std::min(kStrip, out.height - top)};
      if (vips_region_prepare(region.get(), &strip) != 0) return broken(result_.format);
      for (int y = top; y < top + strip.height; ++y, to += out_stride) {
        const uint8_t* from = VIPS_REGION_ADDR(region.get(), 0, y);
        if (cmyk_) {
          cmyk_row(from, bands, width, to);
        } else {
          std::memcpy(to, from, out_stride);
        }
      }
      SACCADE_TRY(deadline_.check());
    }
    return has_turn ? orient(stored) : Status();
  }

  // Pillow's conversion, which knows no profile.
  static void cmyk_row(const uint8_t* from, size_t bands, size_t width, uint8_t* to) {
    for (size_t x = 0; x < width; ++x, from += bands) {
      const int white = 255 - from[3];
      for (size_t c = 0; c < 3; ++c) {
        const int product = from[c] * white + 128;
        *to++ = static_cast<uint8_t>(std::max(white - ((product + (product >> 8)) >> 8), 0));
      }
    }
  }

  [[nodiscard]] PixelMode mode(int channels) const {
    if (result_.format == "png" && bytes_.size() > 25) {
      // IHDR is always first: bit depth at byte 24, colour type at 25.
      const auto depth = std::to_integer<int>(bytes_[24]);
      const auto colour = std::to_integer<int>(bytes_[25]);
      if (colour == 3) return PixelMode::kPalette;
      if (colour == 0 && depth == 1 && channels == 1) return PixelMode::kBilevel;
    }
    if (result_.format == "gif") return PixelMode::kPalette;
    if (result_.format == "tiff" && vips_image_get_typeof(image_.get(), "palette-bit-depth") != 0) {
      return PixelMode::kPalette;
    }
    switch (channels) {
      case 1:
        return PixelMode::kGrey;
      case 2:
        return PixelMode::kGreyAlpha;
      case 3:
        return PixelMode::kRgb;
      default:
        return PixelMode::kRgba;
    }
  }

  [[nodiscard]] std::string text_field(const char* name) const {
    const char* text = "";
    if (vips_image_get_typeof(image_.get(), name) == 0 ||
        vips_image_get_string(image_.get(), name, &text) != 0) {
      vips_error_clear();
      return "";
    }
    return text;
  }

  // Orientations whose first column, and whose first row, was the last of its axis.
  [[nodiscard]] bool from_right() const {
    return orientation_ == 2 || orientation_ == 3 || orientation_ == 7 || orientation_ == 8;
  }
  [[nodiscard]] bool from_bottom() const {
    return orientation_ == 3 || orientation_ == 4 || orientation_ == 6 || orientation_ == 7;
  }

  // Turns the place of the whole image as the pixels are turned. `width` and `height` are those before.
  void turn(ShrunkFrom& shrunk, int width, int height) const {
    if (from_right()) shrunk.left = width - shrunk.left - shrunk.across;
    if (from_bottom()) shrunk.top = height - shrunk.top - shrunk.down;
    if (orientation_ < 5) return;
    std::swap(shrunk.width, shrunk.height);
    std::swap(shrunk.left, shrunk.top);
    std::swap(shrunk.across, shrunk.down);
  }

  // EXIF orientations 2 to 8: mirrored where the determinant of the turn is negative.
  Status orient(const std::vector<uint8_t>& stored) {
    Image& image = result_.image;
    const int width = image.width;
    const int height = image.height;
    const bool swap = orientation_ >= 5;
    if (swap) std::swap(image.width, image.height);
    const auto channels = static_cast<size_t>(image.channels);
    SACCADE_ASSIGN(uint8_t * to, room_for(stored.size(), here_, image.pixels));
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x, to += channels) {
        int from_x = swap ? y : x;
        int from_y = swap ? x : y;
        if (from_right()) from_x = width - 1 - from_x;
        if (from_bottom()) from_y = height - 1 - from_y;
        const size_t at =
            static_cast<size_t>(from_y) * static_cast<size_t>(width) + static_cast<size_t>(from_x);
        std::memcpy(to, stored.data() + at * channels, channels);
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::string svg_;  // what bytes_ is of, for documents unpacked or of another size
  const DecodeOptions& options_;
  const DecodeHere& here_;
  int nested_;  // how many documents this lies in
  Deadline deadline_{options_.max_seconds};
  VipsHandle image_;
  DecodedImage result_;
  DecodeHeader header_;
  int64_t within_bytes_ = 0;  // working memory for the images within a document
  int orientation_ = 1;
  int shrink_ = 1;          // pixels of a JPEG that one of the image stands for, each way
  bool converted_ = false;  // from the colours of its profile
  int stored_width_ = 0;
  int stored_height_ = 0;
  bool cmyk_ = false;
};

}  // namespace

Status check_decode_input(std::span<const std::byte> bytes, const DecodeOptions& options) {
  if (options.vector_side < 1)
    return fail(ErrorCode::kUsage, "vector_side of {}, at least 1", options.vector_side);
  if (bytes.empty()) return fail(ErrorCode::kBadData, "empty file");
  if (static_cast<int64_t>(bytes.size()) > options.max_bytes) {
    return fail(ErrorCode::kLimit, "{} bytes, limit {}", bytes.size(), options.max_bytes);
  }
  return {};
}

bool speaks_of_memory(std::string_view text) {
  // GLib, Rust, libvips, libpng; librsvg by cairo; libjpeg.
  constexpr std::array<std::string_view, 6> kWords = {
      "allocat", "of memory", "enough memory", "nsufficient memory", "NoMemory", "bad_alloc"};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

Status claim_memory(const DecodeHere& here, const DecodeNeed& need, const std::string& what) {
  return here.claim ? here.claim(need, what) : Status();
}

Status hand_over(Image& image, const DecodeOptions& options, const DecodeHere& here) {
  if (size_only(options, image.width, image.height)) {
    image.pixels.clear();
  } else if (here.room) {
    const auto bytes = static_cast<int64_t>(image.pixels.size());
    SACCADE_TRY(
        claim_memory(here, {2 * bytes, bytes}, fmt::format("{} x {} pixels", image.width, image.height)));
    SACCADE_ASSIGN(uint8_t * room, room_for(image.pixels.size(), here, image.pixels));
    std::memcpy(room, image.pixels.data(), image.pixels.size());
    image.pixels.clear();
  }
  return {};
}

Result<DecodedImage> decode_here(std::span<const std::byte> bytes, const DecodeOptions& options,
                                 const DecodeHere& here) {
  try {
    if (is_bmp(bytes)) {
      const Deadline deadline(options.max_seconds);
      SACCADE_ASSIGN(BmpSize size, bmp_size(bytes, options.max_pixels));
      DecodedImage result{Image{size.width, size.height, 3, PixelMode::kRgb, {}}, "bmp", size.width,
                          size.height};
      if (size_only(options, size.width, size.height)) return result;
      const DecodeHeader header{"bmp", size.width, size.height, 3};
      SACCADE_TRY(claim_memory(here, {working_bytes(header), int64_t{3} * size.width * size.height},
                               describe(header)));
      SACCADE_ASSIGN(result.image, decode_bmp(bytes, options.max_pixels, deadline));
      SACCADE_TRY(hand_over(result.image, options, here));
      return result;
    }
    if (is_raw(bytes)) return decode_raw(bytes, options, here);
    const std::string failure = start_vips();
    if (!failure.empty()) return fail(ErrorCode::kInternal, "{}", failure);
    return Decoder(bytes, options, here, 0).run();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kIo, "not enough memory for its pixels");
  }
}

Result<DecodedImage> decode_image(std::span<const std::byte> bytes, const DecodeOptions& options) {
  if (options.processes != nullptr) return options.processes->decode(bytes, options);
  SACCADE_TRY(check_decode_input(bytes, options));
  return decode_here(bytes, options);
}

Status decode_for(std::span<const std::byte> bytes, const DecodeOptions& options, const UsePicture& use) {
  if (options.processes != nullptr) return options.processes->decode_for(bytes, options, use);
  SACCADE_TRY(check_decode_input(bytes, options));
  SACCADE_ASSIGN(DecodedImage decoded, decode_here(bytes, options));
  return use(
      {ImageView(decoded), std::move(decoded.format), decoded.original_width, decoded.original_height});
}

Result<DecodedImage> decode_image_file(const std::filesystem::path& path, const DecodeOptions& options) {
  SACCADE_ASSIGN(const std::string content, read_picture_file(path, options));
  return decode_image(std::as_bytes(std::span(content)), options).in(path.string());
}

bool has_image_extension(const std::filesystem::path& path) {
  static constexpr std::array<std::string_view, 17> kEndings = {
      ".jpg", ".jpeg", ".jpe",  ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff",
      ".bmp", ".dib",  ".heic", ".heif", ".hif", ".avif", ".svg", ".svgz"};
  if (has_raw_extension(path)) return reads_raw_files();
  const std::string ending = lower_ascii(path.extension().string());
  for (const std::string_view known : kEndings) {
    if (ending == known) return true;
  }
  return false;
}

}  // namespace saccade

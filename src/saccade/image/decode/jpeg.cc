#include "saccade/image/decode/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it first
#include <jerror.h>
#include <jpeglib.h>
#include <memory>

namespace saccade {
namespace {

// Error manager of libjpeg. libjpeg can abort only by a jump.
struct Reporter {
  jpeg_error_mgr base;  // first: libjpeg knows this part alone
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> text;
  int code;
};

void give_up(j_common_ptr info) {
  auto* reporter = reinterpret_cast<Reporter*>(info->err);
  reporter->code = info->err->msg_code;
  info->err->format_message(info, reporter->text.data());
  std::longjmp(reporter->back, 1);
}

// The whole file is there from the beginning: more is asked for where it has been cut off.
boolean end_of_file(j_decompress_ptr info) {
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}

// One decoder with its state. Nothing here has a destructor that a jump could leave out.
struct Reading {
  jpeg_decompress_struct info;
  Reporter reporter;

  bool begin(std::span<const std::byte> bytes, int shrink) {
    info.err = jpeg_std_error(&reporter.base);
    reporter.base.error_exit = give_up;
    reporter.base.output_message = [](j_common_ptr) {};
    if (setjmp(reporter.back) != 0) return false;
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    info.src->fill_input_buffer = end_of_file;
    (void)jpeg_read_header(&info, TRUE);
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(shrink);
    (void)jpeg_start_decompress(&info);
    return true;
  }

  // The next rows, up to number `end`.
  bool read_rows(unsigned end, size_t stride, uint8_t* out) {
    if (setjmp(reporter.back) != 0) return false;
    while (info.output_scanline < end) {
      constexpr unsigned kRows = 16;
      std::array<uint8_t*, kRows> rows;
      const unsigned count = std::min(kRows, end - info.output_scanline);
      for (unsigned i = 0; i < count; ++i) rows[i] = out + (info.output_scanline + i) * stride;
      (void)jpeg_read_scanlines(&info, rows.data(), count);
    }
    return true;
  }
};

}  // namespace

Status read_jpeg(std::span<const std::byte> bytes, const JpegShape& shape, const Deadline& deadline,
                 uint8_t* out) {
  Reading reading{};
  struct Destroy {
    void operator()(Reading* each) const { jpeg_destroy_decompress(&each->info); }
  };
  const std::unique_ptr<Reading, Destroy> destroyed(&reading);
  const auto broken = [&]() -> Status {
    const char* const text = reading.reporter.text.data();
    if (reading.reporter.code == JERR_OUT_OF_MEMORY) return fail(ErrorCode::kIo, "jpeg: {}", text);
    return fail(ErrorCode::kBadData, "jpeg: broken or cut off ({})", text);
  };
  if (!reading.begin(bytes, shape.shrink)) return broken();
  const jpeg_decompress_struct& info = reading.info;
  if (info.output_width != static_cast<JDIMENSION>(shape.width) ||
      info.output_height != static_cast<JDIMENSION>(shape.height) ||
      info.output_components != shape.channels) {
    return fail(ErrorCode::kBadData, "jpeg: {} x {} pixels of {} channels, announced {} x {} of {}",
                info.output_width, info.output_height, info.output_components, shape.width, shape.height,
                shape.channels);
  }
  const size_t stride = static_cast<size_t>(shape.width) * static_cast<size_t>(shape.channels);
  constexpr int kStrip = 64;
  for (int top = 0; top < shape.height; top += kStrip) {
    SACCADE_TRY(deadline.check());
    const auto end = static_cast<unsigned>(std::min(top + kStrip, shape.height));
    if (!reading.read_rows(end, stride, out)) return broken();
  }
  return deadline.check();
}

}  // namespace saccade

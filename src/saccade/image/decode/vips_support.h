// Shared libvips support of the decoder and the encoders.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <vips/vips.h>

#include "saccade/core/process/late_library.h"

// Functions of libvips that are used. start_vips() loads it, and must be called before any of them.
// clang-format off
#define SACCADE_VIPS_FUNCTIONS(use)                                                                      \
  use(vips_area_unref) use(vips_array_double_new) use(vips_band_format_get_type) use(vips_cache_set_max) \
  use(vips_cache_set_max_mem) use(vips_cast) use(vips_colourspace) use(vips_concurrency_set)             \
  use(vips_copy) use(vips_enum_nick) use(vips_error) use(vips_error_buffer_copy) use(vips_error_clear)   \
  use(vips_foreign_find_load_buffer) use(vips_format_sizeof_unsafe) use(vips_icc_transform)              \
  use(vips_image_get_bands) use(vips_image_get_blob)                                                     \
  use(vips_image_get_format) use(vips_image_get_height) use(vips_image_get_interpretation)               \
  use(vips_image_get_orientation) use(vips_image_get_string) use(vips_image_get_typeof)                  \
  use(vips_image_get_width) use(vips_image_new_from_buffer) use(vips_image_new_from_memory)              \
  use(vips_init) use(vips_jpegsave_buffer) use(vips_operation_block_set) use(vips_pngsave_buffer)        \
  use(vips_region_new) use(vips_region_prepare) use(vips_version) use(vips_webpsave_buffer)
// clang-format on

namespace saccade {

SACCADE_VIPS_FUNCTIONS(SACCADE_LATE_DECLARE)

struct VipsUnref {
  void operator()(VipsImage* image) const { g_object_unref(image); }
};
using VipsHandle = std::unique_ptr<VipsImage, VipsUnref>;

// Loads and starts libvips once a process, or says why not (empty: ready). Thread-safe. It then runs without
// its own threads and caches, loads only the formats we name, and writes nothing to stderr.
std::string start_vips();

// Returns the folder of the libvips that was installed together with Saccade (bundled_libraries), `nullopt` for the system's.
std::optional<std::filesystem::path> bundled_vips();

// libvips' error text as one line, and cleared. It keeps one text a process, not one a thread: of two files
// that fail in the same instant, one may carry the other's words.
std::string take_vips_error();

}  // namespace saccade

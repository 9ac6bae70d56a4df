// What the decoder and the encoders share of libvips.
#pragma once

#include <memory>
#include <string>

#include <vips/vips.h>

namespace saccade {

struct VipsUnref {
  void operator()(VipsImage* image) const { g_object_unref(image); }
};
using VipsHandle = std::unique_ptr<VipsImage, VipsUnref>;

// Starts libvips once a process, or says why not (empty: ready). Thread-safe. It then runs without its own
// threads and caches, loads only the formats we name, and writes nothing to stderr.
std::string start_vips();

// libvips' error text as one line, and cleared. It keeps one text a process, not one a thread: of two files
// that fail in the same instant, one may carry the other's words.
std::string take_vips_error();

}  // namespace saccade

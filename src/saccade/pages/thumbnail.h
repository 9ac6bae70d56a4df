// Thumbnails embedded in pages.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

// Image in the form embedded in a page.
struct Thumbnail {
  std::string url;         // data: URL; empty if the image could not be read
  std::string background;  // class of its background: "", "light", "dark"
  std::string problem;     // why not, in words
};

// Makes a thumbnail of at most `side` pixels on the longer side: JPEG, or PNG if the image is transparent or
// tiny. Transparent ones get the background from choose_background. An unreadable image becomes a thumbnail
// with the reason. Thread-safe. Cost: one decoding.
Thumbnail file_thumbnail(const std::filesystem::path& path, int side, const DecodeOptions& limits);
// Makes that of an item's file; an item without one on this host becomes a thumbnail that says so.
Thumbnail item_thumbnail(const Item& item, int side, const DecodeOptions& limits);
// Makes a thumbnail from an image's bytes.
Thumbnail bytes_thumbnail(std::string_view bytes, int side, const DecodeOptions& limits);
// Returns the thumbnail of an image that could not be read: the problem, in words.
Thumbnail problem_thumbnail(const Error& error);

// Returns an <img> element, or the problem as text.
std::string picture_html(const Thumbnail& thumbnail, std::string_view alternative);

}  // namespace saccade

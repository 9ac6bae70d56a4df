// Small pictures inside pages.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/image/image.h"

namespace saccade {

// A picture as a page carries it.
struct Thumbnail {
  std::string url;         // data:; empty if the picture could not be read
  std::string background;  // class of what it stands on: "", "light", "dark"
  std::string problem;     // why not, in words
};

// At most `side` pixels on the longer side: JPEG, or PNG where the picture is transparent or tiny;
// transparent ones stand on the background choose_background finds for them. A picture that cannot be read
// any more is a thumbnail that says why. Thread-safe. Cost: one decoding.
Thumbnail file_thumbnail(const std::filesystem::path& path, int side, const DecodeOptions& limits);
// The same of a picture's bytes.
Thumbnail bytes_thumbnail(std::string_view bytes, int side, const DecodeOptions& limits);
// Returns the thumbnail of an image that could not be read: the problem, in words.
Thumbnail problem_thumbnail(const Error& error);

// <img>, or the problem in words.
std::string picture_html(const Thumbnail& thumbnail, std::string_view alternative);

}  // namespace saccade

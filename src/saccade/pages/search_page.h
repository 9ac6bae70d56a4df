// Self-contained HTML page of search results: embedded images, no scripts, light and dark themes.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/progress.h"
#include "saccade/search/search.h"

namespace saccade {

struct SearchPageOptions {
  std::string title = "Saccade";
  std::string about;               // a paragraph under the title; may be empty
  std::vector<std::string> notes;  // one beside each answer's query, empty for none; may be shorter
  std::string collection;          // its folder, for the head of the page
  std::string checkpoint;          // the name of the encoder behind it
  int64_t pictures = 0;            // in the collection
  // Largest longer side of thumbnails in pixels: twice the displayed size, for high-resolution screens.
  int thumbnail_side = 320;
  // Decoding limits of the images, which are read again from their files.
  DecodeOptions limits;
};

// Renders one section per query, in order. An unreadable image becomes a tile with the reason. Thumbnails are
// JPEG, or PNG for transparent images; those are shown on the background from choose_background. Cost: one
// decoding per hit, on all threads of the pool, and about 20 KB of page. `progress` is called by the pool's
// threads, one at a time.
Result<std::string> search_page(std::span<const SearchAnswer> answers, const SearchPageOptions& options,
                                ThreadPool& pool, const ProgressCallback& progress = {},
                                std::stop_token stop = {});

}  // namespace saccade

// Answers as one HTML page that needs nothing else: pictures inside, no scripts, readable in light and dark.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "saccade/image/image.h"
#include "saccade/search/search.h"

namespace saccade {

struct SearchPageOptions {
  std::string title = "Saccade";
  std::string about;               // a paragraph under the title; may be empty
  std::vector<std::string> notes;  // one beside each answer's query, empty for none; may be shorter
  std::string collection;          // its folder, for the head of the page
  std::string checkpoint;          // the name of the encoder behind it
  int64_t pictures = 0;            // in the collection
  // Thumbnails are at most this many pixels on their longer
  // side: twice what the page shows, for fine screens.
  int thumbnail_side = 320;
  // Of the pictures, which are read again from where they lie.
  DecodeOptions limits;
};

// One section a query, in order. A picture that cannot be read any more leaves a tile that says why.
// Thumbnails are JPEG, or PNG where a picture is transparent; those stand on the background choose_background
// finds for them. Cost: one decoding a hit, on all threads of the pool; about 20 KB of page a hit. `progress`
// is called by the pool's threads, one at a time.
Result<std::string> search_page(std::span<const SearchAnswer> answers, const SearchPageOptions& options,
                                ThreadPool& pool, const ProgressCallback& progress = {},
                                std::stop_token stop = {});

}  // namespace saccade

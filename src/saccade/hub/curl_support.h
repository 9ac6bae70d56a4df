// libcurl, loaded at the first request.
#pragma once

#include <curl/curl.h>

#include "saccade/core/error.h"
#include "saccade/core/process/late_library.h"

// Functions used from libcurl. load_curl() must be called first.
// clang-format off
#define SACCADE_CURL_FUNCTIONS(use)                                                                   \
  use(curl_easy_cleanup) use(curl_easy_getinfo) use(curl_easy_init) use(curl_easy_perform)            \
  use(curl_easy_reset) use(curl_easy_setopt) use(curl_easy_strerror) use(curl_free) use(curl_getdate) \
  use(curl_global_init) use(curl_mime_addpart) use(curl_mime_data) use(curl_mime_filename)            \
  use(curl_mime_free) use(curl_mime_init) use(curl_mime_name) use(curl_mime_type)                     \
  use(curl_slist_append) use(curl_slist_free_all) use(curl_url)                                       \
  use(curl_url_cleanup) use(curl_url_get) use(curl_url_set)
// clang-format on

namespace saccade::hub {

SACCADE_CURL_FUNCTIONS(SACCADE_LATE_DECLARE)

// Loads and initializes libcurl, once per process. kUnsupported if it is not installed. Thread-safe.
Status load_curl();

}  // namespace saccade::hub

// Hub settings (address, token, cache folder) from the environment variables of Hugging Face's tools.
//
//   HF_ENDPOINT                             the hub's address
//   HF_TOKEN, HUGGING_FACE_HUB_TOKEN        the token; else the file HF_TOKEN_PATH, or token in HF_HOME
//   HF_HUB_DISABLE_IMPLICIT_TOKEN           send no token that was not asked for
//   HF_HOME                                 default: huggingface in XDG_CACHE_HOME or ~/.cache
//   HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE     the cache's folder; default: hub in HF_HOME
//   HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE    1, ON, YES or TRUE: the network is not used
//   SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE   certificates to trust, where not the system's
//
// Proxies are taken from the variables that libcurl knows (https_proxy, no_proxy, ...).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade::hub {

struct Settings {
  std::string endpoint;  // without a slash at the end
  std::string token;     // empty if there is none
  std::filesystem::path cache;
  std::filesystem::path certificates;  // a file; the system's if empty
  bool offline = false;
};

// Function that returns a variable's value, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// Reads the settings from the environment; defaults are the public hub and the user's cache. Returns kUsage
// for an endpoint that is not an http or https address. Returns kNotFound if there is neither HOME nor
// another location for the cache, and kIo for a token file that cannot be read. The token itself is never
// part of a message.
Result<Settings> settings_from(const Environment& environment);
Result<Settings> settings_from_environment();
// Returns only the cache's folder, for listing its contents, without checking the other variables.
Result<std::filesystem::path> cache_from(const Environment& environment);
Result<std::filesystem::path> cache_from_environment();

// Checks an endpoint and removes trailing slashes.
Result<std::string> clean_endpoint(const std::string& endpoint);
// Returns a token without the white space around it. kBadData if it cannot be sent in a header; the message begins with
// `where`, and does not have the token.
Result<std::string> clean_token(std::string_view text, std::string_view where);
// Reads a token from a file.
Result<std::string> read_token(const std::filesystem::path& file);
// Returns the file of certificates to trust that the environment names; empty if it names none.
std::filesystem::path certificates_from(const Environment& environment);

}  // namespace saccade::hub

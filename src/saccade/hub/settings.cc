#include "saccade/hub/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;

// Default host, the same as in the hub's other tools, and the only one built into this program.
constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr int64_t kMaxTokenFile = 64 << 10;

// Returns the first variable that is set and not empty.
std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// Expands "~" and "~/..." like a shell.
fs::path expanded(const std::string& text, const std::string& home) {
  if (!home.empty() && (text == "~" || text.starts_with("~/"))) return home + text.substr(1);
  return text;
}

// Returns HF_HOME or its default; empty if there is none.
fs::path home_of_hub(const Environment& environment) {
  const std::string home = first_of(environment, {"HOME"});
  fs::path named = expanded(first_of(environment, {"HF_HOME"}), home);
  if (!named.empty()) return named;
  const fs::path caches = expanded(first_of(environment, {"XDG_CACHE_HOME"}), home);
  if (!caches.empty()) return caches / "huggingface";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface";
}

}  // namespace

Result<std::string> clean_endpoint(const std::string& endpoint) {
  std::string clean = endpoint;
  while (clean.ends_with('/')) clean.pop_back();
  const bool scheme = clean.starts_with("https://") || clean.starts_with("http://");
  const std::string_view rest =
      scheme ? std::string_view(clean).substr(clean.find("//") + 2) : std::string_view();
  const bool odd = std::any_of(clean.begin(), clean.end(), [](char c) {
    return c <= ' ' || c >= '\x7f' || c == '?' || c == '#' || c == '@';
  });
  if (rest.empty() || rest.starts_with('/') || odd) {
    return fail(ErrorCode::kUsage,
                "the endpoint is \"{}\", expected an address such as https://hub.example or "
                "http://127.0.0.1:8080",
                endpoint);
  }
  return clean;
}

Result<std::string> clean_token(std::string_view text, std::string_view where) {
  text = trim_ascii(text, " \t\r\n");
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
    return fail(ErrorCode::kBadData, "{}: not a token: it has spaces, line ends or other odd characters",
                where);
  }
  return std::string(text);
}

Result<std::string> read_token(const fs::path& file) {
  SACCADE_ASSIGN(const std::string text, read_file(file, kMaxTokenFile));
  return clean_token(text, file.string());
}

fs::path certificates_from(const Environment& environment) {
  return first_of(environment, {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
}

Result<fs::path> cache_from(const Environment& environment) {
  const std::string named = first_of(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (!named.empty()) return expanded(named, first_of(environment, {"HOME"}));
  const fs::path home = home_of_hub(environment);
  if (!home.empty()) return home / "hub";
  return fail(ErrorCode::kNotFound,
              "no folder for the hub's cache: none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME is set");
}

Result<Settings> settings_from(const Environment& environment) {
  Settings settings;
  const std::string home = first_of(environment, {"HOME"});
  const std::string endpoint = first_of(environment, {"HF_ENDPOINT"});
  SACCADE_ASSIGN(settings.endpoint, clean_endpoint(endpoint.empty() ? kDefaultEndpoint : endpoint));

  SACCADE_ASSIGN(settings.cache, cache_from(environment));
  settings.certificates = certificates_from(environment);
  settings.offline = is_true(first_of(environment, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));

  if (is_true(first_of(environment, {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return settings;
  const std::string token = first_of(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (!token.empty()) {
    SACCADE_ASSIGN(settings.token, clean_token(token, "HF_TOKEN"));
    return settings;
  }
  const fs::path hub_home = home_of_hub(environment);
  fs::path file = expanded(first_of(environment, {"HF_TOKEN_PATH"}), home);
  if (file.empty() && !hub_home.empty()) file = hub_home / "token";
  std::error_code error;
  if (!file.empty() && fs::exists(file, error)) {
    SACCADE_ASSIGN(settings.token, read_token(file).in("the hub's token"));
  }
  return settings;
}

Result<Settings> settings_from_environment() {
  return settings_from([](const char* name) { return std::getenv(name); });
}

Result<fs::path> cache_from_environment() {
  return cache_from([](const char* name) { return std::getenv(name); });
}

}  // namespace saccade::hub

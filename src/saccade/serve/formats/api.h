// The handlers of the server's own API, for api.cc's list of routes.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/search/search_answer.h"
#include "saccade/serve/service.h"

namespace saccade::serve {

using Parts = std::vector<std::string>;

// api_search.cc
Result<HttpResponse> search_by_query(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> search_by_body(const Context& context, const HttpRequest& request, const Parts& parts);

// api_pictures.cc
Result<HttpResponse> pictures(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> facets(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> picture(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> picture_file(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> thumbnail(const Context& context, const HttpRequest& request, const Parts& parts);

// api_jobs.cc
Result<HttpResponse> jobs(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> job(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> job_events(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> start_job(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> cancel_job(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> add_picture(const Context& context, const HttpRequest& request, const Parts& parts);
Result<HttpResponse> remove_picture(const Context& context, const HttpRequest& request, const Parts& parts);

// Returns an image's metadata beyond the fields of a hit.
Result<Json> picture_facts(const ServedCollection& collection, const Item& item);

// Returns the path of an image's own pages: "/api/collections/NAME/pictures/ID".
std::string picture_path(const ServedCollection& collection, int64_t id);
// "file" and "thumbnail", paths on this server, for JSON that says "id".
void add_picture_paths(const ServedCollection& collection, Json& json);

// Reads a number of a query string or a form. kUsage for any other text, and for a number that T does not hold.
template <typename T>
Result<T> number_of(std::string_view name, std::string_view text) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) {
    return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected a {}", name, text,
                std::is_integral_v<T> ? "whole number" : "number");
  }
  return value;
}

}  // namespace saccade::serve

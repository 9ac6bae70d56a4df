// The server's own API: pictures, whole and small, and lists and counts of them.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/catalog/facets.h"
#include "saccade/collection/catalog/facts_json.h"
#include "saccade/collection/small_picture.h"
#include "saccade/core/ascii.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/frame_name.h"
#include "saccade/serve/files/indexed_files.h"
#include "saccade/serve/files/thumbnails.h"
#include "saccade/serve/formats/api.h"
#include "saccade/text/nearest.h"

namespace saccade::serve {
namespace {

// Returns true if the client accepts WebP.
bool takes_webp(const HttpRequest& request) {
  const auto accept = request.header("accept");
  return accept && accept->find("image/webp") != std::string_view::npos;
}

// The fields that a hit has too.
Json picture_json(const ServedCollection& served, const Item& item) {
  const auto second = second_of(item.path);
  Json json = {{"id", item.id},
               {"path", file_of(item.path)},
               {"second", second ? Json(*second) : Json()},
               {"date", file_date_json(item)},
               {"caption", item.caption},
               {"width", item.width},
               {"height", item.height},
               {"format", item.format},
               {"file_here", !item.file.elsewhere}};
  add_picture_paths(served, json);
  return json;
}

// Checks that a query string has no parameters but these, and none of them twice.
Status check_parameters(const HttpRequest& request, std::span<const std::string_view> known) {
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) == known.end()) {
      return fail(ErrorCode::kUsage, "\"{}\" is not known here; there are: {}{}", name,
                  fmt::join(known, ", "), did_you_mean(name, known));
    }
    if (std::ranges::count(request.query, name, &NamedValue::first) > 1) {
      return fail(ErrorCode::kUsage, "\"{}\" is there twice", name);
    }
  }
  return {};
}

Result<Item> item_of(const Context& context, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(parts[0]));
  SACCADE_ASSIGN(const auto id, number_of<int64_t>("id", parts[1]));
  return served->now()->collection.item(id);
}

std::string type_of(const Item& item) {
  const std::string_view format = item.format;
  if (format == kVideoFormat) {
    // Cameras write names in capitals.
    const std::string ending = lower_ascii(std::filesystem::path(file_of(item.path)).extension().string());
    if (ending == ".webm") return "video/webm";
    if (ending == ".mov") return "video/quicktime";
    return ending == ".mp4" || ending == ".m4v" ? "video/mp4" : "application/octet-stream";
  }
  if (format == "svg") return "image/svg+xml";
  for (const std::string_view known : {"jpeg", "png", "webp", "gif", "bmp", "tiff", "avif"}) {
    if (format == known) return fmt::format("image/{}", known);
  }
  return format == "heif" ? "image/heic" : "application/octet-stream";
}

// Decodes what was opened, and nothing that was put in its place since.
Result<DecodedImage> decode_open(const Item& item, const OpenFile& open, const DecodeOptions& options) {
  if (const auto frame = read_frame_name(item.path); frame && item.format == kVideoFormat) {
    SACCADE_ASSIGN(const std::string jpeg,
                   read_open_frame(open.file->get(), frame->milliseconds, options).in(frame->file));
    return decode_image(std::as_bytes(std::span(jpeg)), options).in(item.path);
  }
  SACCADE_ASSIGN(const std::string bytes, read_open_file(open, options.max_bytes).in(item.path));
  return decode_image(std::as_bytes(std::span(bytes)), options).in(item.path);
}

// Returns true if the client already has this version.
bool is_known(const HttpRequest& request, std::string_view tag) {
  const auto known = request.header("if-none-match");
  return known && (*known == "*" || known->find(tag) != std::string_view::npos);
}

HttpResponse tagged(std::string_view tag) {
  HttpResponse response;
  response.headers.emplace_back("ETag", tag);
  response.headers.emplace_back("Cache-Control", "private, max-age=60");
  return response;
}

}  // namespace

std::string picture_path(const ServedCollection& collection, int64_t id) {
  return fmt::format("/api/collections/{}/images/{}", percent_encoded(collection.name()), id);
}

void add_picture_paths(const ServedCollection& collection, Json& json) {
  const std::string path = picture_path(collection, json["id"].get<int64_t>());
  json["file"] = path + "/file";
  json["thumbnail"] = path + "/thumbnail";
}

Result<HttpResponse> pictures(const Context& context, const HttpRequest& request, const Parts& parts) {
  constexpr std::array<std::string_view, 3> kParameters = {"k", "offset", "filter"};
  SACCADE_TRY(check_parameters(request, kParameters));
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(parts[0]));
  SACCADE_ASSIGN(const auto k, number_of<int64_t>("k", request.parameter("k").value_or("60")));
  SACCADE_ASSIGN(const auto offset, number_of<int64_t>("offset", request.parameter("offset").value_or("0")));
  if (k < 1 || k > context.options.most_hits || offset < 0) {
    return fail(ErrorCode::kUsage, "\"k\": {}, \"offset\": {}: k is 1 to {}, offset 0 or more", k, offset,
                context.options.most_hits);
  }
  const std::shared_ptr<const CollectionSnapshot> snapshot = served->now();
  const std::string_view filter = request.parameter("filter").value_or("");
  int64_t total = 0;
  Json list = Json::array();
  if (snapshot->collection.index() != nullptr) {
    const int64_t most = snapshot->collection.index()->most();
    const int64_t count = std::min(std::min(offset, most) + k, most);
    SACCADE_ASSIGN(const NearestItems newest, newest_in_index(snapshot->collection, filter, count));
    total = newest.searched;
    for (int64_t i = offset; i < std::ssize(newest.items); ++i) {
      list.push_back(picture_json(*served, newest.items[static_cast<size_t>(i)].item));
    }
  } else {
    SACCADE_ASSIGN(const auto order, served->newest(snapshot));
    SACCADE_ASSIGN(const std::vector<int64_t> ids, passing_ids(snapshot->collection, *order, filter));
    total = std::ssize(ids);
    for (int64_t i = offset; i < std::min(offset, total) + k && i < total; ++i) {
      SACCADE_ASSIGN(const Item item, snapshot->collection.item(ids[static_cast<size_t>(i)]));
      list.push_back(picture_json(*served, item));
    }
  }
  std::string nothing;
  if (total == 0) {
    SACCADE_ASSIGN(nothing, why_filter_is_empty(snapshot->collection, filter, context.options.have_towns));
  }
  return json_response({{"collection", served->name()},
                        {"total", total},
                        {"offset", offset},
                        {"nothing", nothing.empty() ? Json() : Json(nothing)},
                        {"images", std::move(list)}});
}

Result<HttpResponse> facets(const Context& context, const HttpRequest& request, const Parts& parts) {
  constexpr std::array<std::string_view, 1> kParameters = {"filter"};
  SACCADE_TRY(check_parameters(request, kParameters));
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(parts[0]));
  SACCADE_ASSIGN(const std::vector<Facet> found,
                 collection_facets(served->now()->collection, request.parameter("filter").value_or("")));
  Json list = Json::array();
  for (const Facet& facet : found) {
    Json values = Json::array();
    for (const FacetValue& value : facet.values) {
      values.push_back({{"name", value.name}, {"filter", value.filter}, {"items", value.items}});
    }
    list.push_back({{"name", facet.name}, {"values", std::move(values)}});
  }
  return json_response({{"collection", served->name()}, {"facets", std::move(list)}});
}

Result<Json> picture_facts(const ServedCollection& collection, const Item& item) {
  SACCADE_ASSIGN(const ItemFacts facts, collection.now()->collection.facts(item.id));
  Json json = picture_json(collection, item);
  json["bytes"] = item.size == kUnknownState ? Json() : Json(item.size);
  json["modified"] = file_date_json(item);
  json["added"] = item.added;
  json["hash"] = item.hash;
  json["dated_by"] = dated_by(facts);
  json["metadata"] = facts_json(facts);
  return json;
}

Result<HttpResponse> picture(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(parts[0]));
  SACCADE_ASSIGN(const Item item, item_of(context, parts));
  SACCADE_ASSIGN(const Json facts, picture_facts(*served, item));
  return json_response(facts);
}

Result<HttpResponse> picture_file(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Item item, item_of(context, parts));
  SACCADE_ASSIGN(OpenFile open, context.files.open(item));
  const std::string tag = fmt::format("\"{}\"", open.tag);
  HttpResponse response = tagged(tag);
  response.headers.emplace_back("Accept-Ranges", "bytes");
  if (is_known(request, tag)) {
    response.status = 304;
    return response;
  }
  const auto condition = request.header("if-range");
  // RFC 9110, 14.2: ranges are for GET alone.
  const bool whole = request.method == "HEAD" || (condition && *condition != tag);
  const ByteRange range = parse_range(whole ? std::nullopt : request.header("range"), open.bytes);
  if (range.kind == ByteRange::Kind::kUnsatisfiable) {
    response.status = 416;
    response.headers.emplace_back("Content-Range", fmt::format("bytes */{}", open.bytes));
    return response;
  }
  if (range.kind == ByteRange::Kind::kPart) {
    response.status = 206;
    response.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", range.offset,
                                                               range.offset + range.bytes - 1, open.bytes));
  }
  response.content_type = type_of(item);
  response.file = FilePart{std::move(open.file), range.offset, range.bytes};
  return response;
}

Result<HttpResponse> thumbnail(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Item item, item_of(context, parts));
  SACCADE_ASSIGN(const auto side, number_of<int>("size", request.parameter("size").value_or("256")));
  if (side < 16 || side > context.options.most_thumbnail_side) {
    return fail(ErrorCode::kUsage, "\"size\": {}, expected 16 to {}", side,
                context.options.most_thumbnail_side);
  }
  SACCADE_ASSIGN(const OpenFile open, context.files.open(item));
  const bool webp = takes_webp(request);
  const std::string tag = fmt::format("\"{}-{}{}\"", open.tag, side, webp ? "w" : "");
  HttpResponse response = tagged(tag);
  response.headers.emplace_back("Vary", "Accept");
  if (is_known(request, tag)) {
    response.status = 304;
    return response;
  }
  const std::string key = sha256_hex(fmt::format("{}\n{}\n{}\n{}\nsrgb", item.path, open.tag, side, webp));
  if (context.thumbnails != nullptr) {
    if (auto kept = context.thumbnails->find(key)) {
      context.metrics.happened("thumbnail kept");
      response.content_type = std::move(kept->type);
      response.body = std::move(kept->bytes);
      return response;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(DecodedImage decoded,
                 decode_open(item, open, small_picture_decoding(side, context.limits())));
  SACCADE_ASSIGN(SmallPicture small, small_picture(std::move(decoded.image), side, webp));
  context.metrics.spent("decode", seconds_since(start));
  context.metrics.happened("thumbnail made");
  if (context.thumbnails != nullptr) context.thumbnails->keep(key, small);
  response.content_type = std::move(small.type);
  response.body = std::move(small.bytes);
  return response;
}

}  // namespace saccade::serve

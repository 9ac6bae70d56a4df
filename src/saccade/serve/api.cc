// The server's own API: collections, search, pictures, models, health and metrics.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/collection_json.h"
#include "saccade/collection/small_picture.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/words.h"
#include "saccade/model/precision.h"
#include "saccade/search/fusion.h"
#include "saccade/search/search.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

using Parts = std::vector<std::string>;

template <typename T>
Result<T> number_of(std::string_view name, std::string_view text) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) {
    return fail(ErrorCode::kUsage, "\"{}\": \"{}\" is no number", name, text);
  }
  return value;
}

template <typename E>
Result<E> choice_of(std::string_view name, std::string_view word) {
  if (const auto value = from_word<E>(word)) return *value;
  return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected one of {}", name, word, list_of_words<E>());
}

// --- search ---------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 15> kSearchFields = {
    "collection", "text",       "image", "like", "k",       "offset", "filter", "fold",
    "long_query", "candidates", "cut",   "sort", "compose", "weight", "was"};

// A query string as the object that a body would be.
Result<Json> search_parameters(const HttpRequest& request) {
  Json json = Json::object();
  for (const auto& [given, value] : request.query) {
    const std::string name = given == "q" ? "text" : given;
    if (name == "like" || name == "k" || name == "offset" || name == "candidates") {
      SACCADE_ASSIGN(json[name], number_of<int64_t>(name, value));
    } else if (name == "cut" || name == "weight") {
      SACCADE_ASSIGN(json[name], number_of<double>(name, value));
    } else if (name == "fold") {
      if (value != "true" && value != "false")
        return fail(ErrorCode::kUsage, "\"fold\": \"{}\", expected true or false", value);
      json[name] = value == "true";
    } else if (std::ranges::find(kSearchFields, name) != kSearchFields.end() && name != "image") {
      json[name] = value;
    } else {
      return fail(ErrorCode::kUsage, "\"{}\" is not known here; there are: q, {}", name,
                  fmt::join(kSearchFields, ", "));
    }
  }
  return json;
}

struct SearchRequest {
  Query query;
  int64_t offset = 0;
  int64_t like = 0;  // an item's id; 0: none
};

// How a picture and a text become one query.
Result<Fusion> fusion_of(const Json& json) {
  SACCADE_ASSIGN(const std::string word, json_field_or<std::string>(json, "compose", "sum"));
  SACCADE_ASSIGN(const Compose method, choice_of<Compose>("compose", word));
  std::optional<double> weight;
  if (json.contains("weight") && !json["weight"].is_null()) {
    SACCADE_ASSIGN(weight, json_field<double>(json, "weight"));
  }
  SACCADE_ASSIGN(std::string was, json_field_or<std::string>(json, "was", ""));
  return make_fusion(method, weight, std::move(was));
}

Result<SearchRequest> search_request(const Context& context, const Json& json) {
  SearchRequest asked;
  Query& query = asked.query;
  query.limits = context.options.limits;
  SACCADE_ASSIGN(query.text, json_field_or<std::string>(json, "text", ""));
  if (query.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) query.text.clear();
  SACCADE_ASSIGN(const std::string image, json_field_or<std::string>(json, "image", ""));
  if (!image.empty()) {
    SACCADE_ASSIGN(std::string bytes, picture_bytes(image).in("\"image\""));
    query.image = "image";
    query.image_bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  SACCADE_ASSIGN(asked.like, json_field_or<int64_t>(json, "like", 0));
  SACCADE_ASSIGN(query.k, json_field_or<int64_t>(json, "k", 10));
  SACCADE_ASSIGN(asked.offset, json_field_or<int64_t>(json, "offset", 0));
  if (query.k < 1 || asked.offset < 0 || query.k > context.options.most_hits ||
      asked.offset > context.options.most_hits - query.k) {
    return fail(ErrorCode::kUsage, "\"k\": {}, \"offset\": {}: k is 1 or more, and both together at most {}",
                query.k, asked.offset, context.options.most_hits);
  }
  SACCADE_ASSIGN(query.filter, json_field_or<std::string>(json, "filter", ""));
  SACCADE_ASSIGN(query.fold_duplicates, json_field_or<bool>(json, "fold", true));
  SACCADE_ASSIGN(query.candidates, json_field_or<int64_t>(json, "candidates", query.candidates));
  if (query.candidates < 0)
    return fail(ErrorCode::kUsage, "\"candidates\": {}, expected 0 or more", query.candidates);
  SACCADE_ASSIGN(const std::string long_text, json_field_or<std::string>(json, "long_query", "truncate"));
  SACCADE_ASSIGN(query.long_text, choice_of<LongText>("long_query", long_text));
  SACCADE_ASSIGN(const std::string order, json_field_or<std::string>(json, "sort", "score"));
  SACCADE_ASSIGN(query.order, choice_of<HitOrder>("sort", order));
  if (json.contains("cut") && !json["cut"].is_null()) {
    SACCADE_ASSIGN(query.cut, json_field<double>(json, "cut"));
    if (!(*query.cut >= 0 && *query.cut <= 1))
      return fail(ErrorCode::kUsage, "\"cut\": {}, expected 0 to 1", *query.cut);
  }
  SACCADE_ASSIGN(query.fusion, fusion_of(json).in("\"compose\", \"weight\", \"was\""));
  if (query.text.empty() && !query.has_image() && asked.like == 0) {
    return fail(ErrorCode::kUsage, "nothing to search for: give \"text\", \"image\", both, or \"like\"");
  }
  if (asked.like != 0 && (!query.text.empty() || query.has_image())) {
    return fail(ErrorCode::kUsage, "\"like\" stands alone: leave \"text\" and \"image\" out");
  }
  return asked;
}

// Pictures like one of the collection's own: that one itself is left out.
Result<Answer> search_like(const Context& context, const Snapshot& snapshot, SearchRequest& asked,
                           Encoder& encoder) {
  const Collection& collection = snapshot.collection;
  SACCADE_ASSIGN(const Item item, collection.item(asked.like));
  SACCADE_TRY(collection.check_files());
  const auto row = collection.rows().row(item.row);
  Query query = asked.query;
  ++query.k;
  query.image = item.path;
  EncodedQuery encoded;
  encoded.row.assign(row.begin(), row.end());
  SACCADE_ASSIGN(Answer answer, collection.has_late_rows()
                                    ? search_row(collection, encoded.row, query, context.pool)
                                    : search_encoded(collection, encoder, encoded, query, context.pool));
  std::erase_if(answer.hits, [&](const Hit& hit) { return hit.item.id == asked.like; });
  if (std::ssize(answer.hits) > asked.query.k) answer.hits.resize(static_cast<size_t>(asked.query.k));
  for (size_t i = 0; i < answer.hits.size(); ++i) answer.hits[i].rank = static_cast<int64_t>(i) + 1;
  answer.query.k = asked.query.k;
  return answer;
}

std::string picture_path(const ServedCollection& collection, int64_t id) {
  std::string name;
  for (const char c : collection.name()) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
    name += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return fmt::format("/api/collections/{}/pictures/{}", name, id);
}

Result<HttpResponse> answer_search(const Context& context, const Json& json, const std::string& name) {
  SACCADE_ASSIGN(const std::string named, json_field_or<std::string>(json, "collection", name));
  SACCADE_ASSIGN(ServedCollection * served, context.served.collection(named));
  SACCADE_ASSIGN(SearchRequest asked, search_request(context, json));
  const std::shared_ptr<const Snapshot> snapshot = served->now();
  SharedEncoder& encoder = *served->model->encoder;
  Query& query = asked.query;
  const int64_t k = query.k;
  query.k += asked.offset;
  query.background = snapshot->background;
  query.measured_length = served->model->measured_length;
  const auto start = std::chrono::steady_clock::now();
  Result<Answer> searched = fail(ErrorCode::kInternal, "");
  if (asked.like != 0) {
    searched = search_like(context, *snapshot, asked, encoder);
  } else {
    SACCADE_ASSIGN(const EncodedQuery encoded, encode_query(snapshot->collection, encoder, query));
    context.metrics.spent("encode", seconds_since(start));
    const auto scoring = std::chrono::steady_clock::now();
    searched = search_encoded(snapshot->collection, encoder, encoded, query, context.pool);
    context.metrics.spent("score", seconds_since(scoring));
  }
  if (!searched) return fail(std::move(searched).error());
  Answer& answer = *searched;
  answer.hits.erase(answer.hits.begin(),
                    answer.hits.begin() + std::min(asked.offset, std::ssize(answer.hits)));
  answer.query.k = k;
  Json result = {{"collection", served->name()}, {"offset", asked.offset}};
  result.update(answer_json(answer));
  for (Json& hit : result["hits"]) {
    const std::string path = picture_path(*served, hit["id"].get<int64_t>());
    hit["file"] = path + "/file";
    hit["thumbnail"] = path + "/thumbnail";
  }
  result["seconds"] = std::round(seconds_since(start) * 1e6) / 1e6;
  return json_response(result);
}

Result<HttpResponse> search_by_query(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Json json, search_parameters(request));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

Result<HttpResponse> search_by_body(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Json json, json_body(request, kSearchFields));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

// --- collections and pictures ---------------------------------------------------------------------------------

Result<Json> described(const ServedCollection& served) {
  const std::shared_ptr<const Snapshot> snapshot = served.now();
  SACCADE_ASSIGN(const CollectionSummary summary, snapshot->collection.summary());
  Json json = {{"name", served.name()}, {"model", served.model->name}};
  json.update(collection_json(snapshot->collection.info(), summary));
  return json;
}

Result<HttpResponse> collections(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  for (const auto& served : context.served.collections()) {
    SACCADE_ASSIGN(Json json, described(*served));
    list.push_back(std::move(json));
  }
  return json_response({{"collections", std::move(list)}});
}

Result<HttpResponse> collection(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.served.collection(parts[0]));
  SACCADE_ASSIGN(const Json json, described(*served));
  return json_response(json);
}

Result<Item> item_of(const Context& context, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.served.collection(parts[0]));
  SACCADE_ASSIGN(const auto id, number_of<int64_t>("id", parts[1]));
  return served->now()->collection.item(id);
}

Result<HttpResponse> picture(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const ServedCollection* served, context.served.collection(parts[0]));
  SACCADE_ASSIGN(const Item item, item_of(context, parts));
  const std::string path = picture_path(*served, item.id);
  return json_response({{"id", item.id},
                        {"path", item.path},
                        {"caption", item.caption},
                        {"width", item.width},
                        {"height", item.height},
                        {"format", item.format},
                        {"bytes", item.size},
                        {"modified", item.mtime_ns / 1'000'000'000},
                        {"hash", item.hash},
                        {"file", path + "/file"},
                        {"thumbnail", path + "/thumbnail"}});
}

struct OpenPicture {
  std::shared_ptr<const Descriptor> file;
  int64_t bytes = 0;
  std::string tag;  // changes with the file
};

Result<OpenPicture> open_picture(const Item& item) {
  auto file =
      std::make_shared<const Descriptor>(::open(item.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file->get() < 0) return fail_errno(errno, item.path);
  struct stat status = {};
  if (::fstat(file->get(), &status) != 0) return fail_errno(errno, item.path);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kNotFound, "{}: no regular file any more", item.path);
  return OpenPicture{
      std::move(file), status.st_size,
      fmt::format("{:x}-{:x}.{:x}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec)};
}

std::string type_of(std::string_view format) {
  if (format == "svg") return "image/svg+xml";
  for (const std::string_view known : {"jpeg", "png", "webp", "gif", "bmp", "tiff", "avif"}) {
    if (format == known) return fmt::format("image/{}", known);
  }
  return format == "heif" ? "image/heic" : "application/octet-stream";
}

// Whether the client has this already.
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

Result<HttpResponse> picture_file(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Item item, item_of(context, parts));
  SACCADE_ASSIGN(OpenPicture open, open_picture(item));
  const std::string tag = fmt::format("\"{}\"", open.tag);
  HttpResponse response = tagged(tag);
  response.headers.emplace_back("Accept-Ranges", "bytes");
  if (is_known(request, tag)) {
    response.status = 304;
    return response;
  }
  const auto condition = request.header("if-range");
  const ByteRange range =
      parse_range(condition && *condition != tag ? std::nullopt : request.header("range"), open.bytes);
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
  response.content_type = type_of(item.format);
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
  SACCADE_ASSIGN(const OpenPicture open, open_picture(item));
  const std::string tag = fmt::format("\"{}-{}\"", open.tag, side);
  HttpResponse response = tagged(tag);
  if (is_known(request, tag)) {
    response.status = 304;
    return response;
  }
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(DecodedImage decoded,
                 decode_image_file(item.path, small_picture_decoding(side, context.options.limits)));
  SACCADE_ASSIGN(SmallPicture small, small_picture(std::move(decoded.image), side));
  context.metrics.spent("decode", seconds_since(start));
  response.content_type = std::move(small.type);
  response.body = std::move(small.bytes);
  return response;
}

// --- models, health, metrics ----------------------------------------------------------------------------------

Result<HttpResponse> models(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  for (const auto& model : context.served.models()) {
    const EncoderInfo& info = model->encoder->info();
    list.push_back({{"name", model->name},
                    {"family", info.family},
                    {"fingerprint", info.fingerprint},
                    {"precision", word_of(info.precision)},
                    {"dim", info.dim},
                    {"context", info.context},
                    {"reads_texts", model->encoder->tokenizer() != nullptr},
                    {"reads_pictures", info.image_width > 0},
                    {"late_interaction", model->encoder->late_interaction() != nullptr}});
  }
  return json_response({{"models", std::move(list)}});
}

Result<HttpResponse> health(const Context&, const HttpRequest&, const Parts&) {
  return json_response({{"status", "ok"}});
}

Result<HttpResponse> metrics(const Context& context, const HttpRequest&, const Parts&) {
  std::map<std::string, double> gauges;
  for (const auto& model : context.served.models()) {
    const SharedEncoder::Counts counts = model->encoder->counts();
    const auto add = [&](std::string_view name, double value) {
      gauges[fmt::format("saccade_encoder_{}{{model=\"{}\"}}", name, model->name)] = value;
    };
    add("passes_total", static_cast<double>(counts.passes));
    add("calls_total", static_cast<double>(counts.calls));
    add("texts_total", static_cast<double>(counts.texts));
    add("pictures_total", static_cast<double>(counts.pictures));
    add("seconds_total", counts.seconds);
  }
  for (const auto& served : context.served.collections()) {
    gauges[fmt::format("saccade_collection_pictures{{collection=\"{}\"}}", served->name())] =
        static_cast<double>(served->now()->collection.item_count());
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text(gauges);
  return response;
}

}  // namespace

Format own_format() {
  return {{{"GET", "/api/search", search_by_query},
           {"POST", "/api/search", search_by_body},
           {"GET", "/api/collections", collections},
           {"GET", "/api/collections/{name}", collection},
           {"GET", "/api/collections/{name}/search", search_by_query},
           {"POST", "/api/collections/{name}/search", search_by_body},
           {"GET", "/api/collections/{name}/pictures/{id}", picture},
           {"GET", "/api/collections/{name}/pictures/{id}/file", picture_file},
           {"GET", "/api/collections/{name}/pictures/{id}/thumbnail", thumbnail},
           {"GET", "/api/models", models},
           {"GET", "/healthz", health, true},
           {"GET", "/metrics", metrics}},
          [](int, std::string_view code, std::string_view message) -> Json {
            return {{"error", {{"code", code}, {"message", message}}}};
          }};
}

}  // namespace saccade::serve

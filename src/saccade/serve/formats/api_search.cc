// The server's own API: search.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/core/enum_names.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/seconds_since.h"
#include "saccade/search/change_text.h"
#include "saccade/search/explain_hits.h"
#include "saccade/search/fusion.h"
#include "saccade/search/keywords/word_search.h"
#include "saccade/search/like.h"
#include "saccade/search/query_language.h"
#include "saccade/search/row_finder.h"
#include "saccade/search/search.h"
#include "saccade/serve/formats/api.h"
#include "saccade/serve/formats/multipart.h"

namespace saccade::serve {
namespace {

template <typename E>
Result<E> choice_of(std::string_view name, std::string_view word) {
  if (const auto value = from_name<E>(word)) return *value;
  return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected one of {}", name, word, list_of_names<E>());
}

constexpr std::array<std::string_view, 18> kSearchFields = {
    "collection", "text", "image", "like",    "k",      "offset", "filter",  "fold",  "long_query",
    "candidates", "cut",  "sort",  "compose", "weight", "was",    "explain", "words", "literal"};

// A query string, or a form's fields, as the object that a body of JSON would be.
Result<Json> search_parameters(std::span<const NamedValue> fields) {
  Json json = Json::object();
  for (const auto& [given, value] : fields) {
    const std::string name = given == "q" ? "text" : given;
    if (name == "like" || name == "k" || name == "offset" || name == "candidates") {
      SACCADE_ASSIGN(json[name], number_of<int64_t>(name, value));
    } else if (name == "cut" || name == "weight" || name == "words") {
      SACCADE_ASSIGN(json[name], number_of<double>(name, value));
    } else if (name == "fold" || name == "explain" || name == "literal") {
      if (value != "true" && value != "false")
        return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected true or false", name, value);
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

// Parses the fields of a form other than its image; the image's bytes stay in the body.
Result<std::vector<NamedValue>> form_fields(const Context& context, const HttpRequest& request,
                                            std::string_view& picture) {
  SACCADE_ASSIGN(const std::vector<FormPart> form,
                 parse_form(request.header("content-type").value_or(""), request.body));
  std::vector<NamedValue> fields;
  for (const FormPart& part : form) {
    if (part.name == "image") {
      if (!picture.empty()) return fail(ErrorCode::kUsage, "\"image\" is there twice");
      picture = part.bytes;
    } else {
      SACCADE_TRY(check_text(context, part.bytes).in(fmt::format("\"{}\"", part.name)));
      fields.emplace_back(part.name, std::string(part.bytes));
    }
  }
  return fields;
}

struct SearchRequest {
  SearchQuery query;
  int64_t offset = 0;
  int64_t like = 0;  // an item's id; 0: none
  // True if the collection's composer makes the query. `nullopt` uses the composer if the collection names
  // one and the request has no other method.
  std::optional<bool> by_composer;
};

constexpr std::string_view kByComposer = "composer";

// Parses the fusion of an image and a text into one query.
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

// uploaded: a picture's bytes that came beside the fields; empty: none did.
Result<SearchRequest> search_request(const Context& context, const Json& json, std::string_view uploaded) {
  SearchRequest asked;
  SearchQuery& query = asked.query;
  query.limits = context.limits();
  query.stop = context.stop;
  SACCADE_ASSIGN(query.text, json_field_or<std::string>(json, "text", ""));
  if (query.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) query.text.clear();
  SACCADE_ASSIGN(const bool literal, json_field_or<bool>(json, "literal", false));
  SACCADE_TRY(check_text(context, query.text).in("\"text\""));
  if (!literal) SACCADE_TRY(read_query_text(std::string(query.text), query).in("\"text\""));
  SACCADE_ASSIGN(query.word_share, json_field_or<double>(json, "words", kWordShare));
  if (!(query.word_share >= 0 && query.word_share <= 1)) {
    return fail(ErrorCode::kUsage, "\"words\": {}, expected 0 to 1", query.word_share);
  }
  SACCADE_ASSIGN(const std::string image, json_field_or<std::string>(json, "image", ""));
  if (!image.empty()) {
    SACCADE_ASSIGN(std::string bytes, picture_bytes(context, image).in("\"image\""));
    query.image = "image";
    query.image_bytes = std::make_shared<const std::string>(std::move(bytes));
  } else if (!uploaded.empty()) {
    query.image = "image";
    query.image_bytes = std::make_shared<const std::string>(uploaded);
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
  SACCADE_TRY(check_text(context, query.filter).in("\"filter\""));
  SACCADE_ASSIGN(query.fold_duplicates, json_field_or<bool>(json, "fold", true));
  SACCADE_ASSIGN(query.candidates, json_field_or<int64_t>(json, "candidates", query.candidates));
  if (query.candidates < 0)
    return fail(ErrorCode::kUsage, "\"candidates\": {}, expected 0 or more", query.candidates);
  SACCADE_ASSIGN(query.explain, json_field_or<bool>(json, "explain", false));
  if (query.explain && query.k > context.options.most_explained) {
    return fail(ErrorCode::kUsage, "\"k\": {}, at most {} hits are explained at a time", query.k,
                context.options.most_explained);
  }
  SACCADE_ASSIGN(const std::string long_text, json_field_or<std::string>(json, "long_query", "truncate"));
  SACCADE_ASSIGN(query.long_text, choice_of<LongText>("long_query", long_text));
  SACCADE_ASSIGN(const std::string order, json_field_or<std::string>(json, "sort", "score"));
  SACCADE_ASSIGN(query.order, choice_of<HitOrder>("sort", order));
  if (json.contains("cut") && !json["cut"].is_null()) {
    SACCADE_ASSIGN(query.cut, json_field<double>(json, "cut"));
    if (!(*query.cut >= 0 && *query.cut <= 1))
      return fail(ErrorCode::kUsage, "\"cut\": {}, expected 0 to 1", *query.cut);
  }
  if (!literal && (query.has_image() || asked.like != 0)) drop_lead_in(query);
  if (json.contains("compose") || json.contains("weight") || json.contains("was")) {
    if (!query.has_image() && asked.like == 0) {
      return fail(
          ErrorCode::kUsage,
          "\"compose\", \"weight\" and \"was\" say how a picture is asked with words: no \"image\" or \"like\"");
    }
    asked.by_composer = json.contains("compose") && json["compose"].is_string() &&
                        json["compose"].get<std::string>() == kByComposer;
  }
  if (!asked.by_composer.value_or(false)) {
    SACCADE_ASSIGN(query.fusion, fusion_of(json).in("\"compose\", \"weight\", \"was\""));
  } else if (json.contains("weight") || json.contains("was")) {
    return fail(ErrorCode::kUsage, "\"weight\" and \"was\" are not for a composer");
  }
  if (query.text.empty() && !query.has_image() && asked.like == 0) {
    return fail(ErrorCode::kUsage, "nothing to search for: give \"text\", \"image\", both, or \"like\"");
  }
  if (asked.like != 0 && query.has_image()) {
    return fail(ErrorCode::kUsage, "\"like\" and \"image\": one picture is enough, leave one of them out");
  }
  return asked;
}

Result<SearchAnswer> find(const Context& context, const ServedCollection& served, const Snapshot& snapshot,
                          SearchRequest& asked) {
  const Collection& collection = snapshot.collection;
  SACCADE_ASSIGN(const std::shared_ptr<EncoderBackend> lent, context.lend(*served.model));
  EncoderBackend& encoder = *lent;
  SearchQuery& query = asked.query;
  const int64_t k = query.k;
  query.k += asked.offset;
  query.background = snapshot.background;
  if (asked.by_composer.value_or(false) && snapshot.composer == nullptr) {
    return fail(ErrorCode::kUsage, "\"compose\": the collection {} names no composer", served.name());
  }
  if (asked.by_composer.value_or(is_plain(query))) query.fusion.composer = snapshot.composer;
  query.measured_length = served.model->measured_length;
  ExplainOptions explaining;
  explaining.name = served.model->name;
  if (query.explain) SACCADE_TRY(check_explains(encoder, explaining));
  auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const EncodedQuery encoded, asked.like != 0
                                                 ? encode_like(collection, encoder, asked.like, query)
                                                 : encode_query(collection, encoder, query));
  // A stored row that is searched by has not been encoded.
  if (asked.like == 0 || !query.text.empty()) context.metrics.spent("encode", seconds_since(start));
  start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(SearchAnswer answer,
                 search_encoded(collection, encoder, encoded, query, context.pool, *snapshot.rows));
  context.metrics.spent("score", seconds_since(start));
  // Pages are by rank: an order by date is one within a page.
  std::erase_if(answer.hits, [&](const SearchHit& hit) { return hit.rank <= asked.offset; });
  answer.query.k = k;
  if (query.explain) {
    const auto looking = std::chrono::steady_clock::now();
    SACCADE_TRY(explain_hits(collection, encoder, explaining, answer, context.pool, {}, context.stop));
    context.metrics.spent("explain", seconds_since(looking));
  }
  return answer;
}

// Returns the answer's notes for pages; each is null if there is nothing to report.
Json notes_json(const SearchAnswer& answer) {
  const auto said = [](const std::string& note) { return note.empty() ? Json() : Json(note); };
  return {{"tokens", answer.tokens ? Json(tokens_text(*answer.tokens)) : Json()},
          {"effective_length", said(measured_length_note(answer))},
          {"matching", said(matching_note(answer))},
          {"understood", said(understood_note(answer))},
          {"words", said(words_note(answer))},
          {"compose", said(composed_note(answer))}};
}

Result<HttpResponse> answer_search(const Context& context, const Json& json, const std::string& name,
                                   std::string_view uploaded = {}) {
  SACCADE_ASSIGN(const std::string named, json_field_or<std::string>(json, "collection", name));
  SACCADE_ASSIGN(const ServedCollection* served, context.served.collection(named));
  SACCADE_ASSIGN(SearchRequest asked, search_request(context, json, uploaded));
  const std::shared_ptr<const Snapshot> snapshot = served->now();
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const SearchAnswer answer, find(context, *served, *snapshot, asked));
  Json result = {{"collection", served->name()}, {"offset", asked.offset}};
  result.update(answer_json(answer));
  for (size_t i = 0; i < answer.hits.size(); ++i) {
    Json& hit = result["hits"][i];
    add_picture_paths(*served, hit);
    for (size_t f = 0; f < answer.hits[i].folded.size(); ++f) {
      Json& copy = hit["folded"][f];
      const Item& item = answer.hits[i].folded[f].item;
      copy["date"] = whole_seconds(item.mtime_ns);
      copy["caption"] = item.caption;
      copy["width"] = item.width;
      copy["height"] = item.height;
      copy["format"] = item.format;
      add_picture_paths(*served, copy);
    }
  }
  result["notes"] = notes_json(answer);
  result["seconds"] = std::round(seconds_since(start) * 1e6) / 1e6;
  HttpResponse response = json_response(result);
  response.about = asked.query.text;
  return response;
}

}  // namespace

Result<HttpResponse> search_by_query(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Json json, search_parameters(request.query));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

Result<HttpResponse> search_by_body(const Context& context, const HttpRequest& request, const Parts& parts) {
  if (request.header("content-type").value_or("").starts_with("multipart/form-data")) {
    std::string_view picture;
    SACCADE_ASSIGN(const std::vector<NamedValue> fields, form_fields(context, request, picture));
    SACCADE_ASSIGN(const Json form, search_parameters(fields));
    return answer_search(context, form, parts.empty() ? "" : parts.front(), picture);
  }
  SACCADE_ASSIGN(const Json json, json_body(context, request, kSearchFields));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

}  // namespace saccade::serve

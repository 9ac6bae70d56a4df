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

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/catalog/facts_json.h"
#include "saccade/core/ascii.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/seconds_since.h"
#include "saccade/engine/query_conversion.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/query_language.h"
#include "saccade/search/search_answer.h"
#include "saccade/serve/formats/api.h"
#include "saccade/serve/formats/multipart.h"
#include "saccade/serve/inputs.h"
#include "saccade/text/nearest.h"

namespace saccade::serve {
namespace {

template <typename E>
Result<E> choice_of(std::string_view name, std::string_view word) {
  if (const auto value = from_name<E>(word)) return *value;
  return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected one of {}{}", name, word, list_of_names<E>(),
              did_you_mean(word, written_names<E>()));
}

constexpr std::array<std::string_view, 27> kSearchFields = {"collection",
                                                            "text",
                                                            "literal",
                                                            "image",
                                                            "images",
                                                            "without",
                                                            "like",
                                                            "k",
                                                            "offset",
                                                            "filter",
                                                            "group_duplicates",
                                                            "group_above",
                                                            "chunk_long_text",
                                                            "candidates",
                                                            "min_probability",
                                                            "order",
                                                            "compose",
                                                            "text_weight",
                                                            "was",
                                                            "explain",
                                                            "explain_by",
                                                            "keyword_weight",
                                                            "exact",
                                                            "exact_rescore",
                                                            "rerank",
                                                            "rerank_depth",
                                                            "rerank_by"};

// A field's earlier name, which is still accepted and which no list shows.
struct OldField {
  const char* was;
  const char* now;
};
constexpr std::array<OldField, 4> kOldFields = {{{"cut", "min_probability"},
                                                 {"long_query", "chunk_long_text"},
                                                 {"sort", "order"},
                                                 {"weight", "text_weight"}}};

std::string_view current_name(std::string_view name) {
  const auto* const old = std::ranges::find(kOldFields, name, &OldField::was);
  return old == kOldFields.end() ? name : old->now;
}

// Gives fields under earlier names their current ones. kUsage for a field that is there under both.
Status rename_old_fields(Json& json) {
  for (const auto& [was, now] : kOldFields) {
    if (!json.contains(was)) continue;
    if (json.contains(now)) {
      return fail(ErrorCode::kUsage, "\"{}\" and \"{}\" are the same, leave \"{}\" out", was, now, was);
    }
    Json value = json[was];
    if (std::string_view(was) == "long_query" && !value.is_null()) {
      SACCADE_ASSIGN(const std::string word, json_field<std::string>(json, was));
      SACCADE_ASSIGN(const LongText policy, choice_of<LongText>(was, word));
      value = policy == LongText::kChunk;
    }
    json.erase(was);
    json[now] = std::move(value);
  }
  return {};
}

// A query string, or a form's fields, as the object that a body of JSON would be.
Result<Json> search_parameters(std::span<const NamedValue> fields) {
  Json json = Json::object();
  for (const auto& [given, value] : fields) {
    const std::string name = given == "q" ? "text" : given;
    const std::string_view current = current_name(name);
    if (json.contains(name)) return fail(ErrorCode::kUsage, "\"{}\" is there twice", name);
    if (name == "image" || name == "images") {
      return fail(ErrorCode::kUsage, "\"{}\" is not taken here: send it with POST, as JSON{}", name,
                  name == "image" ? " or in a form (multipart/form-data)" : "");
    }
    if (name == "like" || name == "k" || name == "offset" || name == "candidates" || name == "rerank_depth" ||
        name == "exact_rescore") {
      SACCADE_ASSIGN(json[name], number_of<int64_t>(name, value));
    } else if (current == "min_probability" || current == "text_weight" || current == "keyword_weight" ||
               name == "group_above") {
      SACCADE_ASSIGN(json[name], number_of<double>(name, value));
    } else if (name == "group_duplicates" || name == "chunk_long_text" || name == "explain" ||
               name == "literal" || name == "exact") {
      if (value != "true" && value != "false")
        return fail(ErrorCode::kUsage, "\"{}\": \"{}\", expected true or false", name, value);
      json[name] = value == "true";
    } else if (std::ranges::find(kSearchFields, current) != kSearchFields.end()) {
      json[name] = value;
    } else {
      // The list is of bodies of JSON.
      std::vector<std::string_view> taken(kSearchFields.begin(), kSearchFields.end());
      std::erase_if(taken, [](std::string_view field) { return field == "image" || field == "images"; });
      return fail(ErrorCode::kUsage, "\"{}\" is not known here; there are: q, {}{}", name,
                  fmt::join(taken, ", "), did_you_mean(name, taken));
    }
  }
  SACCADE_TRY(rename_old_fields(json));
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
  EngineCore::SearchCall call;
  ServedModel* second = nullptr;  // reranks; `nullptr`: none does
};

constexpr std::string_view kByComposer = "composer";

// Reads the options that all searches have; what they lack is as the engine has it.
Result<SearchOptions> search_options(const Context& context, const Json& json) {
  SearchOptions options;
  SACCADE_ASSIGN(options.k, json_field_or<int64_t>(json, "k", options.k));
  SACCADE_ASSIGN(options.offset, json_field_or<int64_t>(json, "offset", options.offset));
  SACCADE_ASSIGN(options.filter, json_field_or<std::string>(json, "filter", ""));
  SACCADE_TRY(check_text(context, options.filter).in("\"filter\""));
  SACCADE_ASSIGN(options.keyword_weight,
                 json_field_or<double>(json, "keyword_weight", options.keyword_weight));
  SACCADE_ASSIGN(options.group_duplicates,
                 json_field_or<bool>(json, "group_duplicates", options.group_duplicates));
  SACCADE_ASSIGN(options.group_above, json_field_or<double>(json, "group_above", options.group_above));
  SACCADE_ASSIGN(options.candidates, json_field_or<int64_t>(json, "candidates", options.candidates));
  SACCADE_ASSIGN(options.exact, json_field_or<bool>(json, "exact", options.exact));
  SACCADE_ASSIGN(options.exact_rescore, json_field_or<int64_t>(json, "exact_rescore", options.exact_rescore));
  SACCADE_ASSIGN(options.chunk_long_text,
                 json_field_or<bool>(json, "chunk_long_text", options.chunk_long_text));
  SACCADE_ASSIGN(const std::string order, json_field_or<std::string>(json, "order", "score"));
  SACCADE_ASSIGN(options.order, choice_of<Order>("order", order));
  if (json.contains("min_probability") && !json["min_probability"].is_null()) {
    SACCADE_ASSIGN(options.min_probability, json_field<double>(json, "min_probability"));
  }
  SACCADE_ASSIGN(options.explain, json_field_or<bool>(json, "explain", options.explain));
  SACCADE_ASSIGN(const std::string explain_by, json_field_or<std::string>(json, "explain_by", ""));
  if (!explain_by.empty()) {
    SACCADE_ASSIGN(options.explain_by, choice_of<MapMethod>("explain_by", explain_by));
  }
  SACCADE_ASSIGN(options.rerank_depth, json_field_or<int64_t>(json, "rerank_depth", options.rerank_depth));
  SACCADE_ASSIGN(const std::string by,
                 json_field_or<std::string>(json, "rerank_by", std::string(enum_name(options.rerank_by))));
  SACCADE_ASSIGN(options.rerank_by, choice_of<RerankMethod>("rerank_by", by));
  return options;
}

// Reads the query's images: "image", or the uploaded one, and those with weights in "images". Those given by address are
// fetched together.
Status read_images(const Context& context, const Json& json, std::string_view uploaded, Query& query) {
  constexpr std::array<std::string_view, 2> kFields = {"image", "weight"};
  std::vector<Input> images;
  SACCADE_ASSIGN(const std::string image, json_field_or<std::string>(json, "image", ""));
  if (!image.empty()) {
    SACCADE_ASSIGN(Input one, picture_of(image).in("\"image\""));
    images.push_back(std::move(one));
  } else if (!uploaded.empty()) {
    images.push_back({.text = {}, .picture = std::string(uploaded)});
  }
  std::vector<float> weights(images.size(), 1);
  const size_t unlisted = images.size();
  const auto name = [&](size_t i) {
    return i < unlisted ? std::string("\"image\"") : fmt::format("\"images\": number {}", i - unlisted);
  };
  if (const auto more = json.find("images"); more != json.end() && !more->is_null()) {
    if (!more->is_array()) {
      return fail(ErrorCode::kBadData, "\"images\": {}, expected a list", json_kind(*more));
    }
    if (std::ssize(*more) > kMostQueryParts) {
      return fail(ErrorCode::kUsage, "\"images\": {}, at most {} are taken", more->size(), kMostQueryParts);
    }
    for (const Json& each : *more) {
      const std::string number = name(images.size());
      if (!each.is_object()) {
        return fail(ErrorCode::kBadData, "{}: {}, expected an object of \"image\" and \"weight\"", number,
                    json_kind(each));
      }
      SACCADE_ASSIGN(const std::string text, json_field<std::string>(each, "image").in(number));
      SACCADE_TRY(check_fields(each, kFields).in(number));
      SACCADE_ASSIGN(const auto weight, json_field_or<float>(each, "weight", 1).in(number));
      SACCADE_ASSIGN(Input one, picture_of(text).in(number));
      images.push_back(std::move(one));
      weights.push_back(weight);
    }
  }
  SACCADE_TRY(fetch_addresses(context, images, name));
  for (size_t i = 0; i < images.size(); ++i) {
    query.and_image(ImageInput::bytes(std::move(images[i].picture)), weights[i]);
  }
  return {};
}

// Reads what is not wanted: a text, or a list of texts.
Status read_without(const Context& context, const Json& json, Query& query) {
  const auto found = json.find("without");
  if (found == json.end() || found->is_null()) return {};
  const auto add = [&](const Json& text) -> Status {
    if (!text.is_string()) {
      return fail(ErrorCode::kBadData, "\"without\": {}, expected a text or a list of texts",
                  json_kind(text));
    }
    SACCADE_TRY(check_text(context, text.get_ref<const std::string&>()).in("\"without\""));
    query.without(text.get<std::string>());
    return {};
  };
  if (!found->is_array()) return add(*found);
  if (std::ssize(*found) > kMostQueryParts) {
    return fail(ErrorCode::kUsage, "\"without\": {}, at most {} are taken", found->size(), kMostQueryParts);
  }
  for (const Json& text : *found) SACCADE_TRY(add(text));
  return {};
}

// Reads how an image and a text are made one query.
Status read_compose(const Json& json, Query& query, EngineCore::SearchCall& call) {
  if (!json.contains("compose") && !json.contains("text_weight") && !json.contains("was")) return {};
  SACCADE_ASSIGN(const std::string word, json_field_or<std::string>(json, "compose", "sum"));
  if (word == kByComposer) {
    if (json.contains("text_weight") || json.contains("was")) {
      return fail(ErrorCode::kUsage, "\"text_weight\" and \"was\" are not for a composer");
    }
    call.own_composer = EngineCore::OwnComposer::kRequired;
    query.compose(Compose::kSum);  // whose place the composer takes
    return {};
  }
  call.own_composer = EngineCore::OwnComposer::kNo;
  SACCADE_ASSIGN(const Compose method, choice_of<Compose>("compose", word));
  std::optional<double> text_weight;
  if (json.contains("text_weight") && !json["text_weight"].is_null()) {
    SACCADE_ASSIGN(text_weight, json_field<double>(json, "text_weight"));
  }
  SACCADE_ASSIGN(std::string was, json_field_or<std::string>(json, "was", ""));
  query.compose(method, text_weight).was(std::move(was));
  return {};
}

// Sets whether hits are explained, and the method of their maps.
Status set_explain(const Context& context, const SearchOptions& options, EngineCore::SearchCall& call) {
  call.explain = options.explain;
  call.explaining.method = options.explain_by;
  if (call.explain && options.k > context.options.most_explained) {
    return fail(ErrorCode::kUsage, "\"k\": {}, at most {} hits are explained at a time", options.k,
                context.options.most_explained);
  }
  return {};
}

// Reads which model reranks the hits; its options are in `options`.
Status read_rerank(const Context& context, const Json& json, const SearchOptions& options,
                   SearchRequest& asked) {
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "rerank", ""));
  if (name.empty()) {
    const auto given = [&](const char* field) { return json.contains(field) && !json[field].is_null(); };
    if (!given("rerank_depth") && !given("rerank_by")) return {};
    return fail(ErrorCode::kUsage,
                "\"rerank_depth\" and \"rerank_by\" say how a second model re-ranks the hits: no \"rerank\"");
  }
  if (options.rerank_depth > context.options.most_reranked) {
    return fail(ErrorCode::kUsage, "\"rerank_depth\": {}, at most {} hits are re-ranked at a time",
                options.rerank_depth, context.options.most_reranked);
  }
  SACCADE_ASSIGN(asked.second, context.served.model(name).in("\"rerank\""));
  asked.call.rerank.method = options.rerank_by;
  asked.call.rerank.depth = options.rerank_depth;
  return {};
}

// uploaded: a picture's bytes that came beside the fields; empty: none did.
Result<SearchRequest> search_request(const Context& context, const Json& json, std::string_view uploaded) {
  SearchRequest asked;
  EngineCore::SearchCall& call = asked.call;
  SACCADE_ASSIGN(const SearchOptions options, search_options(context, json));
  call.offset = options.offset;
  if (options.k < 1 || call.offset < 0 || options.k > context.options.most_hits ||
      call.offset > context.options.most_hits - options.k) {
    return fail(ErrorCode::kUsage, "\"k\": {}, \"offset\": {}: k is 1 or more, and both together at most {}",
                options.k, call.offset, context.options.most_hits);
  }
  SACCADE_TRY(set_explain(context, options, call));
  SACCADE_ASSIGN(std::string text, json_field_or<std::string>(json, "text", ""));
  SACCADE_TRY(check_text(context, text).in("\"text\""));
  SACCADE_ASSIGN(call.literal, json_field_or<bool>(json, "literal", false));
  SACCADE_ASSIGN(call.like, json_field_or<int64_t>(json, "like", 0));
  Query query = call.literal ? Query::literal(std::move(text)) : Query(std::move(text));
  SACCADE_TRY(read_images(context, json, uploaded, query));
  SACCADE_TRY(read_without(context, json, query));
  if (call.like != 0) query.like(call.like);
  SACCADE_TRY(read_compose(json, query, call));
  SACCADE_TRY(read_rerank(context, json, options, asked));
  SACCADE_ASSIGN(asked.query, search_query(query, options));
  // Many images that are the same are no fault of the request.
  if (options.group_above < SearchOptions().group_above) {
    asked.query.most_grouped = context.options.most_grouped;
  }
  return asked;
}

// Returns the answer's notes for people; each is null if there is nothing to report. `nothing`: why the filter leaves no
// image.
Json notes_json(const SearchAnswer& answer, const std::string& nothing) {
  Json json = Json::object();
  for (const std::string_view name : {"tokens", "effective_length", "matching", "understood", "keywords",
                                      "compose", "scored", "approximate", "filter"}) {
    json[name] = nullptr;
  }
  for (const AnswerNote& note : answer_notes(answer)) json[note.name] = note.text;
  if (!nothing.empty()) json["filter"] = nothing;
  return json;
}

Result<HttpResponse> answer_search(const Context& context, const Json& json, const std::string& name,
                                   std::string_view uploaded = {}) {
  SACCADE_ASSIGN(std::string named, json_field_or<std::string>(json, "collection", ""));
  if (named.empty()) named = name;
  if (!name.empty() && named != name) {
    return fail(ErrorCode::kUsage,
                "\"collection\": \"{}\", but the address names \"{}\": leave one of them out", named, name);
  }
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(named));
  SACCADE_ASSIGN(SearchRequest asked, search_request(context, json, uploaded));
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const SearchAnswer answer,
                 search_served(context, *served, std::move(asked.query), asked.call, asked.second));
  Json result = {{"collection", served->name()}, {"offset", asked.call.offset}};
  result.update(answer_json(answer));
  for (size_t i = 0; i < answer.hits.size(); ++i) {
    Json& hit = result["hits"][i];
    add_picture_paths(*served, hit);
    for (size_t f = 0; f < answer.hits[i].folded.size(); ++f) {
      Json& copy = hit["near_duplicates"][f];
      const Item& item = answer.hits[i].folded[f].item;
      copy["date"] = file_date_json(item);
      copy["caption"] = item.caption;
      copy["width"] = item.width;
      copy["height"] = item.height;
      copy["format"] = item.format;
      copy["file_here"] = !item.file.elsewhere;
      add_picture_paths(*served, copy);
    }
  }
  std::string nothing;
  if (answer.searched == 0) {
    SACCADE_ASSIGN(nothing, why_filter_is_empty(served->now()->collection, answer.query.filter,
                                                context.options.have_towns));
  }
  result["notes"] = notes_json(answer, nothing);
  result["warnings"] = answer_warnings(answer);
  result["seconds"] = std::round(seconds_since(start) * 1e6) / 1e6;
  HttpResponse response = json_response(result);
  response.about = answer.query.text.str();
  return response;
}

}  // namespace

Result<HttpResponse> search_by_query(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(const Json json, search_parameters(request.query));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

Result<HttpResponse> search_by_body(const Context& context, const HttpRequest& request, const Parts& parts) {
  if (starts_in_any_case(request.header("content-type").value_or(""), "multipart/form-data")) {
    std::string_view picture;
    SACCADE_ASSIGN(const std::vector<NamedValue> fields, form_fields(context, request, picture));
    SACCADE_ASSIGN(const Json form, search_parameters(fields));
    return answer_search(context, form, parts.empty() ? "" : parts.front(), picture);
  }
  SACCADE_ASSIGN(UntrustedJson json, json_object(context, request));
  SACCADE_TRY(rename_old_fields(json));
  SACCADE_TRY(check_fields(json, kSearchFields));
  return answer_search(context, json, parts.empty() ? "" : parts.front());
}

}  // namespace saccade::serve

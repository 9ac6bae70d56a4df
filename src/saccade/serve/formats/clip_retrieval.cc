// Endpoints of clip-retrieval's back end, for its Python client and its front end: /knn-service, /metadata
// and /indices-list. An index name is a collection's, and its ids are image ids.
//
// Its filters by safety models and its aesthetic scores need models that this server does not have. They have
// no effect, as in clip-retrieval itself without such a model.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "saccade/image/frame_name.h"
#include "saccade/search/search.h"
#include "saccade/serve/formats/api.h"
#include "saccade/serve/inputs.h"
#include "saccade/serve/service.h"

namespace saccade::serve {
namespace {

constexpr std::array<std::string_view, 14> kFields = {"text",
                                                      "image",
                                                      "image_url",
                                                      "embedding_input",
                                                      "modality",
                                                      "num_images",
                                                      "num_result_ids",
                                                      "indice_name",
                                                      "use_mclip",
                                                      "deduplicate",
                                                      "use_safety_model",
                                                      "use_violence_detector",
                                                      "aesthetic_score",
                                                      "aesthetic_weight"};

bool is_given(const Json& json, const char* field) {
  return json.contains(field) && !json[field].is_null() && json[field] != "";
}

// Returns the metadata fields that clip-retrieval's clients expect. The address is this server's, as the
// client named it.
Json metadata_of(const HttpRequest& request, const ServedCollection& served, const Item& item) {
  return {{"caption", item.caption},
          {"image_path", file_of(item.path)},
          {"url", fmt::format("{}://{}{}/file", request.secure ? "https" : "http",
                              request.header("host").value_or("localhost"), picture_path(served, item.id))},
          {"width", item.width},
          {"height", item.height}};
}

struct Asked {
  SearchQuery query;
  std::vector<float> row;  // in place of text and picture
  int64_t with_metadata = 0;
};

Result<Asked> asked_of(const Context& context, const Json& json) {
  Asked asked;
  SearchQuery& query = asked.query;
  SACCADE_ASSIGN(const std::string modality, json_field_or<std::string>(json, "modality", "image"));
  if (modality != "image") {
    return fail(ErrorCode::kUnsupported, "\"modality\": \"{}\", images alone are searched here", modality);
  }
  SACCADE_ASSIGN(const bool multilingual, json_field_or<bool>(json, "use_mclip", false));
  if (multilingual)
    return fail(ErrorCode::kUnsupported, "\"use_mclip\": no second text model is served here");
  SACCADE_ASSIGN(query.group_duplicates, json_field_or<bool>(json, "deduplicate", false));
  SACCADE_ASSIGN(asked.with_metadata, json_field_or<int64_t>(json, "num_images", 100));
  SACCADE_ASSIGN(const auto wanted, json_field_or<int64_t>(json, "num_result_ids", asked.with_metadata));
  if (wanted < 1 || asked.with_metadata < 0) {
    return fail(ErrorCode::kUsage,
                "\"num_result_ids\": {}, \"num_images\": {}: expected 1 or more, and 0 or more", wanted,
                asked.with_metadata);
  }
  // Its front end asks for thousands by default, to page through them.
  query.k = std::min(wanted, context.options.most_hits);
  if (is_given(json, "text")) {
    SACCADE_ASSIGN(query.text, json_field<std::string>(json, "text"));
    SACCADE_TRY(check_text(context, query.text.str()).in("\"text\""));
    if (!query.text.has_words()) return fail(ErrorCode::kUsage, "\"text\" is blank");
  } else if (is_given(json, "image") || is_given(json, "image_url")) {
    const char* field = is_given(json, "image") ? "image" : "image_url";
    SACCADE_ASSIGN(const std::string image, json_field<std::string>(json, field));
    SACCADE_ASSIGN(std::string bytes, picture_bytes(context, image).in(fmt::format("\"{}\"", field)));
    query.images = {QueryImage::of_bytes("image", std::move(bytes))};
  } else if (is_given(json, "embedding_input")) {
    const Json& row = json["embedding_input"];
    if (!row.is_array() || row.empty())
      return fail(ErrorCode::kBadData, "\"embedding_input\": {}, expected numbers", json_kind(row));
    for (const Json& value : row) {
      if (!value.is_number())
        return fail(ErrorCode::kBadData, "\"embedding_input\": {}, expected numbers", json_kind(value));
      asked.row.push_back(value.get<float>());
    }
  } else {
    return fail(ErrorCode::kUsage,
                "one of \"text\", \"image\", \"image_url\" and \"embedding_input\" is needed");
  }
  return asked;
}

Result<HttpResponse> knn_service(const Context& context, const HttpRequest& request, const Parts&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kFields));
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "indice_name", ""));
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(name));
  SACCADE_ASSIGN(const Asked asked, asked_of(context, json));
  const auto found = [&]() -> Result<SearchAnswer> {
    if (!asked.row.empty()) {
      SearchQuery query = asked.query;
      query.stop = context.stop;
      return search_row(served->now()->collection, asked.row, query, context.pool);
    }
    EngineCore::SearchCall call;
    call.literal = true;
    return search_served(context, *served, asked.query, call);
  };
  SACCADE_ASSIGN(const SearchAnswer answer, found());
  Json results = Json::array();
  for (const SearchHit& hit : answer.hits) {
    Json result = Json::object();
    if (static_cast<int64_t>(results.size()) < asked.with_metadata)
      result = metadata_of(request, *served, hit.item);
    result["id"] = hit.item.id;
    result["similarity"] = hit.score;
    results.push_back(std::move(result));
  }
  if (!answer.tokens) return json_response(results);
  return with_tokens(json_response(results), answer.tokens->used, answer.tokens->dropped);
}

Result<HttpResponse> metadata(const Context& context, const HttpRequest& request, const Parts&) {
  constexpr std::array<std::string_view, 2> kMetadataFields = {"ids", "indice_name"};
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kMetadataFields));
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "indice_name", ""));
  SACCADE_ASSIGN(const ServedCollection* served, context.collection(name));
  if (!json.contains("ids") || !json["ids"].is_array()) {
    return fail(ErrorCode::kBadData, "\"ids\" is missing, or no list");
  }
  const Json& ids = json["ids"];
  if (static_cast<int64_t>(ids.size()) > context.options.most_hits) {
    return fail(ErrorCode::kUsage, "{} ids, at most {} are taken at a time", ids.size(),
                context.options.most_hits);
  }
  const std::shared_ptr<const CollectionSnapshot> snapshot = served->now();
  Json list = Json::array();
  for (const Json& id : ids) {
    SACCADE_ASSIGN(const auto number, detail::json_as<int64_t>("ids", id));
    SACCADE_ASSIGN(const Item item, snapshot->collection.item(number));
    list.push_back({{"id", item.id}, {"metadata", metadata_of(request, *served, item)}});
  }
  return json_response(list);
}

Result<HttpResponse> indices(const Context& context, const HttpRequest&, const Parts&) {
  Json names = Json::array();
  for (const auto& served : context.served.collections()) {
    if (context.access.in(served->name()) != Right::kNone) names.push_back(served->name());
  }
  return json_response(names);
}

}  // namespace

Format clip_retrieval_format() {
  return {{{"POST", "/knn-service", knn_service},
           {"POST", "/metadata", metadata},
           {"GET", "/indices-list", indices}},
          [](int, std::string_view, std::string_view message) -> Json {
            return {{"message", message}};
          }};
}

}  // namespace saccade::serve

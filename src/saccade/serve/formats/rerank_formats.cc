// Reranking endpoints, as the clients of reranking services call them:
//
//   Jina       {"model", "query", "documents": [a text | {"text"} | {"image": base64 or address}], "top_n",
//              "return_documents"}; "query" may be such an object too
//   Cohere     the same for texts, at /v1/rerank and /v2/rerank; the latter with "max_tokens_per_doc"
//   infinity   texts, and "raw_scores"; its client calls /rerank, which is Text Embeddings Inference's as
//              well (tei.cc)
//   vLLM       {"content": [one content part]} in place of a text; one document without a list
//
//   -> {"object": "rerank", "model", "results": [{"index", "relevance_score", "document": {"text"}}, ...],
//       "usage": {"prompt_tokens", "total_tokens"}}, best first
#include "saccade/serve/formats/rerank_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "saccade/serve/formats/score_inputs.h"

namespace saccade::serve {
namespace {

constexpr std::array<std::string_view, 8> kFields = {
    "model", "query", "documents", "top_n", "return_documents", "max_tokens_per_doc", "raw_scores", "user"};

// vLLM's clients send one document without a list.
size_t document_count(const Json& json) {
  return json["documents"].is_array() ? json["documents"].size() : 1;
}
const Json& document_at(const Json& json, size_t i) {
  return json["documents"].is_array() ? json["documents"][i] : json["documents"];
}

// Reads a query or a document. Token ids are not taken here.
Result<Input> text_or_object(const Json& json) {
  if (json.is_string() || json.is_object()) return input_of_json(json);
  return fail(ErrorCode::kBadData, "{}, expected a text or an object", json_kind(json));
}

Result<std::vector<Input>> documents_of(const Json& json) {
  SACCADE_ASSIGN(const auto most_tokens, json_field_or<int64_t>(json, "max_tokens_per_doc", kWholeText));
  if (most_tokens < 1)
    return fail(ErrorCode::kUsage, "\"max_tokens_per_doc\": {}, expected 1 or more", most_tokens);
  std::vector<Input> documents;
  for (size_t i = 0; i < document_count(json); ++i) {
    SACCADE_ASSIGN(Input document, text_or_object(document_at(json, i)).in(fmt::format("document {}", i)));
    document.most_tokens = most_tokens;
    documents.push_back(std::move(document));
  }
  return documents;
}

// Returns the document as the client expects it: a text for infinity's, the only one to send "raw_scores",
// else an object.
Json document_of(const Json& json, const Json& document) {
  if (document.is_string()) return json.contains("raw_scores") ? document : Json{{"text", document}};
  if (document.contains("content")) return {{"multi_modal", document["content"]}};
  return document;
}

Result<HttpResponse> rerank(const Context& context, const Json& json) {
  SACCADE_TRY(check_fields(json, kFields));
  for (const char* field : {"query", "documents"}) {
    if (!json.contains(field)) return fail(ErrorCode::kBadData, "\"{}\" is missing", field);
  }
  SACCADE_ASSIGN(const std::string name, json_field_or<std::string>(json, "model", ""));
  SACCADE_ASSIGN(ServedModel * model, ranking_model(context, name));
  SACCADE_ASSIGN(Input query, text_or_object(json["query"]).in("\"query\""));
  SACCADE_ASSIGN(std::vector<Input> documents, documents_of(json));
  SACCADE_ASSIGN(const auto top, json_field_or<int64_t>(json, "top_n", 0));  // vLLM's word for all is 0
  if (top < 0) return fail(ErrorCode::kUsage, "\"top_n\": {}, expected 1 or more, or 0 for all", top);
  SACCADE_ASSIGN(const bool raw, json_field_or<bool>(json, "raw_scores", false));
  // By default Jina and vLLM return documents; images are omitted as they are long.
  SACCADE_ASSIGN(const bool texts_back, json_field_or<bool>(json, "return_documents", true));
  SACCADE_ASSIGN(const bool pictures_back, json_field_or<bool>(json, "return_documents", false));
  SACCADE_TRY(json_field_or<std::string>(json, "user", ""));
  std::vector<bool> back;
  back.reserve(documents.size());
  for (const Input& document : documents) back.push_back(document.is_text() ? texts_back : pictures_back);
  SACCADE_ASSIGN(Ranking ranking,
                 rank_inputs(context, *model, std::move(query), {"documents", std::move(documents)}, raw));
  if (top > 0 && top < std::ssize(ranking.ranks)) ranking.ranks.resize(static_cast<size_t>(top));
  Json results = Json::array();
  for (const auto& [score, index] : ranking.ranks) {
    Json result = {{"index", index}, {"relevance_score", score}};
    if (back[index]) result["document"] = document_of(json, document_at(json, index));
    results.push_back(std::move(result));
  }
  return with_ranking(
      json_response({{"object", "rerank"},
                     {"model", model->name},
                     {"results", std::move(results)},
                     {"usage", {{"prompt_tokens", ranking.tokens}, {"total_tokens", ranking.tokens}}}}),
      ranking);
}

Result<HttpResponse> rerank_route(const Context& context, const HttpRequest& request,
                                  const std::vector<std::string>&) {
  SACCADE_ASSIGN(const UntrustedJson json, json_object(context, request));
  return rerank(context, json);
}

}  // namespace

Result<ServedModel*> ranking_model(const Context& context, std::string_view name) {
  if (!name.empty() && name != kNoModelNamed) return context.served.model(name);
  for (const auto& model : context.served.models()) {
    if (model->pair_scorer) return model;
  }
  for (const auto& model : context.served.models()) {
    if (model->late_interaction) return model;
  }
  return context.served.model("");
}

Result<Ranking> rank_inputs(const Context& context, ServedModel& model, Input query, RankedField field,
                            bool raw) {
  if (field.inputs.empty()) return fail(ErrorCode::kUsage, "\"{}\" is empty", field.name);
  if (std::ssize(field.inputs) >= context.options.most_inputs) {
    return fail(ErrorCode::kUsage, "\"{}\": {}, fewer than {} are taken at a time", field.name,
                field.inputs.size(), context.options.most_inputs);
  }
  SACCADE_ASSIGN(const InputScores scored,
                 score_inputs(context, model, std::move(query), std::move(field.inputs)));
  Ranking ranking;
  ranking.by = scored.by;
  ranking.tokens = scored.tokens;
  ranking.dropped_tokens = scored.dropped_tokens;
  for (size_t i = 0; i < scored.scores.size(); ++i) ranking.ranks.push_back({scored.scores[i], i});
  std::ranges::stable_sort(ranking.ranks, std::ranges::greater(), &Ranking::Rank::score);
  if (scored.by == "pairs" && !raw) {
    for (auto& rank : ranking.ranks) rank.score = 1 / (1 + std::exp(-rank.score));
  }
  return ranking;
}

HttpResponse with_ranking(HttpResponse response, const Ranking& ranking) {
  HttpResponse with = with_tokens(std::move(response), ranking.tokens, ranking.dropped_tokens);
  with.headers.emplace_back("X-Saccade-Scored-By", ranking.by);
  return with;
}

HttpResponse rerank_documents(const Context& context, const Json& json) {
  Result<HttpResponse> ranked = rerank(context, json);
  return ranked ? *std::move(ranked) : error_response(openai_error, ranked.error());
}

Format rerank_format() {
  return {{{"POST", "/v1/rerank", rerank_route}, {"POST", "/v2/rerank", rerank_route}}, openai_error};
}

}  // namespace saccade::serve

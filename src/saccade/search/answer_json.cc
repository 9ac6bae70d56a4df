#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/catalog/facts_json.h"
#include "saccade/core/counts.h"
#include "saccade/image/frame_name.h"
#include "saccade/index/lists/list_tuning.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/composed/composed_query.h"
#include "saccade/search/search_answer.h"

namespace saccade {
namespace {

// Nine digits give a float back exactly; as a double it would be written with noise behind them.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

// Returns the time of a frame in its video, in seconds.
Json second_json(const Item& item) {
  const auto second = second_of(item.path);
  return second ? Json(*second) : Json();
}

Json tokens_json(const std::optional<TokenCount>& tokens) {
  if (!tokens) return {};
  return {{"used", tokens->used}, {"dropped", tokens->dropped}, {"chunks", tokens->chunks}};
}

// Returns true if a text and an image, both with positive weight, were composed into one query.
bool composed(const SearchQuery& query) {
  const auto wanted = [](const auto& part) { return part.weight > 0; };
  return std::ranges::any_of(query.text.parts(), wanted) && std::ranges::any_of(query.images, wanted);
}

// Null where the query is one text, one picture, or one of each.
Json parts_json(const SearchQuery& query) {
  const auto& images = query.images;
  if (query.is_plain() && (images.empty() || images.front().weight == 1)) return {};
  Json parts = Json::array();
  for (const QueryPart& part : query.text.parts()) {
    parts.push_back({{"text", part.text}, {"weight", shortest(part.weight)}});
  }
  for (const QueryImage& image : images) {
    parts.push_back({{"image", image.name().string()}, {"weight", shortest(image.weight)}});
  }
  return parts;
}

Json compose_json(const SearchQuery& query) {
  if (!composed(query)) return {};
  const Fusion fusion = query.weights();
  Json json = {{"method", enum_name(fusion.method)},
               {"image_weight", shortest(fusion.image_weight)},
               {"text_weight", shortest(fusion.text_weight)}};
  if (fusion.method == Compose::kDirection) json["was"] = fusion.was.empty() ? kAnyPicture : fusion.was;
  return json;
}

Json reranking_json(const Reranking& reranking) {
  return {{"checkpoint", reranking.checkpoint},   {"fingerprint", reranking.fingerprint},
          {"method", reranking.method},           {"depth", reranking.depth},
          {"reranked", reranking.reranked},       {"missing", reranking.missing},
          {"changed", reranking.changed},         {"unreadable", reranking.unreadable},
          {"out_of_time", reranking.out_of_time}, {"tokens", tokens_json(reranking.tokens)}};
}

Json box_json(const std::optional<PictureBox>& box) {
  if (!box) return {};
  return {{"x", shortest(box->x)},
          {"y", shortest(box->y)},
          {"width", shortest(box->width)},
          {"height", shortest(box->height)}};
}

Json explanation_json(const HitExplanation& explanation, const std::string& text) {
  Json words = Json::array();
  for (const WordWeight& word : explanation.words) {
    words.push_back({{"word", text.substr(word.begin, word.end - word.begin)},
                     {"begin", word.begin},
                     {"end", word.end},
                     {"drop", shortest(word.drop)}});
  }
  Json map;
  if (!explanation.map.empty()) {
    Json values = Json::array();
    for (const float value : explanation.map) values.push_back(shortest(value));
    map = {{"rows", explanation.grid.rows},
           {"columns", explanation.grid.columns},
           {"values", std::move(values)},
           {"box", box_json(explanation.box)}};
  }
  return {{"model", explanation.model},
          {"score_by", explanation.score_by},
          {"score", explanation.score ? Json(shortest(*explanation.score)) : Json()},
          {"words", std::move(words)},
          {"method", explanation.method},
          {"map", std::move(map)},
          {"no_map", explanation.no_map.empty() ? Json() : Json(explanation.no_map)}};
}

Json match_json(const TokenMatch& match) {
  Json json = {{"token", match.token},
               {"id", match.id ? Json(*match.id) : Json()},
               {"dot", shortest(match.dot)},
               {"patch", nullptr},
               {"box", box_json(match.box)}};
  if (match.patches) {
    json["patch"] = {{"row", match.patches->row},
                     {"column", match.patches->column},
                     {"rows", match.patches->rows},
                     {"columns", match.patches->columns}};
  }
  return json;
}

// Null for NaN, as JSON has no such number.
Json known(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json matching_json(const SearchAnswer& answer) {
  if (!answer.matching) return {};
  const Matching& matching = *answer.matching;
  Json sample;
  if (matching.sample) sample = {{"images", matching.sample->images}, {"of", matching.sample->of}};
  return {
      {"tells", matching.tells},        {"reason", matching.reason.empty() ? Json() : Json(matching.reason)},
      {"there", known(matching.there)}, {"p_value", known(matching.p_value)},
      {"queries", matching.queries},    {"labelled", matching.labelled},
      {"best", known(matching.best)},   {"cut_hits", matching.cut_hits},
      {"passed", matching.passed},      {"more", matching.more},
      {"shipped", matching.shipped},    {"sample", std::move(sample)}};
}

Json likelihood_json(const SearchHit& hit) {
  if (!hit.likelihood) return {};
  return {{"right", known(hit.likelihood->right)},
          {"expected_false", known(hit.likelihood->expected_false)},
          {"standard_score", known(hit.likelihood->standard)}};
}

Json fields_json(uint8_t fields) {
  Json names = Json::array();
  if ((fields & kInCaption) != 0) names.push_back("caption");
  if ((fields & kInName) != 0) names.push_back("name");
  if ((fields & kInFolders) != 0) names.push_back("folders");
  return names;
}

Json keywords_json(const std::optional<KeywordHit>& words) {
  if (!words) return {};
  Json matches = Json::array();
  for (const KeywordHit::Match& match : words->matches) {
    matches.push_back({{"term", match.term}, {"in", fields_json(match.fields)}});
  }
  return {
      {"rank", words->rank}, {"weight", words->weight}, {"all", words->all}, {"matches", std::move(matches)}};
}

Json keywords_json(const std::optional<KeywordSearch>& words) {
  if (!words) return {};
  Json terms = Json::array();
  for (const KeywordSearch::Term& term : words->terms) {
    terms.push_back({{"term", term.text}, {"images", term.pictures}, {"common", term.common}});
  }
  return {{"weight", words->share},
          {"terms", std::move(terms)},
          {"images", words->pictures},
          {"reason", words->reason.empty() ? Json() : Json(words->reason)}};
}

// Adds the fields that only some answers have, after those that all have.
void add_stages(const SearchHit& hit, const SearchQuery& query, Json& json) {
  if (hit.pooled_score) json["pooled_score"] = shortest(*hit.pooled_score);
  if (hit.retrieval) {
    json["retrieval"] = {{"rank", hit.retrieval->rank}, {"score", shortest(hit.retrieval->score)}};
    json["reranked"] = hit.reranked;
    json["not_reranked"] = hit.not_reranked.empty() ? Json() : Json(hit.not_reranked);
    // This score is of another kind than those of the reranked hits, so it is omitted.
    if (!hit.reranked) json["score"] = nullptr;
  }
  if (query.explain) {
    json["matches"] = Json::array();
    for (const TokenMatch& match : hit.matches) json["matches"].push_back(match_json(match));
    json["explanations"] = Json::array();
    for (const HitExplanation& explanation : hit.explanations) {
      json["explanations"].push_back(explanation_json(explanation, query.text.str()));
    }
  }
}

// Returns the encoder's measured effective length, if any, as JSON.
Json measured_json(const SearchAnswer& answer) {
  if (!answer.query.measured_length || !answer.tokens) return {};
  const MeasuredLength& measured = *answer.query.measured_length;
  return {{"tokens", measured.tokens},
          {"low", measured.low ? Json(*measured.low) : Json()},
          {"high", measured.high ? Json(*measured.high) : Json()},
          {"share", measured.share},
          {"dataset", measured.dataset},
          {"longer_texts", measured.longer_texts},
          {"exceeded", beyond_measured_length(answer)}};
}

// Returns which of the images that pass the cut the page shows; "" for all of them.
std::string shown_of_passed(const SearchAnswer& answer) {
  const auto shown = std::ssize(answer.hits);
  if (shown >= answer.matching->passed) return {};
  if (shown == 0) return ", none of them on this page";
  const int64_t first = std::ranges::min_element(answer.hits, {}, &SearchHit::rank)->rank;
  if (first == 1) return fmt::format(", the best {} are shown", shown);
  return fmt::format(", ranks {} to {} are shown", first, first + shown - 1);
}

}  // namespace

std::string composed_note(const SearchAnswer& answer) {
  const Fusion fusion = answer.query.weights();
  if (!composed(answer.query)) return {};
  if (answer.composer_report) return composer_note(*answer.composer_report);
  switch (fusion.method) {
    case Compose::kSum:
      return fmt::format(
          "the query is the sum of the image's embedding (weight {:.2g}) and the text's (weight {:.2g})",
          fusion.image_weight, fusion.text_weight);
    case Compose::kSlerp:
      return fmt::format(
          "the query lies on the great circle from the image's embedding to the text's, {:.2g} of the way",
          fusion.text_weight / (fusion.text_weight + fusion.image_weight));
    case Compose::kDirection:
      break;
  }
  return fmt::format(
      "the query is the image's embedding plus {:.2g} times the difference between the text's embedding and "
      "that of \"{}\"",
      fusion.text_weight, fusion.was.empty() ? kAnyPicture : fusion.was);
}

std::string understood_note(const SearchAnswer& answer) {
  const Json parts = parts_json(answer.query);
  if (parts.is_null()) return {};
  std::string wanted;
  std::string unwanted;
  for (const Json& part : parts) {
    const double weight = part["weight"].get<double>();
    std::string& to = weight > 0 ? wanted : unwanted;
    const bool text = part.contains("text");
    to += fmt::format("{}{}{}", to.empty() ? "" : ", ", text ? "" : "image ",
                      fmt::format("\"{}\"", part[text ? "text" : "image"].get<std::string>()));
    if (weight != 1) to += fmt::format(" x {:.3g}", std::abs(weight));
  }
  if (wanted.empty()) return "searched for images unlike " + unwanted;
  return "searched for " + wanted + (unwanted.empty() ? "" : "; not like " + unwanted);
}

std::string words_note(const SearchAnswer& answer) {
  if (!answer.keywords) return {};
  const KeywordSearch& words = *answer.keywords;
  if (words.pictures == 0) return words.reason.empty() || words.terms.empty() ? std::string() : words.reason;
  int64_t matched = 0;
  uint8_t fields = 0;
  for (const SearchHit& hit : answer.hits) {
    if (!hit.keywords) continue;
    ++matched;
    for (const KeywordHit::Match& match : hit.keywords->matches) fields |= match.fields;
  }
  if (matched == 0) return {};
  std::string by;
  for (const auto& [field, name] :
       {std::pair(kInCaption, "caption"), std::pair(kInName, "file name"), std::pair(kInFolders, "folder")}) {
    if ((fields & field) != 0) by += fmt::format("{}{}", by.empty() ? "" : " or ", name);
  }
  if (by.empty()) by = "words";  // none of them could be read
  if (!words.reason.empty()) by += "; " + words.reason;
  const auto shown = std::ssize(answer.hits);
  if (shown == 1) return "the result also matches by " + by;
  return matched == shown ? fmt::format("all {} results also match by {}", count_text(shown), by)
                          : fmt::format("{} of {} results also {} by {}", count_text(matched),
                                        count_text(shown), matched == 1 ? "matches" : "match", by);
}

std::vector<AnswerNote> answer_notes(const SearchAnswer& answer) {
  std::vector<AnswerNote> notes;
  const auto add = [&](std::string_view name, std::string text) {
    if (!text.empty()) notes.push_back({name, std::move(text)});
  };
  if (answer.tokens) add("tokens", tokens_text(*answer.tokens));
  add("effective_length", measured_length_note(answer));
  add("matching", matching_note(answer));
  add("understood", understood_note(answer));
  add("keywords", words_note(answer));
  add("compose", composed_note(answer));
  add("scored", scored_note(answer));
  add("approximate", approximate_note(answer));
  return notes;
}

Json answer_json(const SearchAnswer& answer) {
  Json json;
  const std::string& text = answer.query.text.str();
  const std::string image = answer.query.images.empty() ? "" : answer.query.images.front().name().string();
  json["query"] = {
      {"text", text.empty() ? Json() : Json(text)},
      {"image", image.empty() ? Json() : Json(image)},
      {"k", answer.query.k},
      {"filter", answer.query.filter.empty() ? Json() : Json(answer.query.filter)},
      {"group_duplicates", answer.query.group_duplicates},
      {"min_probability", answer.query.min_probability ? Json(*answer.query.min_probability) : Json()},
      {"order", enum_name(answer.query.order)},
      {"compose",
       answer.composer_report ? composer_json(*answer.composer_report, text) : compose_json(answer.query)},
      {"parts", parts_json(answer.query)}};
  json["tokens"] = tokens_json(answer.tokens);
  json["effective_length"] = measured_json(answer);
  json["searched"] = answer.searched;
  json["late"] = nullptr;
  if (answer.late_scored) {
    json["late"] = {{"scored", *answer.late_scored}, {"exact", *answer.late_scored == answer.searched}};
  }
  json["approximate"] = nullptr;
  if (answer.approximate) {
    json["approximate"] = {{"recall", answer.approximate->recall},
                           {"at", kRecallAt},
                           {"queries", answer.approximate->queries},
                           {"of", answer.approximate->texts ? "text" : "image"}};
  } else if (answer.by_engine) {
    json["approximate"] = {{"engine", answer.by_engine->engine},
                           {"compared", answer.by_engine->compared},
                           {"exact_filter", answer.by_engine->exact_filter}};
  }
  json["rescored"] = answer.rescored ? Json(*answer.rescored) : Json();
  json["rerank"] = answer.reranking ? reranking_json(*answer.reranking) : Json();
  json["matching"] = matching_json(answer);
  json["keywords"] = keywords_json(answer.keywords);
  json["hits"] = Json::array();
  for (const SearchHit& hit : answer.hits) {
    Json folded = Json::array();
    for (const SearchHit::Folded& copy : hit.folded) {
      folded.push_back({{"id", copy.item.id},
                        {"path", file_of(copy.item.path)},
                        {"second", second_json(copy.item)},
                        {"score", shortest(copy.score)},
                        {"same_bytes", copy.same_bytes}});
    }
    json["hits"].push_back({{"rank", hit.rank},
                            {"id", hit.item.id},
                            {"path", file_of(hit.item.path)},
                            {"second", second_json(hit.item)},
                            {"score", std::isfinite(hit.score) ? Json(shortest(hit.score)) : Json()},
                            {"match", match_of(hit) == Match::kUnknown ? Json() : Json(name(match_of(hit)))},
                            {"match_probability", likelihood_json(hit)},
                            {"date", file_date_json(hit.item)},
                            {"dated_by", dated_by(hit.facts)},
                            {"caption", hit.item.caption},
                            {"width", hit.item.width},
                            {"height", hit.item.height},
                            {"format", hit.item.format},
                            {"file_here", !hit.item.file.elsewhere},
                            {"metadata", facts_json(hit.facts)},
                            {"near_duplicates", std::move(folded)},
                            {"vector_rank", hit.vector_rank ? Json(*hit.vector_rank) : Json()},
                            {"keywords", keywords_json(hit.keywords)}});
    add_stages(hit, answer.query, json["hits"].back());
  }
  return json;
}

bool beyond_measured_length(const SearchAnswer& answer) {
  return answer.tokens && answer.query.measured_length &&
         answer.tokens->longest_chunk > answer.query.measured_length->tokens;
}

std::string measured_length_note(const SearchAnswer& answer) {
  if (!beyond_measured_length(answer)) return {};
  const MeasuredLength& measured = *answer.query.measured_length;
  const TokenCount& tokens = *answer.tokens;
  const std::string part = tokens.chunks > 1 ? "in a chunk of " + counted(tokens.longest_chunk, "token")
                                             : "of these " + counted(tokens.used, "token");
  // A curve that rises to its end shows what the model reads at least.
  const std::string read =
      measured.at_end
          ? fmt::format("the model reads at least the first {}, the most that was measured", measured.tokens)
          : fmt::format("the model reads about the first {}", measured.tokens);
  // The message states these limits: hardly any longer text was measured, and one kind of image says little
  // about another.
  return fmt::format(
      "{} {}: {}, where {:.0f}% of the texts are longer; with other images and texts it may read another "
      "number",
      part, read, measured_length_text(measured), 100 * measured.longer_texts);
}

std::string matching_note(const SearchAnswer& answer) {
  if (!answer.matching) return {};
  const Matching& matching = *answer.matching;
  if (!matching.tells) return "match probabilities are unknown: " + matching.reason;
  std::vector<std::string> notes;
  if (answer.query.min_probability && matching.passed == 0 && matching.cut_hits > 0) {
    notes.push_back(fmt::format(
        "nothing matches: no image has a match probability of {:.2g} or more, the highest is {:.2f}",
        *answer.query.min_probability, matching.best));
  } else if (answer.query.min_probability) {
    notes.push_back(fmt::format("{}{} with a match probability of {:.2g} or more{}",
                                matching.more ? "more than " : "", counted(matching.passed, "image"),
                                *answer.query.min_probability, shown_of_passed(answer)));
  }
  const auto first = std::ranges::find(answer.hits, 1, &SearchHit::rank);
  if (first != answer.hits.end() && match_of(*first) == Match::kWeak) {
    notes.emplace_back("weak match: unrelated searches often look this good here");
  }
  if (matching.shipped) {
    notes.emplace_back(
        "matches are rated by a general rule, because too few images have captions or names with words");
  }
  if (matching.sample) {
    notes.push_back(fmt::format("match probabilities from a sample of {} of {}",
                                count_text(matching.sample->images), counted(matching.sample->of, "image")));
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

Match match_of(const SearchHit& hit) {
  if (!hit.likelihood || !std::isfinite(hit.likelihood->right)) return Match::kUnknown;
  return match_of(hit.likelihood->right);
}

std::string tokens_text(const TokenCount& tokens) {
  if (tokens.dropped == 0) {
    const std::string chunks = tokens.chunks > 1 ? ", in " + counted(tokens.chunks, "chunk") : "";
    return fmt::format("all {} read{}", counted(tokens.used, "token"), chunks);
  }
  return fmt::format("first {} read, the other {} dropped: the model has no room for more",
                     counted(tokens.used, "token"), count_text(tokens.dropped));
}

}  // namespace saccade

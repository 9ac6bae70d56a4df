#include <fmt/format.h>

#include "saccade/search/search.h"

namespace saccade {
namespace {

// Nine digits give a float back exactly; as a double it would be written with noise behind them.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace

Json answer_json(const Answer& answer) {
  Json json;
  json["query"] = {{"text", answer.query.text.empty() ? Json() : Json(answer.query.text)},
                   {"image", answer.query.image.empty() ? Json() : Json(answer.query.image.string())},
                   {"k", answer.query.k},
                   {"filter", answer.query.filter.empty() ? Json() : Json(answer.query.filter)},
                   {"fold_duplicates", answer.query.fold_duplicates}};
  json["tokens"] = nullptr;
  if (answer.tokens) {
    json["tokens"] = {{"used", answer.tokens->used}, {"dropped", answer.tokens->dropped}};
  }
  json["searched"] = answer.searched;
  json["hits"] = Json::array();
  for (const Hit& hit : answer.hits) {
    Json folded = Json::array();
    for (const Hit::Folded& copy : hit.folded) {
      folded.push_back({{"id", copy.item.id},
                        {"path", copy.item.path},
                        {"score", shortest(copy.score)},
                        {"same_bytes", copy.same_bytes}});
    }
    json["hits"].push_back({{"rank", hit.rank},
                            {"id", hit.item.id},
                            {"path", hit.item.path},
                            {"score", shortest(hit.score)},
                            {"caption", hit.item.caption},
                            {"width", hit.item.width},
                            {"height", hit.item.height},
                            {"format", hit.item.format},
                            {"folded", std::move(folded)}});
  }
  return json;
}

std::string tokens_text(const TokenCount& tokens) {
  const auto plural = [](int64_t count) { return count == 1 ? "token" : "tokens"; };
  if (tokens.dropped == 0) return fmt::format("all {} {} read", tokens.used, plural(tokens.used));
  return fmt::format("first {} {} read, the other {} dropped: the model has no room for more", tokens.used,
                     plural(tokens.used), tokens.dropped);
}

}  // namespace saccade

#include "saccade/collection/weaviate/aliases.h"

#include <utility>

#include "saccade/collection/weaviate/objects.h"

namespace saccade::weaviate {
namespace {

std::string alias_url(const std::string& alias) {
  return "/v1/aliases/" + alias;
}

}  // namespace

Result<std::optional<std::string>> class_of_alias(const Client& client, const std::string& alias) {
  SACCADE_ASSIGN(const Json found, client.call({.path = alias_url(alias), .may_lack = true}));
  if (found.is_null()) return std::optional<std::string>();
  SACCADE_ASSIGN(std::string name, json_field<std::string>(found, "class"));
  return std::optional<std::string>(std::move(name));
}

Result<std::vector<std::string>> aliases_of_class(const Client& client, const std::string& class_name) {
  SACCADE_ASSIGN(const Json found, client.call({.path = "/v1/aliases?class=" + class_name}));
  const Json& list = member(found, "aliases");
  std::vector<std::string> names;
  if (list.is_null()) return names;
  if (!list.is_array()) return fail(ErrorCode::kBadData, "Weaviate's answer has no list of aliases");
  for (const Json& one : list) {
    SACCADE_ASSIGN(const auto of, json_field<std::string>(one, "class"));
    if (of != class_name) continue;
    SACCADE_ASSIGN(names.emplace_back(), json_field<std::string>(one, "alias"));
  }
  return names;
}

Status set_alias(const Client& client, const std::string& alias, const std::string& class_name,
                 const std::stop_token& stop) {
  SACCADE_ASSIGN(const auto before, class_of_alias(client, alias));
  if (before == class_name) return {};
  Client::Request request{.writes = true, .stop = stop};
  request.method = before ? "PUT" : "POST";
  request.path = before ? alias_url(alias) : "/v1/aliases";
  request.body = Json{{"class", class_name}};
  if (!before) (*request.body)["alias"] = alias;
  const auto made = client.call(request);
  if (made || made.error().code == ErrorCode::kCancelled) return made ? Status{} : Status(fail(made.error()));
  // An answer that was lost: the request had its effect.
  SACCADE_ASSIGN(const auto after, class_of_alias(client, alias));
  if (after == class_name) return {};
  return fail(made.error());
}

}  // namespace saccade::weaviate

// Names of the enums of saccade/compose.h, saccade/map_method.h and saccade/precision.h.
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/model/composers/compose_embeddings.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/options/precision_names.h"

namespace saccade {

std::string_view name(Compose method) {
  return enum_name(method);
}
Result<Compose> parse_compose(std::string_view name) {
  return parse_name<Compose>("compose", name);
}

std::string_view name(MapMethod method) {
  return enum_name(method);
}
Result<MapMethod> parse_map_method(std::string_view name) {
  return parse_name<MapMethod>("explain_by", name);
}

// kAuto is no entry of the table, whose other readers want a format that something was computed in.
std::string_view name(Precision precision) {
  return precision == Precision::kAuto ? "auto" : enum_name(precision);
}
Result<Precision> parse_precision(std::string_view name) {
  if (name == "auto") return Precision::kAuto;
  if (const auto precision = from_name<Precision>(name)) return *precision;
  return fail(ErrorCode::kUsage, "precision is \"{}\", expected one of {}, auto", name,
              list_of_names<Precision>());
}

}  // namespace saccade

// JSON of an untrusted source whose destructor takes no memory.
#pragma once

#include <utility>

#include "saccade/core/json.h"

namespace saccade {

// A value of parse_json that may be large. The destructor of nlohmann::json takes memory for a list of all members,
// and ends the process if there is none; this one removes them first. Copies and moved members are plain values.
class UntrustedJson : public Json {
 public:
  explicit UntrustedJson(Json&& value) noexcept : Json(std::move(value)) {}
  UntrustedJson(UntrustedJson&& other) noexcept : Json(std::move(static_cast<Json&>(other))) {}
  UntrustedJson(const UntrustedJson&) = delete;
  UntrustedJson& operator=(const UntrustedJson&) = delete;
  UntrustedJson& operator=(UntrustedJson&&) = delete;
  ~UntrustedJson() { empty_json(*this); }
};

}  // namespace saccade

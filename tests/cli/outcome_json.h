// Parsing of the program's --json output.
#pragma once

#include <gtest/gtest.h>

#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {

inline Json json_of(const Outcome& outcome) {
  const auto json = parse_json(outcome.out);
  EXPECT_TRUE(json.has_value()) << outcome.out << outcome.err;
  return json.value_or(Json());
}

}  // namespace saccade::test

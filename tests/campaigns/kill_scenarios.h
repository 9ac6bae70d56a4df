// The commands that the kill campaign interrupts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kill_world.h"

namespace saccade::campaign {

// One pass over a scenario's work.
struct Attempt {
  KillPoint point;
  double patience = 60;  // seconds that an answer of `watch` or `serve` is waited for
  // Paths of items whose change was reported as done: an answer of the server, a line of `watch`. Kept from attempt to
  // attempt.
  std::vector<std::string> acknowledged;
};

struct Scenario {
  std::string_view name;
  // Makes BASE/work as it is before the work, by commands that end.
  void (*prepare)(World& world);
  // Runs the work to its end, or to the kill; given again it goes on where it was interrupted.
  ProgramEnd (*work)(World& world, Attempt& attempt);
};

std::span<const Scenario> scenarios();

// Writes what all scenarios read and none changes: BASE/pictures, BASE/more, BASE/export.
void prepare_inputs(World& world);

}  // namespace saccade::campaign

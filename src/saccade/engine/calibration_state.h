// State of a Calibration; private to the engine module.
#pragma once

#include <memory>
#include <utility>

#include "saccade/calibration.h"
#include "saccade/search/matching/background.h"

namespace saccade {

struct Calibration::State {
  explicit State(std::shared_ptr<const Background::Kind> learned) : kind(std::move(learned)) {}

  std::shared_ptr<const Background::Kind> kind;
};

}  // namespace saccade

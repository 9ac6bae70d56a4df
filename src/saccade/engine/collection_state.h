// State of a Collection; private to the engine module.
#pragma once

#include <memory>

#include "saccade/collection.h"
#include "saccade/engine/core.h"

namespace saccade {

struct Collection::State {
  explicit State(std::shared_ptr<const CollectionSnapshot> taken);

  [[nodiscard]] const CollectionReader& reader() const { return snapshot->collection; }

  std::shared_ptr<const CollectionSnapshot> snapshot;
  Info info;
};

}  // namespace saccade

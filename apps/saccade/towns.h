// Location of the file of towns, which names the places of images.
#pragma once

#include <memory>

#include "saccade/collection/places.h"

namespace saccade::app {

// share/saccade/places/towns.tsv beside the program, or what `./dev build` has made in the source tree;
// nullptr where neither is there: pictures then have coordinates and no place.
std::unique_ptr<Gazetteer> find_towns();

}  // namespace saccade::app

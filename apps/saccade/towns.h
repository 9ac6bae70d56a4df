// Location of the file of towns, which names the places of images.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/places.h"

namespace saccade::app {

// share/saccade/places/towns.tsv beside the program, or what `./dev build` has made in the source tree;
// nullptr where neither is there: pictures then have coordinates and no place.
std::unique_ptr<Gazetteer> find_towns();

// Returns true if the filter has a condition on the field of that name.
bool asks_for(const Filter& filter, std::string_view field);

// Returns a message for a filter by place that no image passes because the file of towns is missing. It names
// the command that makes it. Empty otherwise.
std::string without_towns(const Filter& filter, bool have_towns);

}  // namespace saccade::app

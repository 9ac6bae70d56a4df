// Where the program finds the towns that pictures were taken near.
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

// Whether the filter has a condition on the field of that name.
bool asks_for(const Filter& filter, std::string_view field);

// What to say of a filter that no picture passes where it asks for a place and no file of towns is
// there: that none is, and what makes it. Empty otherwise.
std::string without_towns(const Filter& filter, bool have_towns);

}  // namespace saccade::app

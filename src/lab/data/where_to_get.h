// Public datasets by name: where their files come from.
#pragma once

#include <string>
#include <string_view>

namespace saccade::lab {

// Returns how to get a public dataset that is named in place of a path, such as "coco" or "Flickr30k", and what to pass as
// --dataset then. Case, hyphens, underscores and a trailing path separator do not matter. "" for any other name.
std::string where_to_get(std::string_view name);

}  // namespace saccade::lab

// The text of "this image, but ...": what is to change, without the words that only lead into it.
#pragma once

#include "saccade/search/query_text.h"

namespace saccade {

// Removes leading "but", "but with", "and", "only" and "instead" (not "instead of") from the text of a query that has
// an image, so that "but at night" is encoded as "at night". Case and commas behind these words do not count. A text
// that consists of nothing else, and one in quotes, stays. With several parts, the running text is the one that changes.
void drop_lead_in(QueryText& text);

}  // namespace saccade

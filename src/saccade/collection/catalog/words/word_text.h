// Text of an item in the word index (word_index.h).
#pragma once

#include <string>

namespace saccade::store {

// Words follow Unicode's segmentation (text/words.h) and are separated by one space, so scripts written without
// spaces have words too.
struct WordText {
  std::string caption;
  std::string name;     // of the file, without its ending
  std::string folders;  // of the path
};

}  // namespace saccade::store

#include "saccade/core/source_dir.h"

namespace saccade::test {

const char* const kSourceDir = SACCADE_SOURCE_DIR;

}  // namespace saccade::test

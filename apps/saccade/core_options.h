// The engine's core (engine/core.h) as commands open it.
#pragma once

#include <filesystem>
#include <string>

#include "saccade/engine/core.h"

#include "command.h"
#include "load_checkpoint.h"

namespace saccade::app {

// Returns options for the collection in `folder` with a checkpoint, number format and threads from the command line. Notes
// become messages; decoders are the session's. The session is borrowed.
EngineCoreOptions core_options(const std::filesystem::path& folder, const std::string& checkpoint,
                               const EncoderChoice& encoder, Session& session);

}  // namespace saccade::app

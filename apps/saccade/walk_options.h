// Options that select files, for commands that walk folders into a collection.
#pragma once

#include <CLI/CLI.hpp>

#include "saccade/collection/ingest/ingest.h"

namespace saccade::app {

// --retry-failed, --follow-links, --hidden, --exclude, --no-ignore-files, --no-sidecars and
// --no-metadata, --video-seconds and --video-frames; finds what reads videos. `options` outlives the command.
void add_walk_options(CLI::App& command, IngestOptions& options);

// add_decode_options() and --batch-size, for commands that encode files into a collection.
void add_encoding_options(CLI::App& command, IngestOptions& options);

}  // namespace saccade::app

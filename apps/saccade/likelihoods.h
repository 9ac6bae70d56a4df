// Score calibration messages of all commands that index or search.
#pragma once

#include <filesystem>
#include <memory>

#include "saccade/collection/collection.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder.h"
#include "saccade/search/background.h"

#include "command.h"

namespace saccade::app {

// Measures the collection where that is needed (refresh_background), and asks for the encoder only then. The
// pictures are in whatever comes of it: what fails is told, and tried again by the next run.
void measure_likelihoods(const std::filesystem::path& folder, const EncoderSource& encoder, ThreadPool& pool,
                         Session& session);

// Returns the score calibration data; `nullptr` if there are none. Reports damaged data, which `saccade
// index` rebuilds.
std::shared_ptr<const Background> background_of(const Collection& collection, Session& session);

}  // namespace saccade::app

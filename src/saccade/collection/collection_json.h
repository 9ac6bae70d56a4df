// JSON of collections and of runs over them, for `--json` and for servers.
#pragma once

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/verify.h"
#include "saccade/core/json.h"

namespace saccade {

// Returns a collection as JSON: format, checkpoint, settings, and its counts and bytes.
Json collection_json(const CollectionInfo& info, const CollectionSummary& summary);

// {"path", "code", "reason"}
Json failure_json(const Failure& failure);

// Counts, seconds by kind of work, "unread_captions" and "failed" as failure_json.
Json ingest_json(const IngestReport& report);

// Counts, "ok", and "problems" as {"subject", "message", "fatal"}.
Json verify_json(const VerifyReport& report);

}  // namespace saccade

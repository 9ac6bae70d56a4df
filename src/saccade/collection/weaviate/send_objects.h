// Sending of objects to a Weaviate cluster, in batches.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "saccade/collection/weaviate/weaviate_client.h"

namespace saccade::weaviate {

inline constexpr size_t kObjectsPerBatch = 200;  // objects of a request

// Stores objects on a quorum of replicas, in batches. Objects that are refused are sent again: kIo if they still are at the
// end, kCancelled if stopped.
Status send_objects(const Client& client, std::vector<Json> objects, const std::stop_token& stop = {});

}  // namespace saccade::weaviate

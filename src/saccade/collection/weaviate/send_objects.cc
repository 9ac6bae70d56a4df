#include "saccade/collection/weaviate/send_objects.h"

#include <algorithm>
#include <string>
#include <utility>

#include "saccade/collection/weaviate/objects.h"
#include "saccade/core/process/stoppable_wait.h"

namespace saccade::weaviate {

Status send_objects(const Client& client, std::vector<Json> objects, const std::stop_token& stop) {
  for (size_t begin = 0; begin < objects.size(); begin += kObjectsPerBatch) {
    const size_t end = std::min(begin + kObjectsPerBatch, objects.size());
    std::vector<size_t> left;
    for (size_t i = begin; i < end; ++i) left.push_back(i);
    std::string said;
    // Objects are refused one by one, such as those of a replica that has just died: only these are sent again.
    for (int tries = 0; !left.empty(); ++tries) {
      if (tries == kWriting.rounds) return fail(ErrorCode::kIo, "Weaviate stores no object: {}", said);
      if (tries > 0)
        SACCADE_TRY(
            stoppable_wait(std::min((1 << tries) * kWriting.first_wait / 2, kWriting.longest_wait), stop));
      Json batch = Json::array();
      for (const size_t i : left) batch.push_back(objects[i]);
      SACCADE_ASSIGN(const Json answer, client.call({.method = "POST",
                                                     .path = "/v1/batch/objects?consistency_level=QUORUM",
                                                     .body = Json{{"objects", std::move(batch)}},
                                                     .writes = true,
                                                     .stop = stop}));
      if (!answer.is_array() || answer.size() != left.size()) {
        return fail(ErrorCode::kBadData, "Weaviate answers for another number of objects than were sent");
      }
      std::vector<size_t> refused;
      for (size_t i = 0; i < left.size(); ++i) {
        const Json& result = member(answer[i], "result");
        if (!result.is_object())
          return fail(ErrorCode::kBadData, "Weaviate's answer lacks an object's result");
        const Json& errors = member(result, "errors");
        if (errors.is_null()) continue;
        refused.push_back(left[i]);
        said = dump_json(errors).substr(0, 300);
      }
      left = std::move(refused);
    }
  }
  return {};
}

}  // namespace saccade::weaviate

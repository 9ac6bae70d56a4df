#include "saccade/model/checkpoints/saccade_file.h"

#include <system_error>

#include "saccade/core/files/files.h"

namespace saccade {

std::filesystem::path saccade_file(const std::filesystem::path& checkpoint) {
  return checkpoint / "saccade.json";
}

Result<Json> read_saccade_file(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = saccade_file(checkpoint);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return Json::object();
  SACCADE_ASSIGN(Json json, read_json(file));
  if (json.is_object()) return json;
  return fail(ErrorCode::kBadData, "{}: {}, expected an object", file.string(), json_kind(json));
}

Status write_saccade_file(const std::filesystem::path& checkpoint, const Json& json) {
  return write_file_atomic(saccade_file(checkpoint), dump_json(json, 2) + "\n");
}

}  // namespace saccade

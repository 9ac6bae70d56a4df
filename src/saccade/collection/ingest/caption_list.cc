#include "saccade/collection/ingest/caption_list.h"

#include <vector>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

namespace saccade {
namespace {

Result<std::vector<std::string>> captions_of(const Json& line) {
  std::vector<std::string> captions;
  const char* const key = line.contains("captions") ? "captions" : "caption";
  const auto found = line.find(key);
  if (found == line.end() || found->is_null()) return captions;
  if (!found->is_array()) {
    SACCADE_ASSIGN(captions.emplace_back(), json_field<std::string>(line, key));
    return captions;
  }
  for (const Json& caption : *found) {
    if (!caption.is_string()) {
      return fail(ErrorCode::kBadData, "\"{}\" holds {}, expected strings", key, json_kind(caption));
    }
    captions.push_back(caption.get<std::string>());
  }
  return captions;
}

Status add_line(std::string_view text, const std::filesystem::path& folder, CaptionList& list) {
  SACCADE_ASSIGN(const Json line, parse_json(text));
  if (line.is_object() && line.contains("image") && line["image"].is_object()) return {};
  SACCADE_ASSIGN(const auto image, json_field<std::string>(line, "image"));
  if (image.empty() || image.find('\0') != std::string::npos) {
    return fail(ErrorCode::kBadData, "\"image\" is {}, expected a path", image.empty() ? "empty" : "no path");
  }
  SACCADE_ASSIGN(const std::vector<std::string> captions, captions_of(line));
  std::string& joined = list[(folder / image).string()];
  for (const std::string& caption : captions) joined += (joined.empty() ? "" : "; ") + caption;
  return {};
}

}  // namespace

Result<CaptionList> parse_caption_list(std::string_view text, const std::filesystem::path& folder) {
  CaptionList list;
  int64_t number = 0;
  for (const std::string_view line : Lines(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    SACCADE_TRY(add_line(line, folder, list).in(fmt::format("line {}", number)));
  }
  return list;
}

Result<CaptionList> read_caption_list(const std::filesystem::path& file) {
  constexpr int64_t kMaxBytes = int64_t{4} << 30;
  SACCADE_ASSIGN(const std::string text, read_file(file, kMaxBytes));
  return parse_caption_list(text, file.parent_path()).in(file.string());
}

std::string caption_list_line(const std::filesystem::path& image, std::span<const std::string> captions) {
  return dump_json({{"image", image.string()}, {"captions", captions}}) + "\n";
}

}  // namespace saccade

#include "saccade/model/options/effective_length.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/model/checkpoints/saccade_file.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "effective_length";
constexpr std::string_view kSectionBegin = "<!-- saccade eval length -->";
constexpr std::string_view kSectionEnd = "<!-- end of saccade eval length -->";

Json optional_json(const std::optional<int64_t>& value) {
  return value ? Json(*value) : Json();
}

Result<std::optional<int64_t>> optional_field(const Json& json, std::string_view key) {
  if (!json.contains(std::string(key)) || json[std::string(key)].is_null()) return std::optional<int64_t>();
  SACCADE_ASSIGN(const auto value, json_field<int64_t>(json, key));
  return std::optional(value);
}

Result<MeasuredLength> parse(const Json& json) {
  MeasuredLength length;
  SACCADE_ASSIGN(length.fingerprint, json_field<std::string>(json, "fingerprint"));
  SACCADE_ASSIGN(length.precision, json_field<std::string>(json, "precision"));
  SACCADE_ASSIGN(length.dataset, json_field<std::string>(json, "dataset"));
  SACCADE_ASSIGN(length.dataset_sha256, json_field<std::string>(json, "dataset_sha256"));
  SACCADE_ASSIGN(length.domain, json_field_or<std::string>(json, "domain", ""));
  SACCADE_ASSIGN(length.images, json_field<int64_t>(json, "images"));
  SACCADE_ASSIGN(length.texts, json_field<int64_t>(json, "texts"));
  SACCADE_ASSIGN(length.tokens, json_field<int64_t>(json, "tokens"));
  SACCADE_ASSIGN(length.low, optional_field(json, "low"));
  SACCADE_ASSIGN(length.high, optional_field(json, "high"));
  SACCADE_ASSIGN(length.confidence, json_field<double>(json, "confidence"));
  SACCADE_ASSIGN(length.share, json_field<double>(json, "share"));
  SACCADE_ASSIGN(length.r1, json_field<double>(json, "r1"));
  SACCADE_ASSIGN(length.at_end, json_field<bool>(json, "at_end"));
  SACCADE_ASSIGN(length.longest, json_field<int64_t>(json, "longest"));
  SACCADE_ASSIGN(length.longer_texts, json_field<double>(json, "longer_texts"));
  if (length.tokens < 0) return fail(ErrorCode::kBadData, "\"tokens\" is {}", length.tokens);
  return length;
}

// Parses all entries of the file, for any fingerprint.
Result<std::vector<MeasuredLength>> entries_of(const Json& json) {
  std::vector<MeasuredLength> entries;
  if (!json.contains(kKey)) return entries;
  const Json& list = json[kKey];
  if (!list.is_array()) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, expected a list", kKey, json_kind(list));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    SACCADE_ASSIGN(entries.emplace_back(), parse(list[i]).in(fmt::format("{}[{}]", kKey, i)));
  }
  return entries;
}

// Escapes text for a cell of a Markdown table: on one line, no bars.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

std::string section(const std::vector<MeasuredLength>& lengths) {
  std::string text = fmt::format("{}\n## Effective token length\n\n", kSectionBegin);
  text +=
      "How many of a text's tokens it takes for most of the text-to-image R@1 that this checkpoint reaches "
      "at any length, by\n`saccade eval length` (all images of the dataset, texts cut by tokens, ties against "
      "the model, intervals by image).\n\n"
      "| dataset | domain | images | texts | tokens | interval | share | best R@1 | longest text | longer "
      "texts |\n"
      "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n";
  for (const MeasuredLength& length : lengths) {
    const std::string interval =
        length.low && length.high
            ? fmt::format("{} to {} ({:g} %)", *length.low, *length.high, 100 * length.confidence)
            : std::string();
    text += fmt::format("| {} | {} | {} | {} | {}{} | {} | {:g} % | {:.3f} | {} | {:.1f} % |\n",
                        cell(length.dataset), cell(length.domain), length.images, length.texts, length.tokens,
                        length.at_end ? " or more" : "", interval, 100 * length.share, length.r1,
                        length.longest, 100 * length.longer_texts);
  }
  return text + std::string(kSectionEnd) + "\n";
}

// Returns the card with the section replaced, or appended if there is none.
std::string with_section(const std::string& card, const std::string& section) {
  const size_t begin = card.find(kSectionBegin);
  const size_t end = begin == std::string::npos ? begin : card.find(kSectionEnd, begin);
  if (end == std::string::npos) {
    const std::string_view gap = card.empty() ? "" : card.ends_with('\n') ? "\n" : "\n\n";
    return card + std::string(gap) + section;
  }
  size_t after = end + kSectionEnd.size();
  if (after < card.size() && card[after] == '\n') ++after;
  return card.substr(0, begin) + section + card.substr(after);
}

}  // namespace

Json measured_length_json(const MeasuredLength& length) {
  return {{"fingerprint", length.fingerprint},
          {"precision", length.precision},
          {"dataset", length.dataset},
          {"dataset_sha256", length.dataset_sha256},
          {"domain", length.domain},
          {"images", length.images},
          {"texts", length.texts},
          {"tokens", length.tokens},
          {"low", optional_json(length.low)},
          {"high", optional_json(length.high)},
          {"confidence", length.confidence},
          {"share", length.share},
          {"r1", length.r1},
          {"at_end", length.at_end},
          {"longest", length.longest},
          {"longer_texts", length.longer_texts}};
}

std::string measured_length_text(const MeasuredLength& length) {
  std::string text = fmt::format("{} token{}", length.tokens, length.tokens == 1 ? "" : "s");
  if (length.low && length.high) text += fmt::format(" ({} to {})", *length.low, *length.high);
  return text + fmt::format(" give {:g}% of the best R@1, on {}{}", 100 * length.share, length.dataset,
                            length.domain.empty() ? "" : fmt::format(" ({})", length.domain));
}

Result<std::vector<MeasuredLength>> read_measured_lengths(const fs::path& checkpoint,
                                                          std::string_view fingerprint) {
  const fs::path file = saccade_file(checkpoint);
  SACCADE_ASSIGN(const Json json, read_saccade_file(checkpoint));
  SACCADE_ASSIGN(std::vector<MeasuredLength> entries, entries_of(json).in(file.string()));
  std::erase_if(entries, [&](const MeasuredLength& entry) { return entry.fingerprint != fingerprint; });
  return entries;
}

std::optional<MeasuredLength> longest_measured(const std::vector<MeasuredLength>& lengths) {
  const auto longest = std::ranges::max_element(lengths, {}, &MeasuredLength::tokens);
  return longest == lengths.end() ? std::nullopt : std::optional(*longest);
}

Status write_measured_lengths(const fs::path& checkpoint, const std::vector<MeasuredLength>& lengths) {
  if (lengths.empty()) return {};
  const fs::path file = saccade_file(checkpoint);
  SACCADE_ASSIGN(Json json, read_saccade_file(checkpoint));
  SACCADE_ASSIGN(std::vector<MeasuredLength> entries, entries_of(json).in(file.string()));
  std::erase_if(entries, [&](const MeasuredLength& entry) {
    return entry.fingerprint != lengths.front().fingerprint ||
           std::ranges::any_of(lengths, [&](const MeasuredLength& fresh) {
             return fresh.dataset_sha256 == entry.dataset_sha256 && fresh.precision == entry.precision;
           });
  });
  entries.insert(entries.end(), lengths.begin(), lengths.end());
  json[kKey] = Json::array();
  for (const MeasuredLength& entry : entries) json[kKey].push_back(measured_length_json(entry));
  SACCADE_TRY(write_saccade_file(checkpoint, json));

  const fs::path card_file = checkpoint / "README.md";
  std::error_code ignored;
  if (fs::is_symlink(card_file, ignored)) return {};
  std::string card;
  if (fs::exists(card_file, ignored)) {
    SACCADE_ASSIGN(card, read_file(card_file, int64_t{64} << 20));
  }
  return write_file_atomic(card_file, with_section(card, section(entries)));
}

}  // namespace saccade

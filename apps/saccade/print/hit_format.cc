#include "print/hit_format.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/catalog/facts_json.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/image/frame_name.h"
#include "saccade/text/nearest.h"

namespace saccade::app {
namespace {

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string words_of(const SearchHit& hit) {
  std::string words;
  if (!hit.keywords) return words;
  for (const KeywordHit::Match& match : hit.keywords->matches)
    words += (words.empty() ? "" : " ") + match.term;
  return words;
}

// Returns the embedded metadata field with that name in facts_json; empty if the file has none.
std::string fact_of(const SearchHit& hit, std::string_view name) {
  const Json facts = facts_json(hit.facts);
  const auto found = facts.find(std::string(name));
  if (found == facts.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return dump_json(*found);
  std::string list;
  for (const Json& one : *found) list += (list.empty() ? "" : ", ") + one.get<std::string>();
  return list;
}

struct Field {
  std::string_view name;
  std::string (*value)(const SearchHit&) = nullptr;  // nullptr: what facts_json calls so
};

// In the order that a message lists them.
constexpr auto kFields = std::to_array<Field>({
    {"rank", [](const SearchHit& hit) { return fmt::format("{}", hit.rank); }},
    {"score", [](const SearchHit& hit) { return fmt::format("{:.6f}", hit.score); }},
    {"match_probability",
     [](const SearchHit& hit) {
       return hit.likelihood ? fmt::format("{:.4f}", hit.likelihood->right) : std::string();
     }},
    {"path", [](const SearchHit& hit) { return file_of(hit.item.path); }},
    {"name", [](const SearchHit& hit) { return name_of(file_of(hit.item.path)); }},
    {"second",
     [](const SearchHit& hit) {
       const auto second = second_of(hit.item.path);
       return second ? fmt::format("{:.3f}", *second) : std::string();
     }},
    {"caption", [](const SearchHit& hit) { return hit.item.caption; }},
    {"id", [](const SearchHit& hit) { return fmt::format("{}", hit.item.id); }},
    {"width", [](const SearchHit& hit) { return fmt::format("{}", hit.item.width); }},
    {"height", [](const SearchHit& hit) { return fmt::format("{}", hit.item.height); }},
    {"format", [](const SearchHit& hit) { return hit.item.format; }},
    // Empty where they are not known, of an item without a file.
    {"size",
     [](const SearchHit& hit) {
       return hit.item.size == kUnknownState ? std::string() : fmt::format("{}", hit.item.size);
     }},
    {"date",
     [](const SearchHit& hit) {
       return hit.item.mtime_ns == kUnknownState ? std::string()
                                                 : fmt::format("{}", whole_seconds(hit.item.mtime_ns));
     }},
    {"dated_by", [](const SearchHit& hit) { return std::string(dated_by(hit.facts)); }},
    {"hash", [](const SearchHit& hit) { return hit.item.hash; }},
    {"taken"},
    {"zone_minutes"},
    {"camera"},
    {"lens"},
    {"latitude"},
    {"longitude"},
    {"place"},
    {"rating"},
    {"title"},
    {"description"},
    {"keywords"},
    {"keyword_matches", words_of},
    {"near_duplicates", [](const SearchHit& hit) { return fmt::format("{}", hit.folded.size()); }},
});

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for (const Field& field : kFields) names.emplace_back(field.name);
  return names;
}

}  // namespace

Result<HitFormat> HitFormat::parse(const std::string& text, bool nul) {
  HitFormat format;
  format.end_ = nul ? '\0' : '\n';
  std::string before;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (c == '\\') {
      constexpr std::string_view kEscapes = "tn0\\";
      constexpr std::string_view kMeanings("\t\n\0\\", 4);
      const size_t which = next == '\0' ? std::string_view::npos : kEscapes.find(next);
      if (which == std::string_view::npos) {
        return fail(ErrorCode::kUsage, "a backslash stands before t, n, 0 or another backslash, not \"{}\"",
                    text.substr(at + 1, 1));
      }
      before += kMeanings[which];
      ++at;
    } else if ((c == '{' || c == '}') && next == c) {
      before += c;
      ++at;
    } else if (c == '}') {
      return fail(ErrorCode::kUsage,
                  "a \"}}\" without a \"{{\" before it; \"}}}}\" stands for the sign itself");
    } else if (c == '{') {
      const size_t close = text.find('}', at);
      if (close == std::string::npos) {
        return fail(ErrorCode::kUsage, "a \"{{\" that is not closed; \"{{{{\" stands for the sign itself");
      }
      const std::string name = text.substr(at + 1, close - at - 1);
      if (std::ranges::find(kFields, name, &Field::name) == kFields.end()) {
        const std::vector<std::string> names = field_names();
        return fail(ErrorCode::kUsage, "no field \"{}\"; there are {}{}", name, fmt::join(names, ", "),
                    did_you_mean(name, names));
      }
      format.pieces_.push_back({std::move(before), name});
      before.clear();
      at = close;
    } else {
      before += c;
    }
  }
  format.pieces_.push_back({std::move(before), {}});
  return format;
}

std::string HitFormat::text_of(const SearchAnswer& answer) const {
  std::string text;
  for (const SearchHit& hit : answer.hits) {
    for (const Piece& piece : pieces_) {
      text += piece.text;
      if (piece.field.empty()) continue;
      const Field& field = *std::ranges::find(kFields, piece.field, &Field::name);
      text += field.value != nullptr ? field.value(hit) : fact_of(hit, field.name);
    }
    text += end_;
  }
  return text;
}

}  // namespace saccade::app

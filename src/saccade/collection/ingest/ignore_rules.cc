#include "saccade/collection/ingest/ignore_rules.h"

#include "saccade/core/ascii.h"

namespace saccade {
namespace {

constexpr std::string_view kWild = "*?[\\";

// One "[...]" that `pattern` begins with against one byte. Returns its length, 0 where
// it has no end (a literal "[").
size_t match_set(std::string_view pattern, char c, bool& matched) {
  size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool any = false;
  const size_t first = i;
  for (; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    char low = pattern[i];
    if (low == '\\' && i + 1 < pattern.size()) low = pattern[++i];
    char high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      i += 2;
      high = pattern[i];
      if (high == '\\' && i + 1 < pattern.size()) high = pattern[++i];
    }
    const auto byte = static_cast<unsigned char>(c);
    any = any || (byte >= static_cast<unsigned char>(low) && byte <= static_cast<unsigned char>(high));
  }
  if (i >= pattern.size()) return 0;
  matched = any != negated && c != '/';
  return i + 1;
}

// One piece of a pattern that is not a star against one byte; its length in the
// pattern, 0 where it does not match.
size_t match_one(std::string_view pattern, char c) {
  if (pattern[0] == '?') return c == '/' ? 0 : 1;
  if (pattern[0] == '[') {
    bool matched = false;
    const size_t length = match_set(pattern, c, matched);
    if (length > 0) return matched ? length : 0;
  }
  if (pattern[0] == '\\' && pattern.size() > 1) return pattern[1] == c ? 2 : 0;
  return pattern[0] == c ? 1 : 0;
}

struct Star {
  size_t pattern = std::string_view::npos;  // where the pattern goes on behind it; npos: there is none
  size_t text = 0;                          // where the text does
};

}  // namespace

// Greedy, and back to the last star where that fails; and to the last "**", which alone may swallow
// a "/". Each goes on one byte further every time, so that the work is bounded by the product of
// the lengths for each of the two.
bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  Star star;
  Star folders;
  for (;;) {
    if (p < pattern.size() && pattern.substr(p).starts_with("**")) {
      const bool begins = p == 0 || pattern[p - 1] == '/';
      const size_t behind = p + 2;
      if (begins && behind < pattern.size() && pattern[behind] == '/') {
        // "**/": from here on, or from behind any later slash.
        p = behind + 1;
        folders = {p, t};
        star = {};
        continue;
      }
      if (begins && behind == pattern.size()) return t < text.size();  // "/**": all that is below
    }
    if (p < pattern.size() && pattern[p] == '*') {
      while (p < pattern.size() && pattern[p] == '*') ++p;
      star = {p, t};
      continue;
    }
    if (t == text.size() && p == pattern.size()) return true;
    if (t < text.size() && p < pattern.size()) {
      const size_t length = match_one(pattern.substr(p), text[t]);
      if (length > 0) {
        p += length;
        ++t;
        continue;
      }
    }
    if (star.pattern != std::string_view::npos && star.text < text.size() && text[star.text] != '/') {
      p = star.pattern;
      t = ++star.text;
      continue;
    }
    if (folders.pattern == std::string_view::npos) return false;
    const size_t slash = text.find('/', folders.text);
    if (slash == std::string_view::npos) return false;
    p = folders.pattern;
    t = folders.text = slash + 1;
    star = {};
  }
}

IgnoreRules::IgnoreRules(std::string_view text) {
  for (const std::string_view line : Lines(without_byte_order_mark(text))) add(line);
}

IgnoreRules::IgnoreRules(std::span<const std::string> lines) {
  for (const std::string& line : lines) add(line);
}

void IgnoreRules::add(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
  if (line.empty() || line.front() == '#') return;
  Rule rule;
  if (line.front() == '!') {
    rule.negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.folders_only = true;
    line.remove_suffix(1);
  }
  rule.anchored = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  rule.pattern = line;
  const auto index = static_cast<uint32_t>(rules_.size());
  if (line.find_first_of(kWild) == std::string_view::npos) {
    (rule.anchored ? paths_ : names_)[rule.pattern].push_back(index);
  } else if (!rule.anchored && line.starts_with("*.") &&
             line.substr(2).find_first_of(".*?[\\") == std::string_view::npos) {
    endings_[std::string(line.substr(1))].push_back(index);
  } else {
    general_.push_back(index);
  }
  rules_.push_back(std::move(rule));
}

std::optional<bool> IgnoreRules::decide(std::string_view path, bool folder) const {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  std::optional<uint32_t> last;
  const auto consider = [&](uint32_t index) {
    if (rules_[index].folders_only && !folder) return;
    if (!last || index > *last) last = index;
  };
  const auto look_up = [&](const Places& places, std::string_view key) {
    if (places.empty()) return;
    const auto found = places.find(std::string(key));
    if (found == places.end()) return;
    for (const uint32_t index : found->second) consider(index);
  };
  look_up(names_, name);
  look_up(paths_, path);
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) look_up(endings_, name.substr(dot));
  for (auto index = general_.rbegin(); index != general_.rend(); ++index) {
    if (last && *index < *last) break;
    const Rule& rule = rules_[*index];
    if (rule.folders_only && !folder) continue;
    if (glob_matches(rule.pattern, rule.anchored ? path : name)) {
      consider(*index);
      break;
    }
  }
  if (!last) return std::nullopt;
  return !rules_[*last].negated;
}

}  // namespace saccade

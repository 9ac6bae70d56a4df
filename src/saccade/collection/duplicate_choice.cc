#include "saccade/collection/duplicate_choice.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/catalog/store.h"
#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"

namespace saccade {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;
constexpr double kAsLarge = 0.95;

int64_t pixels_of(const DuplicateCandidate& candidate) {
  return pixel_count(candidate.item.width, candidate.item.height);
}

// Size of the largest file with so many pixels.
using LargestBytes = std::map<int64_t, int64_t>;

// Sort key of a criterion; the smaller one is preferred.
using Key = std::pair<int64_t, int64_t>;

struct Criterion {
  Key (*key)(const DuplicateCandidate& candidate, const LargestBytes& largest);
  // Says why the best is the best.
  std::string (*reason)(const DuplicateCandidate& best);
};

Key bytes_key(const DuplicateCandidate& candidate, const LargestBytes& largest) {
  const int64_t bytes = candidate.item.size;
  const int64_t most = largest.at(pixels_of(candidate));
  return {static_cast<double>(bytes) >= kAsLarge * static_cast<double>(most) ? -most : -bytes, 0};
}

Key date_key(const DuplicateCandidate& candidate, const LargestBytes& /*largest*/) {
  const int64_t changed = candidate.item.mtime_ns;
  if (changed == kUnknownState && !candidate.taken) return {std::numeric_limits<int64_t>::max(), 0};
  return {candidate.taken.value_or(changed / kNanoseconds), changed};
}

std::string date_text(const DuplicateCandidate& candidate) {
  return candidate.taken ? store::local_text(*candidate.taken)
                         : store::utc_text(candidate.item.mtime_ns / kNanoseconds);
}

constexpr std::array kCriteria = {
    // First: what is kept has to be here, or removing the others would lose the picture.
    Criterion{[](const DuplicateCandidate& c, const LargestBytes&) { return Key(c.item.file.elsewhere, 0); },
              [](const DuplicateCandidate&) { return std::string("the only one whose file is here"); }},
    Criterion{
        [](const DuplicateCandidate& c, const LargestBytes&) { return Key(c.item.file.linked, 0); },
        [](const DuplicateCandidate&) { return std::string("the only one that is not behind a link"); }},
    Criterion{[](const DuplicateCandidate& c, const LargestBytes&) { return Key(-pixels_of(c), 0); },
              [](const DuplicateCandidate& c) {
                return fmt::format("the most pixels ({} x {})", c.item.width, c.item.height);
              }},
    Criterion{bytes_key,
              [](const DuplicateCandidate& c) {
                return fmt::format("the largest file of the most pixels ({})", size_text(c.item.size));
              }},
    Criterion{[](const DuplicateCandidate& c, const LargestBytes&) { return Key(-c.rating, 0); },
              [](const DuplicateCandidate& c) { return fmt::format("rated {}", c.rating); }},
    Criterion{[](const DuplicateCandidate& c, const LargestBytes&) { return Key(c.item.caption.empty(), 0); },
              [](const DuplicateCandidate&) { return std::string("the one with a caption"); }},
    Criterion{date_key,
              [](const DuplicateCandidate& c) { return fmt::format("the oldest ({})", date_text(c)); }},
    Criterion{
        [](const DuplicateCandidate& c, const LargestBytes&) { return Key(has_copy_mark(c.item.path), 0); },
        [](const DuplicateCandidate&) { return std::string("the name without a copy mark"); }},
    Criterion{
        [](const DuplicateCandidate& c, const LargestBytes&) { return Key(std::ssize(c.item.path), 0); },
        [](const DuplicateCandidate&) { return std::string("the shortest path"); }},
    Criterion{[](const DuplicateCandidate& c, const LargestBytes&) { return Key(c.item.id, 0); },
              [](const DuplicateCandidate&) {
                return std::string("indexed first; nothing else tells them apart");
              }},
};

LargestBytes largest_bytes(const std::vector<const DuplicateCandidate*>& candidates) {
  LargestBytes largest;
  for (const DuplicateCandidate* candidate : candidates) {
    int64_t& most = largest[pixels_of(*candidate)];
    most = std::max(most, candidate->item.size);
  }
  return largest;
}

// The first criterion that tells the two apart.
const Criterion* deciding(const DuplicateCandidate& a, const DuplicateCandidate& b,
                          const LargestBytes& largest) {
  const auto found = std::ranges::find_if(kCriteria, [&](const Criterion& criterion) {
    return criterion.key(a, largest) != criterion.key(b, largest);
  });
  return found == kCriteria.end() ? nullptr : &*found;
}

bool is_separator(char c) {
  return c == ' ' || c == '_' || c == '-' || c == '.' || c == '~';
}

// Takes "(2)" or "2" and the separators before it off the end; a number in brackets has three digits at most, as a
// longer one is a year.
void cut_number(std::string_view& stem, bool& in_brackets) {
  in_brackets = false;
  std::string_view rest = stem;
  const bool bracket = rest.ends_with(')');
  if (bracket) rest.remove_suffix(1);
  const size_t last = rest.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last + 1 == rest.size()) return;
  const size_t digits = rest.size() - last - 1;
  rest = rest.substr(0, last + 1);
  if (bracket) {
    if (digits > 3 || !rest.ends_with('(')) return;
    rest.remove_suffix(1);
    in_brackets = true;
  }
  while (!rest.empty() && is_separator(rest.back())) rest.remove_suffix(1);
  stem = rest;
}

}  // namespace

bool has_copy_mark(std::string_view path) {
  static constexpr std::array<std::string_view, 7> kMarks = {"copy",  "duplicate", "kopie",       "copie",
                                                             "copia", "kopija",    "c\xc3\xb3pia"};
  static constexpr std::array<std::string_view, 6> kBefore = {"copy of ",  "kopie von ", "copie de ",
                                                              "copia de ", "copia di ",  "kopie van "};
  const std::string stem = lower_ascii(std::filesystem::path(path).stem().string());
  std::string_view name = stem;
  bool in_brackets = false;
  cut_number(name, in_brackets);
  if (in_brackets && !name.empty()) return true;
  for (const std::string_view candidate : {std::string_view(stem), name}) {
    for (const std::string_view mark : kMarks) {
      if (!candidate.ends_with(mark) || candidate.size() == mark.size()) continue;
      if (is_separator(candidate[candidate.size() - mark.size() - 1])) return true;
    }
  }
  return std::ranges::any_of(kBefore, [&](std::string_view mark) { return stem.starts_with(mark); });
}

void sort_best_first(std::vector<const DuplicateCandidate*>& candidates) {
  const LargestBytes largest = largest_bytes(candidates);
  std::ranges::stable_sort(candidates, [&](const DuplicateCandidate* a, const DuplicateCandidate* b) {
    const Criterion* criterion = deciding(*a, *b, largest);
    return criterion != nullptr && criterion->key(*a, largest) < criterion->key(*b, largest);
  });
}

std::string why_best(const std::vector<const DuplicateCandidate*>& sorted) {
  const Criterion* criterion = deciding(*sorted[0], *sorted[1], largest_bytes(sorted));
  return criterion == nullptr ? std::string() : criterion->reason(*sorted[0]);
}

}  // namespace saccade

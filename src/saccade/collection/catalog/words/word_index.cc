#include "saccade/collection/catalog/words/word_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "saccade/collection/catalog/scan_parts.h"
#include "saccade/image/frame_name.h"
#include "saccade/text/words.h"

namespace saccade::store {
namespace {

// Returns a term's words as FTS5's string (https://www.sqlite.org/fts5.html, 3.1): nothing within the quotes is
// syntax. Its tokenizer takes the string apart as it did the fields, so that several words must stand side by side.
std::string match_string(std::string_view words) {
  std::string quoted = "\"";
  for (const char c : words) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Returns the number of words of a text, from what `words_docsize` has of it: a varint for each field
// (https://www.sqlite.org/fts5.html, "Document Sizes Table").
Result<uint32_t> text_length(std::string_view sizes) {
  constexpr int kFields = 3;
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  uint64_t sum = 0;
  uint64_t size = 0;
  int fields = 0;
  bool within = false;  // a varint
  for (const char c : sizes) {
    const auto byte = static_cast<unsigned char>(c);
    size = size << 7 | (byte & 0x7FU);
    within = byte >= 0x80;
    if (size > kMost) break;
    if (within) continue;
    sum += size;
    size = 0;
    ++fields;
  }
  if (within || size != 0 || fields != kFields || sum > kMost)
    return fail(ErrorCode::kBadData, "the length of a text is unreadable");
  return static_cast<uint32_t>(sum);
}

}  // namespace

Result<WordTexts> WordTexts::make() {
  SACCADE_ASSIGN(WordSplitter splitter, WordSplitter::open());
  return WordTexts(std::move(splitter));
}

Result<WordText> WordTexts::of(std::string_view named, std::string_view caption) {
  const std::string file = file_of(named);
  const std::string_view path = file;
  const size_t slash = path.rfind('/');
  const std::string_view folders =
      slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0)
    name = name.substr(0, dot);
  WordText text;
  SACCADE_ASSIGN(text.caption, spaced_words(splitter_, caption));
  SACCADE_ASSIGN(text.name, spaced_words(splitter_, name));
  if (folders_ != folders) {
    SACCADE_ASSIGN(spaced_folders_, spaced_words(splitter_, folders));
    folders_ = folders;
  }
  text.folders = spaced_folders_;
  return text;
}

Result<WordWriter> WordWriter::make(Database& database) {
  SACCADE_ASSIGN(WordTexts texts, WordTexts::make());
  SACCADE_ASSIGN(Statement add,
                 database.prepare("INSERT INTO words (rowid, caption, name, folders) VALUES (?,?,?,?)"));
  SACCADE_ASSIGN(Statement remove, database.prepare("DELETE FROM words WHERE rowid = ?"));
  return WordWriter(std::move(texts), std::move(add), std::move(remove));
}

Status WordWriter::put(int64_t id, std::string_view path, std::string_view caption) {
  SACCADE_TRY(remove(id));
  return add(id, path, caption);
}

Status WordWriter::add(int64_t id, std::string_view path, std::string_view caption) {
  SACCADE_ASSIGN(const WordText text, texts_.of(path, caption));
  return add(id, text);
}

Status WordWriter::add(int64_t id, const WordText& text) {
  add_.bind(id).bind(std::string_view(text.caption));
  return add_.bind(std::string_view(text.name)).bind(std::string_view(text.folders)).run().in("words");
}

Status WordWriter::remove(int64_t id) {
  return remove_.bind(id).run().in("words");
}

Status fill_word_index(Database& database) {
  SACCADE_TRY(database.execute("DELETE FROM words"));
  SACCADE_ASSIGN(WordWriter writer, WordWriter::make(database));
  SACCADE_ASSIGN(Statement items, database.prepare("SELECT id, path, caption FROM items"));
  return items.for_each([&] { return writer.put(items.integer(0), items.text(1), items.text(2)); });
}

Result<WordFaults> word_faults(Database& database) {
  SACCADE_ASSIGN(WordTexts texts, WordTexts::make());
  WordFaults faults;
  const auto note = [&](int64_t id) {
    if (faults.count++ == 0) faults.first = id;
  };
  SACCADE_ASSIGN(
      Statement items,
      database.prepare("SELECT items.id, path, items.caption, words.caption, name, folders FROM items "
                       "LEFT JOIN words ON words.rowid = items.id ORDER BY items.id"));
  const auto compare = [&]() -> Status {
    SACCADE_ASSIGN(const WordText text, texts.of(items.text(1), items.text(2)));
    const bool same =
        items.text(3) == text.caption && items.text(4) == text.name && items.text(5) == text.folders;
    if (!same) note(items.integer(0));
    return {};
  };
  SACCADE_TRY(items.for_each(compare));
  SACCADE_ASSIGN(Statement others,
                 database.prepare("SELECT rowid FROM words WHERE rowid NOT IN (SELECT id FROM items)"));
  SACCADE_TRY(others.for_each([&] { note(others.integer(0)); }));
  return faults;
}

std::vector<TermLookup::Place> TermLookup::places_of(
    std::span<const std::pair<int64_t, int64_t>> found) const {
  std::vector<Place> places;
  places.reserve(found.size());
  IdRows::Walk walk(rows_);
  for (const auto& [id, occurrences] : found) {
    if (const IdRows::Entry* entry = walk.find(id))
      places.push_back({static_cast<size_t>(entry - rows_.entries().data()), occurrences});
  }
  return places;
}

Status TermLookup::read_lengths(Database& database, std::span<Database> others,
                                std::span<const Place> places) {
  if (has_all_lengths_ || places.empty()) return {};
  lengths_.resize(rows_.entries().size());
  // A look-up of one takes about eight times as long as it takes in a scan, and a scan is on several processors.
  constexpr int64_t kLookUps = 32;
  if (std::ssize(places) < items() / kLookUps) {
    SACCADE_ASSIGN(const KeptStatement one, database.kept("SELECT sz FROM words_docsize WHERE id = ?"));
    for (const Place& place : places) {
      uint32_t& length = lengths_[place.at];
      if (length != 0) continue;
      SACCADE_ASSIGN(const bool there, one->bind(rows_.entries()[place.at].id).step());
      if (there) {
        SACCADE_ASSIGN(length, text_length(one->blob(0)));
      }
      one->reset();
    }
    return {};
  }
  SACCADE_TRY(scan_parts(
      database, others, rows_.entries().back().id + 1,
      [&](Database& connection, int64_t begin, int64_t end) -> Status {
        SACCADE_ASSIGN(
            Statement part,
            connection.prepare("SELECT id, sz FROM words_docsize WHERE id >= ? AND id < ? ORDER BY id"));
        part.bind(begin).bind(end);
        IdRows::Walk walk(rows_);
        return part.for_each([&]() -> Status {
          const IdRows::Entry* entry = walk.find(part.integer(0));
          if (entry == nullptr) return {};
          SACCADE_ASSIGN(lengths_[static_cast<size_t>(entry - rows_.entries().data())],
                         text_length(part.blob(1)));
          return {};
        });
      }));
  has_all_lengths_ = true;
  return {};
}

Status TermLookup::rank(Database& database, std::span<Database> others, const WordCounts& counts,
                        std::span<const Place> places, int64_t have_it, TermRows& ranked) {
  SACCADE_TRY(read_lengths(database, others, places));
  const auto odds_of = [](int64_t have, int64_t of) {
    return (static_cast<double>(of - have) + 0.5) / (static_cast<double>(have) + 0.5);
  };
  // FTS5's bm25() is -idf * grade * (k1 + 1), with ln(odds) as idf, or 1e-6 where that is not above 0
  // (https://www.sqlite.org/fts5.html, 5.1.1). Operations are in its order, so that the figures are its own.
  constexpr double kK1 = 1.2;
  constexpr double kB = 0.75;
  const double log_odds = std::log(odds_of(std::ssize(counts.found), counts.texts));
  const double idf = log_odds > 0 ? log_odds : 1e-6;
  const double mean = static_cast<double>(counts.words) / static_cast<double>(counts.texts);
  const double odds = odds_of(have_it, items());
  const double factor = (odds > 1 ? std::log(odds) : 1e-6) * 2.2;
  std::vector<std::pair<int64_t, float>> rows;
  rows.reserve(places.size());
  for (const Place& place : places) {
    const auto [id, row] = rows_.entries()[place.at];
    if (lengths_[place.at] == 0) return fail(ErrorCode::kBadData, "item {} has words, but no length", id);
    const auto occurrences = static_cast<double>(place.occurrences);
    const auto length = static_cast<double>(lengths_[place.at]);
    const double bm25 =
        idf * ((occurrences * (kK1 + 1.0)) / (occurrences + kK1 * (1 - kB + kB * length / mean)));
    rows.emplace_back(row, static_cast<float>(std::clamp(bm25 / factor, 1e-3, 1.0)));
  }
  if (!std::ranges::is_sorted(rows)) std::ranges::sort(rows);
  ranked.rows.reserve(rows.size());
  ranked.grades.reserve(rows.size());
  for (const auto& [row, grade] : rows) {
    ranked.rows.push_back(row);
    ranked.grades.push_back(grade);
  }
  return {};
}

Status TermLookup::make_stems() {
  if (!stems_) {
    SACCADE_ASSIGN(stems_, WordStems::make());
  }
  return {};
}

Result<std::shared_ptr<const TermRows>> TermLookup::rows_of(Database& database, std::span<Database> others,
                                                            const std::string& term) {
  if (const auto known = known_.find(term); known != known_.end()) return known->second;
  auto made = std::make_shared<TermRows>();
  SACCADE_TRY(make_stems());
  SACCADE_ASSIGN(const std::string words, stems_->words_of(term));
  SACCADE_ASSIGN(made->stems, stems_->of_field(words));
  if (!words.empty()) {
    const int64_t all = statistics_ ? statistics_->items : items();
    const int64_t common = std::max(kFewestCommon, all / 4) + 1;
    SACCADE_ASSIGN(const WordCounts counts, count_words(database, match_string(words), common));
    int64_t have_it = std::ssize(counts.found);
    if (statistics_) {
      const auto counted = statistics_->pictures.find(term);
      if (counted != statistics_->pictures.end()) have_it = std::max(have_it, counted->second);
    }
    made->pictures = std::min(have_it, common);
    made->common = made->pictures == common;
    if (!made->common) {
      const std::vector<Place> places = places_of(counts.found);
      int64_t here = std::ssize(counts.found);
      if (!statistics_) made->pictures = here = std::ssize(places);  // without what is no item
      const auto n = static_cast<double>(all);
      const auto df = static_cast<double>(made->pictures);
      made->weight = std::log1p((n - df + 0.5) / (df + 0.5));
      SACCADE_TRY(rank(database, others, counts, places, here, *made));
    }
  }
  // Limits of the cache of recent terms; it is cleared when it exceeds one of them.
  constexpr int64_t kMostRows = int64_t{4} << 20;
  constexpr size_t kMostKept = size_t{1} << 16;
  if (kept_rows_ + std::ssize(made->rows) > kMostRows || known_.size() >= kMostKept) {
    known_.clear();
    kept_rows_ = 0;
  }
  constexpr size_t kLongest = 256;
  if (term.size() <= kLongest) {
    kept_rows_ += std::ssize(made->rows);
    known_[term] = made;
  }
  return made;
}

Result<std::vector<int64_t>> TermLookup::all_rows_of(Database& database, std::span<Database> others,
                                                     const std::string& term) {
  SACCADE_ASSIGN(const std::shared_ptr<const TermRows> known, rows_of(database, others, term));
  if (!known->common) return known->rows;
  SACCADE_ASSIGN(const std::string words, stems_->words_of(term));
  SACCADE_ASSIGN(const WordCounts counts,
                 count_words(database, match_string(words), std::numeric_limits<int64_t>::max()));
  std::vector<int64_t> rows;
  for (const Place& place : places_of(counts.found)) rows.push_back(rows_.entries()[place.at].row);
  std::ranges::sort(rows);
  return rows;
}

Result<std::vector<uint8_t>> TermLookup::fields_of(Database& database, int64_t id,
                                                   std::span<const std::string> terms) {
  SACCADE_TRY(make_stems());
  terms = terms.first(std::min(terms.size(), kMostTerms));
  std::vector<uint8_t> fields(terms.size());
  SACCADE_ASSIGN(const KeptStatement content,
                 database.kept("SELECT caption, name, folders FROM words WHERE rowid = ?"));
  SACCADE_ASSIGN(const bool there, content->bind(id).step());
  if (!there) return fields;
  std::array<std::vector<std::string>, 3> stems;
  for (size_t field = 0; field < stems.size(); ++field) {
    SACCADE_ASSIGN(stems[field], stems_->of_field(content->text(static_cast<int>(field))));
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto known = known_.find(terms[i]);
    std::vector<std::string> own;
    if (known == known_.end()) {
      SACCADE_ASSIGN(own, stems_->of_term(terms[i]));
    }
    const std::vector<std::string>& term = known == known_.end() ? own : known->second->stems;
    for (size_t field = 0; field < stems.size(); ++field) {
      if (has_phrase(stems[field], term)) fields[i] |= static_cast<uint8_t>(1U << field);
    }
  }
  return fields;
}

WordMatches weigh_words(std::span<const std::string> names,
                        std::span<const std::shared_ptr<const TermRows>> found,
                        std::span<const int64_t> ids) {
  WordMatches matches;
  for (size_t i = 0; i < found.size(); ++i) {
    WordTerm& term = matches.terms.emplace_back();
    term.text = names[i];
    term.pictures = found[i]->pictures;
    term.common = found[i]->common;
    term.weight = found[i]->weight;
    matches.weight += term.weight;
  }
  // A stretch of rows after the other, so that a query costs as much as there are pictures with its words,
  // and not a number for each row.
  constexpr int64_t kStretch = 512;
  std::array<double, kStretch> weights;
  std::array<uint64_t, kStretch> has_of;
  std::vector<std::span<const int64_t>> left;  // of each term
  for (const auto& having : found) left.emplace_back(having->rows);
  for (;;) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const auto& rows : left) first = rows.empty() ? first : std::min(first, rows.front());
    if (first == std::numeric_limits<int64_t>::max()) return matches;
    std::array<uint64_t, kStretch / 64> had{};  // a bit a row
    for (size_t i = 0; i < left.size(); ++i) {
      for (; !left[i].empty() && left[i].front() < first + kStretch; left[i] = left[i].subspan(1)) {
        const auto at = static_cast<size_t>(left[i].front() - first);
        uint64_t& bits = had[at / 64];
        const uint64_t bit = uint64_t{1} << (at % 64);
        if ((bits & bit) == 0) {
          weights[at] = 0;
          has_of[at] = 0;
        }
        const float grade = *(found[i]->grades.end() - std::ssize(left[i]));
        weights[at] += found[i]->weight * double{grade};
        has_of[at] |= uint64_t{1} << i;
        bits |= bit;
      }
    }
    for (size_t word = 0; word < had.size(); ++word) {
      for (uint64_t bits = had[word]; bits != 0; bits &= bits - 1) {
        const size_t at = 64 * word + static_cast<size_t>(std::countr_zero(bits));
        const int64_t row = first + static_cast<int64_t>(at);
        matches.found.push_back({row, ids[static_cast<size_t>(row)], weights[at], has_of[at]});
      }
    }
  }
}

}  // namespace saccade::store

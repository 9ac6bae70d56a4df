#include "saccade/collection/catalog/word_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "saccade/image/frame_name.h"
#include "saccade/text/utf8.h"
#include "saccade/text/words.h"

namespace saccade::store {
namespace {

Result<std::string> spaced_words(WordSplitter& splitter, std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, splitter.split(valid));
  std::string words;
  for (const TextSegment& segment : segments) {
    if (!segment.is_word) continue;
    if (!words.empty()) words += ' ';
    words += segment.text;
  }
  return words;
}

// A term as FTS5's string (https://www.sqlite.org/fts5.html, 3.1): nothing within the quotes is syntax.
// Its tokenizer takes the string apart as it did the fields, so that several words must stand side by
// side. Empty where it has no word.
Result<std::string> match_string(std::string_view term) {
  SACCADE_ASSIGN(WordSplitter splitter, WordSplitter::open());
  SACCADE_ASSIGN(const std::string words, spaced_words(splitter, term));
  if (words.empty()) return words;
  std::string quoted = "\"";
  for (const char c : words) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Result<WordStems> WordStems::make() {
  SACCADE_ASSIGN(Database database, Database::in_memory());
  SACCADE_TRY(database.execute(std::string(kWordIndexSql)));
  SACCADE_TRY(database.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(words, instance)"));
  return WordStems(std::move(database));
}

Result<std::string> WordStems::of(const WordText& text) {
  SACCADE_TRY(database_.execute("DELETE FROM words"));
  {
    SACCADE_ASSIGN(const KeptStatement add,
                   database_.kept("INSERT INTO words (rowid, caption, name, folders) VALUES (1, ?, ?, ?)"));
    for (const std::string* field : {&text.caption, &text.name, &text.folders})
      add->bind(std::string_view(*field));
    SACCADE_TRY(add->run());
  }
  SACCADE_ASSIGN(const KeptStatement read, database_.kept("SELECT col, offset, term FROM stems"));
  std::vector<std::tuple<std::string, int64_t, std::string>> found;
  for (;;) {
    SACCADE_ASSIGN(const bool row, read->step());
    if (!row) break;
    found.emplace_back(read->text(0), read->integer(1), read->text(2));
  }
  std::ranges::sort(found);  // "caption", "folders", "name"
  std::string stems;
  for (const auto& [column, offset, stem] : found) stems += (stems.empty() ? "" : " ") + stem;
  return stems;
}

Result<std::string> WordStems::of_term(std::string_view term) {
  WordText text;
  SACCADE_ASSIGN(WordSplitter splitter, WordSplitter::open());
  SACCADE_ASSIGN(text.caption, spaced_words(splitter, term));
  return of(text);
}

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
  for (;;) {
    SACCADE_ASSIGN(const bool more, items.step());
    if (!more) return {};
    SACCADE_TRY(writer.put(items.integer(0), items.text(1), items.text(2)));
  }
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
  for (;;) {
    SACCADE_ASSIGN(const bool more, items.step());
    if (!more) break;
    SACCADE_ASSIGN(const WordText text, texts.of(items.text(1), items.text(2)));
    const bool same =
        items.text(3) == text.caption && items.text(4) == text.name && items.text(5) == text.folders;
    if (!same) note(items.integer(0));
  }
  SACCADE_ASSIGN(Statement others,
                 database.prepare("SELECT rowid FROM words WHERE rowid NOT IN (SELECT id FROM items)"));
  for (;;) {
    SACCADE_ASSIGN(const bool more, others.step());
    if (!more) return faults;
    note(others.integer(0));
  }
}

TermLookup::TermLookup(std::span<const int64_t> ids, std::optional<WordStatistics> statistics)
    : statistics_(std::move(statistics)) {
  for (size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] != 0) rows_.emplace_back(ids[row], static_cast<int64_t>(row));
  }
  // Rows are appended as items come, so that they are in order but for those that have changed since.
  if (!std::ranges::is_sorted(rows_)) std::ranges::sort(rows_);
}

// Calls visit(row, rank) for each item that has it, by id, until it returns false. `rank` is FTS5's bm25().
template <typename Visit>
Status TermLookup::for_each_row(Database& database, const std::string& wanted, const Visit& visit) {
  SACCADE_ASSIGN(const KeptStatement statement,
                 database.kept("SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rowid"));
  statement->bind(std::string_view(wanted));
  auto place = rows_.begin();
  for (;;) {
    SACCADE_ASSIGN(const bool more, statement->step());
    if (!more) return {};
    const int64_t id = statement->integer(0);
    if (place == rows_.end()) return {};
    // Ids are mostly dense: it is no further on than they would be without a gap, and mostly right there.
    const int64_t furthest = std::min(id - place->first, rows_.end() - place - 1);
    if (furthest > 0 && place[furthest].first == id) {
      place += furthest;
    } else {
      const auto end = place + std::max<int64_t>(furthest, 0) + 1;
      place = std::ranges::lower_bound(place, end, id, {}, &std::pair<int64_t, int64_t>::first);
    }
    if (place != rows_.end() && place->first == id && !visit(place->second, statement->real(1))) return {};
  }
}

Result<std::shared_ptr<const TermRows>> TermLookup::rows_of(Database& database, const std::string& term) {
  if (const auto known = known_.find(term); known != known_.end()) return known->second;
  auto made = std::make_shared<TermRows>();
  SACCADE_ASSIGN(const std::string wanted, match_string(term));
  if (!wanted.empty()) {
    const int64_t all = statistics_ ? statistics_->items : items();
    const int64_t common = std::max(kFewestCommon, all / 4) + 1;
    int64_t here = 0;
    // Counted first: bm25() reads the length of each item's text, which takes fifty times as long.
    {
      SACCADE_ASSIGN(const KeptStatement count,
                     database.kept("SELECT count(*) FROM words WHERE words MATCH ?"));
      SACCADE_TRY(count->bind(std::string_view(wanted)).step());
      here = count->integer(0);
    }
    int64_t have_it = here;
    if (statistics_) {
      const auto counted = statistics_->pictures.find(term);
      if (counted != statistics_->pictures.end()) have_it = std::max(here, counted->second);
    }
    made->pictures = std::min(have_it, common);
    made->common = made->pictures == common;
    std::vector<std::pair<int64_t, double>> found;
    if (!made->common) {
      SACCADE_TRY(for_each_row(database, wanted, [&](int64_t row, double rank) {
        found.emplace_back(row, rank);
        return true;
      }));
      if (!statistics_) made->pictures = here = std::ssize(found);  // without what is no item
    }
    const auto odds_of = [](int64_t have, int64_t of) {
      return (static_cast<double>(of - have) + 0.5) / (static_cast<double>(have) + 0.5);
    };
    if (!made->common) made->weight = std::log1p(odds_of(made->pictures, all));
    const double odds = odds_of(here, items());
    std::ranges::sort(found);
    // FTS5 gives -idf * grade * (k1 + 1), with ln(odds) as idf, or 1e-6 where that is not above 0
    // (https://www.sqlite.org/fts5.html, 5.1.1).
    const double factor = (odds > 1 ? std::log(odds) : 1e-6) * 2.2;
    for (const auto& [row, rank] : found) {
      made->rows.push_back(row);
      made->grades.push_back(static_cast<float>(std::clamp(-rank / factor, 1e-3, 1.0)));
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

Result<std::vector<uint8_t>> TermLookup::fields_of(Database& database, int64_t id,
                                                   std::span<const std::string> terms) {
  constexpr std::pair<std::string_view, uint8_t> kFields[] = {{"caption", 1}, {"name", 2}, {"folders", 4}};
  terms = terms.first(std::min(terms.size(), kMostTerms));
  std::vector<uint8_t> fields(terms.size());
  SACCADE_ASSIGN(const KeptStatement content,
                 database.kept("SELECT caption, name, folders FROM words WHERE rowid = ?"));
  SACCADE_ASSIGN(const bool there, content->bind(id).step());
  if (!there) return fields;
  if (!one_) {
    SACCADE_ASSIGN(one_, Database::in_memory());
    SACCADE_TRY(one_->execute(std::string(kWordIndexSql)));
  }
  SACCADE_TRY(one_->execute("DELETE FROM words"));
  {
    SACCADE_ASSIGN(const KeptStatement add,
                   one_->kept("INSERT INTO words (rowid, caption, name, folders) VALUES (1, ?, ?, ?)"));
    for (int field = 0; field < 3; ++field) add->bind(std::string_view(content->text(field)));
    SACCADE_TRY(add->run());
  }
  SACCADE_ASSIGN(const KeptStatement match, one_->kept("SELECT rowid FROM words WHERE words MATCH ?"));
  for (size_t i = 0; i < terms.size(); ++i) {
    SACCADE_ASSIGN(const std::string wanted, match_string(terms[i]));
    if (wanted.empty()) continue;
    for (const auto& [field, bit] : kFields) {
      SACCADE_ASSIGN(const bool has,
                     match->bind(std::string_view(fmt::format("{} : {}", field, wanted))).step());
      if (!has) continue;
      fields[i] |= bit;
      match->reset();
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

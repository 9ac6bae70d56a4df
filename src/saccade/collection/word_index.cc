#include "saccade/collection/word_index.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/text/utf8.h"
#include "saccade/text/words.h"

namespace saccade::store {
namespace {

Result<std::string> spaced_words(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, split_words(valid));
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
  SACCADE_ASSIGN(const std::string words, spaced_words(term));
  if (words.empty()) return words;
  std::string quoted = "\"";
  for (const char c : words) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Result<WordText> word_text(std::string_view path, std::string_view caption) {
  const size_t slash = path.rfind('/');
  const std::string_view folders =
      slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0)
    name = name.substr(0, dot);
  WordText text;
  SACCADE_ASSIGN(text.caption, spaced_words(caption));
  SACCADE_ASSIGN(text.name, spaced_words(name));
  SACCADE_ASSIGN(text.folders, spaced_words(folders));
  return text;
}

Result<WordWriter> WordWriter::make(Database& database) {
  SACCADE_ASSIGN(Statement add,
                 database.prepare("INSERT INTO words (rowid, caption, name, folders) VALUES (?,?,?,?)"));
  SACCADE_ASSIGN(Statement remove, database.prepare("DELETE FROM words WHERE rowid = ?"));
  return WordWriter(std::move(add), std::move(remove));
}

Status WordWriter::put(int64_t id, std::string_view path, std::string_view caption) {
  SACCADE_TRY(remove(id));
  SACCADE_ASSIGN(const WordText text, word_text(path, caption));
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
    SACCADE_ASSIGN(const WordText text, word_text(items.text(1), items.text(2)));
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

Result<WordMatches> match_words(Database& database, std::span<const std::string> terms, int64_t items,
                                int64_t rows) {
  WordMatches matches;
  const int64_t common = std::max(kFewestCommon, items / 4) + 1;
  SACCADE_ASSIGN(
      Statement statement,
      database.prepare("SELECT items.id, items.row FROM words JOIN items ON items.id = words.rowid "
                       "WHERE words MATCH ? LIMIT ?"));
  std::vector<double> weights(static_cast<size_t>(rows));
  std::vector<int64_t> ids(static_cast<size_t>(rows));
  std::vector<int64_t> found;  // rows
  for (const std::string& text : terms.first(std::min(terms.size(), kMostTerms))) {
    WordTerm& term = matches.terms.emplace_back();
    term.text = text;
    SACCADE_ASSIGN(const std::string wanted, match_string(text));
    if (wanted.empty()) continue;
    found.clear();
    statement.bind(std::string_view(wanted)).bind(common);
    for (;;) {
      SACCADE_ASSIGN(const bool more, statement.step());
      if (!more) break;
      const int64_t row = statement.integer(1);
      // As the snapshot that was checked when it was taken has them.
      if (row < 0 || row >= rows) return fail(ErrorCode::kBadData, "catalog: row {} of {}", row, rows);
      ids[static_cast<size_t>(row)] = statement.integer(0);
      found.push_back(row);
    }
    term.pictures = std::ssize(found);
    term.common = term.pictures >= common;
    if (term.common) continue;
    const auto have = static_cast<double>(term.pictures);
    term.weight = std::log1p((static_cast<double>(items) - have + 0.5) / (have + 0.5));
    if (term.pictures > 0) matches.weight += term.weight;
    for (const int64_t row : found) weights[static_cast<size_t>(row)] += term.weight;
  }
  for (size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] > 0) matches.found.push_back({static_cast<int64_t>(row), ids[row], weights[row]});
  }
  return matches;
}

Result<std::vector<uint8_t>> word_fields(Database& database, int64_t id, std::span<const std::string> terms) {
  constexpr std::pair<std::string_view, uint8_t> kFields[] = {{"caption", 1}, {"name", 2}, {"folders", 4}};
  SACCADE_ASSIGN(Statement statement,
                 database.prepare("SELECT rowid FROM words WHERE words MATCH ? AND rowid = ?"));
  std::vector<uint8_t> fields(std::min(terms.size(), kMostTerms));
  for (size_t i = 0; i < fields.size(); ++i) {
    SACCADE_ASSIGN(const std::string wanted, match_string(terms[i]));
    if (wanted.empty()) continue;
    for (const auto& [field, bit] : kFields) {
      statement.bind(std::string_view(fmt::format("{} : {}", field, wanted))).bind(id);
      SACCADE_ASSIGN(const bool has, statement.step());
      if (has) fields[i] |= bit;
      statement.reset();
    }
  }
  return fields;
}

}  // namespace saccade::store

#include "saccade/search/visualness/lexicon.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/csv.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/matrix.h"
#include "saccade/text/caption_queries.h"
#include "saccade/text/utf8.h"
#include "saccade/text/words.h"
#include "saccade/tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxLexiconBytes = int64_t{256} << 20;
constexpr int64_t kMaxDim = 65'536;

std::string lower(std::string_view text) {
  return clean_text(to_valid_utf8(text), TextCleanup::kLower);
}

std::string_view strip(std::string_view text) {
  return trim_ascii(text, " \t\r\n");
}

// Lines with their numbers from 1, without their ends.
Status each_line(std::string_view text, const std::function<Status(int64_t, std::string_view)>& visit) {
  int64_t number = 0;
  for (std::string_view line : Lines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    SACCADE_TRY(visit(++number, line));
  }
  return {};
}

// Ratings of one word, averaged in the end.
class Ratings {
 public:
  explicit Ratings(double low, double high) : low_(low), high_(high) {}
  Status add(const std::string& word, double rating) {
    if (!(rating >= low_ && rating <= high_)) {
      return fail(ErrorCode::kBadData, "\"{}\" has a rating of {}, expected {} to {}", word, rating, low_,
                  high_);
    }
    auto& [sum, count] = sums_[word];
    sum += (rating - low_) / (high_ - low_);
    ++count;
    return {};
  }
  [[nodiscard]] std::unordered_map<std::string, double> means() const {
    std::unordered_map<std::string, double> means;
    for (const auto& [word, sum] : sums_) means[word] = sum.first / sum.second;
    return means;
  }

 private:
  double low_;
  double high_;
  std::unordered_map<std::string, std::pair<double, double>> sums_;
};

std::optional<double> number_in(std::string_view text) {
  text = strip(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// --- MRC ------------------------------------------------------------------------------------------------

constexpr size_t kMrcImageability = 31;  // where the field of three digits begins
constexpr size_t kMrcWord = 51;

// Checks the fields before the word: digits and single letters, and three digits of imageability.
bool is_mrc_line(std::string_view line) {
  if (line.size() <= kMrcWord || line.find('|', kMrcWord) == std::string_view::npos) return false;
  const auto digits = [&](size_t from, size_t count) {
    return std::ranges::all_of(line.substr(from, count), is_ascii_digit);
  };
  return digits(0, 5) && digits(25, 18);
}

Result<Lexicon> read_mrc(std::string_view text) {
  Lexicon lexicon;
  lexicon.format = "mrc";
  lexicon.what = "imageability, 100 to 700";
  Ratings ratings(100, 700);
  SACCADE_TRY(each_line(text, [&](int64_t number, std::string_view line) -> Status {
    if (strip(line).empty()) return {};
    const std::string where = fmt::format("line {}", number);
    if (!is_mrc_line(line)) return fail(ErrorCode::kBadData, "{}: no entry of the MRC database", where);
    const double rating = number_in(line.substr(kMrcImageability, 3)).value_or(0);
    const std::string word = lower(line.substr(kMrcWord, line.find('|', kMrcWord) - kMrcWord));
    if (rating == 0) {
      ++lexicon.left_out;
      return {};
    }
    return ratings.add(word, rating).in(where);
  }));
  lexicon.words = ratings.means();
  return lexicon;
}

// --- Brysbaert ------------------------------------------------------------------------------------------

struct Columns {
  char separator = '\t';
  size_t word = 0;
  size_t rating = 0;
};

// "Conc.M" as tools leave it: conc.m, conc_m.
std::string plain_heading(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c == '.' || c == '_' || c == ' ' || c == '"') continue;
    plain += lower_ascii(c);
  }
  return plain;
}

std::optional<Columns> brysbaert_columns(std::string_view text) {
  for (const char separator : {'\t', ','}) {
    CsvReader reader(strip(text.substr(0, text.find('\n'))), separator);
    std::vector<std::string> headings;
    const Result<bool> read = reader.next(headings);
    if (!read || !*read) continue;
    std::optional<size_t> word;
    std::optional<size_t> rating;
    for (size_t i = 0; i < headings.size(); ++i) {
      const std::string heading = plain_heading(headings[i]);
      if (heading == "word") word = i;
      if (heading == "concm") rating = i;
    }
    if (word && rating) return Columns{separator, *word, *rating};
  }
  return std::nullopt;
}

Result<Lexicon> read_brysbaert(std::string_view text, const Columns& columns) {
  Lexicon lexicon;
  lexicon.format = "brysbaert";
  lexicon.what = "concreteness, 1 to 5";
  Ratings ratings(1, 5);
  CsvReader reader(text, columns.separator);
  std::vector<std::string> fields;
  SACCADE_TRY(reader.next(fields));  // the header
  for (;;) {
    SACCADE_ASSIGN(const bool more, reader.next(fields));
    if (!more) break;
    const std::string where = fmt::format("line {}", reader.line());
    if (fields.size() <= std::max(columns.word, columns.rating)) {
      return fail(ErrorCode::kBadData, "{}: {} fields, too few for its word and rating", where,
                  fields.size());
    }
    const std::string word = lower(strip(fields[columns.word]));
    if (word.empty() || word.find(' ') != std::string::npos) {
      ++lexicon.left_out;
      continue;
    }
    const std::optional<double> rating = number_in(fields[columns.rating]);
    if (!rating) return fail(ErrorCode::kBadData, "{}: \"{}\" is no rating", where, fields[columns.rating]);
    SACCADE_TRY(ratings.add(word, *rating).in(where));
  }
  lexicon.words = ratings.means();
  return lexicon;
}

// --- word vectors ---------------------------------------------------------------------------------------

// Calls visit(word, values as text) or visit(word, bytes of floats) for every vector of a file.
struct VectorFile {
  std::string_view text;
  std::string format;
  int64_t words = 0;  // of word2vec's header; 0: there is none
  int64_t dim = 0;
};

int64_t count_fields(std::string_view line) {
  int64_t fields = 0;
  for (size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos; ++fields) {
    at = std::min(line.find_first_of(" \t", at), line.size());
  }
  return fields;
}

Result<VectorFile> recognize_vectors(std::string_view text) {
  VectorFile file{.text = text, .format = {}};
  const std::string_view line = strip(text.substr(0, std::min(text.find('\n'), size_t{1} << 20)));
  const size_t space = line.find(' ');
  const auto words = number_in(line.substr(0, space));
  const auto dim = space == std::string_view::npos ? std::nullopt : number_in(line.substr(space));
  const bool header =
      words && dim && *words >= 1 && *dim >= 1 && *words == std::floor(*words) && *dim == std::floor(*dim);
  if (header) {
    if (*dim > static_cast<double>(kMaxDim) || *words > 1e10) {
      return fail(ErrorCode::kBadData, "{} words of {} values: no file of word vectors", *words, *dim);
    }
    file.words = static_cast<int64_t>(*words);
    file.dim = static_cast<int64_t>(*dim);
    file.text.remove_prefix(text.find('\n') + 1);
    const std::string_view second = file.text.substr(0, std::min(file.text.find('\n'), size_t{1} << 20));
    file.format =
        count_fields(second) == file.dim + 1 &&
                std::ranges::all_of(
                    second,
                    [](char c) { return static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\r'; })
            ? "word2vec text"
            : "word2vec binary";
    return file;
  }
  file.dim = count_fields(line) - 1;
  const size_t last = line.find_last_of(" \t");
  if (file.dim < 2 || file.dim > kMaxDim || last == std::string_view::npos || !number_in(line.substr(last))) {
    return fail(ErrorCode::kBadData,
                "no word vectors: it begins neither with \"WORDS DIM\" (word2vec) nor with a word "
                "and its values (GloVe)");
  }
  file.format = "glove";
  return file;
}

using TakeVector =
    std::function<Status(std::string_view word, const std::function<Status(std::span<float>)>& values)>;

Status read_text_vectors(const VectorFile& file, const TakeVector& take, int64_t& count) {
  return each_line(file.text, [&](int64_t number, std::string_view line) -> Status {
    if (strip(line).empty()) return {};
    ++count;
    // The values are the last fields: GloVe has words with spaces in them.
    size_t at = line.find_last_not_of(" \t");
    at = at == std::string_view::npos ? 0 : at + 1;
    for (int64_t i = 0; i < file.dim; ++i) {
      const size_t space = at == 0 ? std::string_view::npos : line.find_last_of(" \t", at - 1);
      if (space == std::string_view::npos) {
        return fail(ErrorCode::kBadData, "line {}: fewer than {} values", number, file.dim);
      }
      at = space;
    }
    return take(line.substr(0, at), [&](std::span<float> values) -> Status {
      size_t from = at;
      for (float& value : values) {
        from = line.find_first_not_of(" \t", from);
        const size_t end = std::min(line.find_first_of(" \t", from), line.size());
        const auto read = number_in(line.substr(from, end - from));
        if (!read)
          return fail(ErrorCode::kBadData, "line {}: \"{}\" is no number", number,
                      line.substr(from, end - from));
        value = static_cast<float>(*read);
        from = end;
      }
      return {};
    });
  });
}

Status read_binary_vectors(const VectorFile& file, const TakeVector& take, int64_t& count) {
  const size_t bytes = static_cast<size_t>(file.dim) * sizeof(float);
  size_t at = 0;
  for (; count < file.words; ++count) {
    while (at < file.text.size() && (file.text[at] == '\n' || file.text[at] == '\r')) ++at;
    const size_t space = file.text.find(' ', at);
    if (space == std::string_view::npos || file.text.size() - space - 1 < bytes) {
      return fail(ErrorCode::kBadData, "it ends within word {} of {}", count + 1, file.words);
    }
    const char* from = file.text.data() + space + 1;
    SACCADE_TRY(take(file.text.substr(at, space - at), [&](std::span<float> values) -> Status {
      std::memcpy(values.data(), from, bytes);
      return {};
    }));
    at = space + 1 + bytes;
  }
  return {};
}

// Rows of length 1 of those words that were asked for.
struct KeptVectors {
  std::vector<std::string> words;
  std::vector<float> values;
};

}  // namespace

Result<std::vector<std::string>> words_in_order(std::string_view text) {
  const std::string plain = lower(text);
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, split_words(plain));
  std::vector<std::string> words;
  for (const TextSegment& segment : segments) {
    if (segment.is_word) words.emplace_back(segment.text);
  }
  return words;
}

Result<std::vector<std::string>> unique_words(std::string_view text) {
  SACCADE_ASSIGN(const std::vector<std::string> words, words_in_order(text));
  std::vector<std::string> unique;
  std::set<std::string_view> seen;
  for (const std::string& word : words) {
    if (seen.insert(word).second) unique.push_back(word);
  }
  return unique;
}

Result<Lexicon> read_lexicon(const fs::path& path) {
  SACCADE_ASSIGN(const std::string text, read_file(path, kMaxLexiconBytes));
  const auto read = [&]() -> Result<Lexicon> {
    if (const auto columns = brysbaert_columns(text)) return read_brysbaert(text, *columns);
    const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
    if (is_mrc_line(first)) return read_mrc(text);
    return fail(
        ErrorCode::kUnsupported,
        "a lexicon of another format: it is neither the MRC database (mrc2.dct: fixed columns, then "
        "WORD|...) nor a table with the columns Word and Conc.M (Brysbaert et al.); it begins with \"{}\"",
        to_valid_utf8(first.substr(0, 60)));
  };
  SACCADE_ASSIGN(Lexicon lexicon, read().in(fmt::format("lexicon {}", path.string())));
  if (lexicon.words.empty())
    return fail(ErrorCode::kBadData, "lexicon {}: no word with a rating", path.string());
  SACCADE_ASSIGN(lexicon.sha256, sha256_file(path));
  return lexicon;
}

Result<ObjectList> read_object_list(const fs::path& path) {
  SACCADE_ASSIGN(const std::string text, read_file(path, kMaxLexiconBytes));
  ObjectList list;
  SACCADE_TRY(each_line(text, [&](int64_t, std::string_view line) -> Status {
    SACCADE_ASSIGN(std::vector<std::string> words, words_in_order(line.substr(0, line.find('#'))));
    if (words.empty()) return {};
    list.longest = std::max(list.longest, words.size());
    list.names.insert(std::move(words));
    return {};
  }));
  if (list.names.empty()) return fail(ErrorCode::kBadData, "object list {}: no words in it", path.string());
  SACCADE_ASSIGN(list.sha256, sha256_file(path));
  return list;
}

namespace {

// Returns the regular English plural.
std::string plural_of(std::string word) {
  const auto ends = [&](std::string_view end) { return word.ends_with(end); };
  const bool vowel_before_y = ends("ay") || ends("ey") || ends("oy") || ends("uy");
  if (ends("y") && !vowel_before_y) return word.substr(0, word.size() - 1) + "ies";
  return word + (ends("s") || ends("x") || ends("ch") || ends("sh") ? "es" : "s");
}

}  // namespace

Result<ObjectList> everyday_objects() {
  ObjectList list;
  for (const std::string_view name : everyday_words()) {
    SACCADE_ASSIGN(std::vector<std::string> words, words_in_order(name));
    list.longest = std::max(list.longest, words.size());
    list.names.insert(words);
    words.back() = plural_of(words.back());
    list.names.insert(std::move(words));
  }
  return list;
}

double mean_rating(const Lexicon& lexicon, std::span<const std::string> unique_words) {
  if (unique_words.empty()) return 0;
  double sum = 0;
  for (const std::string& word : unique_words) {
    const auto found = lexicon.words.find(word);
    if (found != lexicon.words.end()) sum += found->second;
  }
  return sum / static_cast<double>(unique_words.size());
}

std::set<std::string> named_objects(const ObjectList& objects, std::span<const std::string> words) {
  std::set<std::string> named;
  for (size_t i = 0; i < words.size(); ++i) {
    std::vector<std::string> name;
    for (size_t length = 1; length <= objects.longest && i + length <= words.size(); ++length) {
      name.push_back(words[i + length - 1]);
      if (objects.names.contains(name)) named.insert(name.begin(), name.end());
    }
  }
  return named;
}

Result<double> object_share(const ObjectList& objects, std::string_view text) {
  SACCADE_ASSIGN(const std::vector<std::string> words, words_in_order(text));
  const std::set<std::string> all(words.begin(), words.end());
  if (all.empty()) return 0.0;
  return static_cast<double>(named_objects(objects, words).size()) / static_cast<double>(all.size());
}

Result<Lexicon> expand_lexicon(const Lexicon& lexicon, const fs::path& vectors,
                               const std::set<std::string>& wanted, WordVectors& used) {
  const std::string where = fmt::format("word vectors {}", vectors.string());
  SACCADE_ASSIGN(const MappedFile mapped, MappedFile::open(vectors));
  const auto bytes = mapped.bytes();
  SACCADE_ASSIGN(const VectorFile file,
                 recognize_vectors({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).in(where));
  KeptVectors known;
  KeptVectors asked;
  std::set<std::string> seen;
  const auto dim = static_cast<size_t>(file.dim);
  const TakeVector take = [&](std::string_view word, const auto& values) -> Status {
    std::string plain = lower(word);
    const bool in_lexicon = lexicon.words.contains(plain);
    if ((!in_lexicon && !wanted.contains(plain)) || !seen.insert(plain).second) return {};
    KeptVectors& to = in_lexicon ? known : asked;
    to.values.resize(to.values.size() + dim);
    const std::span<float> row(to.values.data() + to.values.size() - dim, dim);
    SACCADE_TRY(values(row));
    if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) {
      return fail(ErrorCode::kBadData, "the vector of \"{}\" is not finite", plain);
    }
    normalize_row(row);
    to.words.push_back(std::move(plain));
    return {};
  };
  used = WordVectors{.format = file.format, .sha256 = {}, .dim = file.dim};
  Status read = file.format == "word2vec binary" ? read_binary_vectors(file, take, used.words)
                                                 : read_text_vectors(file, take, used.words);
  SACCADE_TRY(std::move(read).in(where));
  if (known.words.empty())
    return fail(ErrorCode::kUsage, "{}: none of its {} words is in the lexicon", where, used.words);
  SACCADE_ASSIGN(used.sha256, sha256_file(vectors));

  Lexicon expanded = lexicon;
  expanded.format += ", expanded";
  for (size_t w = 0; w < asked.words.size(); ++w) {
    double best = -2;
    size_t nearest = 0;
    for (size_t k = 0; k < known.words.size(); ++k) {
      float dot = 0;
      for (size_t d = 0; d < dim; ++d) dot += asked.values[w * dim + d] * known.values[k * dim + d];
      if (dot > best) {
        best = dot;
        nearest = k;
      }
    }
    expanded.words[asked.words[w]] = std::max(best, 0.0) * lexicon.words.at(known.words[nearest]);
    ++used.added;
  }
  return expanded;
}

}  // namespace saccade

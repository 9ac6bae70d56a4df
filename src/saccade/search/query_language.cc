#include "saccade/search/query_language.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "saccade/core/ascii.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

struct Quotes {
  std::string_view open;
  std::string_view close;
};
constexpr Quotes kQuotes[] = {{"\"", "\""}, {"\u201C", "\u201D"}, {"\u201E", "\u201C"}, {"\u00AB", "\u00BB"}};

bool has_word(std::string_view text) {
  return !caption_words(text).empty();
}

bool has_letter(std::string_view text) {
  return std::ranges::any_of(caption_words(text), [](const std::string& word) {
    return word.find_first_not_of("0123456789") != std::string::npos;
  });
}

// ":2", ":0.5", ":-1" and nothing behind it.
std::optional<float> weight_of(std::string_view text) {
  if (text.size() < 2 || text.front() != ':') return std::nullopt;
  text.remove_prefix(1);
  float weight = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), weight, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(weight)) return std::nullopt;
  return weight;
}

Result<float> checked_weight(std::string_view what, float weight) {
  if (weight != 0 && std::abs(weight) <= kMostWeight) return weight;
  return fail(
      ErrorCode::kUsage,
      "\"{0}\" weighs {1}, expected a number above 0 and up to {2}, or down to -{2} for what is not wanted "
      "(in quotes, \"{0}:{1}\" is a word as it stands)",
      what, weight, kMostWeight);
}

Status check_count(const char* what, int64_t count, int64_t most) {
  if (count <= most) return {};
  return fail(ErrorCode::kUsage, "the query has more than {} {}", most, what);
}

Status check_characters(std::string_view text) {
  const int64_t characters =
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  if (characters <= kMostQueryCharacters) return {};
  return fail(ErrorCode::kUsage, "the query has {} characters, at most {} are taken", characters,
              kMostQueryCharacters);
}

// Places of the quotes that may close a part: those before a space, a weight or the end. Found in one pass,
// from one end of the text to the other: a search for each opening quote would be quadratic.
class ClosingQuotes {
 public:
  ClosingQuotes(std::string_view typed, std::string_view close) {
    size_t word_end = 0;
    for (size_t at = typed.find(close); at != std::string_view::npos; at = typed.find(close, at + 1)) {
      const size_t behind = at + close.size();
      if (word_end < behind) word_end = std::min(typed.find_first_of(kAsciiSpace, behind), typed.size());
      if (word_end == behind || weight_of(typed.substr(behind, word_end - behind))) places_.push_back(at);
    }
  }
  // Returns the first at `from` or behind it. `from` must not decrease from call to call.
  [[nodiscard]] std::optional<size_t> next(size_t from) {
    while (next_ < places_.size() && places_[next_] < from) ++next_;
    return next_ < places_.size() ? std::optional(places_[next_]) : std::nullopt;
  }

 private:
  std::vector<size_t> places_;
  size_t next_ = 0;
};

class Reader {
 public:
  explicit Reader(std::string_view typed) : typed_(typed) {}

  // The parts: the running text first, then what has a weight of its own.
  Result<std::vector<QueryPart>> read() {
    for (skip_space(); at_ < typed_.size(); skip_space()) SACCADE_TRY(read_word());
    std::vector<QueryPart> parts;
    if (!running_.text.empty()) parts.push_back(std::move(running_));
    for (QueryPart& part : wanted_) parts.push_back(std::move(part));
    for (QueryPart& part : unwanted_) parts.push_back(std::move(part));
    SACCADE_TRY(check_count("parts", std::ssize(parts), kMostQueryParts));
    return parts;
  }
  std::vector<std::string> phrases;

 private:
  void skip_space() { at_ = std::min(typed_.find_first_not_of(kAsciiSpace, at_), typed_.size()); }
  [[nodiscard]] size_t end_of_word(size_t from) const {
    return std::min(typed_.find_first_of(kAsciiSpace, from), typed_.size());
  }

  void append(QueryPart& part, size_t begin, size_t end) const {
    if (begin == end) return;
    if (!part.text.empty()) {
      part.text += ' ';
      part.at.push_back(begin);
    }
    for (size_t at = begin; at < end; ++at) {
      part.text += typed_[at];
      part.at.push_back(at);
    }
  }

  // Content of quotes that begin at `at`: its bytes, and the position where the closing quote ends.
  struct Quoted {
    size_t begin = 0;
    size_t end = 0;
    size_t behind = 0;
  };
  [[nodiscard]] std::optional<Quoted> quoted_at(size_t at) {
    for (size_t i = 0; i < std::size(kQuotes); ++i) {
      const Quotes& quotes = kQuotes[i];
      if (typed_.substr(at, quotes.open.size()) != quotes.open) continue;
      if (!closing_[i]) closing_[i].emplace(typed_, quotes.close);
      const size_t begin = at + quotes.open.size();
      if (const auto end = closing_[i]->next(begin)) return Quoted{begin, *end, *end + quotes.close.size()};
    }
    return std::nullopt;
  }

  Status read_word() {
    const size_t begin = at_;
    if (typed_.substr(begin, end_of_word(begin) - begin) == "--") {
      at_ = begin + 2;
      skip_space();
      const size_t end = typed_.find_last_not_of(kAsciiSpace) + 1;
      if (at_ < end) append(running_, at_, end);
      at_ = typed_.size();
      return {};
    }
    const bool minus = typed_[begin] == '-' && begin + 1 < typed_.size() && typed_[begin + 1] != '-';
    const size_t from = begin + (minus ? 1 : 0);
    if (const auto quoted = quoted_at(from)) {
      at_ = end_of_word(quoted->behind);
      const auto weight = weight_of(typed_.substr(quoted->behind, at_ - quoted->behind));
      if (!minus && !weight && has_word(typed_.substr(quoted->begin, quoted->end - quoted->begin))) {
        phrases.emplace_back(typed_.substr(quoted->begin, quoted->end - quoted->begin));
        SACCADE_TRY(check_count("phrases in quotes", std::ssize(phrases), kMostQueryPhrases));
      }
      return add(quoted->begin, quoted->end, minus, weight);
    }
    at_ = end_of_word(begin);
    const std::string_view word = typed_.substr(from, at_ - from);
    const size_t colon = word.rfind(':');
    const auto weight = colon != std::string_view::npos && has_letter(word.substr(0, colon))
                            ? weight_of(word.substr(colon))
                            : std::nullopt;
    const size_t end = weight ? from + colon : at_;
    // A hyphen between words is one.
    if (minus && !has_word(word)) {
      append(running_, begin, at_);
      return {};
    }
    return add(from, end, minus, weight);
  }

  Status add(size_t begin, size_t end, bool minus, std::optional<float> weight) {
    const std::string_view text = typed_.substr(begin, end - begin);
    if (!minus && !weight) {
      append(running_, begin, end);
      return {};
    }
    if (!has_word(text)) return fail(ErrorCode::kUsage, "\"{}\" has a weight and no words", text);
    QueryPart part;
    append(part, begin, end);
    part.weight = minus ? kUnwantedWeight : 1;
    if (weight) {
      SACCADE_ASSIGN(part.weight, checked_weight(text, *weight));
      if (minus) part.weight = -part.weight;
    }
    (part.weight < 0 ? unwanted_ : wanted_).push_back(std::move(part));
    return check_count("parts", std::ssize(wanted_) + std::ssize(unwanted_), kMostQueryParts);
  }

  std::string_view typed_;
  size_t at_ = 0;
  QueryPart running_;
  std::vector<QueryPart> wanted_;
  std::vector<QueryPart> unwanted_;
  std::array<std::optional<ClosingQuotes>, std::size(kQuotes)> closing_;  // of each kind that is there
};

}  // namespace

Result<QueryText> read_query_text(std::string_view typed, std::span<const QueryImage> images) {
  SACCADE_TRY(check_characters(typed));
  Reader reader(typed);
  SACCADE_ASSIGN(std::vector<QueryPart> parts, reader.read());
  if (parts.empty()) return QueryText("", std::move(reader.phrases));
  // The weight of a single text only counts against unwanted images.
  const bool unwanted_image =
      std::ranges::any_of(images, [](const QueryImage& image) { return image.weight < 0; });
  const float weight = parts.front().weight;
  if (parts.size() == 1 && weight > 0 && (weight == 1 || !unwanted_image)) {
    return QueryText(std::move(parts.front().text), std::move(reader.phrases));
  }
  return QueryText(std::string(typed), std::move(parts), std::move(reader.phrases));
}

Status check_query_size(const SearchQuery& query) {
  SACCADE_TRY(check_characters(query.text.str()));
  SACCADE_TRY(
      check_count("parts", std::ssize(query.text.parts()) + std::ssize(query.images), kMostQueryParts));
  return check_count("phrases in quotes", std::ssize(query.text.phrases()), kMostQueryPhrases);
}

Result<QueryImage> read_query_image(const std::string& named) {
  std::error_code error;
  const size_t colon = named.rfind(':');
  if (colon == std::string::npos || colon == 0 || std::filesystem::exists(named, error))
    return QueryImage{named};
  const std::string file = named.substr(0, colon);
  const auto weight = weight_of(std::string_view(named).substr(colon));
  if (!weight || !std::filesystem::exists(file, error)) return QueryImage{named};
  QueryImage image{file};
  SACCADE_ASSIGN(image.weight, checked_weight(file, *weight));
  return image;
}

Result<std::vector<QueryImage>> read_query_images(std::span<const std::string> named) {
  std::vector<QueryImage> images;
  for (const std::string& each : named) {
    SACCADE_ASSIGN(images.emplace_back(), read_query_image(each));
  }
  return images;
}

}  // namespace saccade

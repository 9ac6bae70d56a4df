#include "saccade/text/tokenizers/framed_tokenizer.h"

#include <algorithm>

#include "saccade/text/tokenizers/tokenizer_files.h"
#include "saccade/text/tokenizers/tokenizer_json.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

std::string_view without_left_space(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\r\f\v");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view without_right_space(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\n\r\f\v");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

class FramedTokenizer : public Tokenizer, public DecodableTokenizer {
 public:
  FramedTokenizer(PieceTokenizer pieces, std::vector<int32_t> before, std::vector<int32_t> after,
                  std::string prompt)
      : pieces_(std::move(pieces)),
        before_(std::move(before)),
        after_(std::move(after)),
        prompt_(std::move(prompt)),
        // A space at the prompt's end becomes part of the text's first piece.
        prompt_size_(static_cast<int64_t>(pieces_.ids_of(without_right_space(prompt_)).size())) {}

  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    const std::vector<int32_t> ids =
        prompt_.empty() ? pieces_.ids_of(text)
                        : pieces_.ids_of(prompt_ + std::string(text.substr(0, kMaxPieceText)));
    const auto size = static_cast<int64_t>(ids.size());
    const int64_t frame = static_cast<int64_t>(before_.size() + after_.size());
    const int64_t kept = std::clamp<int64_t>(max_tokens - frame, 0, size);
    TokenizedText result;
    result.used = std::max<int64_t>(kept - prompt_size_, 0);
    result.dropped = size - kept;
    result.ids.reserve(static_cast<size_t>(kept + frame));
    result.ids.insert(result.ids.end(), before_.begin(), before_.end());
    result.ids.insert(result.ids.end(), ids.begin(), ids.begin() + kept);
    result.ids.insert(result.ids.end(), after_.begin(), after_.end());
    // A limit below the size of the frame keeps the frame's end.
    const auto over = std::min<int64_t>(static_cast<int64_t>(result.ids.size()) - max_tokens, frame);
    if (over > 0) result.ids.erase(result.ids.begin(), result.ids.begin() + over);
    const int64_t before = static_cast<int64_t>(before_.size()) + std::min(kept, prompt_size_);
    result.first = std::max<int64_t>(before - std::max<int64_t>(over, 0), 0);
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return pieces_.vocabulary_size; }
  [[nodiscard]] int32_t start_id() const override { return pieces_.start_id; }
  [[nodiscard]] int32_t end_id() const override { return pieces_.end_id; }
  [[nodiscard]] int32_t pad_id() const override { return pieces_.pad_id; }
  [[nodiscard]] std::unique_ptr<TokenDecoder> make_decoder() const override {
    std::vector<int32_t> special = pieces_.added.ids();
    special.insert(special.end(), {pieces_.start_id, pieces_.end_id, pieces_.pad_id});
    return pieces_.encoder->make_decoder(special);
  }

 private:
  PieceTokenizer pieces_;
  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
  std::string prompt_;
  int64_t prompt_size_;
};

}  // namespace

void AddedTokens::insert(const std::string& text, Token token) {
  if (text.empty()) return;
  places_.insert(text, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  highest_id_ = std::max(highest_id_, token.id);
}

Status AddedTokens::insert_listed(const Json& token, int32_t id, size_t vocabulary, size_t limit) {
  SACCADE_ASSIGN(const auto content, json_field<std::string>(token, "content"));
  const std::string where = fmt::format("token \"{}\"", tokenizer_json::shown(content));
  if (id < 0 || static_cast<size_t>(id) >= vocabulary + limit) {
    return fail(ErrorCode::kBadData, "{} has id {} beside a vocabulary of {}", where, id, vocabulary);
  }
  SACCADE_TRY(tokenizer_json::require(token, "single_word", false).in(where));
  Token entry{.id = id};
  SACCADE_ASSIGN(entry.strips_left, json_field_or<bool>(token, "lstrip", false).in(where));
  SACCADE_ASSIGN(entry.strips_right, json_field_or<bool>(token, "rstrip", false).in(where));
  insert(content, entry);
  return {};
}

std::vector<int32_t> AddedTokens::ids() const {
  std::vector<int32_t> ids;
  for (const Token& token : tokens_) ids.push_back(token.id);
  return ids;
}

int32_t AddedTokens::find(std::string_view text) const {
  const PrefixTrie::Match found = places_.longest(text);
  return found.length == 0 || found.length < text.size() ? -1 : tokens_[static_cast<size_t>(found.value)].id;
}

void AddedTokens::append_ids(std::string_view text, const PieceEncoder& encoder,
                             std::vector<int32_t>& ids) const {
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const PrefixTrie::Match found = places_.longest(text.substr(i));
    if (found.length == 0) {
      ++i;
      continue;
    }
    const Token& token = tokens_[static_cast<size_t>(found.value)];
    std::string_view before = text.substr(begin, i - begin);
    if (token.strips_left) before = without_right_space(before);
    if (!before.empty()) encoder.append_ids(before, ids);
    ids.push_back(token.id);
    i += found.length;
    if (token.strips_right) i = text.size() - without_left_space(text.substr(i)).size();
    begin = i;
  }
  if (begin < text.size()) encoder.append_ids(text.substr(begin), ids);
}

std::vector<int32_t> PieceTokenizer::ids_of(std::string_view text) const {
  std::vector<int32_t> ids;
  added.append_ids(to_valid_utf8(text.substr(0, kMaxPieceText)), *encoder, ids);
  return ids;
}

std::unique_ptr<Tokenizer> make_framed_tokenizer(PieceTokenizer pieces, std::vector<int32_t> before,
                                                 std::vector<int32_t> after, std::string prompt) {
  return std::make_unique<FramedTokenizer>(std::move(pieces), std::move(before), std::move(after),
                                           std::move(prompt));
}

std::unique_ptr<Tokenizer> make_framed_tokenizer(PieceTokenizer pieces, TextCleanup cleanup) {
  std::vector<int32_t> before = pieces.before;
  std::vector<int32_t> after = pieces.after;
  std::unique_ptr<Tokenizer> tokenizer =
      make_framed_tokenizer(std::move(pieces), std::move(before), std::move(after));
  return cleanup == TextCleanup::kTokenizerFile ? std::move(tokenizer)
                                                : with_cleanup(std::move(tokenizer), cleanup);
}

}  // namespace saccade

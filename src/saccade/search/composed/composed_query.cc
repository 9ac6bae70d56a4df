#include "saccade/search/composed/composed_query.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"
#include "saccade/model/composers/composer.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {
namespace {

constexpr size_t kShownPatches = 4;  // of a word, in text for people

// Returns the byte range of the text that each of its own tokens comes from, by words between white space.
// Empty if the words' tokens differ from the text's.
std::vector<std::pair<size_t, size_t>> token_stretches(const Tokenizer& tokenizer, const std::string& text,
                                                       const TokenizedText& tokens) {
  std::vector<std::pair<size_t, size_t>> stretches;
  size_t at = 0;
  while ((at = text.find_first_not_of(kAsciiSpace, at)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(kAsciiSpace, at), text.size());
    const TokenizedText word = tokenizer.encode(text.substr(at, end - at), kWholeText);
    stretches.insert(stretches.end(), static_cast<size_t>(word.used), {at, end});
    at = end;
  }
  if (std::ssize(stretches) != tokens.used + tokens.dropped) return {};
  return stretches;
}

void add_matches(const EncoderBackend& encoder, const std::string& text, const TokenizedText& tokens,
                 const std::vector<MergedPair>& pairs, int64_t picture_tokens, ComposerReport& report) {
  report.tokens = std::ssize(tokens.ids);
  const auto side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(picture_tokens - 1))));
  report.rows = report.columns = side;
  const auto stretches = token_stretches(*encoder.tokenizer(), text, tokens);
  std::map<int64_t, ComposerReport::Token> met;
  for (const MergedPair& pair : pairs) {
    ComposerReport::Token& token = met[pair.text];
    token.place = pair.text;
    const int64_t own = pair.text - tokens.first;
    if (own >= 0 && own < tokens.used && own < std::ssize(stretches)) {
      std::tie(token.begin, token.end) = stretches[static_cast<size_t>(own)];
    }
    const int patch = pair.picture - 1;
    token.patches.push_back({.whole = pair.picture == 0,
                             .row = patch < 0 ? 0 : patch / side,
                             .column = patch < 0 ? 0 : patch % side,
                             .cosine = pair.cosine});
  }
  report.matched = std::ssize(met);
  for (auto& [place, token] : met) {
    std::ranges::stable_sort(token.patches, std::greater<>(), &ComposerReport::Patch::cosine);
    report.met.push_back(std::move(token));
  }
}

}  // namespace

Result<std::vector<EncodedQuery>> compose_query(EncoderBackend& encoder, Composer& composer,
                                                MatrixView<const float> pixels,
                                                const std::vector<std::string>& texts) {
  SACCADE_TRY(composer.check_encoder(encoder));
  SACCADE_TRY(check_composer_needs(encoder, composer.kind()));
  SACCADE_ASSIGN(const Composed composed, composer.compose(encoder, pixels, texts));
  const EncoderBackend& reader = composer.texts(encoder);
  std::vector<EncodedQuery> encoded(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const TokenizedText tokens = reader.tokenizer()->encode(texts[i], reader.info().context);
    const auto row = composed.rows.row(static_cast<int64_t>(i));
    encoded[i].row.assign(row.begin(), row.end());
    encoded[i].tokens =
        TokenCount{.used = tokens.used, .dropped = tokens.dropped, .chunks = 1, .longest_chunk = tokens.used};
    auto report = std::make_shared<ComposerReport>();
    report->composer = composer.name();
    report->fingerprint = composer.fingerprint();
    report->kind = composer.config().kind;
    const Json& options = composer.config().options;
    if (const auto tau = options.find("tau"); tau != options.end() && tau->is_number()) {
      report->tau = tau->get<double>();
    }
    if (composer.kind().needs.tokens && i < composed.matches.size()) {
      add_matches(encoder, texts[i], tokens, composed.matches[i], encoder.token_states()->picture_tokens(),
                  *report);
    }
    encoded[i].composer_report = std::move(report);
  }
  return encoded;
}

std::string composer_note(const ComposerReport& report) {
  std::string note = fmt::format("the query was made by the composer {} ({})", report.composer, report.kind);
  if (report.tokens == 0) return note;
  note += fmt::format(": {} of {} of the text, start and end among them, met the image", report.matched,
                      counted(report.tokens, "token"));
  if (report.tau) note += fmt::format(" at tau {:.2g}", *report.tau);
  return note;
}

std::string composer_text(const ComposerReport& report, const std::string& text) {
  std::string lines;
  for (const ComposerReport::Token& token : report.met) {
    const std::string word = token.end > token.begin ? text.substr(token.begin, token.end - token.begin)
                                                     : fmt::format("token {}", token.place);
    lines += fmt::format("  {} met", word);
    for (size_t i = 0; i < token.patches.size() && i < kShownPatches; ++i) {
      const ComposerReport::Patch& patch = token.patches[i];
      lines += i == 0 ? " " : ", ";
      lines += patch.whole ? std::string("the whole image")
                           : fmt::format("patch {},{}", patch.row + 1, patch.column + 1);
      lines += fmt::format(" ({:.2f})", patch.cosine);
    }
    if (token.patches.size() > kShownPatches) {
      lines += fmt::format(" and {} more", token.patches.size() - kShownPatches);
    }
    lines += "\n";
  }
  return lines;
}

Json composer_json(const ComposerReport& report, const std::string& text) {
  Json words = Json::array();
  for (const ComposerReport::Token& token : report.met) {
    Json patches = Json::array();
    for (const ComposerReport::Patch& patch : token.patches) {
      patches.push_back({{"row", patch.whole ? Json() : Json(patch.row)},
                         {"column", patch.whole ? Json() : Json(patch.column)},
                         {"cosine", std::stod(fmt::format("{}", patch.cosine))}});
    }
    words.push_back(
        {{"token", token.place},
         {"word", token.end > token.begin ? Json(text.substr(token.begin, token.end - token.begin)) : Json()},
         {"begin", token.begin},
         {"end", token.end},
         {"patches", std::move(patches)}});
  }
  const bool joins = report.tokens > 0;
  return {{"method", "composer"},
          {"composer", report.composer},
          {"fingerprint", report.fingerprint},
          {"kind", report.kind},
          {"tau", report.tau ? Json(*report.tau) : Json()},
          {"tokens", joins ? Json(report.tokens) : Json()},
          {"matched", joins ? Json(report.matched) : Json()},
          {"grid", joins ? Json{{"rows", report.rows}, {"columns", report.columns}} : Json()},
          {"met", std::move(words)}};
}

}  // namespace saccade

#include "print/print_answers.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/catalog/facts_json.h"
#include "saccade/collection/small_picture.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/composed/composed_query.h"
#include "saccade/search/listing.h"

#include "print/sixel.h"

namespace saccade::app {
namespace {

// The first `limit` characters of UTF-8 text, "..." behind them where there were more.
std::string shortened(std::string_view text, size_t limit) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && ++characters > limit) return std::string(text.substr(0, i)) + "...";
  }
  return std::string(text);
}

// "          token 3 (id 812)  0.713 at row 4, column 17": one row of the text.
std::string match_text(const TokenMatch& match) {
  std::string text = fmt::format("          token {}", match.token);
  if (match.id) text += fmt::format(" (id {})", *match.id);
  text += fmt::format("  {:.3f}", match.dot);
  if (!match.patches) return text + " at no place\n";
  const PatchBlock& patches = *match.patches;
  if (patches.rows * patches.columns == 1) {
    return text + fmt::format(" at row {}, column {}\n", patches.row, patches.column);
  }
  return text + fmt::format(" at rows {} to {}, columns {} to {}\n", patches.row,
                            patches.row + patches.rows - 1, patches.column,
                            patches.column + patches.columns - 1);
}

// Formats an explanation: "why: *flower* 0.120, red 0.034; most at row 3, column 2 of 4 x 4 (legrad)". The
// word with the largest weight is marked, and the patch is named; rows and columns from 1.
std::string explanation_text(const HitExplanation& explanation, const std::string& text) {
  std::vector<std::string> parts;
  if (!explanation.words.empty()) {
    const auto strongest = std::ranges::max_element(explanation.words, {}, &WordWeight::drop);
    std::vector<std::string> words;
    for (auto word = explanation.words.begin(); word != explanation.words.end(); ++word) {
      const std::string mark = word == strongest && word->drop > 0 ? "*" : "";
      words.push_back(fmt::format("{0}{1}{0} {2:.3f}", mark,
                                  one_line(text.substr(word->begin, word->end - word->begin)), word->drop));
    }
    parts.push_back(fmt::format("{}", fmt::join(words, ", ")));
  }
  if (!explanation.map.empty()) {
    const auto most = std::ranges::max_element(explanation.map) - explanation.map.begin();
    parts.push_back(fmt::format("most at row {}, column {} of {} x {} ({})",
                                most / explanation.grid.columns + 1, most % explanation.grid.columns + 1,
                                explanation.grid.rows, explanation.grid.columns, explanation.method));
  } else if (!explanation.no_map.empty()) {
    parts.push_back("no map: " + one_line(explanation.no_map));
  }
  return fmt::format("          {}: {}\n", one_line(explanation.model), fmt::join(parts, "; "));
}

// "  strong match", with the probability behind it if the hits are explained: "  strong match 0.93".
std::string match_text(const SearchAnswer& answer, const SearchHit& hit) {
  if (!answer.matching || !answer.matching->tells) return {};
  const Match match = match_of(hit);
  std::string text = fmt::format("  {:<12}", match == Match::kUnknown ? "" : name(match));
  if (hit.explanations.empty()) return text;
  return text + (match == Match::kUnknown ? "     " : fmt::format(" {:.2f}", hit.likelihood->right));
}

// "[red apple: caption; fruit: folders]": which words brought the hit, and where it has them.
std::string words_text(const KeywordHit& words) {
  constexpr std::pair<uint8_t, std::string_view> kFields[] = {
      {kInCaption, "caption"}, {kInName, "name"}, {kInFolders, "folders"}};
  std::vector<std::string> parts;
  for (const auto& [field, name] : kFields) {
    std::string terms;
    for (const KeywordHit::Match& match : words.matches) {
      // A word is said once, with the first of the fields that have it.
      if ((match.fields & field) != 0 && (match.fields & (field - 1)) == 0)
        terms += (terms.empty() ? "" : " ") + match.term;
    }
    if (!terms.empty()) parts.push_back(fmt::format("{}: {}", one_line(terms), name));
  }
  return fmt::format("[{}]", fmt::join(parts, "; "));
}

// Returns true if the order or the filter uses `date`.
bool goes_by_date(const SearchQuery& query) {
  if (query.order == Order::kDate) return true;
  const auto filter = parse_filter(query.filter);
  return filter && asks_for(*filter, "date");
}

// Formats the image's metadata (time, place and camera): "{2019-07-14 21:30, Paris, Canon EOS R5}". Answers
// that use the date label it: "{taken 2019-07-14 21:30, ...}", or the file's time in UTC, "{file 2024-05-31
// 08:15}".
std::string facts_text(const SearchHit& hit, bool by_date) {
  const ItemFacts& facts = hit.facts;
  std::vector<std::string> parts;
  if (hit.item.file.elsewhere) parts.emplace_back("not on this host");
  if ((by_date && hit.item.mtime_ns != kUnknownState) || facts.picture.taken) {
    const std::time_t when = facts.picture.taken.value_or(whole_seconds(hit.item.mtime_ns));
    parts.push_back(fmt::format("{}{:%Y-%m-%d %H:%M}", by_date ? fmt::format("{} ", dated_by(facts)) : "",
                                fmt::gmtime(when)));
  }
  if (!facts.place.empty()) parts.push_back(one_line(facts.place));
  if (!facts.picture.camera.empty()) parts.push_back(one_line(facts.picture.camera));
  return parts.empty() ? std::string() : fmt::format("  {{{}}}", fmt::join(parts, ", "));
}

// The name in bold behind its folder.
std::string shown_path(const std::string& path, const Terminal& terminal) {
  const size_t name = path.rfind('/') + 1;
  return dimmed(one_line(path.substr(0, name)), terminal) + bold(one_line(path.substr(name)), terminal);
}

// Returns the image, some lines high, to print above its line; empty if it can no longer be read.
std::string thumbnail_text(const SearchHit& hit, const Terminal& terminal, Session& session) {
  if (hit.item.file.elsewhere) return {};
  constexpr int kRows = 5;
  // Others are scaled by the terminal, sixels are as large as they are.
  const int side = terminal.pictures == PictureProtocol::kSixel ? kRows * terminal.line_height : 160;
  DecodeOptions limits;
  limits.processes = session.decoders.start(session.messages);
  auto decoded = decode_image_file(hit.item.path, small_picture_decoding(side, limits));
  if (!decoded) return {};
  auto small = small_picture(std::move(decoded->image), side);
  if (!small) return {};
  if (terminal.pictures == PictureProtocol::kSixel) {
    const auto pixels = decode_image(std::as_bytes(std::span(small->bytes)), {});
    const auto drawn = pixels ? sixel_text(pixels->image, small->background == "dark")
                              : Result<std::string>(fail(pixels.error()));
    return drawn ? *drawn + "\n" : std::string();
  }
  std::string bytes = std::move(small->bytes);
  if (terminal.pictures == PictureProtocol::kKitty && small->type != "image/png") {
    const auto pixels = decode_image(std::as_bytes(std::span(bytes)), {});
    auto png = pixels ? encode_png(pixels->image) : Result<std::string>(fail(pixels.error()));
    if (!png) return {};
    bytes = *std::move(png);
  }
  return inline_picture(bytes, kRows, terminal.pictures);
}

// Describes the stages of the search, if there was more than one scan of all embeddings.
std::string stages_text(const SearchAnswer& answer) {
  std::string text;
  if (const std::string note = understood_note(answer); !note.empty()) text += one_line(note) + "\n";
  if (const std::string note = words_note(answer); !note.empty()) text += one_line(note) + "\n";
  if (const std::string note = composed_note(answer); !note.empty()) text += note + "\n";
  if (answer.query.explain && answer.composer_report) {
    text += composer_text(*answer.composer_report, answer.query.text.str());
  }
  if (const std::string note = scored_note(answer); !note.empty()) text += note + "\n";
  if (const std::string note = approximate_note(answer); !note.empty()) text += one_line(note) + "\n";
  if (answer.reranking) {
    const Reranking& reranking = *answer.reranking;
    text += fmt::format("the best {} of {} re-ranked by {} ({}); in brackets rank and score before\n",
                        count_text(reranking.reranked), count_text(reranking.depth),
                        one_line(reranking.checkpoint), reranking.method);
  }
  return text;
}

}  // namespace

std::string nothing_found_text(const SearchAnswer& answer) {
  if (answer.matching && answer.matching->cut_hits > 0) return matching_note(answer);
  if (answer.searched > 0) return "no more results";
  return answer.query.filter.empty() ? "no images in the collection" : "no image passes the filter";
}

std::string answer_text(const SearchAnswer& answer, const Terminal& terminal, Session& session) {
  if (answer.hits.empty()) return {};
  const std::string note = matching_note(answer);
  const bool by_date = goes_by_date(answer.query);
  std::string text;
  for (const SearchHit& hit : answer.hits) {
    if (terminal.pictures != PictureProtocol::kOff) text += thumbnail_text(hit, terminal, session);
    const std::string path =
        file_link(shown_path(shown_name(hit.item.path), terminal), file_of(hit.item.path), terminal);
    if (!std::isfinite(hit.score)) {  // listed by date
      text += fmt::format("{:>4}  {}", hit.rank, path);
    } else if (hit.retrieval) {
      const std::string score = hit.reranked ? fmt::format("{:.3f}", hit.score) : "    -";
      text += fmt::format("{:>4}  {}  [{} {:.3f}]  {}", hit.rank, score, hit.retrieval->rank,
                          hit.retrieval->score, path);
    } else {
      text += fmt::format("{:>4}  {:.3f}{}  {}", hit.rank, hit.score, match_text(answer, hit), path);
    }
    if (!hit.item.caption.empty()) {
      text += dimmed(fmt::format("  ({})", one_line(shortened(hit.item.caption, 80))), terminal);
    }
    text += dimmed(facts_text(hit, by_date), terminal);
    if (hit.keywords && !hit.keywords->matches.empty()) {
      text += dimmed("  " + words_text(*hit.keywords), terminal);
    }
    if (!hit.folded.empty()) text += fmt::format("  [and {} like it]", count_text(std::ssize(hit.folded)));
    text += "\n";
    for (const HitExplanation& explanation : hit.explanations) {
      text += explanation_text(explanation, answer.query.text.str());
    }
    for (const TokenMatch& match : hit.matches) text += match_text(match);
  }
  if (is_listing(answer.query) && std::ssize(answer.hits) < answer.searched) {
    text += fmt::format("the newest {} of {}; -k shows more\n", count_text(std::ssize(answer.hits)),
                        counted(answer.searched, "image"));
  }
  if (!note.empty()) text += note + "\n";
  return text + stages_text(answer);
}

Status write_search_page(const std::filesystem::path& file, const OutputRules& rules,
                         std::span<const SearchAnswer> answers, const CollectionReader& collection,
                         SearchPageOptions options, ThreadPool& pool, Session& session) {
  options.collection = collection.folder().string();
  options.checkpoint = collection.info().checkpoint.name;
  options.pictures = collection.item_count();
  options.limits.processes = session.decoders.start(session.messages);
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(const std::string page,
                 search_page(answers, options, pool, progress.callback(), session.interrupts.stop_cleanly()));
  return write_output(file, OutputKind::kHtml, rules, page).in("page");
}

}  // namespace saccade::app

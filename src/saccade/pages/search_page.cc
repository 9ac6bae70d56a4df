#include "saccade/pages/search_page.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/core/counts.h"
#include "saccade/image/frame_name.h"
#include "saccade/pages/heat.h"
#include "saccade/pages/html.h"
#include "saccade/pages/page_style.h"
#include "saccade/pages/thumbnail.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/listing.h"

namespace saccade {
namespace {

// Additional style, after page_style().
constexpr std::string_view kStyle = R"css(
section { padding-top: 32px; }
.query { display: flex; gap: 16px; align-items: center; margin-bottom: 16px; }
.query h2 { margin: 0; font-size: 26px; line-height: 1.2; font-weight: 650; letter-spacing: -.015em;
  overflow-wrap: anywhere; }
.query p { margin: 4px 0 0; }
.query .thumb { width: 96px; height: 96px; flex: none; border-radius: 10px; border: 1px solid
  var(--line); }
.cut { display: inline-block; margin-top: 8px; padding: 4px 10px; border-radius: 6px; color:
  var(--warn); background: var(--warn-page); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: 16px;
  list-style: none; margin: 0; padding: 0; }
.card { display: flex; flex-direction: column; min-width: 0; overflow: hidden; background: var(--card);
  border: 1px solid var(--line); border-radius: 12px; }
.marks { position: absolute; inset: 0; width: 100%; height: 100%; }
.light .marks, .dark .marks { inset: 8%; width: 84%; height: 84%; }
.heat { transition: opacity .15s; }
.thumb:hover .heat, .thumb:focus-visible .heat { opacity: 0; }
.grid.wide { grid-template-columns: repeat(auto-fill, minmax(min(352px, 100%), 1fr)); }
.models { display: grid; grid-template-columns: 1fr 1fr; gap: 1px; background: var(--line); }
.models figure { margin: 0; min-width: 0; background: var(--card); }
.models figcaption { padding: 6px 12px; font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
.why { margin: 6px 0 0; overflow-wrap: anywhere; line-height: 1.7; }
.why span { padding: 1px 3px; border-radius: 4px; background: rgb(38 166 145 /
  calc(var(--w) * .55)); }
.why span.minus { background: none; text-decoration: underline dotted; }
.marks rect { fill: none; stroke: #e0218a; vector-effect: non-scaling-stroke; stroke-width: 2; }
.words { padding: 10px 12px 12px; border-top: 1px solid var(--line); font-size: 13px; }
.line { display: flex; align-items: center; gap: 6px; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bar { flex: 1; height: 4px; border-radius: 2px; background: var(--line); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--accent); }
.caption { margin: 6px 0 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3;
  overflow: hidden; overflow-wrap: anywhere; }
.path { margin: 4px 0 0; color: var(--soft); overflow: hidden; text-overflow: ellipsis; white-space:
  nowrap; }
details { margin-top: 6px; }
summary { cursor: pointer; color: var(--accent); }
details ul { margin: 4px 0 0; padding-left: 16px; color: var(--soft); overflow-wrap: anywhere; }
.none { padding: 32px; border: 1px dashed var(--line); border-radius: 12px; color: var(--soft);
  text-align: center; }
@media (max-width: 520px) { main, body > header, body > footer { padding-left: 14px; padding-right:
  14px; } .grid { grid-template-columns: repeat(2, 1fr); gap: 10px; } .query h2 { font-size: 21px; } }
@media print { .card { break-inside: avoid; } nav { display: none; } }
)css";

// Returns the image's URL. The path is shown in the tooltip. Browsers open a video at the time after "#t=".
std::string picture_url(const Item& item) {
  const auto frame = read_frame_name(item.path);
  return frame ? file_url(frame->file) + frame_fragment(frame->milliseconds) : file_url(item.path);
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Renders frames around the patches that the text's rows matched. They use the image's own pixel coordinates,
// so that they stay aligned with it.
std::string marks_html(const SearchHit& hit) {
  std::string frames;
  const auto width = static_cast<double>(hit.item.width);
  const auto height = static_cast<double>(hit.item.height);
  for (const TokenMatch& match : hit.matches) {
    if (!match.box) continue;
    frames += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>token {}: "
        "{:.3f}</title></rect>",
        match.box->x * width, match.box->y * height, match.box->width * width, match.box->height * height,
        match.token, match.dot);
  }
  if (frames.empty()) return {};
  return fmt::format("<svg class=\"marks\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\">{}</svg>",
                     hit.item.width, hit.item.height, frames);
}

// Renders the relevance map over the image, in the image's own pixel coordinates and clipped at its edges.
// Returns "" if there is none.
std::string heat_html(const SearchHit& hit, const HitExplanation& explanation) {
  if (explanation.map.empty() || !explanation.box) return {};
  const auto url = heat_url(explanation.map, explanation.grid.rows, explanation.grid.columns);
  if (!url) return {};
  const PictureBox& box = *explanation.box;
  const auto width = static_cast<double>(hit.item.width);
  const auto height = static_cast<double>(hit.item.height);
  return fmt::format(
      "<svg class=\"marks heat\" viewBox=\"0 0 {0} {1}\" aria-hidden=\"true\"><svg width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\"><image x=\"{2:.2f}\" y=\"{3:.2f}\" width=\"{4:.2f}\" height=\"{5:.2f}\" "
      "preserveAspectRatio=\"none\" href=\"{6}\"/></svg></svg>",
      hit.item.width, hit.item.height, box.x * width, box.y * height, box.width * width, box.height * height,
      *url);
}

float strongest_word(const HitExplanation& explanation) {
  float most = 0;
  for (const WordWeight& word : explanation.words) most = std::max(most, word.drop);
  return most;
}

// Renders the query's text, with words shaded by their contribution to this hit.
std::string shaded_words(const std::string& text, const HitExplanation& explanation) {
  const float most = strongest_word(explanation);
  std::string html;
  size_t done = 0;
  for (const WordWeight& word : explanation.words) {
    html += escape_html(std::string_view(text).substr(done, word.begin - done));
    const std::string inside = escape_html(std::string_view(text).substr(word.begin, word.end - word.begin));
    html += word.drop < 0
                ? fmt::format("<span class=\"minus\" title=\"{:.3f} more without it\">{}</span>", -word.drop,
                              inside)
                : fmt::format("<span style=\"--w:{:.2f}\" title=\"{:.3f} less without it\">{}</span>",
                              most > 0 ? word.drop / most : 0.0F, word.drop, inside);
    done = word.end;
  }
  return html + escape_html(std::string_view(text).substr(done));
}

// Renders one encoder's explanation: the shaded text, then the numbers.
std::string explanation_html(const std::string& text, const HitExplanation& explanation) {
  std::string html;
  if (!explanation.words.empty()) {
    html += "<p class=\"why\">" + shaded_words(text, explanation) + "</p>\n";
    html += "<details><summary>in numbers</summary><ul>\n";
    for (const WordWeight& word : explanation.words) {
      html += fmt::format("<li>{}: {:.3f}</li>\n",
                          escape_html(std::string_view(text).substr(word.begin, word.end - word.begin)),
                          word.drop);
    }
    html += "</ul></details>\n";
  }
  if (!explanation.no_map.empty()) {
    html += fmt::format("<p class=\"path\">no map: {}</p>\n", escape_html(explanation.no_map));
  }
  return html;
}

// Renders the top of a card: the image with its relevance map. With several encoders there is one image per
// encoder, side by side, each with its explanation.
std::string picture_part(const SearchHit& hit, const std::string& text, const Thumbnail& thumbnail) {
  const std::string picture = picture_html(
      thumbnail, hit.item.caption.empty() ? file_name(shown_name(hit.item.path)) : hit.item.caption);
  const auto linked = [&](const std::string& heat) {
    return fmt::format("<a class=\"thumb {}\" href=\"{}\">{}{}{}</a>\n", thumbnail.background,
                       picture_url(hit.item), picture, heat, marks_html(hit));
  };
  if (hit.explanations.size() < 2) {
    return linked(hit.explanations.empty() ? "" : heat_html(hit, hit.explanations.front()));
  }
  std::string html = "<div class=\"models\">\n";
  for (const HitExplanation& explanation : hit.explanations) {
    html += "<figure>" + linked(heat_html(hit, explanation));
    html += fmt::format("<figcaption><b>{}</b>{}\n{}</figcaption></figure>\n", escape_html(explanation.model),
                        explanation.score ? fmt::format(" <span title=\"{}\">{:.3f}</span>",
                                                        explanation.score_by, *explanation.score)
                                          : std::string(),
                        explanation_html(text, explanation));
  }
  return html + "</div>\n";
}

std::string matches_html(const SearchHit& hit) {
  if (hit.matches.empty()) return {};
  std::string html = "<details><summary>what each token met</summary><ul>\n";
  for (const TokenMatch& match : hit.matches) {
    html += fmt::format("<li>token {}{}: {:.3f}", match.token,
                        match.id ? fmt::format(" (id {})", *match.id) : "", match.dot);
    if (match.patches) html += fmt::format(", patch {}, {}", match.patches->row, match.patches->column);
    html += "</li>\n";
  }
  return html + "</ul></details>\n";
}

// Describes the score, and the score before reranking by a second encoder.
std::string score_title(const SearchHit& hit) {
  std::string title = hit.reranked       ? "score of the re-ranking"
                      : hit.pooled_score ? "MaxSim with the query"
                                         : "cosine with the query";
  if (hit.retrieval) {
    title += fmt::format("; before: rank {}, {:.3f}", hit.retrieval->rank, hit.retrieval->score);
    if (!hit.not_reranked.empty()) title += "; not re-ranked: " + hit.not_reranked;
  }
  return title;
}

// Range of the score bars. The distance to the other scores on the page says more than the score itself.
struct ScoreRange {
  float low = 0;
  float high = 1;
};

// Renders the strength of the match, such as "likely", if it is known. The title has the probability behind it.
std::string likelihood_html(const SearchHit& hit) {
  const Match match = match_of(hit);
  if (match == Match::kUnknown) return {};
  return fmt::format("<span class=\"soft\" title=\"match probability {:.2f}\">{}</span>",
                     hit.likelihood->right, name(match));
}

std::string card_html(const SearchHit& hit, const std::string& text, const Thumbnail& thumbnail,
                      ScoreRange range) {
  const float span = range.high - range.low;
  const bool of_another_kind = (hit.retrieval && !hit.reranked) || !std::isfinite(hit.score);
  const float share = of_another_kind ? 0.0F : span > 0 ? (hit.score - range.low) / span : 1.0F;
  std::string html = fmt::format(
      "<li class=\"card\">{}<div class=\"words\"><div class=\"line\"><span class=\"soft\">{}</span><b "
      "title=\"{}\">{}</b><span class=\"bar\" aria-hidden=\"true\"><i style=\"width:{:.0f}%\"></i></span>{}</div>\n",
      picture_part(hit, text, thumbnail), hit.rank, escape_html(score_title(hit)),
      of_another_kind ? "-" : fmt::format("{:.3f}", hit.score), 100 * std::clamp(share, 0.04F, 1.0F),
      likelihood_html(hit));
  if (!hit.item.caption.empty()) {
    html += fmt::format("<p class=\"caption\" title=\"{0}\">{0}</p>\n", escape_html(hit.item.caption));
  }
  html += fmt::format("<p class=\"path\" title=\"{}\n{} x {} pixels, {}\">{}</p>\n",
                      escape_html(shown_name(hit.item.path)), hit.item.width, hit.item.height,
                      escape_html(hit.item.format), escape_html(file_name(shown_name(hit.item.path))));
  if (hit.explanations.size() == 1) html += explanation_html(text, hit.explanations.front());
  if (!hit.folded.empty()) {
    html += fmt::format("<details><summary>and {} like it</summary><ul>\n", hit.folded.size());
    for (const SearchHit::Folded& copy : hit.folded) {
      html += fmt::format("<li><a href=\"{}\" title=\"{}\">{}</a> {}</li>\n", picture_url(copy.item),
                          escape_html(shown_name(copy.item.path)),
                          escape_html(file_name(shown_name(copy.item.path))),
                          copy.same_bytes ? "the same file" : fmt::format("{:.3f}", copy.score));
    }
    html += "</ul></details>\n";
  }
  return html + matches_html(hit) + "</div></li>\n";
}

std::string query_words(const SearchQuery& query) {
  if (is_listing(query)) return "Newest first";
  const std::string& text = query.text.str();
  if (query.images.empty()) return text;
  const std::string name = query.images.front().name().string();
  const std::string picture = name.empty() ? "a picture" : file_name(name);
  return text.empty() ? fmt::format("Like {}", picture) : fmt::format("{} + {}", text, picture);
}

// Returns the range of the reranked hits if there are any, because other scores are on another scale.
ScoreRange score_range(const SearchAnswer& answer) {
  const SearchHit& best = answer.hits.front();
  ScoreRange range{std::min(0.0F, best.score), best.score};
  for (const SearchHit& hit : answer.hits) {
    if (hit.reranked == best.reranked) range.low = std::min(range.low, hit.score);
  }
  return range;
}

std::string stages_html(const SearchAnswer& answer) {
  std::string html;
  if (answer.late_scored && *answer.late_scored < answer.searched) {
    html += fmt::format(", the best {} by their rows' mean scored by all their rows",
                        count_text(*answer.late_scored));
  }
  if (answer.reranking) {
    html += fmt::format(", {} re-ranked by {} ({})", count_text(answer.reranking->reranked),
                        escape_html(answer.reranking->checkpoint), answer.reranking->method);
  }
  return html;
}

// Returns the footer's legend for explanations, or "" if no hit has one.
std::string explained(std::span<const SearchAnswer> answers) {
  std::vector<std::string> methods;
  for (const SearchAnswer& answer : answers) {
    for (const SearchHit& hit : answer.hits) {
      for (const HitExplanation& each : hit.explanations) {
        if (std::ranges::find(methods, each.method) == methods.end()) methods.push_back(each.method);
      }
    }
  }
  if (methods.empty()) return {};
  return fmt::format(
      " The darker a word is shaded, the more the score falls without it; a word with dots below lowers it. Colours over a "
      "picture, from dark to bright, are where the score comes from ({}), each picture by itself; point at a picture to see "
      "it without them.",
      fmt::join(methods, ", "));
}

// Returns the footer's description of the scores.
std::string_view scores_are(std::span<const SearchAnswer> answers) {
  const auto any = [&](auto has) { return std::ranges::any_of(answers, has); };
  if (any([](const SearchAnswer& answer) { return answer.reranking.has_value(); })) {
    return "those of the encoder that re-ranked, or of the first where it did not";
  }
  if (any([](const SearchAnswer& answer) { return answer.late_scored.has_value(); })) {
    return "sums over the query's rows of the largest dot product with one of the picture's (MaxSim)";
  }
  return "cosines between the query's row and the picture's";
}

// Renders a note as a sentence of its own; "" for none.
std::string note_html(std::string_view kind, std::string note) {
  if (note.empty()) return {};
  note.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(note.front())));
  return fmt::format("<p class=\"{}\" role=\"note\">{}.</p>", kind, escape_html(note));
}

std::string section_html(const SearchAnswer& answer, size_t number, const std::string& note,
                         const Thumbnail* query_picture, std::span<const Thumbnail> thumbnails) {
  std::string html =
      fmt::format("<section id=\"query-{0}\" aria-labelledby=\"title-{0}\">\n<div class=\"query\">", number);
  if (query_picture != nullptr) {
    html += fmt::format("<div class=\"thumb {}\">{}</div>", query_picture->background,
                        picture_html(*query_picture, "the picture searched by"));
  }
  html += fmt::format("<div><h2 id=\"title-{}\">{}</h2>\n<p class=\"soft\">", number,
                      escape_html(query_words(answer.query)));
  html += fmt::format("{} of {}", count_text(std::ssize(answer.hits)), counted(answer.searched, "picture"));
  if (!answer.query.filter.empty()) {
    html += fmt::format(" that <code>{}</code> leaves", escape_html(answer.query.filter));
  }
  html += stages_html(answer);
  if (answer.tokens && answer.tokens->dropped == 0)
    html += ", " + tokens_text(*answer.tokens) + " of the text";
  html += "</p>";
  if (!note.empty()) html += fmt::format("<p class=\"cut\" role=\"note\">{}</p>", escape_html(note));
  for (const std::string& warning : answer_warnings(answer)) html += note_html("cut", warning);
  if (const std::string length = measured_length_note(answer); !length.empty()) {
    html += note_html("cut", "a long text: " + length);
  }
  html += note_html("cut", matching_note(answer));
  for (const std::string& said :
       {understood_note(answer), words_note(answer), composed_note(answer), approximate_note(answer)}) {
    html += note_html("soft", said);
  }
  html += "</div></div>\n";
  if (answer.hits.empty()) return html + "<p class=\"none\">No picture to show.</p>\n</section>\n";

  const ScoreRange range = score_range(answer);
  const bool wide =
      std::ranges::any_of(answer.hits, [](const SearchHit& hit) { return hit.explanations.size() > 1; });
  html += fmt::format("<ol class=\"grid{}\">\n", wide ? " wide" : "");
  for (size_t i = 0; i < answer.hits.size(); ++i) {
    html += card_html(answer.hits[i], answer.query.text.str(), thumbnails[i], range);
  }
  return html + "</ol>\n</section>\n";
}

}  // namespace

Result<std::string> search_page(std::span<const SearchAnswer> answers, const SearchPageOptions& options,
                                ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  // Images in page order: a query's own, if it has one, then its hits.
  struct Picture {
    std::filesystem::path path;
    const std::string* bytes = nullptr;  // in place of the file's
    const Item* item = nullptr;          // of a hit
  };
  std::vector<Picture> pictures;
  for (const SearchAnswer& answer : answers) {
    const std::vector<QueryImage>& own = answer.query.images;
    if (!own.empty()) pictures.push_back({own.front().name(), own.front().bytes()});
    for (const SearchHit& hit : answer.hits) pictures.push_back({hit.item.path, nullptr, &hit.item});
  }
  std::vector<Thumbnail> thumbnails(pictures.size());
  const auto total = static_cast<int64_t>(pictures.size());
  std::mutex progress_mutex;
  int64_t done = 0;
  pool.parallel_for(total, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
      const Picture& picture = pictures[static_cast<size_t>(i)];
      thumbnails[static_cast<size_t>(i)] =
          picture.bytes != nullptr  ? bytes_thumbnail(*picture.bytes, options.thumbnail_side, options.limits)
          : picture.item != nullptr ? item_thumbnail(*picture.item, options.thumbnail_side, options.limits)
                                    : file_thumbnail(picture.path, options.thumbnail_side, options.limits);
      const std::lock_guard lock(progress_mutex);
      ++done;
      if (progress) progress({"thumbnails", done, total, ""});
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while making the page");

  const std::string title =
      answers.size() == 1 ? query_words(answers.front().query) + " - " + options.title : options.title;
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"Saccade\">\n<title>{}</title>\n"
      "<style>{}{}</style>\n</head>\n<body>\n<header><h1>{}</h1>\n",
      escape_html(title), page_style(), kStyle, escape_html(options.title));
  if (!options.collection.empty()) {
    html += fmt::format("<p class=\"soft\">{} in {}{}</p>\n", counted(options.pictures, "picture"),
                        escape_html(options.collection),
                        options.checkpoint.empty() ? "" : ", encoder " + escape_html(options.checkpoint));
  }
  if (!options.about.empty()) html += fmt::format("<p>{}</p>\n", escape_html(options.about));
  if (answers.size() > 1) {
    html += "<nav aria-label=\"Queries\"><ul>\n";
    for (size_t i = 0; i < answers.size(); ++i) {
      html += fmt::format("<li><a href=\"#query-{}\">{}</a></li>\n", i + 1,
                          escape_html(query_words(answers[i].query)));
    }
    html += "</ul></nav>\n";
  }
  html += "</header>\n<main>\n";
  size_t next = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Thumbnail* query_picture = answers[i].query.images.empty() ? nullptr : &thumbnails[next++];
    const std::string& note = i < options.notes.size() ? options.notes[i] : std::string();
    html += section_html(answers[i], i + 1, note, query_picture,
                         std::span(thumbnails).subspan(next, answers[i].hits.size()));
    next += answers[i].hits.size();
  }
  html += fmt::format(
      "</main>\n<footer>Scores are {}: they order one answer, and do not compare between queries or "
      "encoders. Bars are relative to the best hit.{}</footer>\n</body>\n</html>\n",
      scores_are(answers), explained(answers));
  return html;
}

}  // namespace saccade

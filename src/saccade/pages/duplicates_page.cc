#include "saccade/pages/duplicates_page.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <vector>

#include "saccade/core/counts.h"
#include "saccade/pages/html.h"
#include "saccade/pages/page_style.h"
#include "saccade/pages/thumbnail.h"

namespace saccade {
namespace {

// Additional style, after page_style().
constexpr std::string_view kStyle = R"css(
section { padding-top: 28px; }
h2 { font-size: 18px; overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: 16px; list-style: none;
  margin: 0; padding: 0; }
.card { min-width: 0; overflow: hidden; background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.card.best { border: 2px solid var(--accent); }
.words { padding: 10px 12px 12px; border-top: 1px solid var(--line); font-size: 13px; overflow-wrap: anywhere; }
.words p { margin: 4px 0 0; }
.soft { color: var(--soft); }
)css";

std::string likeness_words(const DuplicateMember& member, const DuplicateMember& best) {
  switch (member.likeness) {
    case Likeness::kSameBytes:
      return "the same bytes";
    case Likeness::kSamePicture:
      return fmt::format("the same picture: {} of 64 bits, cosine {:.3f}", member.hash_bits, member.cosine);
    case Likeness::kBurst:
      break;
  }
  return member.taken && best.taken
             ? fmt::format("{} s apart, cosine {:.3f}", *member.taken - *best.taken, member.cosine)
             : fmt::format("alike, cosine {:.3f}", member.cosine);
}

std::string card(const DuplicateGroup& group, size_t number, const Thumbnail& thumbnail) {
  const DuplicateMember& member = group.members[number];
  const std::string name = std::filesystem::path(member.item.path).filename().string();
  const bool best = number == 0;
  std::string html = fmt::format(
      "<li class=\"card{}\"><a class=\"thumb {}\" href=\"{}\">{}</a>\n<div class=\"words\">",
      best ? " best" : "", thumbnail.background, file_url(member.item.path), picture_html(thumbnail, name));
  html += fmt::format("<b title=\"{}\">{}</b>", escape_html(member.item.path), escape_html(name));
  // An item without a file may lack them.
  if (member.item.width > 0 && member.item.size != kUnknownState) {
    html +=
        fmt::format("<p>{} x {}, {}</p>", member.item.width, member.item.height, size_text(member.item.size));
  }
  html += best ? fmt::format("<p>the best: {}</p>", escape_html(group.why_best))
               : fmt::format("<p class=\"soft\">{}</p>", likeness_words(member, group.members.front()));
  for (const std::string& other : member.other_names)
    html += fmt::format("<p class=\"soft\">the same file as {}</p>", escape_html(other));
  return html + "</div></li>\n";
}

}  // namespace

Result<std::string> duplicates_page(const DuplicateReport& report, const DuplicatesPageOptions& options,
                                    ThreadPool& pool, const ProgressCallback& progress,
                                    std::stop_token stop) {
  const auto shown = static_cast<size_t>(std::min(options.most_groups, std::ssize(report.groups)));
  std::vector<const DuplicateMember*> members;
  for (size_t i = 0; i < shown; ++i) {
    for (const DuplicateMember& member : report.groups[i].members) members.push_back(&member);
  }
  std::vector<Thumbnail> thumbnails(members.size());
  std::mutex mutex;
  int64_t done = 0;
  pool.parallel_for(std::ssize(members), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && !stop.stop_requested(); ++i) {
      thumbnails[i] = item_thumbnail(members[i]->item, options.thumbnail_side, options.limits);
      const std::lock_guard lock(mutex);
      if (progress) progress({"thumbnails", ++done, std::ssize(members), ""});
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while making the page");

  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"Saccade\">\n<title>Duplicates</title>\n"
      "<style>{}{}</style>\n</head>\n<body>\n<header><h1>Duplicates</h1>\n<p class=\"soft\">{} of {} in {}{}. Nothing was "
      "deleted.</p>\n</header>\n<main>\n",
      page_style(), kStyle, counted(std::ssize(report.groups), "group"), counted(report.items, "picture"),
      escape_html(options.collection),
      shown < report.groups.size()
          ? fmt::format(", the {} with the most to spare shown", count_text(static_cast<int64_t>(shown)))
          : "");
  if (report.groups.empty()) html += "<p class=\"none\">No picture is there more than once.</p>\n";
  size_t next = 0;
  for (size_t i = 0; i < shown; ++i) {
    const DuplicateGroup& group = report.groups[i];
    html += fmt::format("<section><h2>{}, {} to spare</h2>\n<ol class=\"grid\">\n",
                        counted(std::ssize(group.members), "picture"), size_text(group.spare_bytes));
    for (size_t m = 0; m < group.members.size(); ++m) html += card(group, m, thumbnails[next++]);
    html += "</ol>\n</section>\n";
  }
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace saccade

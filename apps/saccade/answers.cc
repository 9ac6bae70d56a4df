#include "answers.h"

#include <fmt/format.h>

#include "saccade/core/files.h"
#include "saccade/report/search_page.h"

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

}  // namespace

std::string answer_text(const Answer& answer) {
  if (answer.hits.empty()) {
    return answer.query.filter.empty() ? "no pictures in the collection\n" : "no picture passes the filter\n";
  }
  std::string text;
  for (const Hit& hit : answer.hits) {
    text += fmt::format("{:>4}  {:.3f}  {}", hit.rank, hit.score, one_line(hit.item.path));
    if (!hit.item.caption.empty()) text += fmt::format("  ({})", one_line(shortened(hit.item.caption, 80)));
    if (!hit.folded.empty()) text += fmt::format("  [and {} like it]", hit.folded.size());
    text += "\n";
  }
  return text;
}

Status write_search_page(const std::filesystem::path& file, std::span<const Answer> answers,
                         const Collection& collection, std::string_view title, ThreadPool& pool,
                         Session& session) {
  SearchPageOptions options;
  options.title = title;
  options.collection = collection.folder().string();
  options.checkpoint = collection.info().checkpoint.name;
  options.pictures = collection.item_count();
  ProgressLine progress(session.quiet);
  SACCADE_ASSIGN(const std::string page,
                 search_page(answers, options, pool, progress.callback(), session.interrupts.stop_cleanly()));
  return write_file_atomic(file, page).in("page");
}

}  // namespace saccade::app

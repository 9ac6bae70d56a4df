#include "lab/report/edits_page.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lab/data/edit_queries.h"
#include "lab/data/generated.h"
#include "lab/report/image_thumbnail.h"
#include "saccade/core/counts.h"
#include "saccade/core/random.h"
#include "saccade/pages/html.h"
#include "saccade/pages/page_style.h"

namespace saccade::lab {
namespace {

// Style appended to page_style().
constexpr std::string_view kStyle = R"css(
.edits { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(420px, 100%), 1fr)); gap: 20px;
  list-style: none; margin: 16px 0 0; padding: 0; }
.edits li { border: 1px solid var(--line); border-radius: 12px; background: var(--card); padding: 12px; }
.edits p { margin: 0 0 8px; overflow-wrap: anywhere; }
.three { display: grid; grid-template-columns: repeat(3, 1fr); gap: 8px; }
.three figure { margin: 0; min-width: 0; }
.three img { width: 100%; image-rendering: pixelated; background: #fff; }
.three figcaption { font-size: 12px; color: var(--soft); }
)css";

}  // namespace

Result<std::string> edits_page(const Dataset& dataset, const std::filesystem::path& generated,
                               const EditsPageOptions& options, ThreadPool& pool) {
  SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
  SACCADE_ASSIGN(const GeneratedEdits list, read_generated_edits(generated));
  SACCADE_ASSIGN(const PseudoTargets targets, read_pseudo_targets(generated, dataset));
  std::vector<size_t> queries;
  for (size_t i = 0; i < edits->items.size(); ++i) {
    if (targets.pictures[i] && !edits->items[i].targets.empty()) queries.push_back(i);
  }
  if (queries.empty()) {
    return fail(ErrorCode::kUsage, "{}: no query has both a generated image and a target", dataset.name);
  }
  const size_t there = queries.size();
  SplitMix random(options.seed);
  random.shuffle(queries);
  queries.resize(std::min(queries.size(), static_cast<size_t>(std::max<int64_t>(1, options.shown))));

  const GalleryIndex gallery(*edits);
  struct Shown {
    std::array<ImageRef, 3> pictures;
    std::array<Thumbnail, 3> thumbnails;
  };
  std::vector<Shown> shown(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    const EditQuery& query = edits->items[queries[i]];
    SACCADE_ASSIGN(const size_t reference, gallery.at(query.gallery, query.reference));
    SACCADE_ASSIGN(const size_t target, gallery.at(query.gallery, query.targets.front()));
    shown[i].pictures = {edits->gallery[reference].image, *targets.pictures[queries[i]],
                         edits->gallery[target].image};
  }
  pool.parallel_for(std::ssize(shown), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Shown& one = shown[static_cast<size_t>(i)];
      for (size_t k = 0; k < one.pictures.size(); ++k) {
        one.thumbnails[k] = image_thumbnail(one.pictures[k], options.thumbnail_side, options.limits);
      }
    }
  });

  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"Saccade\">\n<title>{0}</title>\n"
      "<style>{1}{2}</style>\n</head>\n<body>\n<header><h1>{0}</h1>\n<p class=\"soft\">{3} of {4}, drawn by the seed {5} "
      "from {6} with an image and a target. Engine: {7}.</p>\n</header>\n<main>\n<ol class=\"edits\">\n",
      escape_html(options.title), page_style(), kStyle, counted(std::ssize(queries), "edit"),
      escape_html(dataset.name), options.seed, count_text(static_cast<int64_t>(there)),
      escape_html(dump_json(list.engine)));
  constexpr std::array<std::string_view, 3> kNames = {"reference", "generated", "target"};
  for (size_t i = 0; i < queries.size(); ++i) {
    const EditQuery& query = edits->items[queries[i]];
    html += fmt::format("<li><p><b>{}</b> <span class=\"soft\">{}</span></p>\n<div class=\"three\">",
                        escape_html(edit_text(query.texts)), escape_html(query.kind));
    for (size_t k = 0; k < kNames.size(); ++k) {
      html += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>",
                          picture_html(shown[i].thumbnails[k], kNames[k]), kNames[k]);
    }
    html += "</div></li>\n";
  }
  return html +
         "</ol>\n</main>\n<footer>Generated images are the engine's, shown as they came.</footer>\n</body>\n</html>\n";
}

}  // namespace saccade::lab

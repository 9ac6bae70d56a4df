// Projections of images and texts in their shared space, and the modality gap.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "lab/eval/figures/projection.h"
#include "lab/report/run_sections.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

// A sample of an embeddings file's rows.
struct Sample {
  std::vector<int64_t> images;
  std::vector<int64_t> texts;
  Matrix<float> rows;  // those of the images, then those of the texts, of length 1
  int64_t all_images = 0;
  int64_t all_texts = 0;
};

Result<const TensorView*> tensor(const SafeTensors& file, std::string_view name, size_t dimensions) {
  const TensorView* found = file.find(name);
  if (found == nullptr) return fail(ErrorCode::kBadData, "no tensor \"{}\"", name);
  if (found->shape.size() != dimensions) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, not of {} dimensions", name, shape_text(found->shape),
                dimensions);
  }
  return found;
}

// Copies the rows `which` of tensor `from`, normalized, to rows `first` and on of `to`.
Status take_rows(const TensorView& from, std::span<const int64_t> which, int64_t first, Matrix<float>& to) {
  const int64_t width = from.shape[1];
  const int64_t bytes = width * dtype_size(from.dtype);
  for (size_t i = 0; i < which.size(); ++i) {
    const TensorView row{
        from.dtype,
        {width},
        from.bytes.subspan(static_cast<size_t>(which[i] * bytes), static_cast<size_t>(bytes))};
    SACCADE_ASSIGN(std::vector<float> values, row.to_floats());
    if (const double length = normalize_row(values); !(length > 0) || !std::isfinite(length)) {
      return fail(ErrorCode::kBadData, "row {} is all zeros or not finite", which[i]);
    }
    std::ranges::copy(values, to.row(first + static_cast<int64_t>(i)).begin());
  }
  return {};
}

// Draws at most points / 2 images with the run's seed, and the first text of each.
Result<Sample> draw_sample(const std::filesystem::path& path, int64_t points, uint64_t seed) {
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  SACCADE_ASSIGN(const TensorView* images, tensor(file, "image_embeds", 2));
  SACCADE_ASSIGN(const TensorView* texts, tensor(file, "text_embeds", 2));
  SACCADE_ASSIGN(const TensorView* relation, tensor(file, "text_image", 1));
  SACCADE_ASSIGN(const std::vector<int64_t> text_image, relation->to_int64s());
  Sample sample;
  sample.all_images = images->shape[0];
  sample.all_texts = texts->shape[0];
  if (images->shape[1] != texts->shape[1] || std::ssize(text_image) != sample.all_texts) {
    return fail(ErrorCode::kBadData, "image_embeds {}, text_embeds {} and text_image {} do not fit together",
                shape_text(images->shape), shape_text(texts->shape), shape_text(relation->shape));
  }
  sample.images.resize(static_cast<size_t>(sample.all_images));
  std::iota(sample.images.begin(), sample.images.end(), 0);
  if (sample.all_images > points / 2) {
    // An order that is independent of the dataset's.
    const uint64_t mixed = SplitMix(seed).next();
    std::ranges::stable_sort(sample.images, {},
                             [&](int64_t i) { return SplitMix(mixed ^ static_cast<uint64_t>(i)).next(); });
    sample.images.resize(static_cast<size_t>(points / 2));
    std::ranges::sort(sample.images);
  }
  std::vector<uint8_t> wanted(static_cast<size_t>(sample.all_images));
  for (const int64_t image : sample.images) wanted[static_cast<size_t>(image)] = 1;
  for (int64_t text = 0; text < sample.all_texts; ++text) {
    const int64_t image = text_image[static_cast<size_t>(text)];
    if (image < 0 || image >= sample.all_images || wanted[static_cast<size_t>(image)] == 0) continue;
    wanted[static_cast<size_t>(image)] = 0;
    sample.texts.push_back(text);
  }
  const auto count = std::ssize(sample.images);
  sample.rows = Matrix<float>(count + std::ssize(sample.texts), images->shape[1]);
  SACCADE_TRY(take_rows(*images, sample.images, 0, sample.rows).in("image_embeds"));
  SACCADE_TRY(take_rows(*texts, sample.texts, count, sample.rows).in("text_embeds"));
  return sample;
}

Chart map_chart(const Sample& sample, const Matrix<double>& points, const RunItems* items,
                std::string_view method, const std::string& title, std::string words) {
  Chart chart;
  chart.title = fmt::format("{}: {}", method, title);
  chart.words = std::move(words);
  chart.legend = {Series{"images", 0}, Series{"texts", 1}};
  chart.square = true;
  chart.table = false;
  chart.data.name = fmt::format("{}-{}", method, title);
  chart.data.columns = {text_column("kind"), text_column("colour", "series"), text_column("what", "label"),
                        number_column("x"), number_column("y")};
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto images = std::ssize(sample.images);
  for (int64_t r = 0; r < points.rows(); ++r) {
    const bool image = r < images;
    const auto at = static_cast<size_t>(image ? sample.images[static_cast<size_t>(r)]
                                              : sample.texts[static_cast<size_t>(r - images)]);
    std::string label = fmt::format("{} {}", image ? "image" : "text", at);
    if (items != nullptr && image && at < items->images.size()) label = items->images[at].id;
    if (items != nullptr && !image && at < items->texts.size()) label = items->texts[at].text;
    const auto rounded = [](double value) { return std::round(value * 1e5) / 1e5; };
    chart.data.rows.push_back({text_cell(image ? "image" : "text"), text_cell(image ? "s0" : "s1"),
                               text_cell(shortened(label, 80)), number_cell(rounded(points(r, 0))),
                               number_cell(rounded(points(r, 1)))});
    for (const double value : {points(r, 0), points(r, 1)}) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const double border = 0.04 * (high - low) + 1e-9;
  chart.spec = map_spec(chart.legend, low - border, high + border);
  return chart;
}

// Returns two maps of one dataset and model, and a row of the table of gaps.
Result<std::string> maps_of(const LoadedRun& run, const Series& series, const RunEmbeddings& embeddings,
                            const RunPageOptions& options, PageBuilder& page, Table& gaps, ThreadPool& pool,
                            const ProgressCallback& progress, const std::stop_token& stop) {
  SACCADE_ASSIGN(const Sample sample, draw_sample(embeddings.file, options.map_points, run.run->info.seed));
  const auto images = std::ssize(sample.images);
  const auto texts = std::ssize(sample.texts);
  if (images < 2 || texts < 2 || sample.rows.columns() < 2) return std::string();
  const auto items = run.items.find(embeddings.dataset);
  const RunItems* labels = items == run.items.end() ? nullptr : &items->second;
  const std::string title = embeddings.dataset + ", " + series.name;

  SACCADE_ASSIGN(const ModalityGap gap, modality_gap(sample.rows.view().slice(0, images),
                                                     sample.rows.view().slice(images, texts), pool));
  gaps.rows.push_back({text_cell(embeddings.dataset), text_cell(series.name), count_cell(images),
                       count_cell(texts), number_cell(gap.distance),
                       number_cell(gap.other_kind_share, Unit::kShare),
                       number_cell(gap.other_kind_chance, Unit::kShare)});
  SACCADE_ASSIGN(const PrincipalComponents components, principal_components(sample.rows.view(), 2, pool));
  std::string html = page.chart(
      map_chart(sample, components.coordinates, labels, "PCA", title,
                fmt::format("The first two principal components, with {}% and {}% of the variance.",
                            number_text(components.share[0], Unit::kShare),
                            number_text(components.share[1], Unit::kShare))));
  SACCADE_ASSIGN(const Tsne map, tsne(sample.rows.view(), {}, pool, progress, stop));
  return html + page.chart(map_chart(
                    sample, map.points, labels, "t-SNE", title,
                    fmt::format("Neighbours stay neighbours; distances between clusters mean nothing. "
                                "Perplexity {:.3g}.",
                                map.perplexity)));
}

}  // namespace

Result<std::string> maps_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                 ThreadPool& pool, const ProgressCallback& progress,
                                 const std::stop_token& stop) {
  if (options.map_points < 4) return std::string();
  Table gaps;
  gaps.name = "modality-gap";
  gaps.caption = "The gap between images and texts";
  gaps.columns = {text_column("dataset"),
                  text_column("model"),
                  number_column("images"),
                  number_column("texts"),
                  number_column("distance of centroids", "distance"),
                  number_column("nearest neighbour of the other kind", "other_kind"),
                  number_column("were they mixed", "other_kind_mixed")};
  std::string panels;
  for (const LoadedRun& run : data.runs) {
    for (const RunEmbeddings& embeddings : run.run->embeddings) {
      auto html = maps_of(run, data.series_of(run, embeddings.model), embeddings, options, page, gaps, pool,
                          progress, stop);
      if (!html) {
        if (html.error().code == ErrorCode::kCancelled) return html;
        panels +=
            fmt::format("<p class=\"note\">No map of {}, {}: {}.</p>\n", escape_html(embeddings.dataset),
                        escape_html(embeddings.model), escape_html(html.error().message));
      } else {
        panels += *html;
      }
    }
  }
  if (panels.empty()) return std::string();
  std::string html = fmt::format(
      "<section id=\"maps\"><h2>Maps of the shared space</h2>\n<p class=\"soft\">At most {} images of each "
      "dataset, drawn by the run's seed, and the first text of each. Images and texts mostly lie apart: the "
      "table says how far the means of the two are from each other (rows have length 1), and how many images "
      "and texts have a nearest neighbour of the other kind.</p>\n",
      options.map_points / 2);
  if (!gaps.rows.empty()) html += page.table(gaps);
  return html + "<div class=\"panels\">\n" + panels + "</div>\n</section>\n";
}

}  // namespace saccade::lab

#include "lab/eval/classification/classification_study.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "lab/data/readers/reader.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
namespace {

constexpr int64_t kTop = 5;
constexpr std::string_view kPlace = "{}";

std::string prompt(const std::string& pattern, const std::string& name) {
  std::string text = pattern;
  for (size_t at = 0; (at = text.find(kPlace, at)) != std::string::npos; at += name.size())
    text.replace(at, 2, name);
  return text;
}

// Returns the sample of a model: top1, top5 and the weighted hits whose mean is the mean over classes.
ClusteredSample class_sample(const ClassRanks& ranks, std::span<const int64_t> right, int64_t classes) {
  const auto images = static_cast<int64_t>(right.size());
  std::vector<int64_t> sizes(static_cast<size_t>(classes));
  for (const int64_t label : right) ++sizes[static_cast<size_t>(label)];
  const auto present = std::ranges::count_if(sizes, [](int64_t size) { return size > 0; });
  ClusteredSample sample;
  sample.mean_names = {"top1", "top5", "mean_per_class"};
  sample.values = Matrix<double>(images, 3);
  sample.clusters = images;
  for (int64_t i = 0; i < images; ++i) {
    const auto at = static_cast<size_t>(i);
    const double top1 = ranks.rank[at] == 1 ? 1 : 0;
    const auto values = sample.values.row(i);
    values[0] = top1;
    values[1] = ranks.rank[at] <= kTop ? 1 : 0;
    values[2] = top1 * static_cast<double>(images) /
                static_cast<double>(present * sizes[static_cast<size_t>(right[at])]);
    sample.cluster.push_back(i);
  }
  return sample;
}

std::vector<ClassResult> class_results(const ClassRanks& ranks, std::span<const int64_t> right,
                                       const std::vector<ClassName>& classes) {
  std::vector<ClassResult> results;
  for (const ClassName& one : classes) results.push_back({.label = one.label, .name = one.name});
  std::vector<std::map<int64_t, int64_t>> others(classes.size());
  for (size_t i = 0; i < right.size(); ++i) {
    ClassResult& result = results[static_cast<size_t>(right[i])];
    ++result.images;
    result.top1 += ranks.rank[i] == 1 ? 1 : 0;
    result.top5 += ranks.rank[i] <= kTop ? 1 : 0;
    if (ranks.best[i] != right[i]) ++others[static_cast<size_t>(right[i])][ranks.best[i]];
  }
  for (size_t c = 0; c < classes.size(); ++c) {
    const auto most = std::ranges::max_element(others[c], {}, [](const auto& each) { return each.second; });
    if (most != others[c].end()) results[c].mistaken_for = classes[static_cast<size_t>(most->first)].label;
  }
  return results;
}

}  // namespace

std::span<const EnumName<ClassLabel>> enum_names(ClassLabel) {
  static constexpr std::array<EnumName<ClassLabel>, 2> kNames{
      {{ClassLabel::kCaption, "caption", "the first caption"}, {ClassLabel::kGroup, "group", "the group"}}};
  return kNames;
}

Result<std::vector<ClassName>> parse_class_names(std::string_view text) {
  std::vector<ClassName> classes;
  const auto add = [&](int64_t number, std::string_view line) -> Status {
    const size_t tab = std::min(line.find('\t'), line.size());
    ClassName one{.label = std::string(line.substr(0, tab)),
                  .name = std::string(line.substr(std::min(tab + 1, line.size())))};
    if (one.name.empty()) one.name = one.label;
    if (one.label.empty()) return fail(ErrorCode::kBadData, "line {}: no label in front of the tab", number);
    if (std::ranges::any_of(classes, [&](const ClassName& each) { return each.label == one.label; })) {
      return fail(ErrorCode::kBadData, "line {}: label \"{}\" is there twice", number, one.label);
    }
    classes.push_back(std::move(one));
    return {};
  };
  SACCADE_TRY(data::for_each_line(text, add));
  if (classes.empty()) return fail(ErrorCode::kBadData, "no classes");
  return classes;
}

Result<std::vector<std::string>> parse_templates(std::string_view text) {
  std::vector<std::string> templates;
  const auto add = [&](int64_t number, std::string_view line) -> Status {
    if (line.find(kPlace) == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "line {}: no {{}} for the class's name in \"{}\"", number, line);
    }
    templates.emplace_back(line);
    return {};
  };
  SACCADE_TRY(data::for_each_line(text, add));
  if (templates.empty()) return fail(ErrorCode::kBadData, "no templates");
  return templates;
}

ClassRanks rank_classes(MatrixView<const float> scores, std::span<const int64_t> right) {
  ClassRanks ranks;
  for (int64_t i = 0; i < scores.rows(); ++i) {
    const auto row = scores.row(i);
    const auto own = static_cast<size_t>(right[static_cast<size_t>(i)]);
    int64_t rank = 1;
    bool tied = false;
    size_t best = own;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c == own) continue;
      rank += row[c] >= row[own] ? 1 : 0;
      tied = tied || row[c] == row[own];
      if (best == own ? row[c] >= row[own] : row[c] > row[best]) best = c;
    }
    ranks.rank.push_back(rank);
    ranks.best.push_back(static_cast<int64_t>(best));
    ranks.tied.push_back(tied);
  }
  return ranks;
}

Json ClassificationStudy::protocol() const {
  Json json = {
      {"description",
       fmt::format(
           "Each image gets the class whose prompts score highest; a class's embedding is {}. Its right class is {} of the "
           "dataset. Ties count against the model. Intervals: {} resamples of the images. {}",
           classification_.templates.size() == 1
               ? std::string("its prompt's")
               : fmt::format("the mean of its {} prompts'", classification_.templates.size()),
           meaning_of(classification_.label), options_.bootstrap.resamples, picture_words(options_.embed))},
      {"label", enum_name(classification_.label)},
      {"templates", classification_.templates},
      {"classes",
       [&] {
         Json names = Json::array();
         for (const ClassName& one : classification_.classes) names.push_back({one.label, one.name});
         return names;
       }()},
      {"leave_out", options_.leave_out}};
  json.update(picture_fields(options_.embed));
  return json;
}

Status ClassificationStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_ASSIGN(const CaptionedImages* images, dataset.dataset.need<CaptionedImages>());
  Labelled& one = datasets_.emplace_back();
  one.classes = classification_.classes;
  std::unordered_map<std::string, int64_t> numbers;
  for (const ClassName& each : one.classes) numbers.emplace(each.label, std::ssize(numbers));
  for (const DatasetItem& item : images->items) {
    const bool by_group = classification_.label == ClassLabel::kGroup;
    const std::string label = by_group                ? item.group
                              : item.captions.empty() ? std::string()
                                                      : item.captions.front();
    if (label.empty())
      return fail(ErrorCode::kBadData, "{}: image {} has no {}", dataset.name, item.id,
                  by_group ? "group" : "caption");
    auto found = numbers.find(label);
    if (found == numbers.end()) {
      if (!classification_.classes.empty()) {
        return fail(ErrorCode::kBadData,
                    "{}: image {} is of class \"{}\", which is not among the {} of --classes", dataset.name,
                    item.id, label, classification_.classes.size());
      }
      found = numbers.emplace(label, std::ssize(numbers)).first;
      one.classes.push_back({label, label});
    }
    one.images.push_back({item.id, item.image});
    one.labels.push_back(found->second);
  }
  if (one.classes.size() < 2) {
    return fail(ErrorCode::kBadData, "{}: {} class; classification needs two", dataset.name,
                one.classes.size());
  }
  return {};
}

std::vector<ImageRef> ClassificationStudy::pictures(size_t dataset) const {
  return image_list(datasets_[dataset].images);
}

Result<SettledTask> ClassificationStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Labelled& one = datasets_[dataset];
  Dataset counts;  // counts exclusions as datasets do
  for (int64_t i = 0; i < std::ssize(one.images); ++i) {
    const RunImage& image = one.images[static_cast<size_t>(i)];
    if (std::ranges::binary_search(unreadable, i)) {
      counts.exclude("images that cannot be read", image.image.name());
      continue;
    }
    one.kept.push_back(i);
    one.items.images.push_back(image);
  }
  if (one.kept.empty()) return fail(ErrorCode::kBadData, "no image is left that can be read");
  return SettledTask{.pictures = one.kept,
                     .texts = std::ssize(one.classes),
                     .excluded = std::move(counts.excluded),
                     .items = &one.items,
                     .clusters = std::ssize(one.kept)};
}

Result<Matrix<float>> ClassificationStudy::class_scores(const EncodedContext& context,
                                                        const Labelled& one) const {
  const auto templates = std::ssize(classification_.templates);
  std::vector<std::string> prompts;
  for (const ClassName& each : one.classes) {
    for (const std::string& pattern : classification_.templates)
      prompts.push_back(prompt(pattern, each.name));
  }
  const std::vector<std::string_view> texts(prompts.begin(), prompts.end());
  SACCADE_ASSIGN(EmbeddedTexts embedded, embed_study_texts(context, texts));
  const auto classes = std::ssize(one.classes);
  if (!embedded.rows.late) {
    Matrix<float> means(classes, embedded.rows.sets.rows.columns());
    for (int64_t c = 0; c < classes; ++c) {
      const auto mean = means.row(c);
      for (int64_t t = 0; t < templates; ++t) {
        const auto row = embedded.rows.sets.rows.row(c * templates + t);
        for (size_t d = 0; d < mean.size(); ++d) mean[d] += row[d];
      }
      normalize_row(mean);
    }
    EmbeddedRows rows;
    rows.sets.rows = std::move(means);
    for (int64_t c = 0; c < classes; ++c) rows.sets.begin.push_back(c + 1);
    embedded.rows = std::move(rows);
  }
  SACCADE_ASSIGN(const auto scores, scores_of(embedded.rows, context.pictures));
  const int64_t each = embedded.rows.late ? templates : 1;
  Matrix<float> result(scores->images(), classes);
  context.pool.parallel_for(scores->images(), 16, [&](int64_t begin, int64_t end) {
    Matrix<float> block(end - begin, scores->texts());
    scores->score(0, scores->texts(), begin, end - begin, block.data(), 1, scores->texts());
    for (int64_t i = begin; i < end; ++i) {
      const auto row = std::as_const(block).row(i - begin);
      for (int64_t c = 0; c < classes; ++c) {
        double sum = 0;
        for (int64_t t = 0; t < each; ++t) sum += row[static_cast<size_t>(c * each + t)];
        result(i, c) = static_cast<float>(sum / static_cast<double>(each));
      }
    }
  });
  return result;
}

Status ClassificationStudy::measure(const EncodedContext& context) {
  Labelled& one = datasets_[context.dataset];
  SACCADE_ASSIGN(const Matrix<float> scores, class_scores(context, one));
  std::vector<int64_t> right;
  for (const int64_t image : one.kept) right.push_back(one.labels[static_cast<size_t>(image)]);
  const ClassRanks ranks = rank_classes(scores.view(), right);
  const auto classes = std::ssize(one.classes);
  Estimates estimates = estimate(class_sample(ranks, right, classes), options_.bootstrap, context.pool);
  ClassificationResult& result = one.results.emplace_back();
  result.dataset = context.described.name;
  result.model = context.model.name;
  result.images = std::ssize(right);
  result.tied = std::ranges::count(ranks.tied, true);
  result.figures = figures_of(estimates, options_.bootstrap.confidence);
  result.classes = class_results(ranks, right, one.classes);
  one.estimates.emplace_back(context.model.name, std::move(estimates));
  if (context.run == nullptr) return {};
  for (size_t i = 0; i < right.size(); ++i) {
    SACCADE_TRY(context.run->add_line("predictions.jsonl",
                                      {{"dataset", context.described.name},
                                       {"model", context.model.name},
                                       {"image", i},
                                       {"class", one.classes[static_cast<size_t>(right[i])].label},
                                       {"predicted", one.classes[static_cast<size_t>(ranks.best[i])].label},
                                       {"rank", ranks.rank[i]}}));
  }
  return {};
}

Result<Json> ClassificationStudy::metrics(std::span<const RunDataset> datasets) const {
  ClassificationMetrics metrics;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const Labelled& one = datasets_[d];
    const auto classes = static_cast<double>(one.classes.size());
    ClassificationResult& chance = metrics.results.emplace_back();
    chance.dataset = datasets[d].name;
    chance.model = kChance;
    chance.images = std::ssize(one.kept);
    chance.figures = {{.name = "top1", .value = 1 / classes},
                      {.name = "top5", .value = std::min(1.0, static_cast<double>(kTop) / classes)},
                      {.name = "mean_per_class", .value = 1 / classes}};
    metrics.results.insert(metrics.results.end(), one.results.begin(), one.results.end());
    for (size_t a = 0; a < one.estimates.size(); ++a) {
      for (size_t b = a + 1; b < one.estimates.size(); ++b) {
        SACCADE_ASSIGN(std::vector<Difference> differences,
                       paired_differences(one.estimates[a].second, one.estimates[b].second,
                                          options_.bootstrap.confidence));
        metrics.comparisons.push_back(
            {datasets[d].name, one.estimates[a].first, one.estimates[b].first, std::move(differences)});
      }
    }
  }
  return record_json(metrics);
}

}  // namespace saccade::lab

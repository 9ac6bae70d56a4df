#include "lab/eval/visualness/visualness_study.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "lab/data/read_dataset.h"
#include "lab/eval/figures/projection.h"
#include "lab/eval/run/record_fields.h"
#include "lab/eval/visualness/picture_rank.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"

namespace saccade::lab {
namespace {

constexpr std::array kMaps = {EnumName<TextMap>{TextMap::kNone, "none"},
                              EnumName<TextMap>{TextMap::kPca, "pca"},
                              EnumName<TextMap>{TextMap::kTsne, "tsne"}};
constexpr int64_t kMapPoints = 400;  // points of each kind
constexpr std::string_view kUniformPrior = "uniform";

Result<Dataset> read_rated(const std::string& given) {
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(given));
  SACCADE_ASSIGN(Dataset dataset, read_dataset(source));
  SACCADE_TRY(dataset.need<RatedTexts>());
  return dataset;
}

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// Texts labelled visual or non-visual, without the ambiguous ones.
struct Labelled {
  std::vector<size_t> which;
  std::vector<uint8_t> truth;
};
Labelled labelled(const std::vector<std::optional<bool>>& visual) {
  Labelled result;
  for (size_t i = 0; i < visual.size(); ++i) {
    if (!visual[i]) continue;
    result.which.push_back(i);
    result.truth.push_back(*visual[i] ? 1 : 0);
  }
  return result;
}

std::vector<double> picked(std::span<const double> values, std::span<const size_t> which) {
  std::vector<double> result;
  for (const size_t i : which) result.push_back(values[i]);
  return result;
}

// Returns the distribution of the scores of ambiguous texts (the study's A.6): around the middle, or at two
// ends. `threshold` splits them too. Bimodality is Sarle's (skewness^2 + 1) / kurtosis; a uniform
// distribution has 5/9, a normal one 1/3, two points 1.
std::optional<AmbiguousScores> ambiguous_scores(std::vector<double> scores, double threshold) {
  const auto n = static_cast<double>(scores.size());
  if (scores.size() < 3) return std::nullopt;
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  std::array<double, 5> moments = {};
  for (const double score : scores) {
    for (int k = 2; k <= 4; ++k) moments[static_cast<size_t>(k)] += std::pow(score - mean, k) / n;
  }
  const double deviation = std::sqrt(moments[2]);
  if (!(deviation > 0)) return std::nullopt;
  const double skewness = moments[3] / (deviation * deviation * deviation);
  const double kurtosis = moments[4] / (moments[2] * moments[2]);
  const auto above =
      static_cast<double>(std::ranges::count_if(scores, [&](double s) { return s > threshold; }));
  std::ranges::sort(scores);
  std::vector<double> quantiles;
  for (const double share : kAmbiguousShares) {
    quantiles.push_back((quantile(scores, share) - mean) / deviation);
  }
  return AmbiguousScores{.texts = std::ssize(scores),
                         .mean = mean,
                         .deviation = deviation,
                         .quantiles = std::move(quantiles),
                         .bimodality = (skewness * skewness + 1) / kurtosis,
                         .called_visual = above / n};
}

std::vector<int64_t> sampled(std::vector<int64_t> items, uint64_t seed) {
  if (std::ssize(items) <= kMapPoints) return items;
  SplitMix random(seed);
  random.shuffle(items);
  items.resize(kMapPoints);
  return items;
}

}  // namespace

std::span<const EnumName<TextMap>> enum_names(TextMap) {
  return kMaps;
}

Result<VisualnessStudy> VisualnessStudy::make(const VisualnessOptions& options,
                                              const EvaluationOptions& evaluation) {
  VisualnessStudy study(options, evaluation);
  if (options.validation.size() > 1 && options.validation.size() != evaluation.datasets.size()) {
    return fail(ErrorCode::kUsage, "{} validation datasets for {} datasets: one for all, or one each",
                options.validation.size(), evaluation.datasets.size());
  }
  if (options.validation.empty() && (!options.lexicon.empty() || !options.objects.empty())) {
    return fail(ErrorCode::kUsage,
                "a lexicon or list of objects without validation texts to choose its threshold on");
  }
  if (options.lexicon.empty() && !options.vectors.empty()) {
    return fail(ErrorCode::kUsage, "word vectors without a lexicon that they could expand");
  }
  if (options.lexicon.empty() && !options.word_ratings.empty()) {
    return fail(ErrorCode::kUsage, "people's ratings of words without a lexicon to compare with them");
  }
  if (options.validation.empty() && !options.prior.empty()) {
    return fail(ErrorCode::kUsage,
                "a class prior without validation texts: methods without a model need them");
  }
  for (const std::string& given : options.validation) {
    SACCADE_ASSIGN(Dataset dataset, read_rated(given));
    study.validation_.emplace_back(given, std::move(dataset));
  }
  if (!options.lexicon.empty()) {
    SACCADE_ASSIGN(study.lexicon_, read_lexicon(options.lexicon));
  }
  if (!options.objects.empty()) {
    SACCADE_ASSIGN(study.objects_, options.objects == kEverydayObjects ? everyday_objects()
                                                                       : read_object_list(options.objects));
  }
  for (const std::filesystem::path& vectors : options.vectors) {
    SACCADE_ASSIGN(study.vectors_sha256_.emplace_back(), sha256_file(vectors));
  }
  for (const std::string& given : options.attention_texts) {
    SACCADE_ASSIGN(study.attention_texts_.emplace_back(), read_attention_texts(given));
  }
  if (!options.word_ratings.empty()) {
    SACCADE_ASSIGN(study.word_ratings_, read_word_ratings(options.word_ratings));
  }
  if (options.prior == kUniformPrior) {
    study.prior_ = 0.5;
    study.prior_from_ = options.prior;
  } else if (!options.prior.empty()) {
    SACCADE_ASSIGN(const Dataset dataset, read_rated(options.prior));
    SACCADE_ASSIGN(const Texts texts, texts_of(dataset).in(options.prior));
    study.prior_ = share_of_visual(texts.visual);
    study.prior_from_ = {{"name", dataset.name}, {"sha256", dataset.hash}};
  }
  SACCADE_ASSIGN(study.null_picture_, describe_null_picture(options.null_picture));
  return study;
}

Json VisualnessStudy::protocol() const {
  std::string words =
      "A text is called visual where its score is above a threshold. F1, precision and recall are means over both "
      "classes; ambiguous texts are left out of them. A checkpoint's score is 1 - the cosine of the text with a NULL "
      "image (its own, where it was trained with one), a text classifier's the probability of its visual class. ";
  words += validation_.empty() ? "Thresholds are those that the checkpoints keep. "
                               : "Thresholds are those of the highest F1 on the validation texts. ";
  if (options_.own_decision) words += "A text classifier decides by its own classes. ";
  words += fmt::format(
      "Intervals: {} resamples of the texts, those of one group, or one image, together. MRR: a "
      "visual text's own image among those of all. {}",
      evaluation_.bootstrap.resamples, picture_words(evaluation_.embed));
  Json validation = Json::array();
  for (const auto& [given, dataset] : validation_) {
    validation.push_back({{"name", dataset.name}, {"sha256", dataset.hash}, {"texts", dataset.size()}});
  }
  Json attention = Json::array();
  for (const AttentionTexts& each : attention_texts_) {
    attention.push_back({{"name", each.name}, {"sha256", each.sha256}, {"texts", each.texts.size()}});
  }
  Json json = {
      {"description", std::move(words)},
      {"validation", std::move(validation)},
      {"null_image", null_picture_},
      {"lexicon", lexicon_ ? Json{{"format", lexicon_->format},
                                  {"what", lexicon_->what},
                                  {"sha256", lexicon_->sha256},
                                  {"words", lexicon_->words.size()}}
                           : Json()},
      {"word_vectors_sha256", vectors_sha256_},
      {"objects", objects_ ? Json{{"sha256", objects_->sha256}, {"names", objects_->names.size()}} : Json()},
      {"word_ratings_sha256", word_ratings_ ? Json(word_ratings_->sha256) : Json()},
      {"attention_texts", std::move(attention)},
      {"prior", prior_from_},
      {"own_decision", options_.own_decision},
      {"leave_out", evaluation_.leave_out}};
  json.update(picture_fields(evaluation_.embed));
  return json;
}

double VisualnessStudy::share_of_visual(const std::vector<std::optional<bool>>& visual) {
  const Labelled labels = labelled(visual);
  return static_cast<double>(std::ranges::count(labels.truth, uint8_t{1})) /
         static_cast<double>(labels.truth.size());
}

Result<VisualnessStudy::Texts> VisualnessStudy::texts_of(const Dataset& dataset) {
  Texts texts;
  std::map<std::string, int64_t> pictures;
  std::map<std::string, int64_t> clusters;
  for (const RatedText& item : dataset.as<RatedTexts>().items) {
    texts.texts.push_back(item.text);
    texts.visual.push_back(item.visual);
    int64_t picture = -1;
    if (item.image && item.visual.value_or(false)) {
      const auto [place, fresh] = pictures.emplace(item.image->name(), std::ssize(texts.pictures));
      if (fresh) texts.pictures.push_back(*item.image);
      picture = place->second;
    }
    texts.picture.push_back(picture);
    const std::string cluster = !item.group.empty() ? "group " + item.group
                                : item.image        ? "picture " + item.image->name()
                                                    : "text " + item.id;
    texts.cluster.push_back(clusters.emplace(cluster, std::ssize(clusters)).first->second);
  }
  texts.clusters = std::ssize(clusters);
  const Labelled labels = labelled(texts.visual);
  const auto visual = std::ranges::count(labels.truth, uint8_t{1});
  if (visual == 0 || visual == std::ssize(labels.truth)) {
    return fail(ErrorCode::kUsage, "{} visual and {} non-visual texts: it takes both", visual,
                std::ssize(labels.truth) - visual);
  }
  return texts;
}

Status VisualnessStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_TRY(dataset.dataset.need<RatedTexts>());
  Judged one;
  one.name = dataset.name;
  SACCADE_ASSIGN(one.texts, texts_of(dataset.dataset).in(dataset.name));
  SACCADE_ASSIGN(one.texts.parts, text_parts(one.texts.texts, objects_ ? &*objects_ : nullptr));
  if (!validation_.empty()) {
    const auto& [given, validation] = validation_[validation_.size() == 1 ? 0 : datasets_.size()];
    if (validation.hash == dataset.dataset.hash) {
      return fail(ErrorCode::kUsage, "{}: its own texts would choose its threshold: validation takes others",
                  given);
    }
    SACCADE_ASSIGN(one.validation, texts_of(validation).in(given));
    one.validated_on = {{"name", validation.name}, {"sha256", validation.hash}};
    const std::set<std::string_view> seen(one.validation.texts.begin(), one.validation.texts.end());
    const auto shared =
        std::ranges::count_if(one.texts.texts, [&](const std::string& text) { return seen.contains(text); });
    if (shared > 0 && evaluation_.embed.warning) {
      evaluation_.embed.warning(
          fmt::format("{}: {} of its texts are among the validation's too", dataset.name, shared));
    }
  }
  datasets_.push_back(std::move(one));
  return {};
}

std::vector<ImageRef> VisualnessStudy::pictures(size_t dataset) const {
  return datasets_[dataset].texts.pictures;
}

Result<SettledTask> VisualnessStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Judged& one = datasets_[dataset];
  SettledTask task;
  for (int64_t i = 0; i < std::ssize(one.texts.pictures); ++i) {
    const bool gone = std::ranges::binary_search(unreadable, i);
    one.row.push_back(gone ? -1 : std::ssize(task.pictures));
    if (!gone) task.pictures.push_back(i);
  }
  for (int64_t& picture : one.texts.picture) {
    if (picture >= 0) picture = one.row[static_cast<size_t>(picture)];
  }
  task.texts = std::ssize(one.texts.texts);
  task.clusters = one.texts.clusters;
  task.cluster = "group of texts";
  const int64_t ambiguous =
      std::ranges::count_if(one.texts.visual, [](const auto& visual) { return !visual; });
  if (!unreadable.empty()) {
    task.excluded.push_back(
        {.reason = "images that cannot be read (their texts are measured without)",
         .count = std::ssize(unreadable),
         .examples = {one.texts.pictures[static_cast<size_t>(unreadable.front())].name()}});
  }
  if (ambiguous > 0) {
    task.excluded.push_back({.reason = "ambiguous texts", .count = ambiguous, .examples = {}});
  }
  return task;
}

Result<VisualnessStudy::Method> VisualnessStudy::judge(const Judged& one, std::string name, std::string kind,
                                                       std::span<const double> scores,
                                                       std::span<const double> validation,
                                                       std::optional<double> kept, ThreadPool& pool) const {
  Method method{.name = std::move(name), .kind = std::move(kind)};
  if (validation.empty()) {
    if (!kept) {
      return fail(ErrorCode::kUsage,
                  "no threshold: neither validation texts, nor a checkpoint that keeps one (`saccade "
                  "train visualness` makes one)");
    }
    method.threshold = {*kept, Figure::kNone};
    method.own_threshold = true;
  } else {
    const Labelled labels = labelled(one.validation.visual);
    SACCADE_ASSIGN(method.threshold, choose_threshold(picked(validation, labels.which), labels.truth));
  }
  std::vector<double> ambiguous;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!one.texts.visual[i]) ambiguous.push_back(scores[i]);
  }
  const auto answers_of = [&](std::span<const size_t> which) {
    BinaryAnswers answers;
    answers.clusters = one.texts.clusters;
    for (const size_t i : which) {
      if (!one.texts.visual[i]) continue;
      answers.truth.push_back(*one.texts.visual[i] ? 1 : 0);
      answers.answer.push_back(scores[i] > method.threshold.value ? 1 : 0);
      answers.cluster.push_back(one.texts.cluster[i]);
    }
    return answers;
  };
  std::vector<size_t> all(scores.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const BinaryAnswers answers = answers_of(all);
  method.estimates = estimate_binary(answers, evaluation_.bootstrap, pool);
  method.figures = figures_of(method.estimates, evaluation_.bootstrap.confidence);
  method.ambiguous = ambiguous_scores(std::move(ambiguous), method.threshold.value);
  for (const TextPart& each : one.texts.parts) {
    const BinaryAnswers its = answers_of(each.which);
    const int64_t visual = std::ranges::count(its.truth, uint8_t{1});
    VisualnessPart& part = method.parts.emplace_back();
    part.name = each.name;
    part.texts = std::ssize(its.truth);
    part.visual = visual;
    if (visual == 0 || visual == part.texts) continue;  // F1 needs both classes
    std::ranges::copy(
        figures_of(estimate_binary(its, evaluation_.bootstrap, pool), evaluation_.bootstrap.confidence),
        part.figures.begin());
  }
  return method;
}

Result<VisualnessStudy::Retrieval> VisualnessStudy::retrieve(const Judged& one, MatrixView<const float> texts,
                                                             const EmbeddedRows& pictures,
                                                             ThreadPool& pool) const {
  const Matrix<float> rows = mean_rows(pictures);
  const std::vector<double> ranks = picture_ranks(texts, rows.view(), one.texts.picture);
  ClusteredSample sample;
  sample.mean_names = {"mrr"};
  sample.values = Matrix<double>(std::ssize(ranks), 1);
  sample.clusters = rows.rows();
  size_t next = 0;
  for (const int64_t picture : one.texts.picture) {
    if (picture < 0) continue;
    sample.values(static_cast<int64_t>(next), 0) = 1 / ranks[next];
    sample.cluster.push_back(picture);
    ++next;
  }
  Retrieval retrieval;
  retrieval.estimates = estimate(sample, evaluation_.bootstrap, pool);
  retrieval.figures = {figures_of(retrieval.estimates, evaluation_.bootstrap.confidence).front(),
                       std::ssize(ranks), rows.rows()};
  return retrieval;
}

Status VisualnessStudy::measure(const EncodedContext& context) {
  Judged& one = datasets_[context.dataset];
  SACCADE_TRY(settle_words());
  if (one.methods.empty()) SACCADE_TRY(judge_without_models(one, context.pool));
  EncoderBackend& encoder = context.encoder;
  const auto texts = views_of(one.texts.texts);
  const auto validation = views_of(one.validation.texts);
  std::vector<double> scores;
  std::vector<double> validation_scores;
  std::optional<double> kept_threshold;
  std::string kind;
  Json details = Json::object();
  std::optional<Matrix<float>> text_rows;
  std::vector<float> null_row;
  if (TextClassifier* classifier = encoder.text_classifier()) {
    kind = "classifier";
    const auto classify = [&](const std::vector<std::string_view>& given) -> Result<std::vector<double>> {
      std::vector<TokenizedText> tokenized;
      for (const std::string_view text : given) {
        tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
      }
      return visual_probabilities(*classifier, tokenized);
    };
    SACCADE_ASSIGN(scores, classify(texts));
    if (!options_.own_decision) {
      SACCADE_ASSIGN(validation_scores, classify(validation));
    }
    kept_threshold = kVisualProbability;
  } else if (encoder.info().image_height == 0) {
    return fail(ErrorCode::kUsage, "a text model without a classifier says nothing of what a text pictures");
  } else {
    SACCADE_ASSIGN(const auto kept, read_kept_visualness(context.model.path, encoder.info().fingerprint));
    kind = kept ? "trained" : "null image";
    if (kept) {
      null_row = kept->null_row;
      kept_threshold = kept->threshold;
      details["null_image"] = kept->null_picture;
    } else {
      SACCADE_ASSIGN(null_row, null_picture_row(encoder, options_.null_picture));
      details["null_image"] = null_picture_;
    }
    SACCADE_ASSIGN(const EmbeddedTexts embedded, embed_study_texts(context, texts));
    text_rows = mean_rows(embedded.rows);
    scores = visualness_scores(null_row, text_rows->view());
    if (!validation.empty()) {
      SACCADE_ASSIGN(const EmbeddedTexts of_validation, embed_study_texts(context, validation));
      validation_scores = visualness_scores(null_row, mean_rows(of_validation.rows).view());
    }
    details["texts_cut"] = embedded.cut.texts;
  }
  SACCADE_ASSIGN(Method method, judge(one, context.model.name, kind, scores, validation_scores,
                                      kept_threshold, context.pool));
  method.details = std::move(details);
  const bool has_pictures =
      std::ranges::any_of(one.texts.picture, [](int64_t picture) { return picture >= 0; });
  if (text_rows && has_pictures) {
    SACCADE_ASSIGN(method.retrieval, retrieve(one, text_rows->view(), context.pictures, context.pool));
  }
  if (lexicon_ || !attention_texts_.empty()) SACCADE_TRY(measure_attention(context, one));
  if (context.run != nullptr) {
    for (size_t i = 0; i < scores.size(); ++i) {
      SACCADE_TRY(context.run->add_line(
          "scores.jsonl", {{"dataset", context.described.name},
                           {"model", context.model.name},
                           {"text", one.texts.texts[i]},
                           {"visual", one.texts.visual[i] ? Json(*one.texts.visual[i]) : Json()},
                           {"score", scores[i]},
                           {"answer", scores[i] > method.threshold.value}}));
    }
    if (text_rows) SACCADE_TRY(write_maps(context, one, text_rows->view(), null_row));
  }
  one.methods.push_back(std::move(method));
  return {};
}

Status VisualnessStudy::measure_attention(const EncodedContext& context, const Judged& one) {
  SACCADE_ASSIGN(const auto reads, open_text_attention(context.encoder, context.model.path,
                                                       static_cast<int>(context.pool.size())));
  if (reads == nullptr) return {};
  const auto measure_on = [&](const std::string& name, const std::vector<std::string>& texts) {
    return attention_.measure(name, texts, context.model.name, context.encoder, *reads, lexicons_,
                              objects_ ? &*objects_ : nullptr, evaluation_.bootstrap.confidence);
  };
  SACCADE_TRY(measure_on(one.name, one.texts.texts));
  if (context.dataset > 0) return {};
  for (const AttentionTexts& each : attention_texts_) SACCADE_TRY(measure_on(each.name, each.texts));
  return {};
}

// Writes Figure 3: visual and other texts, the images of the former, and the NULL image, in two dimensions.
Status VisualnessStudy::write_maps(const EncodedContext& context, const Judged& one,
                                   MatrixView<const float> texts, std::span<const float> null_row) const {
  if (options_.map == TextMap::kNone) return {};
  std::vector<int64_t> visual;
  std::vector<int64_t> other;
  for (size_t i = 0; i < one.texts.visual.size(); ++i) {
    if (one.texts.visual[i]) (*one.texts.visual[i] ? visual : other).push_back(static_cast<int64_t>(i));
  }
  const Matrix<float> pictures = mean_rows(context.pictures);
  std::vector<int64_t> shown(static_cast<size_t>(pictures.rows()));
  std::iota(shown.begin(), shown.end(), int64_t{0});
  struct Point {
    std::string_view kind;
    std::span<const float> row;
    std::string label;
  };
  std::vector<Point> points;
  const uint64_t seed = evaluation_.bootstrap.seed;
  for (const int64_t i : sampled(visual, seed))
    points.push_back({"visual text", texts.row(i), one.texts.texts[static_cast<size_t>(i)]});
  for (const int64_t i : sampled(other, seed))
    points.push_back({"non-visual text", texts.row(i), one.texts.texts[static_cast<size_t>(i)]});
  for (const int64_t i : sampled(shown, seed))
    points.push_back({"image", std::as_const(pictures).row(i), ""});
  points.push_back({"NULL image", null_row, ""});
  Matrix<float> rows(std::ssize(points), texts.columns());
  for (int64_t i = 0; i < rows.rows(); ++i)
    std::ranges::copy(points[static_cast<size_t>(i)].row, rows.row(i).begin());
  Matrix<double> places;
  if (options_.map == TextMap::kPca) {
    SACCADE_ASSIGN(PrincipalComponents components, principal_components(rows.view(), 2, context.pool));
    places = std::move(components.coordinates);
  } else {
    SACCADE_ASSIGN(Tsne map, tsne(rows.view(), {}, context.pool, context.embed.progress, context.embed.stop));
    places = std::move(map.points);
  }
  for (int64_t i = 0; i < rows.rows(); ++i) {
    SACCADE_TRY(context.run->add_line("map.jsonl", {{"dataset", context.described.name},
                                                    {"model", context.model.name},
                                                    {"method", enum_name(options_.map)},
                                                    {"kind", points[static_cast<size_t>(i)].kind},
                                                    {"x", places(i, 0)},
                                                    {"y", places(i, 1)},
                                                    {"text", points[static_cast<size_t>(i)].label}}));
  }
  return {};
}

Result<Json> VisualnessStudy::metrics(std::span<const RunDataset> datasets) const {
  VisualnessMetrics metrics;
  const double confidence = evaluation_.bootstrap.confidence;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const Judged& one = datasets_[d];
    const Labelled labels = labelled(one.texts.visual);
    const auto visual = std::ranges::count(labels.truth, uint8_t{1});
    for (const Method& method : one.methods) {
      VisualnessResult& result = metrics.results.emplace_back();
      result.dataset = datasets[d].name;
      result.model = method.name;
      result.method = method.kind;
      result.texts = std::ssize(labels.truth);
      result.visual = visual;
      result.threshold = method.threshold.value;
      result.threshold_from = method.own_threshold ? Json("checkpoint") : one.validated_on;
      std::ranges::copy(method.figures, result.figures.begin());
      result.details = method.details;
      if (method.retrieval) result.mrr = method.retrieval->figures;
      result.ambiguous = method.ambiguous;
      if (const AttentionRatings* attention =
              lexicon_ ? attention_.find(one.name, method.name, lexicon_->format) : nullptr) {
        result.attention = *attention;
      }
      result.parts = method.parts;
    }
    for (size_t a = 0; a < one.methods.size(); ++a) {
      for (size_t b = a + 1; b < one.methods.size(); ++b) {
        const Method& x = one.methods[a];
        const Method& y = one.methods[b];
        SACCADE_ASSIGN(auto differences, paired_differences(x.estimates, y.estimates, confidence));
        if (x.retrieval && y.retrieval) {
          SACCADE_ASSIGN(const auto mrr,
                         paired_differences(x.retrieval->estimates, y.retrieval->estimates, confidence));
          differences.push_back(mrr.front());
        }
        metrics.comparisons.push_back({datasets[d].name, x.name, y.name, std::move(differences)});
      }
    }
  }
  attention_.add_to(metrics, confidence);
  if (word_ratings_) metrics.word_ratings = word_rating_agreements(*word_ratings_, lexicons_, confidence);
  metrics.rated_words = rated_word_lists(lexicons_, evaluation_.bootstrap.seed);
  return record_json(metrics);
}

}  // namespace saccade::lab

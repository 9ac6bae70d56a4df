#include "lab/eval/composed/composed_study.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <unordered_map>

#include <fmt/format.h>

#include "lab/data/generated.h"
#include "lab/eval/composed/composed_rows.h"
#include "lab/eval/composed/server_file.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/output_file.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
namespace {

constexpr int64_t kTopKept = 10;  // answers a run keeps of each query
constexpr double kChosenBy = 10;  // r10

// Returns the function of a method with a weight that composes a query embedding.
std::optional<Compose> compose_of(ComposeBy method) {
  switch (method) {
    case ComposeBy::kSum:
    case ComposeBy::kWeightedSum:
      return Compose::kSum;
    case ComposeBy::kSlerp:
      return Compose::kSlerp;
    case ComposeBy::kDirection:
      return Compose::kDirection;
    default:
      return std::nullopt;
  }
}

bool has_weight(ComposeBy method) {
  return compose_of(method).has_value() && method != ComposeBy::kSum;
}

// Returns the candidate weights: steps of 1/20; for direction, steps of 1/10 up to twice the difference.
std::vector<double> tried_weights(ComposeBy method) {
  std::vector<double> weights;
  for (int i = 0; i <= 20; ++i) weights.push_back(i * (method == ComposeBy::kDirection ? 0.1 : 0.05));
  return weights;
}

// Returns [asked, dim]: for each query the sum of its texts' embeddings, normalized if `unit`.
Matrix<float> asked_rows(const ComposedTask& task,
                         const std::unordered_map<std::string_view, int64_t>& numbers,
                         MatrixView<const float> rows, bool unit) {
  Matrix<float> all(std::ssize(task.asked), rows.columns());
  for (size_t a = 0; a < task.asked.size(); ++a) {
    const std::vector<std::string>& texts = task.asked[a].texts;
    const auto row = all.row(static_cast<int64_t>(a));
    std::ranges::copy(rows.row(numbers.at(texts.front())), row.begin());
    if (texts.size() < 2) continue;
    for (size_t t = 1; t < texts.size(); ++t) {
      const auto other = rows.row(numbers.at(texts[t]));
      for (size_t i = 0; i < row.size(); ++i) row[i] += other[i];
    }
    for (float& value : row) value /= static_cast<float>(texts.size());
    if (unit) normalize_row(row);
  }
  return all;
}

// Returns `count` queries drawn with the seed, ascending.
std::vector<int64_t> drawn_queries(int64_t queries, int64_t count, uint64_t seed) {
  std::vector<std::pair<uint64_t, int64_t>> order;
  for (int64_t q = 0; q < queries; ++q) order.emplace_back(SplitMix(seed, q).next(), q);
  std::ranges::sort(order);
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < std::min(count, queries); ++i)
    drawn.push_back(order[static_cast<size_t>(i)].second);
  std::ranges::sort(drawn);
  return drawn;
}

}  // namespace

std::span<const EnumName<ComposeBy>> enum_names(ComposeBy) {
  static constexpr std::array<EnumName<ComposeBy>, 7> kWords{
      {{ComposeBy::kReference, "reference", "the reference's row alone"},
       {ComposeBy::kText, "text", "the text's row alone"},
       {ComposeBy::kSum, "sum", "the sum of both rows"},
       {ComposeBy::kRawSum, "raw-sum", "the sum of both rows before they are brought to length 1"},
       {ComposeBy::kWeightedSum, "weighted-sum", "the weighted sum of both rows"},
       {ComposeBy::kSlerp, "slerp", "a point on the great circle between both rows"},
       {ComposeBy::kDirection, "direction",
        "the reference's row plus what the text's row differs by from that of the shared concept, or of \"a picture\""}}};
  return kWords;
}

std::vector<ComposeBy> ComposedStudy::methods() const {
  if (!options_.methods.empty()) return options_.methods;
  std::vector<ComposeBy> all;
  for (const EnumName<ComposeBy>& entry : enum_names(ComposeBy{})) {
    // Without a weight, a weighted sum is the plain sum.
    const bool same =
        entry.value == ComposeBy::kWeightedSum && !options_.weight && options_.choose_on.empty();
    if (!same) all.push_back(entry.value);
  }
  return all;
}

Json ComposedStudy::protocol() const {
  std::string words = fmt::format(
      "Each edit query, a reference image and a text, is one row, and its gallery's images are ranked by their cosine "
      "with it: {}; {}. r@k is the share of queries with a target among the first k, map@k the mean of the precisions at "
      "the targets among the first k, over the smaller of k and their number. Intervals: {} resamples of the references with "
      "their queries.",
      protocol_words(options_.protocol), meaning_of(options_.ties), evaluation_.bootstrap.resamples);
  if (!options_.choose_on.empty()) {
    words += fmt::format(" Weights: each checkpoint's best by r@10 on {}, which is not measured.",
                         options_.choose_on);
  } else if (options_.weight) {
    words += fmt::format(" Weights: {}.", *options_.weight);
  }
  if (std::ranges::any_of(composers_, [](const auto& each) { return each.composer->kind().late; })) {
    words +=
        " A row of a composer for late interaction is compared with all rows of a picture: the largest "
        "cosine counts.";
  }
  words += given_ ? " Computed elsewhere: embeddings." : " " + picture_words(evaluation_.embed);
  Json composers = Json::array();
  for (const MeasuredComposer& each : composers_) {
    composers.push_back({{"name", each.name},
                         {"kind", each.composer->config().kind},
                         {"fingerprint", each.composer->fingerprint()},
                         {"encoder", each.composer->config().encoder.fingerprint}});
  }
  Json json = {{"description", std::move(words)},
               {"ties", enum_name(options_.ties)},
               {"weight", options_.weight ? Json(*options_.weight) : Json()},
               {"choose_on", options_.choose_on.empty() ? Json() : Json(options_.choose_on)},
               {"leave_out", evaluation_.leave_out},
               {"rank_by", given_ ? "embeddings" : "encoder"}};
  json.update(protocol_fields(options_.protocol));
  if (given_) return json;
  json["methods"] = Json::array();
  for (const ComposeBy method : methods()) json["methods"].push_back(enum_name(method));
  json["composers"] = std::move(composers);
  json["taus"] = options_.taus;
  json["token_queries"] = options_.token_queries;
  json.update(picture_fields(evaluation_.embed));
  return json;
}

Status ComposedStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_TRY(dataset.dataset.need<EditQueries>());
  Measured& one = datasets_.emplace_back();
  one.dataset = dataset.dataset;
  const bool first = datasets_.size() == 1 && !options_.choose_on.empty();
  if (first) chosen_on_ = dataset.name;
  if (!first && !options_.choose_on.empty() && datasets_.front().dataset.hash == one.dataset.hash) {
    return fail(ErrorCode::kUsage,
                "{}: weights are to be chosen on what they are measured on; choose them on another "
                "split",
                dataset.name);
  }
  // Embeddings from files belong to the queries' original wordings, and weights are chosen on these.
  if (given_ || first) {
    for (EditQuery& query : one.dataset.as<EditQueries>().items) query.paraphrases.clear();
  }
  // Reports queries that cannot be asked before anything is encoded.
  SACCADE_ASSIGN(const ComposedTask task, composed_task(one.dataset, options_.protocol, {}));
  if (!task.has_targets() && (first || options_.server_files.empty())) {
    return fail(ErrorCode::kUsage, "{}: its targets are kept back, so nothing can be measured{}",
                dataset.name,
                first ? " to choose weights by" : "; --server-files FOLDER writes what its server takes");
  }
  if (task.empty_texts > 0 && evaluation_.embed.warning) {
    evaluation_.embed.warning(fmt::format("{}: {} empty: there the reference speaks alone", dataset.name,
                                          counted(task.empty_texts, "text")));
  }
  return {};
}

std::vector<ImageRef> ComposedStudy::pictures(size_t dataset) const {
  return image_list(datasets_[dataset].dataset.as<EditQueries>().gallery);
}

Result<SettledTask> ComposedStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Measured& one = datasets_[dataset];
  SACCADE_ASSIGN(one.task, composed_task(one.dataset, options_.protocol, unreadable));
  one.items = {};
  for (const GalleryPicture& picture : one.task->pictures)
    one.items.images.push_back({picture.id, picture.image});
  one.generated.assign(one.task->queries.size(), std::nullopt);
  if (!options_.generated.empty() && !chooses(dataset)) {
    const auto made = read_pseudo_targets(options_.generated, one.dataset);
    // The list may belong to another dataset (kUsage).
    if (!made && made.error().code != ErrorCode::kUsage) return fail(made.error());
    for (size_t q = 0; made && q < one.task->queries.size(); ++q) {
      const auto& picture = made->pictures[static_cast<size_t>(one.task->queries[q].source)];
      if (!picture) continue;
      one.generated[q] = one.items.images.size();
      one.items.images.push_back({"generated for " + one.task->edits[q].id, *picture});
    }
  }
  return SettledTask{.pictures = one.task->source,
                     .texts = std::ssize(one.task->asked),
                     .excluded = one.task->excluded,
                     .items = chooses(dataset) || given_ ? nullptr : &one.items,
                     .clusters = one.task->clusters,
                     .cluster = "reference"};
}

Result<ComposedStudy::Parts> ComposedStudy::encode_parts(const EncodedContext& context,
                                                         const ComposedTask& task, CutTexts& cut) const {
  // Every text once; the texts that describe the reference come last.
  std::vector<std::string_view> texts;
  std::unordered_map<std::string_view, int64_t> numbers;
  const auto number_of = [&](std::string_view text) {
    const auto [place, fresh] = numbers.try_emplace(text, std::ssize(texts));
    if (fresh) texts.push_back(text);
    return place->second;
  };
  for (const ComposedTask::Asked& asked : task.asked) {
    for (const std::string& text : asked.texts) number_of(text);
  }
  std::vector<int64_t> was;
  for (const ComposedTask::Asked& asked : task.asked) {
    const std::string& shown = task.edits[static_cast<size_t>(asked.query)].shared_concept;
    const bool said = options_.protocol.concepts == SharedConcept::kWith && !shown.empty();
    was.push_back(number_of(said ? std::string_view(shown) : std::string_view(kAnyPicture)));
  }
  SACCADE_ASSIGN(const EmbeddedTexts embedded, embed_study_texts(context, texts));
  cut = embedded.cut;
  const Matrix<float> rows = mean_rows(embedded.rows);
  const Matrix<float> pictures = mean_rows(context.pictures);
  Parts parts;
  parts.texts = asked_rows(task, numbers, rows.view(), true);
  std::vector<int64_t> references;
  for (const ComposedTask::Asked& asked : task.asked) {
    references.push_back(task.queries[static_cast<size_t>(asked.query)].reference);
  }
  parts.pictures = select_rows(pictures.view(), references);
  parts.was = select_rows(rows.view(), was);
  SACCADE_TRY(encode_raw_parts(context, task, parts).in("raw rows"));
  return parts;
}

Status ComposedStudy::encode_raw_parts(const EncodedContext& context, const ComposedTask& task,
                                       Parts& parts) const {
  const std::vector<ComposeBy> asked_for = methods();
  if (std::ranges::find(asked_for, ComposeBy::kRawSum) == asked_for.end()) return {};
  RawRows* raw_rows = context.encoder.raw_rows();
  if (raw_rows == nullptr) {
    if (options_.methods.empty()) return {};
    return fail(ErrorCode::kUnsupported, "this checkpoint's rows have no length but 1: no --method raw-sum");
  }
  const int64_t dim = context.encoder.info().dim;
  const ImageFunction raw_images{" raw", dim, false,
                                 [&](auto pixels) { return one_each(raw_rows->raw_image_rows(pixels)); }};
  const TextFunction raw_texts{" raw", dim, false,
                               [&](auto some) { return one_each(raw_rows->raw_text_rows(some)); }};
  // Each reference once.
  std::vector<ImageRef> pictures;
  std::unordered_map<int64_t, int64_t> places;
  std::vector<int64_t> references;
  std::vector<std::string_view> texts;
  std::unordered_map<std::string_view, int64_t> numbers;
  for (const ComposedTask::Asked& asked : task.asked) {
    const int64_t reference = task.queries[static_cast<size_t>(asked.query)].reference;
    const auto [place, fresh] = places.try_emplace(reference, std::ssize(pictures));
    if (fresh) pictures.push_back(task.pictures[static_cast<size_t>(reference)].image);
    references.push_back(place->second);
    for (const std::string& text : asked.texts) {
      if (numbers.try_emplace(text, std::ssize(texts)).second) texts.push_back(text);
    }
  }
  SACCADE_ASSIGN(const EmbeddedPictures embedded,
                 embed_pictures(context.encoder, raw_images, pictures, context.embed, context.pool));
  if (!embedded.failed.empty()) return fail(embedded.failed.front().second);
  SACCADE_ASSIGN(const EmbeddedTexts said, embed_study_texts(context, raw_texts, texts));
  parts.raw_pictures = select_rows(embedded.rows.sets.rows.view(), references);
  parts.raw_texts = asked_rows(task, numbers, said.rows.sets.rows.view(), false);
  return {};
}

Result<Matrix<float>> ComposedStudy::query_rows(ComposeBy method, double weight, const Parts& parts,
                                                ThreadPool& pool) {
  if (method == ComposeBy::kReference) return parts.pictures.copy();
  if (method == ComposeBy::kText) return parts.texts.copy();
  const bool raw = method == ComposeBy::kRawSum;
  const Matrix<float>& pictures = raw ? parts.raw_pictures : parts.pictures;
  const Matrix<float>& texts = raw ? parts.raw_texts : parts.texts;
  const Compose compose = compose_of(method).value_or(Compose::kSum);
  const ComposeWeights weights = has_weight(method) ? compose_weights(compose, weight) : ComposeWeights();
  Matrix<float> rows(texts.rows(), texts.columns());
  std::vector<Status> failed(static_cast<size_t>(rows.rows()));
  pool.parallel_for(rows.rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto row = compose_rows(compose, weights, pictures.row(r), texts.row(r), parts.was.row(r));
      if (row) {
        std::ranges::copy(*row, rows.row(r).begin());
      } else {
        failed[static_cast<size_t>(r)] = fail(row.error());
      }
    }
  });
  for (size_t r = 0; r < failed.size(); ++r) {
    SACCADE_TRY(std::move(failed[r]).in(fmt::format("asked text {}", r)));
  }
  return rows;
}

Status ComposedStudy::choose(const StudyContext& context, const ComposedTask& task, const Parts& parts,
                             MatrixView<const float> pictures, ComposeBy method) {
  ComposedChoice best{.dataset = chosen_on_,
                      .model = context.model.name,
                      .method = std::string(enum_name(method)),
                      .weight = 0,
                      .r10 = -1};
  for (const double weight : tried_weights(method)) {
    SACCADE_ASSIGN(const Matrix<float> rows, query_rows(method, weight, parts, context.pool));
    SACCADE_ASSIGN(const auto answers,
                   rank_composed(task, rows.view(), pictures, options_.ties, 0, context.pool));
    if (const double r10 = recall_at(task, answers, kChosenBy); r10 > best.r10) {
      best.weight = weight;
      best.r10 = r10;
    }
  }
  chosen_.push_back(std::move(best));
  return {};
}

std::pair<double, std::string> ComposedStudy::weight_of(ComposeBy method, const std::string& model) const {
  if (const ComposedChoice* chosen = chosen_of(model, enum_name(method))) {
    return {chosen->weight, "chosen on " + chosen_on_};
  }
  if (options_.weight) return {*options_.weight, "given"};
  return {default_weight(*compose_of(method)), "default"};
}

const ComposedChoice* ComposedStudy::chosen_of(const std::string& model, std::string_view method) const {
  for (const ComposedChoice& chosen : chosen_) {
    if (chosen.model == model && chosen.method == method) return &chosen;
  }
  return nullptr;
}

Status ComposedStudy::measure(const EncodedContext& context) {
  const ComposedTask& task = *datasets_[context.dataset].task;
  CutTexts cut;
  SACCADE_ASSIGN(const Parts parts, encode_parts(context, task, cut));
  std::vector<ComposeBy> composed = methods();
  if (parts.raw_texts.rows() == 0) std::erase(composed, ComposeBy::kRawSum);
  if (context.pictures.late && evaluation_.embed.warning) {
    std::vector<std::string_view> names;
    for (const ComposeBy method : composed) names.push_back(enum_name(method));
    evaluation_.embed.warning(fmt::format(
        "{}: of late interaction the means of its rows are composed and ranked by {}: these are not its own scores",
        context.model.name, fmt::join(names, ", ")));
  }
  const Matrix<float> pictures = mean_rows(context.pictures);
  for (const ComposeBy method : composed) {
    if (chooses(context.dataset)) {
      if (has_weight(method)) SACCADE_TRY(choose(context, task, parts, pictures.view(), method));
      continue;
    }
    Outcome outcome;
    outcome.model = context.model.name;
    outcome.method = enum_name(method);
    outcome.cut = cut;
    if (has_weight(method)) {
      auto [weight, from] = weight_of(method, outcome.model);
      outcome.weight = weight;
      outcome.weight_from = std::move(from);
    }
    SACCADE_ASSIGN(const Matrix<float> rows,
                   query_rows(method, outcome.weight.value_or(0), parts, context.pool));
    SACCADE_TRY(add_outcome(context, rows.view(), pictures.view(), std::move(outcome)).in(enum_name(method)));
  }
  SACCADE_TRY(measure_composers(context, task, cut, pictures.view()));
  return measure_similarities(context, task);
}

Status ComposedStudy::measure_composers(const EncodedContext& context, const ComposedTask& task,
                                        const CutTexts& cut, MatrixView<const float> pictures) {
  const std::string& encoder = context.encoder.info().fingerprint;
  for (const MeasuredComposer& each : composers_) {
    if (each.composer->config().encoder.fingerprint != encoder) continue;
    SACCADE_TRY(measure_composer(context, task, cut, pictures, each).in("composer " + each.name));
  }
  return {};
}

Status ComposedStudy::measure_composer(const EncodedContext& context, const ComposedTask& task,
                                       const CutTexts& cut, MatrixView<const float> pictures,
                                       const MeasuredComposer& measured) {
  Measured& one = datasets_[context.dataset];
  const bool has_tau = measured.composer->config().options.contains("tau");
  const bool choosing = chooses(context.dataset);
  // At another tau than its own.
  const auto rows_at = [&](double tau) -> Result<ComposedRows> {
    SACCADE_ASSIGN(const std::unique_ptr<Composer> changed,
                   Composer::open(measured.folder, measured.options, Json{{"tau", tau}}));
    return compose_task(*changed, context, task);
  };
  if (has_tau && !options_.taus.empty()) {
    ComposedChoice best{
        .dataset = chosen_on_, .model = context.model.name, .method = measured.name, .weight = 0, .r10 = -1};
    for (const double tau : options_.taus) {
      SACCADE_ASSIGN(const ComposedRows made, rows_at(tau));
      SACCADE_ASSIGN(const auto answers,
                     rank_composed(task, made.rows.view(), pictures, options_.ties, 0, context.pool));
      if (choosing) {
        const double r10 = recall_at(task, answers, kChosenBy);
        if (r10 > best.r10) {
          best.weight = tau;
          best.r10 = r10;
        }
        continue;
      }
      TauPoint& point = one.curves.emplace_back();
      point.model = context.model.name;
      point.method = measured.name;
      point.tau = tau;
      if (made.tokens > 0) {
        point.matched = static_cast<double>(made.matched) / static_cast<double>(made.tokens);
      }
      // The first group is that of all queries.
      point.figures = composed_groups(task, answers, evaluation_.bootstrap, context.pool).front().figures;
    }
    if (choosing) chosen_.push_back(std::move(best));
  }
  if (choosing) return {};

  Outcome outcome;
  outcome.model = context.model.name;
  outcome.method = measured.name;
  outcome.composer = &measured;
  outcome.cut = cut;
  ComposedRows made;
  if (const ComposedChoice* chosen = has_tau ? chosen_of(outcome.model, measured.name) : nullptr) {
    outcome.tau = chosen->weight;
    outcome.weight_from = "chosen on " + chosen_on_;
    SACCADE_ASSIGN(made, rows_at(chosen->weight));
  } else {
    if (has_tau) {
      outcome.tau = json_field<double>(measured.composer->config().options, "tau").value_or(0);
      outcome.weight_from = "the composer's own";
    }
    SACCADE_ASSIGN(made, compose_task(*measured.composer, context, task));
  }
  if (made.tokens > 0) {
    outcome.matched = static_cast<double>(made.matched) / static_cast<double>(made.tokens);
  }
  if (context.pictures.late) {
    return add_outcome(context, made.rows.view(), context.pictures, std::move(outcome));
  }
  return add_outcome(context, made.rows.view(), pictures, std::move(outcome));
}

Status ComposedStudy::measure_similarities(const EncodedContext& context, const ComposedTask& task) {
  if (options_.token_queries <= 0 || chooses(context.dataset)) return {};
  const std::vector<int64_t> which =
      drawn_queries(std::ssize(task.queries), options_.token_queries, evaluation_.bootstrap.seed);
  SACCADE_ASSIGN(std::optional<TokenSimilarities> similarities, token_similarities(context, task, which));
  if (!similarities) return {};
  similarities->model = context.model.name;
  datasets_[context.dataset].similarities.push_back(*std::move(similarities));
  return {};
}

Status ComposedStudy::measure_file(const StudyContext& context, const std::filesystem::path& path,
                                   Similarity similarity) {
  const Measured& one = datasets_[context.dataset];
  const ComposedTask& task = *one.task;
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  const auto read = [&]() -> Status {
    SACCADE_ASSIGN(const Matrix<float> queries, given_rows(file, "query_embeds", similarity));
    SACCADE_ASSIGN(const Matrix<float> gallery, given_rows(file, "gallery_embeds", similarity));
    if (queries.columns() != gallery.columns()) {
      return fail(ErrorCode::kBadData, "\"query_embeds\" of width {}, \"gallery_embeds\" of width {}",
                  queries.columns(), gallery.columns());
    }
    const auto& edits = one.dataset.as<EditQueries>();
    if (queries.rows() != std::ssize(edits.items) || gallery.rows() != std::ssize(edits.gallery)) {
      return fail(ErrorCode::kMismatch,
                  "{} queries and {} images, the dataset has {} and {}, in the order of its files",
                  queries.rows(), gallery.rows(), edits.items.size(), edits.gallery.size());
    }
    std::vector<int64_t> asked;
    for (const ComposedTask::Asked& each : task.asked) {
      asked.push_back(task.queries[static_cast<size_t>(each.query)].source);
    }
    Outcome outcome;
    outcome.model = context.model.name;
    outcome.method = "given";
    const Matrix<float> rows = select_rows(queries.view(), asked);
    const Matrix<float> pictures = select_rows(gallery.view(), task.source);
    return add_outcome(context, rows.view(), pictures.view(), std::move(outcome));
  };
  return read().in(path.string());
}

template <typename Pictures>
Status ComposedStudy::add_outcome(const StudyContext& context, MatrixView<const float> asked,
                                  const Pictures& pictures, Outcome outcome) {
  Measured& one = datasets_[context.dataset];
  const ComposedTask& task = *one.task;
  if (evaluation_.embed.progress) {
    evaluation_.embed.progress({.what = "ranking",
                                .done = 0,
                                .total = 1,
                                .detail = fmt::format("{}, {}", context.described.name, outcome.method)});
  }
  const int64_t depth = options_.server_files.empty() ? kTopKept : kServerDepth;
  SACCADE_ASSIGN(const auto answers,
                 rank_composed(task, asked, pictures, options_.ties, depth, context.pool));
  if (!options_.server_files.empty()) SACCADE_TRY(write_server_files(context, task, answers, outcome.method));
  outcome.groups = composed_groups(task, answers, evaluation_.bootstrap, context.pool);
  if (context.run != nullptr) {
    for (size_t a = 0; a < answers.size(); ++a) {
      const auto query = static_cast<size_t>(task.asked[a].query);
      const std::vector<int64_t>& targets = task.queries[query].targets;
      Json top = Json::array();
      for (size_t k = 0; k < std::min<size_t>(answers[a].top.size(), kTopKept); ++k) {
        const int64_t picture = answers[a].top[k];
        top.push_back({{"image", task.pictures[static_cast<size_t>(picture)].id},
                       {"item", picture},
                       {"score", answers[a].top_scores[k]},
                       {"right", std::ranges::find(targets, picture) != targets.end()}});
      }
      SACCADE_TRY(context.run->add_line(
          "composed.jsonl", {{"dataset", context.described.name},
                             {"model", outcome.model},
                             {"method", outcome.method},
                             {"query", task.edits[query].id},
                             {"wording", task.asked[a].wording},
                             {"reference", task.edits[query].reference},
                             {"reference_item", task.queries[query].reference},
                             {"target_items", targets},
                             {"generated_item", one.generated[query] ? Json(*one.generated[query]) : Json()},
                             {"texts", task.asked[a].texts},
                             {"targets", task.edits[query].targets},
                             {"ranks", answers[a].ranks},
                             {"top", std::move(top)}}));
    }
  }
  one.outcomes.push_back(std::move(outcome));
  return {};
}

Status ComposedStudy::write_server_files(const StudyContext& context, const ComposedTask& task,
                                         std::span<const ComposedAnswer> answers,
                                         const std::string& method) const {
  SACCADE_ASSIGN(const std::vector<ServerFile> files, server_files(task, answers));
  SACCADE_TRY(make_folders(options_.server_files));
  for (const ServerFile& file : files) {
    std::string name =
        fmt::format("{}.{}.{}.{}.json", context.described.name, context.model.name, method, file.metric);
    std::ranges::replace(name, '/', '_');
    const std::filesystem::path path = options_.server_files / name;
    // Another measurement's answers look the same: nothing that is there is replaced unasked.
    SACCADE_TRY(write_output(path, OutputKind::kDocument, {.overwrite = evaluation_.overwrite}, file.text));
  }
  return {};
}

}  // namespace saccade::lab

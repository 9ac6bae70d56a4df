#include "lab/eval/retrieval/retrieval_study.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/counts.h"
#include "saccade/core/hash.h"

namespace saccade::lab {

Json RetrievalStudy::protocol() const {
  const bool encodes = rank_by_ == "encoder";
  std::string words =
      retrieval_.protocol ? fmt::format("{} ", meaning_of(*retrieval_.protocol)) : std::string();
  words += fmt::format(
      "Text to image: {}. Image to text: every image is a query over all texts, and all of its own are "
      "right answers. r@k is the share of queries with a right answer among the first k. Ranks are counted "
      "over the whole gallery; {}. Intervals: {} resamples of the images with their queries.",
      retrieval_.first_queries ? meaning_of(CaptionPolicy::kFirst1) : meaning_of(retrieval_.captions),
      meaning_of(retrieval_.ties), options_.bootstrap.resamples);
  if (retrieval_.symmetric) {
    words +=
        " The symmetric protocol is measured beside it: each image with its first caption, in both directions.";
  }
  const bool other_late = retrieval_.late != LateScoring();
  if (other_late) {
    words += fmt::format(" With late interaction a score is {}{}.", meaning_of(retrieval_.late.from),
                         retrieval_.late.normalize ? ", divided by the number of vectors summed over" : "");
  }
  words += encodes ? " " + picture_words(options_.embed) : fmt::format(" Computed elsewhere: {}.", rank_by_);
  Json json = {{"description", std::move(words)},
               {"captions", enum_name(retrieval_.captions)},
               {"ties", enum_name(retrieval_.ties)},
               {"leave_out", options_.leave_out},
               {"rank_by", rank_by_}};
  if (encodes) json.update(picture_fields(options_.embed));
  if (retrieval_.protocol) json["protocol"] = enum_name(*retrieval_.protocol);
  if (retrieval_.first_queries) json["queries"] = enum_name(CaptionPolicy::kFirst1);
  if (retrieval_.symmetric) json["symmetric"] = true;
  if (other_late) {
    json["late"] = {{"from", enum_name(retrieval_.late.from)}, {"normalize", retrieval_.late.normalize}};
  }
  if (!retrieval_.by.empty()) {
    for (const TextQueryKind kind : retrieval_.by) json["by"].push_back(enum_name(kind));
  }
  if (retrieval_.table) json["by_table"] = retrieval_.table->name;
  if (rerank_.encoder != nullptr) {
    json["rerank"] = {{"fingerprint", rerank_.fingerprint},
                      {"by", rerank_method(*rerank_.encoder)},
                      {"depth", rerank_.depth}};
  }
  if (rank_by_ == "embeddings") json["similarity"] = enum_name(similarity_);
  return json;
}

Status RetrievalStudy::add_dataset(const NamedDataset& dataset) {
  if (rerank_.encoder != nullptr) {
    SACCADE_TRY(check_rerank(rerank_, retrieval_.ties, retrieval_.first_queries));
  }
  SACCADE_ASSIGN(RetrievalSource source, retrieval_source(dataset.dataset));
  add_source(std::move(source));
  if (std::ranges::any_of(retrieval_.by, is_field)) {
    SACCADE_ASSIGN(const CaptionedImages* images, dataset.dataset.need<CaptionedImages>());
    datasets_.back().items = images->items;
  }
  return {};
}

void RetrievalStudy::add_source(RetrievalSource source) {
  datasets_.push_back({.source = std::move(source)});
}

std::vector<ImageRef> RetrievalStudy::pictures(size_t dataset) const {
  return image_list(datasets_[dataset].source.images);
}

Result<SettledTask> RetrievalStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Ranked& one = datasets_[dataset];
  SACCADE_ASSIGN(one.task,
                 make_retrieval_task(one.source, retrieval_.captions, unreadable, options_.leave_out));
  if ((retrieval_.symmetric || retrieval_.first_queries) && !one.task->first) {
    return fail(
        ErrorCode::kUsage,
        "captions {} compares captions: the symmetric protocol and queries of first captions go with all, first5 "
        "or first1",
        enum_name(retrieval_.captions));
  }
  one.task->first_queries = retrieval_.first_queries;
  SACCADE_ASSIGN(one.ties, tie_break(retrieval_.ties, *one.task));
  return SettledTask{.pictures = one.task->images,
                     .texts = std::ssize(one.task->texts),
                     .excluded = one.task->excluded,
                     .items = &one.task->items,
                     .clusters = std::ssize(one.task->images)};
}

Status RetrievalStudy::measure(const EncodedContext& context) {
  const RetrievalTask& task = *datasets_[context.dataset].task;
  if (retrieval_.late != LateScoring() && !context.pictures.late && context.embed.warning) {
    context.embed.warning(fmt::format(
        "{}: one embedding an item: --late-from and --late-normalize do not apply", context.model.name));
  }
  std::vector<std::string_view> captions;
  for (const RunText& text : task.items.texts) captions.push_back(text.text);
  SACCADE_ASSIGN(const EmbeddedTexts texts, embed_study_texts(context, captions));
  SACCADE_ASSIGN(const auto scores, scores_of(texts.rows, context.pictures, retrieval_.late));
  SACCADE_TRY(rank(context, *scores, texts.cut, context.encoder.tokenizer()));
  if (rerank_.encoder != nullptr) {
    Ranked& one = datasets_[context.dataset];
    SACCADE_ASSIGN(one.results.back().rerank,
                   evaluate_rerank(rerank_, *scores, task, one.outcomes.back().second, context.embed,
                                   options_.bootstrap, context.pool)
                       .in(fmt::format("reranking by {}", rerank_.name)));
  }
  if (context.run == nullptr) return {};
  const Matrix<float> image_means = mean_rows(context.pictures);
  const Matrix<float> text_means = mean_rows(texts.rows);
  return context.run->add_embeddings(context.described.name, context.model.name, image_means.view(),
                                     text_means.view(), task.image_of_text,
                                     {{"rows", context.pictures.late ? "mean" : "single"},
                                      {"checkpoint", context.model.name},
                                      {"fingerprint", context.model.fingerprint}});
}

Status RetrievalStudy::measure_scores(const StudyContext& context, const PairScores& all) {
  const RetrievalTask& task = *datasets_[context.dataset].task;
  return rank(context, *selected_scores(all, task.texts, task.images), {}, nullptr);
}

Result<std::vector<QueryGroupFigures>> RetrievalStudy::groups(const Ranked& one,
                                                              const RetrievalOutcome& outcome,
                                                              const Tokenizer* tokenizer,
                                                              ThreadPool& pool) const {
  const RetrievalTask& task = *one.task;
  const QueryRanks& ranks = outcome.text_to_image.ranks;
  const std::vector<int64_t> owner =
      task.first_queries ? owners(task.first->relevance, {}, Direction::kTextToImage)
                         : owners(task.relevance, task.image_of_text, Direction::kTextToImage);
  QueryTexts queries;
  for (int64_t q = 0; q < ranks.queries(); ++q) {
    const auto index = static_cast<size_t>(q);
    const auto text = task.first_queries ? static_cast<size_t>(task.first->texts[index]) : index;
    queries.captions.push_back(task.items.texts[text].text);
    if (tokenizer != nullptr) {
      queries.tokens.push_back(tokenizer->encode(queries.captions.back(), kWholeText).used);
    }
    if (!one.items.empty()) {
      const auto image = static_cast<size_t>(task.images[static_cast<size_t>(owner[index])]);
      queries.items.push_back(&one.items[image]);
    }
  }
  std::vector<QueryGroupFigures> result;
  const auto add = [&](const QueryGrouping& grouping) {
    for (QueryGroupFigures& group : query_groups(grouping, ranks, owner, options_.bootstrap, pool)) {
      result.push_back(std::move(group));
    }
  };
  for (const TextQueryKind kind : retrieval_.by) {
    SACCADE_ASSIGN(const QueryGrouping grouping, group_by_kind(kind, queries));
    add(grouping);
  }
  if (retrieval_.table) {
    const QueryGrouping grouping = group_by_table(*retrieval_.table, queries);
    const bool none =
        std::ranges::all_of(grouping.names, [](const auto& name) { return name == kNotInTable; });
    if (none && one.results.size() == 1 && options_.embed.warning) {  // once, whatever the number of models
      options_.embed.warning(
          fmt::format("{}: no query is among the {} of --by-table, which are compared whole",
                      one.results.front().dataset, counted(std::ssize(retrieval_.table->groups), "caption")));
    }
    add(grouping);
  }
  return result;
}

Status RetrievalStudy::rank(const StudyContext& context, const PairScores& scores, const CutTexts& cut,
                            const Tokenizer* tokenizer) {
  Ranked& one = datasets_[context.dataset];
  const std::string& dataset = context.described.name;
  const std::string& model = context.model.name;
  if (options_.embed.progress) {
    options_.embed.progress({.what = "ranking", .done = 0, .total = 1, .detail = dataset});
  }
  SACCADE_ASSIGN(RetrievalOutcome outcome,
                 evaluate_retrieval(scores, *one.task, one.ties, options_.bootstrap, context.pool));
  RetrievalResult& result = one.results.emplace_back(retrieval_result(dataset, model, *one.task, outcome));
  result.texts_cut = cut.texts;
  result.tokens_dropped = cut.tokens;
  const double confidence = options_.bootstrap.confidence;
  SACCADE_ASSIGN(result.gap, retrieval_gap(outcome, confidence));
  if (!retrieval_.by.empty() || retrieval_.table) {
    SACCADE_ASSIGN(result.groups, groups(one, outcome, tokenizer, context.pool));
  }
  if (retrieval_.symmetric) {
    SACCADE_ASSIGN(const RetrievalOutcome symmetric,
                   evaluate_symmetric(scores, *one.task, retrieval_.ties, options_.bootstrap, context.pool));
    SACCADE_ASSIGN(result.symmetric, symmetric_retrieval(outcome, symmetric, confidence));
  }
  if (context.run != nullptr) {
    SACCADE_TRY(add_ranks(*context.run, dataset, model, scores, *one.task, outcome, context.pool));
  }
  one.outcomes.emplace_back(model, std::move(outcome));
  return {};
}

Result<Json> RetrievalStudy::metrics(std::span<const RunDataset> datasets) const {
  RetrievalMetrics metrics;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const Ranked& one = datasets_[d];
    const std::string& name = datasets[d].name;
    metrics.results.push_back(chance_result(name, *one.task));
    metrics.results.insert(metrics.results.end(), one.results.begin(), one.results.end());
    for (size_t a = 0; a < one.outcomes.size(); ++a) {
      for (size_t b = a + 1; b < one.outcomes.size(); ++b) {
        SACCADE_ASSIGN(
            metrics.comparisons.emplace_back(),
            compare_retrieval(name, one.outcomes[a].first, one.outcomes[a].second, one.outcomes[b].first,
                              one.outcomes[b].second, options_.bootstrap.confidence));
      }
    }
  }
  return record_json(metrics);
}

namespace {

// Describes the dataset of files if none is named, from the first file's contents.
RunDataset describe_file(const std::filesystem::path& path, bool rows, const GivenFile& first) {
  RunDataset described;
  described.name = path.stem().string();
  described.path = path.string();
  described.layout = rows ? "embeddings" : "scores";
  Sha256 hash;
  hash.update(fmt::format("{} pictures\n", first.images()));
  hash.update(std::as_bytes(std::span(first.text_image())));
  described.sha256 = hash.hex();
  return described;
}

}  // namespace

Result<Evaluation> evaluate_given_retrieval(const GivenRetrieval& given, const RetrievalOptions& retrieval,
                                            const EvaluationOptions& options, ThreadPool& pool) {
  const char* what = given.rows ? "embeddings" : "scores";
  std::vector<GivenFile> files;
  for (const std::filesystem::path& path : given.files) {
    SACCADE_ASSIGN(files.emplace_back(), given.rows ? GivenFile::open_embeddings(path, given.similarity)
                                                    : GivenFile::open_scores(path));
    if (files.back().means() && options.embed.warning) {
      options.embed.warning(fmt::format(
          "{}: means of late interaction's rows: these cosines are not the encoder's scores", path.string()));
    }
  }
  if (options.datasets.size() > 1) {
    return fail(ErrorCode::kUsage, "--{} files belong to one --dataset, {} are given", what,
                options.datasets.size());
  }
  if (std::ranges::find(retrieval.by, TextQueryKind::kLength) != retrieval.by.end()) {
    return fail(ErrorCode::kUsage, "--by length counts a checkpoint's tokens; --{} files have none", what);
  }
  RetrievalStudy study(retrieval, options, what, given.similarity);
  RunDataset described;
  if (options.datasets.empty()) {
    if (!retrieval.by.empty() || retrieval.table) {
      return fail(ErrorCode::kUsage,
                  "--by groups queries by their captions: name the files' dataset with --dataset");
    }
    if (retrieval.ties == TiePolicy::kTrec) {
      return fail(ErrorCode::kUsage, "--ties trec orders by ids: name the files' dataset with --dataset");
    }
    study.add_source(files.front().source());
    described = describe_file(given.files.front(), given.rows, files.front());
  } else {
    SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(options.datasets));
    SACCADE_TRY(study.add_dataset(datasets.front()));
    described = describe_dataset(datasets.front());
  }
  std::vector<GivenModel> models;
  for (size_t i = 0; i < files.size(); ++i) {
    const GivenFile& file = files[i];
    const std::filesystem::path& path = given.files[i];
    SACCADE_TRY(file.check_belongs_to(study.source(0)));
    GivenModel& model = models.emplace_back();
    model.described.name = path.stem().string();
    model.described.path = path.string();
    model.described.fingerprint = file.sha256();
    model.described.dim = file.dim();
    model.measure = [&study, &file, &path, rows = given.rows](const StudyContext& context) -> Status {
      SACCADE_TRY(study.measure_scores(context, file.scores()).in(path.string()));
      if (context.run != nullptr && rows) {
        std::error_code error;
        const auto absolute = std::filesystem::absolute(path, error);
        context.run->name_embeddings({context.described.name, context.model.name, absolute.string()});
      }
      return {};
    };
  }
  return evaluate_given(study, std::span(&described, 1), std::move(models), options, pool);
}

}  // namespace saccade::lab

// saccade eval retrieval: how well checkpoints find a
// dataset's pictures by their captions, and the other way.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/hash.h"
#include "saccade/core/threads.h"
#include "saccade/eval/retrieval/retrieval_figures.h"
#include "saccade/eval/retrieval/retrieval_task.h"
#include "saccade/eval/rows/given.h"

#include "checkpoint.h"
#include "command_eval.h"
#include "eval_options.h"

namespace saccade::app {
namespace {

struct RetrievalArguments {
  EvalOptions eval;
  std::string captions = "all";
  std::string ties = "pessimistic";
  std::string similarity = "cosine";
  bool leave_out = false;
  std::vector<std::string> embeddings;
  std::vector<std::string> scores;
};

// A dataset on its way: what it has, and, once its pictures have been read, what is ranked.
struct Ranked {
  RunDataset described;
  RetrievalSource source;
  std::vector<int64_t> unreadable;
  std::optional<RetrievalTask> task;
  TieBreak ties;
  std::vector<std::pair<std::string, RetrievalOutcome>> outcomes;  // by model
  std::vector<Json> results;
};

class RetrievalCommand {
 public:
  RetrievalCommand(const RetrievalArguments& arguments, Session& session)
      : arguments_(arguments),
        session_(session),
        captions_(*caption_policy_from(arguments.captions)),
        ties_(*tie_policy_from(arguments.ties)),
        pool_(arguments.eval.encoder.threads),
        progress_(session.quiet) {}

  Result<int> run() {
    const bool given = !arguments_.embeddings.empty() || !arguments_.scores.empty();
    SACCADE_TRY(given ? rank_given() : rank_checkpoints());
    progress_.clear();
    SACCADE_ASSIGN(const Json metrics, gather_metrics());
    for (const Ranked& one : datasets_) info_.datasets.push_back(one.described);
    if (writer_) SACCADE_TRY(writer_->finish(info_, metrics));
    if (arguments_.eval.json) {
      SACCADE_TRY(session_.out.write_json(answer_json(metrics)));
    } else {
      SACCADE_TRY(session_.out.write(answer_text(metrics)));
    }
    const bool some_failed =
        std::ranges::any_of(datasets_, [](const Ranked& one) { return !one.unreadable.empty(); });
    return some_failed ? kSomeFailed : kDone;
  }

 private:
  Json protocol(std::string_view rank_by) const {
    const bool encodes = rank_by == "encoder";
    std::string words = fmt::format(
        "Text to image: {}. Image to text: every picture is a query over all texts, and all of its own are "
        "right answers. r@k is the share of queries with a right answer among the first k. Ranks are counted "
        "over the whole gallery; {}. Intervals: {} resamples of the pictures with their queries.",
        caption_policy_words(captions_), tie_policy_words(ties_), arguments_.eval.bootstrap.resamples);
    if (encodes) {
      words += " " + picture_words(arguments_.eval);
    } else {
      words += fmt::format(" Computed elsewhere: {}.", rank_by);
    }
    Json json = {{"words", std::move(words)},
                 {"captions", arguments_.captions},
                 {"ties", arguments_.ties},
                 {"leave_out", arguments_.leave_out},
                 {"rank_by", rank_by}};
    if (encodes) json.update(picture_fields(arguments_.eval));
    if (rank_by == "embeddings") json["similarity"] = arguments_.similarity;
    return json;
  }

  // The run's folder, refused at once where it holds a run of other inputs.
  Status open_run() {
    if (arguments_.eval.run.empty()) return {};
    asked_ = info_;
    for (const Ranked& one : datasets_) asked_.datasets.push_back(one.described);
    SACCADE_ASSIGN(writer_, RunWriter::open(arguments_.eval.run, asked_, arguments_.eval.overwrite));
    return {};
  }

  Status rank_checkpoints() {
    if (arguments_.eval.datasets.empty()) {
      return fail(ErrorCode::kUsage,
                  "name a dataset with --dataset, or what was computed elsewhere with "
                  "--embeddings or --scores");
    }
    SACCADE_ASSIGN(std::vector<NamedDataset> datasets, read_datasets(arguments_.eval));
    for (const NamedDataset& named : datasets) {
      Ranked& one = datasets_.emplace_back();
      one.described = describe_dataset(named);
      SACCADE_ASSIGN(one.source, retrieval_source(named.dataset));
    }
    SACCADE_ASSIGN(const std::vector<std::string> checkpoints, checkpoints_of(arguments_.eval));
    info_ = describe_run("retrieval", arguments_.eval, protocol("encoder"), pool_.size());
    if (!arguments_.eval.run.empty()) {
      SACCADE_ASSIGN(info_.checkpoints, asked_checkpoints(checkpoints, arguments_.eval));
    }
    SACCADE_TRY(open_run());
    info_.checkpoints.clear();
    const EmbedOptions embed =
        embed_options(arguments_.eval, progress_, session_.messages, session_.interrupts.stop_cleanly());
    return for_each_checkpoint(
        checkpoints, arguments_.eval, session_,
        [&](LoadedEncoder& loaded, const RunCheckpoint& described) -> Status {
          info_.checkpoints.push_back(described);
          for (Ranked& one : datasets_) {
            SACCADE_TRY(rank(*loaded.encoder, described.name, embed, one).in(one.described.name));
          }
          return {};
        });
  }

  // One checkpoint on one dataset.
  Status rank(Encoder& encoder, const std::string& model, EmbedOptions embed, Ranked& one) {
    embed.progress_detail = fmt::format("{}, {}", one.described.name, model);
    std::vector<ImageRef> pictures;
    for (const RunImage& image : one.source.images) pictures.push_back(image.image);
    SACCADE_ASSIGN(EmbeddedPictures embedded, embed_pictures(encoder, pictures, embed, pool_));
    SACCADE_TRY(settle_task(embedded, one));
    const RetrievalTask& task = *one.task;
    std::vector<std::string_view> captions;
    for (const RunText& text : task.items.texts) captions.push_back(text.text);
    CutTexts cut;
    const std::vector<TokenizedText> tokenized = tokenize(encoder, captions, cut);
    SACCADE_ASSIGN(const EmbeddedRows texts, embed_texts(encoder, tokenized, embed));
    const EmbeddedRows images = task.images.size() == pictures.size()
                                    ? std::move(embedded.rows)
                                    : select_rows(embedded.rows, task.images);
    SACCADE_ASSIGN(const auto scores, scores_of(texts, images));
    SACCADE_TRY(score(*scores, model, cut, one));
    if (!writer_) return {};
    const Matrix<float> image_means = mean_rows(images);
    const Matrix<float> text_means = mean_rows(texts);
    return writer_->add_embeddings(one.described.name, model, image_means.view(), text_means.view(),
                                   task.image_of_text,
                                   {{"rows", images.late ? "mean" : "single"},
                                    {"checkpoint", model},
                                    {"fingerprint", encoder.info().fingerprint}});
  }

  // What is ranked, known once the pictures have been read; the same for every checkpoint.
  Status settle_task(const EmbeddedPictures& embedded, Ranked& one) {
    const std::vector<RunImage>& images = one.source.images;
    SACCADE_ASSIGN(std::vector<int64_t> unreadable,
                   unreadable_pictures(
                       embedded, arguments_.leave_out, static_cast<int64_t>(images.size()),
                       [&](int64_t number) { return images[static_cast<size_t>(number)].image.name(); }));
    if (one.task) {
      if (unreadable != one.unreadable) {
        return fail(ErrorCode::kBadData, "{} pictures cannot be read, with the checkpoint before {}",
                    unreadable.size(), one.unreadable.size());
      }
    } else {
      SACCADE_TRY(make_task(unreadable, one));
      one.unreadable = std::move(unreadable);
    }
    std::vector<std::string> hashes;
    for (const int64_t image : one.task->images) {
      hashes.push_back(embedded.sha256[static_cast<size_t>(image)]);
    }
    return settle_pictures(hashes, one.described, static_cast<size_t>(&one - datasets_.data()), asked_,
                           writer_);
  }

  Status make_task(std::span<const int64_t> unreadable, Ranked& one) {
    SACCADE_ASSIGN(one.task, make_retrieval_task(one.source, captions_, unreadable, arguments_.leave_out));
    SACCADE_ASSIGN(one.ties, tie_break(ties_, *one.task));
    one.described.images = static_cast<int64_t>(one.task->images.size());
    one.described.texts = static_cast<int64_t>(one.task->texts.size());
    for (const Exclusion& exclusion : one.task->excluded) one.described.excluded.push_back(exclusion);
    return writer_ ? writer_->add_items(one.described.name, one.task->items) : Status();
  }

  Status score(const PairScores& scores, const std::string& model, const CutTexts& cut, Ranked& one) {
    if (const ProgressCallback tell = progress_.callback()) {
      tell({.what = "ranking", .done = 0, .total = 1, .detail = one.described.name});
    }
    SACCADE_ASSIGN(RetrievalOutcome outcome,
                   evaluate_retrieval(scores, *one.task, one.ties, arguments_.eval.bootstrap, pool_));
    Json result = retrieval_result_json(one.described.name, model, *one.task, outcome);
    result["texts_cut"] = cut.texts;
    result["tokens_dropped"] = cut.tokens;
    one.results.push_back(std::move(result));
    if (writer_) {
      SACCADE_TRY(add_ranks(*writer_, one.described.name, model, scores, *one.task, outcome, pool_));
    }
    one.outcomes.emplace_back(model, std::move(outcome));
    if (cut.texts > 0) {
      session_.messages.warning(
          fmt::format("{} on {}: {} cut, {} dropped: the model has no room for more; `saccade "
                      "eval length` measures what reading them in chunks gives",
                      model, one.described.name, counted(cut.texts, "text"), counted(cut.tokens, "token")));
    }
    return {};
  }

  // Files of other programs, all over the same pictures and texts.
  Status rank_given() {
    const bool rows = !arguments_.embeddings.empty();
    const std::vector<std::string>& paths = rows ? arguments_.embeddings : arguments_.scores;
    info_ =
        describe_run("retrieval", arguments_.eval, protocol(rows ? "embeddings" : "scores"), pool_.size());
    std::vector<GivenFile> files;
    std::vector<std::string> names;
    for (const std::string& path : paths) {
      SACCADE_ASSIGN(files.emplace_back(),
                     rows ? GivenFile::open_embeddings(path, *similarity_from(arguments_.similarity))
                          : GivenFile::open_scores(path));
      names.push_back(std::filesystem::path(path).stem().string());
      if (files.back().means()) {
        session_.messages.warning(fmt::format(
            "{}: means of late interaction's rows: these cosines are not the encoder's scores", path));
      }
    }
    make_unique(names);
    SACCADE_TRY(describe_given(paths, rows, files.front()));
    Ranked& one = datasets_.front();
    for (size_t i = 0; i < files.size(); ++i) {
      SACCADE_TRY(files[i].check_belongs_to(one.source));
      RunCheckpoint& described = info_.checkpoints.emplace_back();
      described.name = names[i];
      described.path = paths[i];
      described.fingerprint = files[i].sha256();
      described.dim = files[i].dim();
    }
    SACCADE_TRY(open_run());
    SACCADE_TRY(make_task({}, one).in(one.described.name));
    for (size_t i = 0; i < files.size(); ++i) {
      const auto selected = selected_scores(files[i].scores(), one.task->texts, one.task->images);
      SACCADE_TRY(score(*selected, names[i], {}, one).in(paths[i]));
      if (writer_ && rows) {
        std::error_code error;
        const auto absolute = std::filesystem::absolute(paths[i], error);
        writer_->name_embeddings({one.described.name, names[i], absolute.string()});
      }
    }
    return {};
  }

  // The dataset the files belong to: the one named, or what they say of it themselves.
  Status describe_given(const std::vector<std::string>& paths, bool rows, const GivenFile& first) {
    if (arguments_.eval.datasets.size() > 1) {
      return fail(ErrorCode::kUsage, "--{} files belong to one --dataset, {} are given",
                  rows ? "embeddings" : "scores", arguments_.eval.datasets.size());
    }
    Ranked& one = datasets_.emplace_back();
    if (!arguments_.eval.datasets.empty()) {
      SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(arguments_.eval));
      one.described = describe_dataset(datasets.front());
      SACCADE_ASSIGN(one.source, retrieval_source(datasets.front().dataset));
      return {};
    }
    if (ties_ == TiePolicy::kTrec) {
      return fail(ErrorCode::kUsage, "--ties trec orders by ids: name the files' dataset with --dataset");
    }
    one.source = first.source();
    one.described.name = std::filesystem::path(paths.front()).stem().string();
    one.described.path = paths.front();
    one.described.layout = rows ? "embeddings" : "scores";
    Sha256 hash;
    hash.update(fmt::format("{} pictures\n", first.images()));
    hash.update(std::as_bytes(std::span(first.text_image())));
    one.described.sha256 = hash.hex();
    return {};
  }

  Result<Json> gather_metrics() const {
    Json results = Json::array();
    Json comparisons = Json::array();
    for (const Ranked& one : datasets_) {
      results.push_back(chance_result_json(one.described.name, *one.task));
      for (const Json& result : one.results) results.push_back(result);
      for (size_t a = 0; a < one.outcomes.size(); ++a) {
        for (size_t b = a + 1; b < one.outcomes.size(); ++b) {
          SACCADE_ASSIGN(Json comparison,
                         comparison_json(one.described.name, one.outcomes[a].first, one.outcomes[a].second,
                                         one.outcomes[b].first, one.outcomes[b].second,
                                         arguments_.eval.bootstrap.confidence));
          comparisons.push_back(std::move(comparison));
        }
      }
    }
    return Json{{"results", std::move(results)}, {"comparisons", std::move(comparisons)}};
  }

  Json answer_json(const Json& metrics) const {
    Json json = run_json(info_);
    for (const char* key : {"format", "command", "libraries", "machine"}) json.erase(key);
    json.update(metrics);
    return json;
  }

  std::string answer_text(const Json& metrics) const {
    std::string text;
    for (const Ranked& one : datasets_) text += dataset_text(one, metrics);
    return text + "protocol: " + info_.protocol["words"].get<std::string>() + "\n";
  }

  std::string dataset_text(const Ranked& one, const Json& metrics) const {
    std::string text =
        fmt::format("{}: {}, {}\n", one_line(one.described.name), counted(one.described.images, "picture"),
                    counted(one.described.texts, "text"));
    text += fmt::format("  {:<24} {:<14} {:<22} {:<22} {:<22} {:>6} {:>8} {:>8}\n", "model", "direction",
                        "R@1", "R@5", "R@10", "MRR", "nDCG@10", "median");
    int64_t tied = 0;
    for (const Json& result : metrics["results"]) {
      if (result["dataset"] != one.described.name) continue;
      for (const auto& [key, words] :
           {std::pair("t2i", "text to image"), std::pair("i2t", "image to text")}) {
        const Json& figures = result[key];
        const auto plain = [&](const char* name, const char* format) {
          const Json& value = figures[name]["value"];
          return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>())
                                   : std::string("-");
        };
        text += fmt::format("  {:<24} {:<14} {:<22} {:<22} {:<22} {:>6} {:>8} {:>8}\n",
                            one_line(result["model"].get<std::string>()), words, figure_text(figures["r1"]),
                            figure_text(figures["r5"]), figure_text(figures["r10"]), plain("mrr", "{:.3f}"),
                            plain("ndcg10", "{:.3f}"), plain("median_rank", "{:g}"));
        tied += figures["tied"].get<int64_t>();
      }
    }
    if (tied > 0) {
      text += fmt::format("  {}: a wrong answer has exactly a right one's score\n",
                          tied == 1 ? std::string("1 tied query") : count_text(tied) + " tied queries");
    }
    for (const Json& comparison : metrics["comparisons"]) {
      if (comparison["dataset"] == one.described.name) text += comparison_text(comparison);
    }
    for (const Exclusion& exclusion : one.described.excluded) {
      text += fmt::format("  left out: {}: {}\n", exclusion.reason, count_text(exclusion.count));
    }
    return text;
  }

  static std::string comparison_text(const Json& comparison) {
    return difference_text(comparison, "text to image, R@1", comparison["t2i"]["r1"]) +
           difference_text(comparison, "image to text, R@1", comparison["i2t"]["r1"]);
  }

  const RetrievalArguments& arguments_;
  Session& session_;
  CaptionPolicy captions_;
  TiePolicy ties_;
  ThreadPool pool_;
  ProgressLine progress_;
  RunInfo info_;
  RunInfo asked_;  // what is known from the start
  std::optional<RunWriter> writer_;
  std::vector<Ranked> datasets_;
};

}  // namespace

void add_eval_retrieval_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<RetrievalArguments>();
  CLI::App* command =
      eval.add_subcommand("retrieval", "How captions find their pictures, and pictures their captions");
  add_eval_inputs(*command, arguments->eval);
  command->add_option("--captions", arguments->captions, "which captions are texts")
      ->check(CLI::IsMember({"all", "first5", "first1", "dedup", "one-caption"}))
      ->capture_default_str();
  command->add_option("--ties", arguments->ties, "how equal scores are ordered")
      ->check(CLI::IsMember({"pessimistic", "optimistic", "mean", "index", "trec"}))
      ->capture_default_str();
  command->add_flag(
      "--leave-out", arguments->leave_out,
      "leave out, and count, pictures that cannot be read or have no text, texts without a picture");
  auto* embeddings = command->add_option(
      "--embeddings", arguments->embeddings,
      "evaluate rows in FILE.safetensors: image_embeds [n, d], text_embeds [m, d], text_image [m]");
  auto* scores = command->add_option("--scores", arguments->scores,
                                     "evaluate scores in FILE.safetensors: scores [m, n], text_image [m]");
  embeddings->excludes(scores);
  for (auto* option : {embeddings, scores}) option->excludes(command->get_option("--model"));
  command->add_option("--similarity", arguments->similarity, "of the rows in --embeddings")
      ->check(CLI::IsMember({"cosine", "dot"}))
      ->capture_default_str();
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return RetrievalCommand(*arguments, session).run(); };
  });
}

}  // namespace saccade::app

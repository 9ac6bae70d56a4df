// saccade eval winoground: whether checkpoints tell captions of the same words apart by their pictures.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/hash.h"
#include "saccade/eval/composition.h"

#include "command_eval.h"
#include "eval_options.h"

namespace saccade::app {
namespace {

struct WinogroundArguments {
  EvalOptions eval;
  bool leave_out = false;
  std::vector<std::string> scores;
};

struct Judged {
  RunDataset described;
  CompositionTask whole;  // before pictures were left out
  std::vector<int64_t> unreadable;
  std::optional<CompositionTask> task;
  std::vector<std::pair<std::string, CompositionOutcome>> outcomes;
};

class WinogroundCommand {
 public:
  WinogroundCommand(const WinogroundArguments& arguments, Session& session)
      : arguments_(arguments),
        session_(session),
        pool_(arguments.eval.encoder.threads),
        progress_(session.quiet) {}

  Result<int> run() {
    if (arguments_.eval.datasets.empty()) return fail(ErrorCode::kUsage, "name a dataset with --dataset");
    SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(arguments_.eval));
    for (const NamedDataset& named : datasets) {
      Judged& one = datasets_.emplace_back();
      one.described = describe_dataset(named);
      SACCADE_ASSIGN(one.whole, composition_task(named.dataset));
    }
    SACCADE_TRY(arguments_.scores.empty() ? judge_checkpoints() : judge_given());
    progress_.clear();
    SACCADE_ASSIGN(const Json metrics, gather_metrics());
    for (const Judged& one : datasets_) info_.datasets.push_back(one.described);
    if (writer_) SACCADE_TRY(writer_->finish(info_, metrics));
    if (arguments_.eval.json) {
      Json json = run_json(info_);
      for (const char* key : {"format", "command", "libraries", "machine"}) json.erase(key);
      json.update(metrics);
      SACCADE_TRY(session_.out.write_json(json));
    } else {
      SACCADE_TRY(session_.out.write(answer_text(metrics)));
    }
    const bool some_failed =
        std::ranges::any_of(datasets_, [](const Judged& one) { return !one.unreadable.empty(); });
    return some_failed ? kSomeFailed : kDone;
  }

 private:
  Json protocol(bool given) const {
    std::string words = fmt::format(
        "An item's text score: each picture scores higher with its own caption than with the other; its "
        "image score: each caption scores higher with its own picture than with the other; its group score: "
        "both. Items of one picture have the text score alone. A tie is wrong. Intervals: {} resamples of "
        "the items, those of one picture together.",
        arguments_.eval.bootstrap.resamples);
    if (given) {
      words += " Computed elsewhere: scores.";
    } else {
      words += " " + picture_words(arguments_.eval);
    }
    Json json = {{"words", std::move(words)},
                 {"comparison", "strict"},
                 {"leave_out", arguments_.leave_out},
                 {"score_by", given ? "scores" : "encoder"}};
    if (!given) json.update(picture_fields(arguments_.eval));
    return json;
  }

  Status open_run() {
    if (arguments_.eval.run.empty()) return {};
    asked_ = info_;
    for (const Judged& one : datasets_) asked_.datasets.push_back(one.described);
    SACCADE_ASSIGN(writer_, RunWriter::open(arguments_.eval.run, asked_, arguments_.eval.overwrite));
    return {};
  }

  Status judge_checkpoints() {
    SACCADE_ASSIGN(const std::vector<std::string> checkpoints, checkpoints_of(arguments_.eval));
    info_ = describe_run("winoground", arguments_.eval, protocol(false), pool_.size());
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
          for (Judged& one : datasets_) {
            SACCADE_TRY(judge_one(*loaded.encoder, described.name, embed, one).in(one.described.name));
          }
          return {};
        });
  }

  Status judge_one(Encoder& encoder, const std::string& model, EmbedOptions embed, Judged& one) {
    embed.progress_detail = fmt::format("{}, {}", one.described.name, model);
    SACCADE_ASSIGN(EmbeddedPictures embedded, embed_pictures(encoder, one.whole.pictures, embed, pool_));
    SACCADE_TRY(settle_task(embedded, one));
    std::vector<std::string_view> captions;
    for (const CompositionItem& item : one.task->items) {
      captions.insert(captions.end(), item.captions.begin(), item.captions.end());
    }
    CutTexts cut;
    const std::vector<TokenizedText> tokenized = tokenize(encoder, captions, cut);
    SACCADE_ASSIGN(const EmbeddedRows texts, embed_texts(encoder, tokenized, embed));
    const EmbeddedRows pictures = select_rows(embedded.rows, one.task->source);
    SACCADE_ASSIGN(const auto table, scores_of(texts, pictures));
    std::vector<CompositionScores> scores(one.task->items.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      for (size_t c = 0; c < 2; ++c) {
        for (size_t p = 0; p < (one.task->two_pictures ? 2U : 1U); ++p) {
          table->score(static_cast<int64_t>(2 * i + c), 1, one.task->picture_of[i][p], 1, &scores[i][c][p], 1,
                       1);
        }
      }
    }
    if (cut.texts > 0) {
      session_.messages.warning(
          fmt::format("{} on {}: {} cut, {} dropped: the model has no room for more; `saccade "
                      "eval length` measures what reading them in chunks gives",
                      model, one.described.name, counted(cut.texts, "text"), counted(cut.tokens, "token")));
    }
    return add_outcome(model, scores, one);
  }

  // What is judged, known once the pictures have been read; the same for every checkpoint.
  Status settle_task(const EmbeddedPictures& embedded, Judged& one) {
    const std::vector<ImageRef>& pictures = one.whole.pictures;
    SACCADE_ASSIGN(
        std::vector<int64_t> unreadable,
        unreadable_pictures(embedded, arguments_.leave_out, static_cast<int64_t>(pictures.size()),
                            [&](int64_t number) { return pictures[static_cast<size_t>(number)].name(); }));
    if (one.task && unreadable != one.unreadable) {
      return fail(ErrorCode::kBadData, "{} pictures cannot be read, with the checkpoint before {}",
                  unreadable.size(), one.unreadable.size());
    }
    std::vector<std::string> hashes;
    for (const std::string& hash : embedded.sha256) {
      if (!hash.empty()) hashes.push_back(hash);
    }
    SACCADE_TRY(settle_pictures(hashes, one.described, static_cast<size_t>(&one - datasets_.data()), asked_,
                                writer_));
    one.unreadable = std::move(unreadable);
    return one.task ? Status() : take_task(one);
  }

  Status take_task(Judged& one) {
    SACCADE_ASSIGN(one.task, without_pictures(one.whole, one.unreadable));
    one.described.compositions = static_cast<int64_t>(one.task->items.size());
    one.described.images = static_cast<int64_t>(one.task->pictures.size());
    one.described.texts = 2 * one.described.compositions;
    for (const Exclusion& exclusion : one.task->excluded) one.described.excluded.push_back(exclusion);
    RunItems items;
    items.compositions = one.task->items;
    return writer_ ? writer_->add_items(one.described.name, items) : Status();
  }

  Status judge_given() {
    info_ = describe_run("winoground", arguments_.eval, protocol(true), pool_.size());
    if (datasets_.size() != 1) {
      return fail(ErrorCode::kUsage, "--scores files belong to one --dataset, {} are given",
                  datasets_.size());
    }
    Judged& one = datasets_.front();
    std::vector<std::string> names;
    for (const std::string& path : arguments_.scores) {
      names.push_back(std::filesystem::path(path).stem().string());
      make_unique(names);
      RunCheckpoint& described = info_.checkpoints.emplace_back();
      described.name = names.back();
      described.path = path;
      SACCADE_ASSIGN(described.fingerprint, sha256_file(path));
    }
    SACCADE_TRY(open_run());
    SACCADE_TRY(take_task(one).in(one.described.name));
    for (size_t i = 0; i < names.size(); ++i) {
      SACCADE_ASSIGN(const auto scores, read_composition_scores(arguments_.scores[i], *one.task));
      SACCADE_TRY(add_outcome(names[i], scores, one).in(arguments_.scores[i]));
    }
    return {};
  }

  Status add_outcome(const std::string& model, std::span<const CompositionScores> scores, Judged& one) {
    SACCADE_ASSIGN(CompositionOutcome outcome,
                   evaluate_compositions(*one.task, scores, arguments_.eval.bootstrap, pool_));
    if (writer_) SACCADE_TRY(add_pairs(*writer_, one.described.name, model, *one.task, scores, outcome));
    one.outcomes.emplace_back(model, std::move(outcome));
    return {};
  }

  Result<Json> gather_metrics() const {
    Json results = Json::array();
    Json comparisons = Json::array();
    const auto append = [](Json& to, const Json& list) {
      for (const Json& entry : list) to.push_back(entry);
    };
    for (const Judged& one : datasets_) {
      const std::string& name = one.described.name;
      append(results, composition_chance_json(name, *one.task, one.outcomes.front().second));
      for (const auto& [model, outcome] : one.outcomes) {
        append(results, composition_results_json(name, model, outcome));
      }
      for (size_t a = 0; a < one.outcomes.size(); ++a) {
        for (size_t b = a + 1; b < one.outcomes.size(); ++b) {
          SACCADE_ASSIGN(const Json list,
                         composition_comparisons_json(name, one.outcomes[a].first, one.outcomes[a].second,
                                                      one.outcomes[b].first, one.outcomes[b].second,
                                                      arguments_.eval.bootstrap.confidence));
          append(comparisons, list);
        }
      }
    }
    return Json{{"results", std::move(results)}, {"comparisons", std::move(comparisons)}};
  }

  std::string answer_text(const Json& metrics) const {
    std::string text;
    for (const Judged& one : datasets_) text += dataset_text(one, metrics);
    return text + "protocol: " + info_.protocol["words"].get<std::string>() + "\n";
  }

  static std::string dataset_text(const Judged& one, const Json& metrics) {
    std::string text =
        fmt::format("{}: {}\n", one_line(one.described.name), counted(one.described.compositions, "item"));
    text += fmt::format("  {:<24} {:<20} {:>6} {:>5}  {:<22} {:<22} {:<22}\n", "model", "kind", "items",
                        "tied", "text", "image", "group");
    for (const Json& result : metrics["results"]) {
      if (result["dataset"] != one.described.name) continue;
      const auto score = [&](const char* name) {
        return result["scores"].contains(name) ? figure_text(result["scores"][name]) : std::string();
      };
      text += fmt::format(
          "  {:<24} {:<20} {:>6} {:>5}  {:<22} {:<22} {:<22}\n", one_line(result["model"].get<std::string>()),
          result["kind"].is_null() ? "all" : one_line(result["kind"].get<std::string>()),
          count_text(result["items"].get<int64_t>()), count_text(result["tied"].get<int64_t>()),
          score("text"), score("image"), score("group"));
    }
    for (const Json& comparison : metrics["comparisons"]) {
      if (comparison["dataset"] != one.described.name || !comparison["kind"].is_null()) continue;
      for (const auto& [name, figure] : comparison["scores"].items()) {
        text += difference_text(comparison, name + " score", figure);
      }
    }
    for (const Exclusion& exclusion : one.described.excluded) {
      text += fmt::format("  left out: {}: {}\n", exclusion.reason, count_text(exclusion.count));
    }
    return text;
  }

  const WinogroundArguments& arguments_;
  Session& session_;
  ThreadPool pool_;
  ProgressLine progress_;
  RunInfo info_;
  RunInfo asked_;  // what is known from the start
  std::optional<RunWriter> writer_;
  std::vector<Judged> datasets_;
};

}  // namespace

void add_eval_winoground_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<WinogroundArguments>();
  CLI::App* command = eval.add_subcommand(
      "winoground", "Captions of the same words, told apart by their pictures (Winoground, SugarCrepe, ARO)");
  add_eval_inputs(*command, arguments->eval);
  command->add_flag("--leave-out", arguments->leave_out,
                    "leave out, and count, items with a picture that cannot be read");
  command
      ->add_option("--scores", arguments->scores,
                   "judge scores in FILE.safetensors: scores [items, 2 captions, pictures]")
      ->excludes(command->get_option("--model"));
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return WinogroundCommand(*arguments, session).run(); };
  });
}

}  // namespace saccade::app

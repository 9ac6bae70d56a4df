#include "lab/eval/study/leaderboard.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "lab/eval/figures/tiers.h"
#include "lab/eval/length/length_metrics.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/winoground/winoground.h"
#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBoardFile = "leaderboard.json";
constexpr std::array kShownFigures = {"r1", "r5", "r10"};

// Ranks of one direction as they are read back.
struct ReadRanks {
  QueryRanks ranks;
  std::vector<int64_t> owner;  // [queries]: the image of each query
};

// Reads the figures of a run of one model on one dataset back from its ranks.
Result<RetrievalOutcome> read_outcome(const Run& run, const BootstrapOptions& bootstrap, ThreadPool& pool) {
  SACCADE_ASSIGN(const auto all, read_run_items(run));
  if (all.size() != 1)
    return fail(ErrorCode::kBadData, "items.jsonl has {} datasets, expected 1", all.size());
  const RunItems& items = all.begin()->second;
  ByDirection<ReadRanks> read;
  const auto read_line = [&](const Json& line) -> Status {
    SACCADE_ASSIGN(const RunQuery query, read_record<RunQuery>(line));
    ReadRanks& one = read.of(query.direction);
    const bool to_image = query.direction == Direction::kTextToImage;
    const int64_t queries = std::ssize(items.texts);
    if (query.query < 0 || query.query >= (to_image ? queries : std::ssize(items.images))) {
      return fail(ErrorCode::kBadData, "\"query\" is {}, which no item is", query.query);
    }
    one.ranks.ranks.insert(one.ranks.ranks.end(), query.ranks.begin(), query.ranks.end());
    one.ranks.begin.push_back(std::ssize(one.ranks.ranks));
    one.ranks.tied.push_back(query.tied ? 1 : 0);
    const std::vector<int64_t>* right =
        to_image ? &items.texts[static_cast<size_t>(query.query)].images : nullptr;
    one.owner.push_back(right == nullptr ? query.query : right->empty() ? 0 : right->front());
    return {};
  };
  SACCADE_TRY(read_run_lines(run, "ranks.jsonl", read_line));
  RetrievalOutcome outcome;
  for (const Direction direction : kBothDirections) {
    ReadRanks& one = read.of(direction);
    one.ranks.gallery =
        direction == Direction::kTextToImage ? std::ssize(items.images) : std::ssize(items.texts);
    outcome.of(direction) =
        outcome_of_ranks(std::move(one.ranks), one.owner, std::ssize(items.images), bootstrap, pool);
  }
  return outcome;
}

// Reads the verdicts of a run of one model on one dataset back from its scores.
Result<std::pair<CompositionTask, CompositionOutcome>> read_compositions(const Run& run,
                                                                         const BootstrapOptions& bootstrap,
                                                                         ThreadPool& pool) {
  SACCADE_ASSIGN(const auto all, read_run_items(run));
  if (all.size() != 1)
    return fail(ErrorCode::kBadData, "items.jsonl has {} datasets, expected 1", all.size());
  Dataset dataset;
  std::vector<CompositionItem>& items = dataset.content.emplace<CompositionTests>().items;
  items = all.begin()->second.compositions;
  if (items.empty()) return fail(ErrorCode::kBadData, "items.jsonl has no compositions");
  SACCADE_ASSIGN(CompositionTask task, composition_task(dataset));
  std::vector<CompositionScores> scores;
  const auto read_line = [&](const Json& line) -> Status {
    std::vector<std::vector<double>> table;
    RecordReader reader(line);
    reader("scores", table);
    if (!reader.status()) return reader.status();
    CompositionScores& one = scores.emplace_back();
    const size_t pictures = task.two_pictures ? 2 : 1;
    if (table.size() != 2 || table[0].size() != pictures || table[1].size() != pictures) {
      return fail(ErrorCode::kBadData, "\"scores\" is not of 2 captions and {} images", pictures);
    }
    for (size_t c = 0; c < 2; ++c) {
      for (size_t p = 0; p < pictures; ++p) one[c][p] = static_cast<float>(table[c][p]);
    }
    return {};
  };
  SACCADE_TRY(read_run_lines(run, "pairs.jsonl", read_line));
  if (scores.size() != task.items.size()) {
    return fail(ErrorCode::kBadData, "pairs.jsonl has {} items, items.jsonl {}", scores.size(),
                task.items.size());
  }
  SACCADE_ASSIGN(CompositionOutcome outcome, evaluate_compositions(task, scores, bootstrap, pool));
  return std::pair(std::move(task), std::move(outcome));
}

// Returns the device of a run. The protocol of speed has it.
std::string device_of(const RunInfo& info) {
  return json_field_or<std::string>(info.protocol, "device", info.machine.device)
      .value_or(info.machine.device);
}

class LeaderboardMaker {
 public:
  LeaderboardMaker(const StudyWork& work, ThreadPool& pool) : work_(work), pool_(pool) {
    bootstrap_ = {
        .resamples = work.plan.resamples, .seed = work.plan.seed, .confidence = work.plan.confidence};
  }

  Result<Leaderboard> make() {
    name_models();
    for (size_t p = 0; p < work_.plan.parts.size(); ++p) {
      const StudyPart& part = work_.plan.parts[p];
      SACCADE_ASSIGN(const std::vector<Finished> finished, read_pieces(p).in(part.kind));
      if (finished.empty()) continue;
      LeaderboardPart merged;
      SACCADE_ASSIGN(merged.info, merge_info(finished).in(part.kind));
      if (part.kind == RetrievalMetrics::kKind) {
        SACCADE_TRY(merge_retrieval(finished, merged).in(part.kind));
      } else if (part.kind == CompositionMetrics::kKind) {
        SACCADE_TRY(merge_compositions(finished, merged).in(part.kind));
      } else if (part.kind == LengthMetrics::kKind) {
        SACCADE_TRY(merge_lengths(finished, merged).in(part.kind));
      } else {
        SACCADE_TRY(merge_speed(finished, merged).in(part.kind));
      }
      board_.parts.push_back(std::move(merged));
    }
    rank();
    note();
    return std::move(board_);
  }

 private:
  struct Finished {
    size_t model = 0;
    Run run;
  };

  void name_models() {
    std::vector<std::string> names;
    const auto several = std::ranges::any_of(work_.plan.models, [&](const StudyModel& one) {
      return one.precision != work_.plan.models.front().precision;
    });
    for (const StudyModel& model : work_.plan.models) {
      names.push_back(several ? fmt::format("{}-{}", model.name, model.precision) : model.name);
    }
    make_unique(names);
    for (size_t m = 0; m < names.size(); ++m) {
      LeaderboardRow& row = board_.rows.emplace_back();
      row.model = names[m];
      row.precision = work_.plan.models[m].precision;
      row.fingerprint = work_.plan.models[m].fingerprint;
      if (work_.plan.models[m].rates) row.scored_by = work_.plan.models[m].rates->scored_by;
      if (const std::string& reason = work_.plan.models[m].off_device; !reason.empty()) {
        off_device_.push_back(fmt::format("{} is measured on the processor: {}.", row.model, reason));
      }
    }
  }

  // Returns the runs of a part's finished pieces.
  Result<std::vector<Finished>> read_pieces(size_t part) {
    std::vector<Finished> finished;
    for (const StudyPiece& piece : work_.pieces) {
      if (piece.part != part) continue;
      if (!piece.done) {
        board_.rows[piece.model].missing.push_back(work_.plan.parts[part].kind);
        continue;
      }
      SACCADE_ASSIGN(Run run, read_run(work_.piece_folder(piece)));
      board_.rows[piece.model].parameters = run.info.checkpoints.front().parameters;
      finished.push_back({piece.model, std::move(run)});
    }
    return finished;
  }

  // Returns true for a run of a model that the study's device does not run.
  [[nodiscard]] bool is_off_device(const Finished& one) const {
    return !work_.plan.models[one.model].off_device.empty();
  }

  // Returns the description of a run of all models. Their data and protocols must be the same. The device is the study's,
  // unless it runs none of them.
  Result<RunInfo> merge_info(const std::vector<Finished>& finished) {
    const auto there =
        std::ranges::find_if(finished, [&](const Finished& one) { return !is_off_device(one); });
    const Run& first = there == finished.end() ? finished.front().run : there->run;
    RunInfo info = first.info;
    info.checkpoints.clear();
    for (const Finished& one : finished) {
      RunInfo other = one.run.info;
      RunCheckpoint checkpoint = std::move(other.checkpoints.front());
      other.checkpoints = first.info.checkpoints;
      if (is_off_device(one)) {
        other.machine.device = first.info.machine.device;
        if (other.protocol.contains("device")) other.protocol["device"] = device_of(first.info);
      }
      const std::vector<std::string> differences = run_differences(first.info, other);
      if (!differences.empty()) {
        return fail(
            ErrorCode::kMismatch,
            "{} and {} measured other data or by another protocol ({}); --overwrite measures everything again",
            first.folder.string(), one.run.folder.string(), fmt::join(differences, "; "));
      }
      checkpoint.name = board_.rows[one.model].model;
      if (!is_of_merged(one, info)) continue;
      info.checkpoints.push_back(std::move(checkpoint));
    }
    return info;
  }

  // Returns false for speed on another device than the merged run's: it is in the model's row alone.
  static bool is_of_merged(const Finished& one, const RunInfo& info) {
    return info.kind != SpeedMetrics::kKind || device_of(one.run.info) == device_of(info);
  }

  Status merge_retrieval(const std::vector<Finished>& finished, LeaderboardPart& part) {
    RetrievalMetrics merged;
    std::vector<RetrievalOutcome> outcomes;
    for (const Finished& one : finished) {
      SACCADE_ASSIGN(const auto metrics, read_metrics<RetrievalMetrics>(one.run));
      LeaderboardRow& row = board_.rows[one.model];
      for (RetrievalResult result : metrics.results) {
        if (result.model == kChance) {
          if (&one == &finished.front()) merged.results.push_back(std::move(result));
          continue;
        }
        for (const Direction direction : kBothDirections) {
          for (const char* name : kShownFigures) {
            const Figure* figure = find_named(result.directions.of(direction).figures, name);
            if (figure != nullptr) row.retrieval.of(direction).push_back(*figure);
          }
          if (!result.symmetric) continue;
          const Difference* gain = find_named(result.symmetric->gain.of(direction), "r1");
          if (gain != nullptr) row.symmetric.of(direction) = *gain;
        }
        row.gap = result.gap;
        result.model = row.model;
        merged.results.push_back(std::move(result));
      }
      SACCADE_ASSIGN(outcomes.emplace_back(),
                     read_outcome(one.run, bootstrap_, pool_).in(one.run.folder.string()));
    }
    for (size_t a = 0; a < finished.size(); ++a) {
      for (size_t b = a + 1; b < finished.size(); ++b) {
        SACCADE_ASSIGN(
            merged.comparisons.emplace_back(),
            compare_retrieval(part.info.datasets.front().name, part.info.checkpoints[a].name, outcomes[a],
                              part.info.checkpoints[b].name, outcomes[b], bootstrap_.confidence));
        const Difference* r1 = find_named(merged.comparisons.back().directions.t2i, "r1");
        if (r1 != nullptr) add_p_value(retrieval_p_values_, finished[a].model, finished[b].model, *r1);
      }
    }
    part.metrics = record_json(merged);
    return {};
  }

  Status merge_compositions(const std::vector<Finished>& finished, LeaderboardPart& part) {
    CompositionMetrics merged;
    std::vector<std::pair<CompositionTask, CompositionOutcome>> read;
    const std::string& dataset = part.info.datasets.front().name;
    for (const Finished& one : finished) {
      SACCADE_ASSIGN(read.emplace_back(),
                     read_compositions(one.run, bootstrap_, pool_).in(one.run.folder.string()));
    }
    add_chance(dataset, read.front().first, read.front().second, merged);
    for (size_t i = 0; i < finished.size(); ++i) {
      add_results(dataset, part.info.checkpoints[i].name, read[i].second, merged);
      board_.rows[finished[i].model].composition = read[i].second.groups.front().figures;
    }
    for (size_t a = 0; a < finished.size(); ++a) {
      for (size_t b = a + 1; b < finished.size(); ++b) {
        const size_t first = merged.comparisons.size();
        SACCADE_TRY(add_comparisons(dataset, part.info.checkpoints[a].name, read[a].second,
                                    part.info.checkpoints[b].name, read[b].second, bootstrap_.confidence,
                                    merged));
        add_p_value(composition_p_values_, finished[a].model, finished[b].model,
                    merged.comparisons[first].scores.back());
      }
    }
    part.metrics = record_json(merged);
    return {};
  }

  Status merge_lengths(const std::vector<Finished>& finished, LeaderboardPart& part) {
    LengthMetrics merged;
    for (const Finished& one : finished) {
      SACCADE_ASSIGN(const auto metrics, read_metrics<LengthMetrics>(one.run));
      LeaderboardRow& row = board_.rows[one.model];
      for (LengthResult result : metrics.results) {
        const LengthCurveRecord& curve = result.curves.t2i;
        row.lengths.push_back({.dataset = result.dataset,
                               .domain = result.domain,
                               .value = curve.effective.value,
                               .low = curve.effective.low,
                               .high = curve.effective.high,
                               .at_end = curve.effective.at_end,
                               .above_chance = curve.above_chance});
        result.model = row.model;
        merged.results.push_back(std::move(result));
      }
    }
    part.metrics = record_json(merged);
    return {};
  }

  Status merge_speed(const std::vector<Finished>& finished, LeaderboardPart& part) {
    SpeedMetrics merged;
    for (const Finished& one : finished) {
      SACCADE_ASSIGN(const auto metrics, read_metrics<SpeedMetrics>(one.run));
      LeaderboardRow& row = board_.rows[one.model];
      for (SpeedRecord record : metrics.results) {
        row.images_per_s = record.images_per_s;
        row.texts_per_s = record.texts_per_s;
        row.queries_per_s = record.queries_per_s;
        row.benchmark = record.benchmark;
        row.scored_by = record.scored_by;
        record.model = row.model;
        if (is_of_merged(one, part.info)) merged.results.push_back(std::move(record));
      }
    }
    part.metrics = record_json(merged);
    return {};
  }

  using ModelPair = std::pair<size_t, size_t>;  // the smaller index first
  using PairPValues = std::map<ModelPair, double>;
  static void add_p_value(PairPValues& p_values, size_t a, size_t b, const Difference& difference) {
    p_values[{std::min(a, b), std::max(a, b)}] = difference.p_value;
  }
  // Returns the pairs of models that differ after Holm's correction for the number of pairs.
  [[nodiscard]] std::set<ModelPair> pairs_apart(const PairPValues& p_values) const {
    std::vector<double> values;
    for (const auto& [pair, p_value] : p_values) values.push_back(p_value);
    const std::vector<double> adjusted = holm_adjusted(values);
    std::set<ModelPair> apart;
    size_t i = 0;
    for (const auto& [pair, p_value] : p_values) {
      if (is_significant(adjusted[i++], bootstrap_.confidence)) apart.insert(pair);
    }
    return apart;
  }

  // Ranks the rows, and puts them in that order. Models without the figure come last.
  void rank() {
    const bool retrieval = std::ranges::any_of(
        board_.rows, [](const LeaderboardRow& row) { return !row.retrieval.t2i.empty(); });
    const auto value = [&](size_t model) {
      const LeaderboardRow& row = board_.rows[model];
      const std::vector<Figure>& figures = retrieval ? row.retrieval.t2i : row.composition;
      if (figures.empty()) return -1.0;
      return retrieval ? figures.front().value : figures.back().value;
    };
    std::vector<size_t> order(board_.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return value(a) > value(b); });
    std::vector<size_t> ranked = order;
    std::erase_if(ranked, [&](size_t model) { return value(model) < 0; });
    if (!ranked.empty()) {
      const std::vector<Figure>& figures = board_.rows[ranked.front()].composition;
      board_.ranked_by = retrieval ? "text-to-image R@1" : fmt::format("{} score", figures.back().name);
    }
    const PairPValues& p_values = retrieval ? retrieval_p_values_ : composition_p_values_;
    ranked_pairs_ = std::ssize(p_values);
    const std::set<ModelPair> apart = pairs_apart(p_values);
    int64_t next = 1;
    std::vector<size_t> sorted;
    for (const std::vector<size_t>&tier : tiers_of(ranked, [&](size_t a, size_t b) {
           return apart.contains({std::min(a, b), std::max(a, b)});
         })) {
      for (const size_t model : tier) board_.rows[model].rank = next;
      next += std::ssize(tier);
      sorted.insert(sorted.end(), tier.begin(), tier.end());
    }
    for (const size_t model : order) {
      if (value(model) < 0) sorted.push_back(model);
    }
    std::vector<LeaderboardRow> rows;
    for (const size_t model : sorted) rows.push_back(std::move(board_.rows[model]));
    board_.rows = std::move(rows);
  }

  void note() {
    board_.notes = std::move(off_device_);
    if (!board_.ranked_by.empty()) {
      std::string text = fmt::format("Models are ranked by {}.", board_.ranked_by);
      if (ranked_pairs_ > 0 && bootstrap_.resamples == 0) {
        text += " Without resamples no two of them can be told apart, so they share a rank.";
      } else if (ranked_pairs_ > 0) {
        text += fmt::format(
            " Models that the paired test cannot tell from the best of their rank share it (level {:.2g} after Holm's "
            "correction for {}, {}).",
            1 - bootstrap_.confidence, counted(ranked_pairs_, "pair"),
            counted(bootstrap_.resamples, "resample"));
        const std::string too_few =
            too_few_resamples(ranked_pairs_, bootstrap_.resamples, bootstrap_.confidence);
        if (!too_few.empty()) text += " " + too_few + ".";
      }
      board_.notes.push_back(std::move(text));
    }
    const auto of_texts = [](const LeaderboardPart& part) {
      return part.info.protocol.contains("texts_only");
    };
    if (std::ranges::any_of(board_.parts, of_texts)) {
      board_.notes.emplace_back(
          "The effective length is that of texts by texts: how much of a text finds the whole text again. It says nothing of "
          "images, none of which was read.");
    }
    const auto has = [&](auto member) {
      return std::ranges::any_of(board_.rows, [&](const LeaderboardRow& row) { return member(row); });
    };
    if (has([](const LeaderboardRow& row) { return row.composition.size() == 3; })) {
      board_.notes.emplace_back(
          "Text, image and group scores are Winoground's official ones. The published program of the benchmark of seven "
          "models swaps the first two: its \"Wino Text\" is the image score here, its \"Wino Image\" the text score.");
    }
    if (has([](const LeaderboardRow& row) { return row.benchmark.has_value(); })) {
      board_.notes.emplace_back(
          "QPS is the benchmark's: first captions divided by one time over preprocessing and encoding all images, encoding "
          "first captions and all captions, and all scores. Images/s and texts/s are its parts, measured separately.");
    }
  }

  const StudyWork& work_;
  ThreadPool& pool_;
  BootstrapOptions bootstrap_;
  Leaderboard board_;
  std::vector<std::string> off_device_;  // notes of models that the study's device does not run
  PairPValues retrieval_p_values_;
  PairPValues composition_p_values_;
  int64_t ranked_pairs_ = 0;  // of models with the figure that ranks
};

}  // namespace

Result<Leaderboard> make_leaderboard(const StudyWork& work, ThreadPool& pool) {
  return LeaderboardMaker(work, pool).make();
}

Status write_leaderboard(const fs::path& study, const Leaderboard& board) {
  return write_file_atomic(study / kBoardFile, dump_json(record_json(board)) + "\n");
}

Result<Leaderboard> read_leaderboard(const fs::path& study) {
  const fs::path path = study / kBoardFile;
  std::error_code error;
  if (!fs::exists(path, error)) {
    return fail(ErrorCode::kNotFound,
                "{} is missing: the study is not finished; the same `eval study` goes on with it",
                path.string());
  }
  SACCADE_ASSIGN(const Json json, read_json(path));
  SACCADE_ASSIGN(Leaderboard board, read_record<Leaderboard>(json).in(path.string()));
  if (board.format != Leaderboard::kFormat) {
    return fail(ErrorCode::kUnsupported, "{}: format {}, this program reads {}", path.string(), board.format,
                Leaderboard::kFormat);
  }
  return board;
}

std::vector<Run> leaderboard_runs(const Leaderboard& board, const fs::path& study) {
  std::vector<Run> runs;
  for (const LeaderboardPart& part : board.parts) {
    Run& run = runs.emplace_back();
    run.folder = study / part.info.kind;
    run.info = part.info;
    run.metrics = part.metrics;
  }
  return runs;
}

}  // namespace saccade::lab

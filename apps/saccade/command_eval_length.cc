// saccade eval length: how much of a text a model reads, and how long texts are.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/files.h"
#include "saccade/core/threads.h"
#include "saccade/eval/length/length.h"
#include "saccade/eval/retrieval/retrieval_task.h"
#include "saccade/model/effective_length.h"

#include "checkpoint.h"
#include "command_eval.h"
#include "eval_options.h"
#include "number.h"

namespace saccade::app {
namespace {

namespace fs = std::filesystem;

struct LengthArguments {
  EvalOptions eval;
  std::vector<std::string> domains;
  std::string captions = "all";
  bool join = false;
  bool leave_out = false;
  LengthOptions study;
  std::string lengths;
  bool no_controls = false;
  bool no_chunking = false;
  bool write_card = false;
  bool token_lengths = false;
  int64_t context = 0;
};

// A dataset on its way.
struct Measured {
  RunDataset described;
  std::string domain;
  RetrievalSource source;
  std::optional<RetrievalTask> task;
  std::vector<int64_t> unreadable;
  std::vector<Json> results;  // a model each
};

// "2,5,10" as ascending lengths.
Result<std::vector<int64_t>> parse_lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  for (size_t begin = 0; begin <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || value < 1) {
      return fail(ErrorCode::kUsage, "--lengths {}: \"{}\" is not a number of tokens, 1 or more", text, word);
    }
    lengths.push_back(value);
    begin = end + 1;
  }
  std::ranges::sort(lengths);
  return lengths;
}

// All captions of a picture as one text, a line each.
void join_captions(RetrievalSource& source) {
  std::vector<SourceText> joined;
  for (SourceText& text : source.texts) {
    if (text.image >= 0 && !joined.empty() && joined.back().image == text.image) {
      joined.back().caption += "\n" + text.caption;
    } else {
      joined.push_back(std::move(text));
    }
  }
  source.texts = std::move(joined);
}

std::string length_words(const Json& length) {
  return length.is_number() ? std::to_string(length.get<int64_t>()) : "-";
}

// "14 [11, 17]"
std::string effective_words(const Json& effective) {
  std::string text = length_words(effective["value"]);
  if (effective["low"].is_number()) {
    text += fmt::format(" [{}, {}]", length_words(effective["low"]), length_words(effective["high"]));
  }
  return text + (effective["at_end"].get<bool>() ? " end" : "");
}

class LengthCommand {
 public:
  LengthCommand(const LengthArguments& arguments, Session& session)
      : arguments_(arguments),
        session_(session),
        options_(arguments.study),
        pool_(arguments.eval.encoder.threads),
        progress_(session.quiet) {
    options_.bootstrap = arguments.eval.bootstrap;
    options_.controls = !arguments.no_controls;
    options_.chunking = !arguments.no_chunking;
  }

  Result<int> run() {
    SACCADE_ASSIGN(options_.lengths, parse_lengths(arguments_.lengths));
    SACCADE_TRY(read_sources());
    if (arguments_.token_lengths) return run_token_lengths();
    SACCADE_TRY(measure());
    progress_.clear();
    Json results = Json::array();
    for (const Measured& one : datasets_) {
      info_.datasets.push_back(one.described);
      for (const Json& result : one.results) results.push_back(result);
    }
    const Json metrics = {{"results", std::move(results)}};
    if (writer_) SACCADE_TRY(writer_->finish(info_, metrics));
    SACCADE_TRY(write_cards());
    if (arguments_.eval.json) {
      Json json = run_json(info_);
      for (const char* key : {"format", "command", "libraries", "machine"}) json.erase(key);
      json.update(metrics);
      SACCADE_TRY(session_.out.write_json(json));
    } else {
      std::string text;
      for (const Json& result : metrics["results"]) text += result_text(result);
      text += "protocol: " + info_.protocol["words"].get<std::string>() + "\n";
      SACCADE_TRY(session_.out.write(text));
    }
    const bool some_failed =
        std::ranges::any_of(datasets_, [](const Measured& one) { return !one.unreadable.empty(); });
    return some_failed ? kSomeFailed : kDone;
  }

 private:
  Status read_sources() {
    const std::vector<std::string>& domains = arguments_.domains;
    if (arguments_.eval.datasets.empty()) return fail(ErrorCode::kUsage, "name a dataset with --dataset");
    if (!domains.empty() && domains.size() != arguments_.eval.datasets.size()) {
      return fail(ErrorCode::kUsage, "{} of --domain for {} of --dataset: one each, in their order",
                  domains.size(), arguments_.eval.datasets.size());
    }
    SACCADE_ASSIGN(std::vector<NamedDataset> datasets, read_datasets(arguments_.eval));
    for (size_t i = 0; i < datasets.size(); ++i) {
      Measured& one = datasets_.emplace_back();
      one.described = describe_dataset(datasets[i]);
      one.domain = domains.empty() ? "" : domains[i];
      SACCADE_ASSIGN(one.source, retrieval_source(datasets[i].dataset));
      if (arguments_.join) join_captions(one.source);
    }
    return {};
  }

  Json protocol() const {
    const CaptionPolicy policy = *caption_policy_from(arguments_.captions);
    std::string words = fmt::format(
        "Texts are cut to n token ids, the start token among them, with the end token behind, and R@1 is "
        "measured at each n. Text to image: {}. Image to text: every picture is a query over all texts, and "
        "all of its own are right answers. Ties count against the model. The effective length is the "
        "smallest n with {:g}% of the curve's largest R@1; intervals by resampling pictures with their "
        "queries. Subsets: {} of {} pictures at random, where there are more.",
        caption_policy_words(policy), 100 * options_.share, options_.subsets, options_.subset_items);
    if (arguments_.join) words += " All captions of a picture are one text, a line each.";
    words += " " + picture_words(arguments_.eval);
    return {{"words", std::move(words)},
            {"captions", arguments_.captions},
            {"join_captions", arguments_.join},
            {"ties", "pessimistic"},
            {"transparent", arguments_.eval.transparent},
            {"as_stored", arguments_.eval.as_stored},
            {"leave_out", arguments_.leave_out},
            {"share", options_.share},
            {"lengths", options_.lengths.empty() ? Json() : Json(options_.lengths)},
            {"chunk_tokens", options_.chunk_tokens == 0 ? Json() : Json(options_.chunk_tokens)},
            {"subsets", options_.subsets},
            {"subset_items", options_.subset_items},
            {"controls", options_.controls},
            {"chunking", options_.chunking}};
  }

  // The run's folder, refused at once where it holds a run of other inputs.
  Status open_run(const std::vector<std::string>& checkpoints) {
    info_ = describe_run("length", arguments_.eval, protocol(), pool_.size());
    if (arguments_.eval.run.empty()) return {};
    asked_ = info_;
    for (const Measured& one : datasets_) asked_.datasets.push_back(one.described);
    SACCADE_ASSIGN(asked_.checkpoints, asked_checkpoints(checkpoints, arguments_.eval));
    SACCADE_ASSIGN(writer_, RunWriter::open(arguments_.eval.run, asked_, arguments_.eval.overwrite));
    return {};
  }

  Status measure() {
    SACCADE_ASSIGN(const std::vector<std::string> checkpoints, checkpoints_of(arguments_.eval));
    SACCADE_TRY(open_run(checkpoints));
    stop_ = session_.interrupts.stop_cleanly();
    const EmbedOptions embed = embed_options(arguments_.eval, progress_, session_.messages, stop_);
    return for_each_checkpoint(
        checkpoints, arguments_.eval, session_,
        [&](LoadedEncoder& loaded, const RunCheckpoint& described) -> Status {
          info_.checkpoints.push_back(described);
          for (Measured& one : datasets_) {
            SACCADE_TRY(measure_one(*loaded.encoder, described, embed, one).in(one.described.name));
          }
          return {};
        });
  }

  Status measure_one(Encoder& encoder, const RunCheckpoint& checkpoint, EmbedOptions embed, Measured& one) {
    embed.progress_detail = fmt::format("{}, {}", one.described.name, checkpoint.name);
    std::vector<ImageRef> pictures;
    for (const RunImage& image : one.source.images) pictures.push_back(image.image);
    SACCADE_ASSIGN(EmbeddedPictures embedded, embed_pictures(encoder, pictures, embed, pool_));
    SACCADE_TRY(settle_task(embedded, one));
    const RetrievalTask& task = *one.task;
    const EmbeddedRows images = task.images.size() == pictures.size()
                                    ? std::move(embedded.rows)
                                    : select_rows(embedded.rows, task.images);
    LengthTexts texts;
    for (const RunText& text : task.items.texts) texts.texts.push_back(text.text);
    texts.relevance = task.relevance;
    texts.image_of_text = task.image_of_text;
    SACCADE_ASSIGN(const LengthModel model, length_model(encoder, images, embed));
    SACCADE_ASSIGN(const LengthStudy study, study_length(texts, model, options_, pool_, stop_));
    Json result = {{"dataset", one.described.name},
                   {"domain", one.domain.empty() ? Json() : Json(one.domain)},
                   {"model", checkpoint.name}};
    result.update(length_study_json(study, options_.share));
    one.results.push_back(std::move(result));
    remember(study, checkpoint, one);
    return {};
  }

  // What is measured, known once the pictures have been read; the same for every checkpoint.
  Status settle_task(const EmbeddedPictures& embedded, Measured& one) {
    const std::vector<RunImage>& images = one.source.images;
    SACCADE_ASSIGN(std::vector<int64_t> unreadable,
                   unreadable_pictures(
                       embedded, arguments_.leave_out, static_cast<int64_t>(images.size()),
                       [&](int64_t number) { return images[static_cast<size_t>(number)].image.name(); }));
    if (!one.task) {
      SACCADE_ASSIGN(one.task, make_retrieval_task(one.source, *caption_policy_from(arguments_.captions),
                                                   unreadable, arguments_.leave_out));
      one.unreadable = unreadable;
      one.described.images = static_cast<int64_t>(one.task->images.size());
      one.described.texts = static_cast<int64_t>(one.task->texts.size());
      for (const Exclusion& exclusion : one.task->excluded) one.described.excluded.push_back(exclusion);
    }
    std::vector<std::string> hashes;
    for (const int64_t image : one.task->images)
      hashes.push_back(embedded.sha256[static_cast<size_t>(image)]);
    if (unreadable != one.unreadable) {
      return fail(ErrorCode::kMismatch, "its pictures have changed while it was evaluated");
    }
    return settle_pictures(hashes, one.described, static_cast<size_t>(&one - datasets_.data()), asked_,
                           writer_);
  }

  // For the checkpoint's card.
  void remember(const LengthStudy& study, const RunCheckpoint& checkpoint, const Measured& one) {
    const EffectiveLength& effective = study.plain.t2i.effective;
    if (!effective.value || !study.plain.t2i.above_chance) return;
    MeasuredLength length;
    length.fingerprint = checkpoint.fingerprint;
    length.precision = checkpoint.precision;
    length.dataset = one.described.name;
    length.dataset_sha256 = one.described.sha256;
    length.domain = one.domain;
    length.images = study.images;
    length.texts = study.texts;
    const auto own = [&](const std::optional<int64_t>& n) {
      return n ? std::optional(std::max<int64_t>(0, *n - study.first)) : std::nullopt;
    };
    length.tokens = *own(effective.value);
    length.low = own(effective.low);
    length.high = own(effective.high);
    length.confidence = options_.bootstrap.confidence;
    length.share = options_.share;
    for (const LengthPoint& point : study.plain.t2i.points) length.r1 = std::max(length.r1, point.r1.value);
    length.at_end = effective.at_end;
    length.longest = study.token_lengths.lengths.max;
    const auto longer =
        std::ranges::count_if(study.text_tokens, [&](int64_t n) { return n > length.tokens; });
    length.longer_texts = static_cast<double>(longer) / static_cast<double>(study.texts);
    measured_[checkpoint.path].push_back(std::move(length));
  }

  Status write_cards() {
    if (!arguments_.write_card) return {};
    for (const RunCheckpoint& checkpoint : info_.checkpoints) {
      const auto found = measured_.find(checkpoint.path);
      if (found == measured_.end()) {
        session_.messages.warning(fmt::format(
            "{}: nothing is found more often than by chance, so there is no effective length for its card",
            checkpoint.name));
        continue;
      }
      SACCADE_TRY(write_measured_lengths(checkpoint.path, found->second).in("--write-card"));
    }
    return {};
  }

  static std::string result_text(const Json& result) {
    const Json& tokens = result["token_lengths"];
    std::string text = fmt::format(
        "{}{}, {}: {}, {}; tokens a text: median {}, 95% within {}, longest {}; room for {}, {} longer\n",
        one_line(result["dataset"].get<std::string>()),
        result["domain"].is_null() ? "" : " (" + one_line(result["domain"].get<std::string>()) + ")",
        one_line(result["model"].get<std::string>()), counted(result["images"].get<int64_t>(), "picture"),
        counted(result["texts"].get<int64_t>(), "text"), tokens["median"].get<int64_t>(),
        tokens["p95"].get<int64_t>(), tokens["max"].get<int64_t>(), length_words(tokens["limit"]),
        count_text(tokens["beyond_limit"].get<int64_t>()));
    text += fmt::format("  {:<34} {:<15} {:<16} {:<22} {}\n", "", "direction", "effective n",
                        "R@1 at the end", "subsets");
    text += curves_text("first n", result);
    const Json& controls = result["controls"];
    if (!controls["sentences_permuted"].is_null()) {
      text += curves_text(fmt::format("first n, sentences moved ({})",
                                      count_text(controls["texts_of_sentences"].get<int64_t>())),
                          controls["sentences_permuted"]);
    }
    if (!controls["last_tokens"].is_null()) text += curves_text("last n", controls["last_tokens"]);
    for (const Json& chunked : result["chunking"]) {
      text += curves_text(fmt::format("{} chunks, {}", chunked["chunks"] == "equal" ? "equal" : "sentence",
                                      chunked["pooling"].get<std::string>()),
                          chunked);
    }
    return text;
  }

  static std::string curves_text(const std::string& what, const Json& curves) {
    std::string text;
    for (const auto& [key, words] : {std::pair("t2i", "text to image"), std::pair("i2t", "image to text")}) {
      const Json& curve = curves[key];
      const Json& effective = curve["effective"];
      std::string last = effective["subsets"].is_null() ? "" : effective_subsets(effective["subsets"]);
      if (curve.contains("difference")) {
        const Json& difference = curve["difference"];
        last = fmt::format("{:+.3f} to the cut text{}", difference["value"].get<double>(),
                           difference["told_apart"] == true ? "" : ": cannot be told apart");
      }
      text += fmt::format("  {:<34} {:<15} {:<16} {:<22} {}\n", what, words,
                          curve["above_chance"] == true ? effective_words(effective) : "chance",
                          figure_text(curve["curve"].back()["r1"]), last);
    }
    return text;
  }

  static std::string effective_subsets(const Json& subsets) {
    std::string text = length_words(subsets["value"]);
    if (!subsets["low"].is_number()) return text;
    return text + fmt::format(" [{}, {}]", length_words(subsets["low"]), length_words(subsets["high"]));
  }

  // How long texts are, for tokenizers with or without weights beside them.
  Result<int> run_token_lengths() {
    SACCADE_ASSIGN(const std::vector<std::string> folders, checkpoints_of(arguments_.eval));
    Json results = Json::array();
    std::string text = fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7} {:>5} {:>6}  {}\n", "dataset",
                                   "tokenizer", "texts", "min", "median", "mean", "95%", "max", "too long");
    for (const std::string& folder : folders) {
      SACCADE_ASSIGN(const NamedTokenizer named, find_tokenizer(folder));
      for (const Measured& one : datasets_) {
        const TokenLengths lengths = lengths_of_texts(one, named);
        results.push_back({{"dataset", one.described.name},
                           {"dataset_sha256", one.described.sha256},
                           {"domain", one.domain.empty() ? Json() : Json(one.domain)},
                           {"tokenizer", named.name},
                           {"vocabulary", named.tokenizer->vocabulary_size()},
                           {"context", named.context ? Json(*named.context) : Json()},
                           {"token_lengths", token_lengths_json(lengths)}});
        const Lengths& all = lengths.lengths;
        const std::string beyond =
            lengths.limit ? fmt::format("{} ({:.2f}%) of more than {}", count_text(lengths.beyond),
                                        100.0 * static_cast<double>(lengths.beyond) /
                                            static_cast<double>(std::max<int64_t>(1, all.count)),
                                        *lengths.limit)
                          : std::string("-");
        text += fmt::format("{:<20} {:<24} {:>9} {:>5} {:>7} {:>7.2f} {:>5} {:>6}  {}\n",
                            one_line(one.described.name), one_line(named.name), count_text(all.count),
                            all.min, all.median, all.mean, all.p95, all.max, beyond);
      }
    }
    if (arguments_.eval.json) {
      SACCADE_TRY(session_.out.write_json({{"results", std::move(results)}}));
    } else {
      SACCADE_TRY(session_.out.write(text));
    }
    return kDone;
  }

  struct NamedTokenizer {
    std::string name;
    LoadedEncoder loaded;  // where there are weights: the tokenizer's owner
    std::unique_ptr<Tokenizer> alone;
    const Tokenizer* tokenizer = nullptr;
    std::optional<int64_t> context;
  };

  // A checkpoint's, as its encoder uses it, or that of a
  // folder with tokenizer files and no config of a model.
  Result<NamedTokenizer> find_tokenizer(const std::string& given) {
    NamedTokenizer named;
    SACCADE_ASSIGN(const fs::path folder, find_checkpoint(given));
    std::error_code ignored;
    const bool model =
        fs::exists(folder / "config.json", ignored) || fs::exists(folder / "open_clip_config.json", ignored);
    if (model) {
      SACCADE_ASSIGN(named.loaded, load_checkpoint(given, arguments_.eval.encoder));
      named.name = named.loaded.id.name;
      named.tokenizer = named.loaded.encoder->tokenizer();
      named.context = named.loaded.encoder->info().context;
    } else {
      SACCADE_ASSIGN(named.alone, load_tokenizer(folder, TextCleanup::kTokenizerFile));
      named.name = folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
      named.tokenizer = named.alone.get();
      SACCADE_ASSIGN(named.context, stated_context(folder));
    }
    if (named.tokenizer == nullptr) {
      return fail(ErrorCode::kUsage, "checkpoint {}: no tokenizer files, so no tokens", given);
    }
    if (arguments_.context > 0) named.context = arguments_.context;
    return named;
  }

  // What tokenizer_config.json says a text may have; files without a limit say 1e30.
  static Result<std::optional<int64_t>> stated_context(const fs::path& folder) {
    constexpr double kNoLimit = 1e6;
    std::error_code ignored;
    const fs::path file = folder / "tokenizer_config.json";
    if (!fs::exists(file, ignored)) return std::optional<int64_t>();
    SACCADE_ASSIGN(const Json json, read_json(file));
    SACCADE_ASSIGN(const double length,
                   json_field_or<double>(json, "model_max_length", kNoLimit).in(file.string()));
    return length >= 1 && length < kNoLimit ? std::optional(static_cast<int64_t>(length)) : std::nullopt;
  }

  TokenLengths lengths_of_texts(const Measured& one, const NamedTokenizer& named) {
    std::vector<int64_t> own(one.source.texts.size());
    pool_.parallel_for(static_cast<int64_t>(own.size()), 64, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        own[i] = named.tokenizer->encode(one.source.texts[i].caption, kWholeText).used;
      }
    });
    const int64_t frame = frame_size(named.tokenizer->encode("", kWholeText));
    return token_lengths(own, named.context ? std::optional(*named.context - frame) : std::nullopt);
  }

  const LengthArguments& arguments_;
  Session& session_;
  LengthOptions options_;
  ThreadPool pool_;
  ProgressLine progress_;
  std::stop_token stop_;
  RunInfo info_;
  RunInfo asked_;  // what is known of the run before it is made
  std::optional<RunWriter> writer_;
  std::vector<Measured> datasets_;
  std::map<std::string, std::vector<MeasuredLength>> measured_;  // by the checkpoint's path
};

}  // namespace

void add_eval_length_command(CLI::App& eval, Command& chosen) {
  auto arguments = std::make_shared<LengthArguments>();
  CLI::App* command =
      eval.add_subcommand("length", "How much of a text a model reads: R@1 over its first tokens");
  add_eval_inputs(*command, arguments->eval);
  command->add_option("--domain", arguments->domains, "what each --dataset's texts are about, in a word");
  command->add_option("--captions", arguments->captions, "which captions are texts")
      ->check(CLI::IsMember({"all", "first5", "first1", "dedup", "one-caption"}))
      ->capture_default_str();
  command->add_flag("--join-captions", arguments->join, "all captions of a picture are one long text");
  command->add_flag("--leave-out", arguments->leave_out,
                    "leave out, and count, pictures that cannot be read or have no text");
  command->add_option("--share", arguments->study.share, "of the largest R@1, that counts as reaching it")
      ->transform(real_number(0.01, 1))
      ->capture_default_str();
  command->add_option("--lengths", arguments->lengths,
                      "tokens to cut at, such as 5,10,20,40 (default: every one to 20, then wider steps)");
  command
      ->add_option("--chunk-tokens", arguments->study.chunk_tokens,
                   "tokens a text or chunk may have at most; 0: what the model has room for")
      ->transform(whole_number(0))
      ->capture_default_str();
  command->add_option("--subsets", arguments->study.subsets, "random subsets of pictures")
      ->transform(whole_number(0, 1000))
      ->capture_default_str();
  command->add_option("--subset-items", arguments->study.subset_items, "pictures in each")
      ->transform(whole_number(1))
      ->capture_default_str();
  command->add_flag("--no-controls", arguments->no_controls,
                    "without sentences in another order and without the last tokens");
  command->add_flag("--no-chunking", arguments->no_chunking, "without chunks of longer texts");
  command->add_flag("--write-card", arguments->write_card,
                    "write the effective lengths into the checkpoints' folders, for search to know");
  auto* only = command->add_flag("--token-lengths", arguments->token_lengths,
                                 "only count tokens; -m may be folders with tokenizer files alone");
  command->add_option("--context", arguments->context, "tokens a text may have, where the files do not say")
      ->transform(whole_number(3))
      ->needs(only);
  add_bootstrap_options(*command, arguments->eval);
  add_run_options(*command, arguments->eval);
  for (const char* option : {"--run", "--write-card"}) only->excludes(command->get_option(option));
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return LengthCommand(*arguments, session).run(); };
  });
}

}  // namespace saccade::app

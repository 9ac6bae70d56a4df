#include "lab/eval/length/length_study.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/files/files.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// Joins all captions of an image to one text, one per line.
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

Result<RetrievalSource> length_source(const NamedDataset& dataset, const LengthStudyOptions& study) {
  SACCADE_ASSIGN(RetrievalSource source, retrieval_source(dataset.dataset));
  if (study.join_captions) join_captions(source);
  return source;
}

// The tokenizer of a checkpoint, or of a folder with tokenizer files only.
struct NamedTokenizer {
  std::string name;
  LoadedEncoder loaded;  // owner of the tokenizer, if there are weights
  std::unique_ptr<Tokenizer> alone;
  const Tokenizer* tokenizer = nullptr;
  std::optional<int64_t> context;
};

// Returns the maximum length of a text from tokenizer_config.json. Files without a limit say 1e30.
Result<std::optional<int64_t>> stated_context(const fs::path& folder) {
  constexpr double kNoLimit = 1e6;
  std::error_code ignored;
  const fs::path file = folder / "tokenizer_config.json";
  if (!fs::exists(file, ignored)) return std::optional<int64_t>();
  SACCADE_ASSIGN(const Json json, read_json(file));
  SACCADE_ASSIGN(const double length,
                 json_field_or<double>(json, "model_max_length", kNoLimit).in(file.string()));
  return length >= 1 && length < kNoLimit ? std::optional(static_cast<int64_t>(length)) : std::nullopt;
}

Result<NamedTokenizer> find_tokenizer(const std::string& given, const CheckpointSource& checkpoints) {
  NamedTokenizer named;
  SACCADE_ASSIGN(const fs::path folder, checkpoints.find(given));
  std::error_code ignored;
  const bool model =
      fs::exists(folder / "config.json", ignored) || fs::exists(folder / "open_clip_config.json", ignored);
  if (model) {
    SACCADE_ASSIGN(named.loaded, checkpoints.load(given, Precision::kFp32));
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
  return named;
}

TokenLengths lengths_of_texts(const RetrievalSource& source, const NamedTokenizer& named, ThreadPool& pool) {
  std::vector<int64_t> own(source.texts.size());
  pool.parallel_for(std::ssize(own), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      own[i] = named.tokenizer->encode(source.texts[i].caption, kWholeText).used;
    }
  });
  const int64_t frame = frame_size(named.tokenizer->encode("", kWholeText));
  return token_lengths(own, named.context ? std::optional(*named.context - frame) : std::nullopt);
}

}  // namespace

LengthStudy::LengthStudy(LengthStudyOptions study, const EvaluationOptions& options)
    : study_(std::move(study)), options_(options) {
  study_.length.bootstrap = options.bootstrap;
  // Whole texts are cut at the limit themselves, so that chunks beyond it have nothing to find.
  if (study_.texts_only) study_.length.chunking = false;
}

Json LengthStudy::protocol() const {
  const LengthOptions& length = study_.length;
  std::string words = fmt::format(
      "Texts are cut to n token ids, the start token among them, with the end token behind, and R@1 is "
      "measured at each n. Text to image: {}. Image to text: every image is a query over all texts, and "
      "all of its own are right answers. Ties count against the model. The effective length is the "
      "smallest n with {:g}% of the curve's largest R@1; intervals by resampling images with their "
      "queries. Subsets: {} of {} images at random, where there are more.",
      meaning_of(study_.captions), 100 * length.share, length.subsets, length.subset_items);
  if (length.cut == LengthCut::kRetokenize) {
    words += " The n ids are decoded to text, which is tokenized again and cut at the model's limit.";
  }
  if (study_.join_captions) words += " All captions of an image are one text, a line each.";
  if (study_.late_mean) {
    words += " Items of several vectors are compared by the cosine of their mean vectors in place of MaxSim.";
  }
  if (study_.texts_only) {
    words +=
        " Texts only: in place of the images stand the different whole texts, cut at the model's limit. A cut text "
        "is a query for its own whole text, and the reverse. No image is read.";
  } else {
    words += fmt::format(" {}", picture_words(options_.embed));
  }
  Json json = {{"description", std::move(words)},
               {"captions", enum_name(study_.captions)},
               {"join_captions", study_.join_captions},
               {"ties", "pessimistic"}};
  if (study_.texts_only) {
    json["texts_only"] = true;
  } else {
    json.update(picture_fields(options_.embed));
  }
  if (study_.late_mean) json["late_mean"] = true;
  Json chunks = Json::array();
  for (const Chunking chunking : length.chunks) chunks.push_back(enum_name(chunking));
  json.update({{"leave_out", options_.leave_out},
               {"share", length.share},
               {"lengths", length.lengths.empty() ? Json() : Json(length.lengths)},
               {"length_step", length.length_step == 0 ? Json() : Json(length.length_step)},
               {"cut", enum_name(length.cut)},
               {"chunk_tokens", length.chunk_tokens == 0 ? Json() : Json(length.chunk_tokens)},
               {"subsets", length.subsets},
               {"subset_items", length.subset_items},
               {"controls", length.controls},
               {"chunking", length.chunking},
               {"chunks", std::move(chunks)}});
  return json;
}

Status LengthStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_ASSIGN(RetrievalSource source, length_source(dataset, study_));
  const size_t number = datasets_.size();
  datasets_.push_back({.domain = number < study_.domains.size() ? study_.domains[number] : std::string(),
                       .source = std::move(source)});
  return {};
}

std::vector<ImageRef> LengthStudy::pictures(size_t dataset) const {
  if (study_.texts_only) return {};
  return image_list(datasets_[dataset].source.images);
}

Result<SettledTask> LengthStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Measured& one = datasets_[dataset];
  SACCADE_ASSIGN(one.task, make_retrieval_task(one.source, study_.captions, unreadable, options_.leave_out));
  if (study_.texts_only) {
    return SettledTask{.pictures = {},
                       .texts = std::ssize(one.task->texts),
                       .excluded = one.task->excluded,
                       .clusters = std::ssize(one.task->texts),
                       .cluster = "text"};
  }
  return SettledTask{.pictures = one.task->images,
                     .texts = std::ssize(one.task->texts),
                     .excluded = one.task->excluded,
                     .clusters = std::ssize(one.task->images)};
}

Status LengthStudy::measure(const EncodedContext& context) {
  Measured& one = datasets_[context.dataset];
  LengthTexts texts;
  for (const RunText& text : one.task->items.texts) texts.texts.push_back(text.text);
  EmbeddedTexts whole;
  if (study_.texts_only) {
    std::vector<std::string_view> different;
    std::unordered_map<std::string_view, int64_t> number;
    for (const std::string& text : texts.texts) {
      const auto [at, added] = number.emplace(text, std::ssize(different));
      if (added) different.push_back(text);
      texts.image_of_text.push_back(at->second);
    }
    SACCADE_ASSIGN(texts.relevance, Relevance::from_text_image(texts.image_of_text, std::ssize(different)));
    SACCADE_ASSIGN(whole, embed_study_texts(context, different));
  } else {
    texts.relevance = one.task->relevance;
    texts.image_of_text = one.task->image_of_text;
  }
  const EmbeddedRows& all = study_.texts_only ? whole.rows : context.pictures;
  const bool by_mean = study_.late_mean && all.late;
  const EmbeddedRows means = by_mean ? pooled_items(all) : EmbeddedRows();
  SACCADE_ASSIGN(LengthModel model, length_model(context.encoder, by_mean ? means : all, context.embed));
  if (by_mean) {
    model.encode = [rows_of = std::move(model.encode)](std::span<const TokenizedText> some,
                                                       const std::string& detail) -> Result<EmbeddedRows> {
      SACCADE_ASSIGN(const EmbeddedRows rows, rows_of(some, detail));
      return pooled_items(rows);
    };
  }
  SACCADE_ASSIGN(const LengthOutcome outcome,
                 study_length(texts, model, study_.length, context.pool, context.embed.stop));
  LengthResult& result = one.results.emplace_back(length_result(outcome, study_.length.share));
  result.dataset = context.described.name;
  result.domain = one.domain;
  result.model = context.model.name;
  remember(outcome, context);
  return {};
}

Result<Json> LengthStudy::metrics(std::span<const RunDataset>) const {
  LengthMetrics metrics;
  for (const Measured& one : datasets_) {
    metrics.results.insert(metrics.results.end(), one.results.begin(), one.results.end());
  }
  return record_json(metrics);
}

// Stores the result for the checkpoint's card.
void LengthStudy::remember(const LengthOutcome& outcome, const EncodedContext& context) {
  const EffectiveLength& effective = outcome.plain.t2i.effective;
  if (!effective.value || !outcome.plain.t2i.above_chance) return;
  MeasuredLength length;
  length.fingerprint = context.model.fingerprint;
  length.precision = context.model.precision;
  length.dataset = context.described.name;
  length.dataset_sha256 = context.described.sha256;
  length.domain = datasets_[context.dataset].domain;
  length.images = outcome.images;
  length.texts = outcome.texts;
  const auto own = [&](const std::optional<int64_t>& n) {
    return n ? std::optional(std::max<int64_t>(0, *n - outcome.first)) : std::nullopt;
  };
  length.tokens = *own(effective.value);
  length.low = own(effective.low);
  length.high = own(effective.high);
  length.confidence = study_.length.bootstrap.confidence;
  length.share = study_.length.share;
  for (const LengthPoint& point : outcome.plain.t2i.points) length.r1 = std::max(length.r1, point.r1.value);
  length.at_end = effective.at_end;
  length.longest = outcome.token_lengths.lengths.max;
  const auto longer =
      std::ranges::count_if(outcome.text_tokens, [&](int64_t n) { return n > length.tokens; });
  length.longer_texts = static_cast<double>(longer) / static_cast<double>(outcome.texts);
  measured_[context.model.path].push_back(std::move(length));
}

Status LengthStudy::write_cards(const Evaluation& evaluation) const {
  for (const RunCheckpoint& checkpoint : evaluation.info.checkpoints) {
    const auto found = measured_.find(checkpoint.path);
    if (found != measured_.end()) {
      SACCADE_TRY(write_measured_lengths(checkpoint.path, found->second).in("--write-card"));
    } else if (options_.embed.warning) {
      options_.embed.warning(fmt::format(
          "{}: nothing is found more often than by chance, so there is no effective length for its card",
          checkpoint.name));
    }
  }
  return {};
}

Result<std::vector<TokenLengthsResult>> measure_token_lengths(const LengthStudyOptions& study,
                                                              const EvaluationOptions& options,
                                                              const CheckpointSource& checkpoints,
                                                              int64_t context, ThreadPool& pool) {
  SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(options.datasets));
  std::vector<RetrievalSource> sources;
  for (const NamedDataset& dataset : datasets) {
    SACCADE_ASSIGN(sources.emplace_back(), length_source(dataset, study));
  }
  std::vector<TokenLengthsResult> results;
  for (const std::string& given : options.checkpoints) {
    SACCADE_ASSIGN(NamedTokenizer named, find_tokenizer(given, checkpoints));
    if (context > 0) named.context = context;
    for (size_t d = 0; d < datasets.size(); ++d) {
      results.push_back({.dataset = datasets[d].name,
                         .dataset_sha256 = datasets[d].dataset.hash,
                         .domain = d < study.domains.size() ? study.domains[d] : "",
                         .tokenizer = named.name,
                         .vocabulary = named.tokenizer->vocabulary_size(),
                         .context = named.context,
                         .token_lengths = lengths_of_texts(sources[d], named, pool)});
    }
  }
  return results;
}

}  // namespace saccade::lab

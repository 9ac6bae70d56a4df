#include "saccade/engine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/engine/collection_state.h"
#include "saccade/engine/core.h"
#include "saccade/engine/encoder_state.h"
#include "saccade/engine/lazy_decoders.h"
#include "saccade/engine/query_conversion.h"
#include "saccade/image/decode/video.h"
#include "saccade/nn/workers.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/fusion.h"

namespace saccade {
namespace {

Explanation explanation_of(const HitExplanation& found, const std::string& text) {
  Explanation explanation{
      .model = found.model, .score = found.score, .method = found.method, .no_map = found.no_map};
  for (const WordWeight& word : found.words) {
    explanation.words.push_back({text.substr(word.begin, word.end - word.begin), word.drop});
  }
  if (!found.map.empty()) {
    explanation.map = {static_cast<int>(found.grid.rows), static_cast<int>(found.grid.columns), found.map};
    if (found.box) {
      explanation.box = Explanation::Box{found.box->x, found.box->y, found.box->width, found.box->height};
    }
  }
  return explanation;
}

// text: the query's, as SearchAnswer has it.
Hit hit_of(const SearchHit& found, const std::string& text) {
  Hit hit{.rank = found.rank,
          .id = found.item.id,
          .path = found.item.path,
          .score = found.score,
          .reranked = found.reranked,
          .by_keywords = found.keywords.has_value(),
          .caption = found.item.caption,
          .width = found.item.width,
          .height = found.item.height,
          .format = found.item.format,
          .modified = found.item.mtime_ns};
  if (found.likelihood && std::isfinite(found.likelihood->right)) {
    hit.probability = found.likelihood->right;
  }
  hit.match = match_of(found);
  for (const SearchHit::Folded& copy : found.folded) {
    hit.near_duplicates.push_back({copy.item.id, copy.item.path, copy.score, copy.same_bytes});
  }
  for (const HitExplanation& explanation : found.explanations) {
    hit.explanations.push_back(explanation_of(explanation, text));
  }
  return hit;
}

// why_empty: why the filter leaves no image, kept for all answers with the same filter, since it costs scans of the catalog.
Result<Answer> answer_of(const SearchAnswer& found, const CollectionReader& collection,
                         std::optional<std::string>& why_empty) {
  Answer answer;
  for (const SearchHit& hit : found.hits) answer.hits.push_back(hit_of(hit, found.query.text.str()));
  answer.searched = found.searched;
  if (found.tokens) answer.tokens = TokenUse{found.tokens->used, found.tokens->dropped};
  for (const AnswerNote& note : answer_notes(found)) {
    if (note.name == "tokens" && found.tokens->dropped == 0) continue;
    answer.notes.push_back(note.text);
  }
  if (found.reranking) {
    for (std::string& warning : rerank_warnings(*found.reranking)) answer.notes.push_back(std::move(warning));
  }
  const std::string& filter = found.query.filter;
  if (found.searched == 0 && !filter.empty()) {
    if (!why_empty) {
      SACCADE_ASSIGN(why_empty, why_filter_is_empty(collection, filter, true));
    }
    if (!why_empty->empty()) answer.notes.push_back(*why_empty);
  }
  return answer;
}

Status check_options(const IndexOptions& options) {
  SACCADE_TRY(check_batch_size(options.batch_size));
  if (!(options.video_seconds >= 0) || std::isinf(options.video_seconds)) {
    return fail(ErrorCode::kUsage, "video_seconds is {}, expected 0 or more", options.video_seconds);
  }
  if (options.video_frames < 0 || options.video_frames > 1000) {
    return fail(ErrorCode::kUsage, "video_frames is {}, expected 0 to 1000", options.video_frames);
  }
  if (options.max_pixels < 1) {
    return fail(ErrorCode::kUsage, "max_pixels is {}, expected 1 or more", options.max_pixels);
  }
  return {};
}

IngestOptions ingest_options(const IndexOptions& options, LazyDecoders& decoders) {
  IngestOptions ingest;
  ingest.prune = options.prune;
  ingest.retry_failed = options.retry_failed;
  ingest.follow_links = options.follow_links;
  ingest.hidden = options.hidden;
  ingest.exclude = options.exclude;
  ingest.captions = options.captions;
  ingest.ignore_files = options.ignore_files;
  ingest.sidecar_captions = options.sidecars;
  ingest.facts = options.metadata;
  ingest.video_tools = find_video_tools();
  ingest.videos.every_seconds = options.video_seconds;
  ingest.videos.most_frames = options.video_frames;
  ingest.batch = options.batch_size;
  ingest.limits.max_pixels = options.max_pixels;
  ingest.limits.processes = decoders.get(options.max_pixels);
  return ingest;
}

IndexReport report_of(const IngestReport& ingested) {
  IndexReport report{.seen = ingested.seen,
                     .added = ingested.added,
                     .updated = ingested.updated,
                     .moved = ingested.moved,
                     .unchanged = ingested.unchanged,
                     .removed = ingested.removed,
                     .missing = ingested.missing,
                     .cancelled = ingested.cancelled,
                     .seconds = ingested.seconds.total};
  for (const Failure& failure : ingested.failed) {
    report.failed.push_back({failure.path, Error{failure.code, failure.reason}});
  }
  return report;
}

}  // namespace

struct Engine::State {
  LazyDecoders decoders;
  std::vector<std::string> notes;  // of the call that is running; index and watch have one caller at a time
  std::mutex noting;
  std::shared_ptr<EngineCore> core;

  // Returns a query with its options as the core takes them. The options outlive the call.
  static Result<EngineCore::Search> search_of(const Query& query, const SearchOptions& options) {
    EngineCore::Search search;
    SACCADE_ASSIGN(search.query, search_query(query, options));
    EngineCore::SearchCall& call = search.call;
    call.like = query.liked().value_or(0);
    call.literal = query.is_literal();
    if (query.method()) call.own_composer = EngineCore::OwnComposer::kNo;
    if (!query.composer().empty()) {
      SACCADE_ASSIGN(call.composer, composer_folder(query.composer().string()).in("compose"));
    }
    call.offset = options.offset;
    call.explain = options.explain;
    call.explaining.method = options.explain_by;
    call.progress = options.on_progress;
    call.stop = options.stop;
    if (!options.rerank) return search;
    call.second = options.rerank->state_->backend.get();
    call.rerank.method = options.rerank_by;
    call.rerank.depth = options.rerank_depth;
    call.rerank.name = options.rerank->name();
    return search;
  }

  std::vector<std::string> take_notes() {
    const std::lock_guard lock(noting);
    return std::exchange(notes, {});
  }
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(std::string_view address, const EngineOptions& options) {
  if (address.find("://") != std::string_view::npos && !weaviate::is_address(address)) {
    return fail(ErrorCode::kUnsupported,
                "{}: expected the folder of a collection, or an address like weaviate://HOST:PORT/Name",
                address);
  }
  SACCADE_TRY(check_threads(options.threads));
  if (address.empty())
    return fail(ErrorCode::kUsage, "an empty address, expected the folder of a collection");
  auto state = std::make_unique<State>();
  EngineCoreOptions core;
  core.folder = std::filesystem::path(address);
  core.checkpoint = options.encoder;
  core.precision = options.precision;
  core.threads = options.threads;
  core.device = options.device;
  if (options.exact_decode) core.choices.fast_decode = false;
  core.decoders = [state = state.get()] { return state->decoders.get(); };
  core.note = [state = state.get()](const Note& note) {
    const std::lock_guard lock(state->noting);
    state->notes.push_back(note.text);
  };
  if (!options.create && !is_collection(core.folder)) {
    return fail(ErrorCode::kNotFound, "{}: no collection there (with `create` one is made)", address);
  }
  SACCADE_ASSIGN(std::unique_ptr<EngineCore> opened, EngineCore::open(std::move(core)));
  state->core = std::move(opened);
  return Engine(std::move(state));
}

Result<IndexReport> Engine::index(std::span<const std::filesystem::path> paths, const IndexOptions& options) {
  SACCADE_TRY(check_options(options));
  state_->take_notes();
  SACCADE_ASSIGN(const IngestReport ingested,
                 state_->core->index(paths, ingest_options(options, state_->decoders), options.on_progress,
                                     options.stop));
  IndexReport report = report_of(ingested);
  report.notes = state_->take_notes();
  return report;
}

Result<IndexReport> Engine::index(std::initializer_list<std::filesystem::path> paths,
                                  const IndexOptions& options) {
  return index(std::span<const std::filesystem::path>(paths.begin(), paths.size()), options);
}

Status Engine::watch(std::span<const std::filesystem::path> paths, const IndexOptions& options,
                     const std::function<void(const IndexReport&)>& on_change) {
  SACCADE_TRY(check_options(options));
  if (paths.empty()) return fail(ErrorCode::kUsage, "watch: no paths, expected folders to follow");
  WatchOptions watching;
  watching.ingest = ingest_options(options, state_->decoders);
  const auto news = [&](const WatchNews& happened) {
    if (!happened.report || !on_change) return;
    IndexReport report = report_of(*happened.report);
    report.notes = state_->take_notes();
    on_change(report);
  };
  return state_->core->watch(paths, watching, news, options.stop);
}

Result<Answer> Engine::search(const Query& query, const SearchOptions& options) const {
  SACCADE_ASSIGN(EngineCore::Search asked, State::search_of(query, options));
  SACCADE_ASSIGN(const SearchAnswer found, state_->core->search(std::move(asked.query), asked.call));
  SACCADE_ASSIGN(const auto now, state_->core->snapshot());
  std::optional<std::string> why_empty;
  return answer_of(found, now->collection, why_empty);
}

Result<std::vector<Result<Answer>>> Engine::search_all(std::span<const Query> queries,
                                                       const SearchOptions& options) const {
  SACCADE_TRY(search_query(options));
  if (!options.filter.empty()) SACCADE_TRY(parse_filter(options.filter).in("filter"));
  SACCADE_ASSIGN(const auto now, state_->core->snapshot());
  const nn::StopScope scope(options.stop);
  SearchOptions of_each = options;
  of_each.on_progress = {};
  // Queries that take long are told of one by one. A page behind many hits costs as much as all of them.
  const bool slow = options.rerank || options.explain;
  const size_t block = slow ? 1 : EngineCore::search_block(std::max(options.k, options.offset));
  std::vector<Result<Answer>> answers;
  answers.reserve(queries.size());
  std::optional<std::string> why_empty;
  for (size_t begin = 0; begin < queries.size(); begin += block) {
    std::vector<EngineCore::Search> searches;
    std::vector<size_t> which;
    for (const Query& query : queries.subspan(begin, std::min(block, queries.size() - begin))) {
      answers.emplace_back();
      auto search = State::search_of(query, of_each);
      if (!search) {
        answers.back() = fail(std::move(search).error());
        continue;
      }
      which.push_back(answers.size() - 1);
      searches.push_back(*std::move(search));
    }
    SACCADE_ASSIGN(const std::vector<Result<SearchAnswer>> found,
                   state_->core->search_all(*now, std::move(searches)));
    if (options.stop.stop_requested()) {
      return fail(ErrorCode::kCancelled, "asked to stop after {} queries", begin);
    }
    for (size_t i = 0; i < which.size(); ++i) {
      answers[which[i]] = found[i] ? answer_of(*found[i], now->collection, why_empty)
                                   : Result<Answer>(fail(found[i].error()));
    }
    if (options.on_progress) {
      options.on_progress(
          {.what = "searching", .done = std::ssize(answers), .total = std::ssize(queries), .detail = {}});
    }
  }
  return answers;
}

Result<std::vector<Result<Answer>>> Engine::search_all(std::initializer_list<Query> queries,
                                                       const SearchOptions& options) const {
  return search_all(std::span<const Query>(queries.begin(), queries.size()), options);
}

Result<Answer> Engine::like(int64_t id, const SearchOptions& options) const {
  return search(Query("").like(id), options);
}

EngineInfo Engine::info() const {
  if (const auto now = collection()) return now->info();
  EngineInfo info;
  info.address = state_->core->options().folder.string();
  return info;
}

Result<Collection> Engine::collection() const {
  SACCADE_ASSIGN(auto snapshot, state_->core->snapshot());
  return Collection(std::make_shared<const Collection::State>(std::move(snapshot)));
}

Result<Encoder> Engine::encoder() const {
  SACCADE_ASSIGN(const LoadedEncoder* loaded, state_->core->encoder());
  auto state = std::make_shared<Encoder::State>(state_->core->options().threads);
  SACCADE_ASSIGN(state->visualness, read_kept_visualness(loaded->id.path, loaded->id.fingerprint));
  state->name = loaded->id.name;
  state->folder = loaded->id.path;
  // Shares the engine's core, which owns the model.
  state->backend = std::shared_ptr<EncoderBackend>(state_->core, loaded->encoder.get());
  return Encoder(std::move(state));
}

Result<IndexedImage> Engine::image(int64_t id) const {
  SACCADE_ASSIGN(const Collection now, collection());
  return now.image(id);
}

Result<IndexedImage> Engine::image(const std::filesystem::path& path) const {
  SACCADE_ASSIGN(const Collection now, collection());
  return now.image(path);
}

Result<std::vector<IndexedImage>> Engine::images(std::string_view filter) const {
  SACCADE_ASSIGN(const Collection now, collection());
  return now.images(filter);
}

Status Engine::remove(std::span<const int64_t> ids) {
  {
    SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open(state_->core->options().folder));
    // The writer keeps others from changing the collection between the look and the removal.
    SACCADE_ASSIGN(const CollectionReader now, CollectionReader::open(state_->core->options().folder));
    for (const int64_t id : ids) SACCADE_TRY(now.item(id));
    SACCADE_ASSIGN(const int64_t removed, writer.remove_ids(ids));
    static_cast<void>(removed);
  }
  return state_->core->refresh();
}

Status Engine::refresh() {
  return state_->core->refresh();
}

}  // namespace saccade

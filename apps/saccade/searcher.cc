#include "searcher.h"

#include <utility>

#include <fmt/format.h>

#include "collection_choice.h"
#include "core_options.h"

namespace saccade::app {

Result<std::unique_ptr<Searcher>> Searcher::open(SearchOptions& options, Session& session) {
  SACCADE_TRY(settle_collection(options.collection, session.messages));
  std::unique_ptr<Searcher> searcher(new Searcher(options));
  SACCADE_ASSIGN(searcher->core_, EngineCore::open(core_options(options.collection, options.checkpoint,
                                                                options.encoder, session)));
  SACCADE_ASSIGN(searcher->snapshot_, searcher->core_->snapshot());
  SACCADE_ASSIGN(const LoadedEncoder* loaded, searcher->core_->encoder());
  warn_of_starter(searcher->collection(), session.messages);
  if (!options.rerank.empty()) {
    SACCADE_ASSIGN(searcher->second_, load_checkpoint(options.rerank, options.encoder).in("--rerank"));
    options.rerank_options.name = searcher->second_->id.name;
    warn_of_guessed_preprocessing(*searcher->second_, session.messages);
    warn_of_separate_spaces(*searcher->second_, session.messages);
  }
  if (options.explain_hits) {
    SACCADE_TRY(check_explains(*loaded->encoder, options.explain));
    if (searcher->second_)
      SACCADE_TRY(check_explains(*searcher->second_->encoder, options.explain).in("--rerank"));
  }
  return searcher;
}

Result<SearchAnswer> Searcher::answer(SearchQuery query, Session& session) {
  ProgressLine progress(session.quiet);
  EngineCore::SearchCall call;
  call.composer = options_.composer;
  call.own_composer = options_.collections_composer;
  call.rerank = options_.rerank_options;
  call.explain = options_.explain_hits;
  call.explaining = options_.explain;
  if (second_) {
    call.second = second_->encoder.get();
    call.second_name = second_->id.name;
  }
  if (second_ || options_.explain_hits) {
    call.progress = progress.callback();
    call.stop = session.interrupts.stop_cleanly();
  }
  return core_->search(std::move(query), call);
}

Result<SearchAnswer> Searcher::like(int64_t id, SearchQuery query, Session& /*session*/) {
  return core_->like(id, std::move(query));
}

void warn_of(const SearchAnswer& answer, Session& session) {
  if (answer.tokens && answer.tokens->dropped > 0) {
    session.messages.warning(fmt::format("the text was cut: {}; --long-query chunk reads all of it, in parts",
                                         tokens_text(*answer.tokens)));
  }
  if (const std::string note = measured_length_note(answer); !note.empty()) {
    session.messages.warning("a long text: " + note);
  }
  if (!answer.reranking) return;
  const Reranking& reranking = *answer.reranking;
  if (reranking.tokens && reranking.tokens->dropped > 0) {
    session.messages.warning("the text was cut for re-ranking: " + tokens_text(*reranking.tokens));
  }
  if (reranking.missing + reranking.changed + reranking.unreadable > 0) {
    session.messages.warning(
        fmt::format("{} of {} could not be re-ranked: {} gone, {} changed since they were taken in, "
                    "{} unreadable",
                    count_text(reranking.missing + reranking.changed + reranking.unreadable),
                    counted(reranking.depth, "picture"), count_text(reranking.missing),
                    count_text(reranking.changed), count_text(reranking.unreadable)));
  }
}

}  // namespace saccade::app

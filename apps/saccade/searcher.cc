#include "searcher.h"

#include <utility>

#include <fmt/format.h>

#include "saccade/search/change_text.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/like.h"
#include "saccade/search/query_language.h"

#include "collection_choice.h"
#include "likelihoods.h"

namespace saccade::app {

Result<std::unique_ptr<Searcher>> Searcher::open(SearchOptions& options, Session& session) {
  SACCADE_TRY(settle_collection(options.collection, session.messages));
  SACCADE_ASSIGN(Collection collection, Collection::open(options.collection));
  SACCADE_ASSIGN(LoadedEncoder loaded,
                 load_encoder_of(collection.info(), options.checkpoint, options.encoder, session.messages));
  std::unique_ptr<Searcher> searcher(new Searcher(options, std::move(collection), std::move(loaded)));
  remember_place(options.collection, options.checkpoint, searcher->first_, session.messages);
  warn_of_starter(searcher->collection_, session.messages);
  searcher->measured_length_ = measured_length_of(searcher->first_, session.messages);
  searcher->background_ = background_of(searcher->collection_, session);
  if (!options.rerank.empty()) {
    SACCADE_ASSIGN(searcher->second_, load_checkpoint(options.rerank, options.encoder).in("--rerank"));
    options.rerank_options.name = searcher->second_->id.name;
    warn_of_guessed_preprocessing(*searcher->second_, session.messages);
  }
  if (options.explain_hits) {
    SACCADE_TRY(check_explains(*searcher->first_.encoder, options.explain));
    if (searcher->second_)
      SACCADE_TRY(check_explains(*searcher->second_->encoder, options.explain).in("--rerank"));
  }
  return searcher;
}

// "This picture, but ...": by the composer that was named, or the collection's own.
Status Searcher::compose(SearchQuery& query) {
  if (!query.has_image() || query.text.empty()) return {};
  const bool named = !options_.composer.empty();
  if (!named && !(options_.collections_composer && is_plain(query))) return {};
  if (!composer_) {
    BackendOptions options;
    options.threads = options_.encoder.threads;
    if (named) {
      SACCADE_ASSIGN(composer_, open_composer_for(collection_, options_.composer, options).in("--compose"));
    } else {
      SACCADE_ASSIGN(composer_, open_collection_composer(collection_, options));
    }
  }
  query.fusion.composer = *composer_;
  return {};
}

Status Searcher::complete(SearchQuery& query, Session& session) {
  if (query.has_image()) drop_lead_in(query);
  SACCADE_TRY(compose(query));
  query.measured_length = measured_length_;
  query.background = background_;
  query.explain = options_.explain_hits;
  if (query.has_image() || second_ || query.explain) {
    query.limits.processes = session.decoders.start(session.messages);
  }
  return {};
}

// Adds what each encoder says of the hits; the one that re-ranked where there is one.
Status Searcher::explain(SearchAnswer& answer, Session& session) {
  if (!options_.explain_hits) return {};
  ProgressLine progress(session.quiet);
  for (const LoadedEncoder* each : {&std::as_const(first_), second_ ? &*std::as_const(second_) : nullptr}) {
    if (each == nullptr) continue;
    ExplainOptions options = options_.explain;
    options.name = each->id.name;
    SACCADE_TRY(explain_hits(collection_, *each->encoder, options, answer, pool_, progress.callback(),
                             session.interrupts.stop_cleanly()));
  }
  return {};
}

Result<SearchAnswer> Searcher::answer(SearchQuery query, Session& session) {
  SACCADE_TRY(complete(query, session));
  if (!query.text.empty()) {
    warn_of_separate_spaces(first_, session.messages);
    if (second_) warn_of_separate_spaces(*second_, session.messages);
  }
  SearchAnswer answer;
  if (second_) {
    ProgressLine progress(session.quiet);
    SACCADE_ASSIGN(answer, search_and_rerank(collection_, *first_.encoder, *second_->encoder, query,
                                             options_.rerank_options, pool_, progress.callback(),
                                             session.interrupts.stop_cleanly()));
  } else {
    SACCADE_ASSIGN(answer, search(collection_, *first_.encoder, query, pool_));
  }
  SACCADE_TRY(explain(answer, session));
  return answer;
}

Result<SearchAnswer> Searcher::like(int64_t id, SearchQuery query, Session& session) {
  SACCADE_TRY(complete(query, session));
  return search_like(collection_, *first_.encoder, id, query, pool_);
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

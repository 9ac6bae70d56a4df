#include "searcher.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "saccade/model/device/device_name.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/search.h"

#include "collection_choice.h"
#include "core_options.h"

namespace saccade::app {

Result<std::unique_ptr<Searcher>> Searcher::open(SearcherOptions& options, const SearchQuery& first,
                                                 Session& session) {
  SACCADE_TRY(settle_collection(options.collection, session.messages));
  std::unique_ptr<Searcher> searcher(new Searcher(options));
  SACCADE_ASSIGN(searcher->core_, EngineCore::open(core_options(options.collection, options.checkpoint,
                                                                options.encoder, session)));
  SACCADE_ASSIGN(searcher->snapshot_, searcher->core_->snapshot());
  if (options.lists) return searcher;
  searcher->look_ahead_ = std::jthread([snapshot = searcher->snapshot_, first] {
    try {
      look_ahead(snapshot->collection, first);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the search meets it, and tells of it
    }
  });
  SACCADE_ASSIGN(const LoadedEncoder* loaded, searcher->core_->encoder());
  warn_of_starter(searcher->collection(), session.messages);
  if (!options.rerank.empty()) {
    EncoderChoice second = options.encoder;
    second.device = kProcessor;  // most models that rerank run there alone
    SACCADE_ASSIGN(searcher->second_, load_checkpoint(options.rerank, second).in("--rerank"));
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

EngineCore::SearchCall Searcher::call_of(int64_t like, ProgressLine& progress, Session& session) {
  EngineCore::SearchCall call;
  call.like = like;
  call.offset = options_.offset;
  call.composer = options_.composer;
  call.own_composer =
      options_.collections_composer ? EngineCore::OwnComposer::kIfAny : EngineCore::OwnComposer::kNo;
  call.explain = options_.explain_hits;
  call.explaining = options_.explain;
  if (second_) {
    call.second = second_->encoder.get();
    call.rerank = options_.rerank_options;
  }
  if (call.second != nullptr || call.explain) {
    call.progress = progress.callback();
    call.stop = session.interrupts.stop_cleanly();
  }
  return call;
}

Result<SearchAnswer> Searcher::answer(SearchQuery query, int64_t like, Session& session) {
  ProgressLine progress(session.quiet);
  return core_->search(std::move(query), call_of(like, progress, session));
}

Result<std::vector<Result<SearchAnswer>>> Searcher::answer_all(std::vector<SearchQuery> queries, int64_t like,
                                                               Session& session) {
  ProgressLine progress(session.quiet);
  const EngineCore::SearchCall call = call_of(like, progress, session);
  std::vector<EngineCore::Search> searches;
  searches.reserve(queries.size());
  for (SearchQuery& query : queries) searches.push_back({std::move(query), call});
  return core_->search_all(*snapshot_, std::move(searches));
}

void warn_of(const SearchAnswer& answer, Session& session) {
  std::vector<std::string> warnings = answer_warnings(answer);
  if (answer.tokens && answer.tokens->dropped > 0) {
    warnings.front() += "; --chunk-long-text reads all of it, in parts";
  }
  for (const std::string& warning : warnings) session.messages.warning(warning);
  if (const std::string note = measured_length_note(answer); !note.empty()) {
    session.messages.warning("a long text: " + note);
  }
}

}  // namespace saccade::app

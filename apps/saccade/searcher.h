// A collection that is open for searching, with its encoders: what one search, many, and the prompt share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "saccade/collection/collection.h"
#include "saccade/core/threads.h"
#include "saccade/search/explain_hits.h"
#include "saccade/search/rerank.h"
#include "saccade/search/search.h"

#include "checkpoint.h"
#include "command.h"

namespace saccade::app {

struct SearchOptions {
  std::string collection;
  std::string checkpoint;
  EncoderChoice encoder;
  std::string rerank;  // a checkpoint; empty: none
  RerankOptions rerank_options;
  ExplainOptions explain;
  bool explain_hits = false;
  std::string composer;  // a folder; empty: none is named
  bool collections_composer =
      false;  // that a picture and a text are composed by the collection's, where it names one
};

class Searcher {
 public:
  // Loads the collection and encoders that the options name; warnings go to the session's messages.
  static Result<std::unique_ptr<Searcher>> open(SearchOptions& options, Session& session);

  // `query` is completed with what is known of the collection and the encoder.
  Result<SearchAnswer> answer(SearchQuery query, Session& session);
  // Pictures like the item; as search_like.
  Result<SearchAnswer> like(int64_t id, SearchQuery query, Session& session);

  [[nodiscard]] const Collection& collection() const { return collection_; }
  ThreadPool& pool() { return pool_; }

 private:
  Searcher(const SearchOptions& options, Collection collection, LoadedEncoder first)
      : options_(options),
        collection_(std::move(collection)),
        first_(std::move(first)),
        pool_(options.encoder.threads) {}
  Status complete(SearchQuery& query, Session& session);
  Status compose(SearchQuery& query);
  Status explain(SearchAnswer& answer, Session& session);

  const SearchOptions& options_;
  Collection collection_;
  LoadedEncoder first_;
  std::optional<LoadedEncoder> second_;
  ThreadPool pool_;
  std::shared_ptr<const Background> background_;
  std::optional<MeasuredLength> measured_length_;
  // Composer, opened by the first query that needs it; `nullopt` before.
  std::optional<std::shared_ptr<Composer>> composer_;
};

// Prints the answer's warnings to stderr.
void warn_of(const SearchAnswer& answer, Session& session);

}  // namespace saccade::app

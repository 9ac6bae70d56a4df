// A collection that is open for searching (engine/core.h), as the search command and its prompt use it: with options
// from the command line and messages for people.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "saccade/engine/core.h"

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
      false;  // image and text are composed by the collection's composer, if it names one
};

class Searcher {
 public:
  // Loads the collection and encoders that the options name; warnings go to the session's messages.
  static Result<std::unique_ptr<Searcher>> open(SearchOptions& options, Session& session);

  // Answers a query, reranked and explained as the options say.
  Result<SearchAnswer> answer(SearchQuery query, Session& session);
  // Answers with images like the item; see search_like.
  Result<SearchAnswer> like(int64_t id, SearchQuery query, Session& session);

  [[nodiscard]] const Collection& collection() const { return snapshot_->collection; }
  ThreadPool& pool() { return core_->pool(); }

 private:
  explicit Searcher(const SearchOptions& options) : options_(options) {}

  const SearchOptions& options_;
  std::unique_ptr<EngineCore> core_;
  std::shared_ptr<const CollectionSnapshot> snapshot_;
  std::optional<LoadedEncoder> second_;
};

// Warns of what the answer has to admit, on stderr.
void warn_of(const SearchAnswer& answer, Session& session);

}  // namespace saccade::app

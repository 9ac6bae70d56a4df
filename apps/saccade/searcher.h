// A collection that is open for searching (engine/core.h), as the search command and its prompt use it: with options
// from the command line and messages for people.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "saccade/engine/core.h"

#include "command.h"
#include "load_checkpoint.h"

namespace saccade::app {

struct SearcherOptions {
  std::string collection;
  std::string checkpoint;
  EncoderChoice encoder;
  std::string rerank;  // a checkpoint; empty: none
  RerankOptions rerank_options;
  ExplainOptions explain;
  bool explain_hits = false;
  int64_t offset = 0;    // best hits to leave out
  bool lists = false;    // true if there is no query: images are listed, and no encoder is loaded
  std::string composer;  // a folder; empty: none is named
  bool collections_composer =
      false;  // image and text are composed by the collection's composer, if it names one
};

class Searcher {
 public:
  // Loads the collection and encoders that the options name; warnings go to the session's messages. first: the query that
  // will be answered first; its filter and words are looked up while the encoder is loaded.
  static Result<std::unique_ptr<Searcher>> open(SearcherOptions& options, const SearchQuery& first,
                                                Session& session);

  // Answers a query, or finds images like the item `like` (0: none); reranked and explained as the options say.
  Result<SearchAnswer> answer(SearchQuery query, int64_t like, Session& session);
  // Answers queries together, each with an error of its own (EngineCore::search_all). Takes search_block() of them at a time.
  Result<std::vector<Result<SearchAnswer>>> answer_all(std::vector<SearchQuery> queries, int64_t like,
                                                       Session& session);

  [[nodiscard]] const CollectionReader& collection() const { return snapshot_->collection; }
  ThreadPool& pool() { return core_->pool(); }

 private:
  explicit Searcher(const SearcherOptions& options) : options_(options) {}
  // Returns what the options ask of a search.
  EngineCore::SearchCall call_of(int64_t like, ProgressLine& progress, Session& session);

  const SearcherOptions& options_;
  std::unique_ptr<EngineCore> core_;
  std::shared_ptr<const CollectionSnapshot> snapshot_;
  std::optional<LoadedEncoder> second_;
  std::jthread look_ahead_;  // reads the snapshot
};

// Warns of what the answer has to admit, on stderr.
void warn_of(const SearchAnswer& answer, Session& session);

}  // namespace saccade::app

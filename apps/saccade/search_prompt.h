// `saccade search` without words, on a terminal: a prompt.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "saccade/core/error.h"

#include "searcher.h"

namespace saccade::app {

// Lines from a terminal, with editing and a history where libedit is installed, else
// as the terminal itself has them.
class LineReader {
 public:
  // history: a file that lines are read from and added to; empty: none is kept.
  explicit LineReader(std::string history);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  // Reads a line; `nullopt` at the end of input.
  std::optional<std::string> read(const std::string& prompt);

 private:
  std::string history_;
  bool edits_ = false;
};

struct PromptOptions {
  SearchQuery query;                                       // what every search of the prompt begins with
  std::function<Status(const SearchAnswer& answer)> show;  // prints its hits
};

// Answers until the input ends or :quit. Errors of a query are told, and the next
// line is read; other errors end it.
Result<int> run_prompt(Searcher& searcher, const PromptOptions& options, Session& session);

}  // namespace saccade::app

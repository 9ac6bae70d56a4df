#include "search_prompt.h"

#include <cerrno>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <langinfo.h>
#include <map>
#include <set>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/core/process/late_library.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/listing.h"
#include "saccade/search/query_language.h"
#include "saccade/text/nearest.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace saccade::app {
namespace {

// Functions of libedit's readline interface that are used (editline/readline.h). It has been stable since
// 2000.
struct LineLibrary {
  char* (*readline)(const char*) = nullptr;
  int (*add_history)(const char*) = nullptr;
  int (*using_history)() = nullptr;
  int (*read_history)(const char*) = nullptr;
  int (*write_history)(const char*) = nullptr;
  int (*stifle_history)(int) = nullptr;
  int* rl_catch_signals = nullptr;
  bool there = false;
};

constexpr int kHistoryLines = 1000;

LineLibrary load_line_library() {
  LineLibrary lines;
  LateLibrary library("libedit.so.2");
  library.bind(lines.readline, "readline");
  library.bind(lines.add_history, "add_history");
  library.bind(lines.using_history, "using_history");
  library.bind(lines.read_history, "read_history");
  library.bind(lines.write_history, "write_history");
  library.bind(lines.stifle_history, "stifle_history");
  library.bind(lines.rl_catch_signals, "rl_catch_signals");
  lines.there = library.failure().empty();
  return lines;
}

const LineLibrary& line_library() {
  static const LineLibrary lines = load_line_library();
  return lines;
}

constexpr std::string_view kHelp =
    "words           search; cats -dogs, beach:2 sunset and \"red apple\" as on the command line\n"
    ":more           the next hits\n"
    ":like N         images like hit N\n"
    ":open N         hit N, in the program that shows such files\n"
    ":filter EXPR    only images that meet a condition from here on; without EXPR all\n"
    ":k N            so many hits at a time\n"
    ":help           this\n"
    ":quit, Ctrl-D   the end\n";

class Prompt {
 public:
  Prompt(Searcher& searcher, const PromptOptions& options, Session& session)
      : searcher_(searcher), options_(options), session_(session), query_(options.query) {}

  // False at the end.
  Result<bool> take(const std::string& line) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) return true;
    if (line[begin] != ':') {
      SearchQuery query = query_;
      SACCADE_ASSIGN(query.text, read_query_text(line, query.images));
      if (is_listing(query)) return fail(ErrorCode::kUsage, "nothing to search for: {} has no words", line);
      return search(std::move(query), 0);
    }
    const size_t space = std::min(line.find_first_of(" \t", begin), line.size());
    const std::string name = line.substr(begin, space - begin);
    const size_t rest = line.find_first_not_of(" \t", space);
    const std::string value = rest == std::string::npos ? "" : line.substr(rest);
    if (name == ":quit" || name == ":q") return false;
    if (name == ":help") {
      SACCADE_TRY(session_.out.write(kHelp));
    } else if (name == ":more") {
      SACCADE_TRY(more());
    } else if (name == ":like") {
      SACCADE_ASSIGN(const Item item, hit(value));
      return search(query_, item.id);
    } else if (name == ":open") {
      SACCADE_ASSIGN(const Item item, hit(value));
      SACCADE_TRY(open(item));
    } else if (name == ":filter") {
      SACCADE_TRY(parse_filter(value.empty() ? "id>0" : value).in("filter"));
      query_.filter = value;
    } else if (name == ":k") {
      SACCADE_ASSIGN(query_.k, number(value));
    } else {
      constexpr std::array<std::string_view, 7> kCommands = {":more", ":like", ":open", ":filter",
                                                             ":k",    ":help", ":quit"};
      return fail(ErrorCode::kUsage, "{} is not known here; :help says what is{}", name,
                  did_you_mean(name, kCommands));
    }
    return true;
  }

 private:
  static Result<int64_t> number(const std::string& text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value > 0 && value <= 100'000)
      return value;
    return fail(ErrorCode::kUsage, "\"{}\" is not a number from 1 to 100,000", text);
  }

  // The hit of that rank among those shown.
  [[nodiscard]] Result<Item> hit(const std::string& text) const {
    SACCADE_ASSIGN(const int64_t rank, number(text));
    if (const auto found = by_rank_.find(rank); found != by_rank_.end()) return found->second;
    return fail(ErrorCode::kUsage, "no hit {} has been shown", rank);
  }

  Result<bool> search(SearchQuery query, int64_t like) {
    SACCADE_ASSIGN(answer_, searcher_.answer(std::move(query), like, session_));
    like_ = like;
    warn_of(answer_, session_);
    hits_ = 0;
    by_rank_.clear();
    shown_.clear();
    SACCADE_TRY(show());
    return true;
  }

  Status show() {
    hits_ += std::ssize(answer_.hits);
    for (const SearchHit& hit : answer_.hits) {
      by_rank_.insert_or_assign(hit.rank, hit.item);
      shown_.insert(hit.item.id);
      for (const SearchHit::Folded& copy : hit.folded) shown_.insert(copy.item.id);
    }
    return options_.show(answer_);
  }

  // Shows the next hits: the same search with a larger k, without the hits that have been shown. Those may be
  // anywhere among them, as `--order date` orders them all and a longer re-ranking moves them.
  Status more() {
    if (shown_.empty()) return fail(ErrorCode::kUsage, "there is nothing to have more of");
    SearchQuery query = answer_.query;
    query.k = hits_ + query_.k;
    SearchAnswer longer;
    SACCADE_ASSIGN(longer, searcher_.answer(std::move(query), like_, session_));
    drop_shown(shown_, longer);
    if (longer.hits.empty()) {
      session_.messages.info("that was all");
      return {};
    }
    answer_ = std::move(longer);
    return show();
  }

  // xdg-open is handed the path as its one argument: no shell reads it.
  static Status open(const Item& item) {
    std::error_code gone;
    std::string program = "xdg-open";
    std::string path = file_of(item.path);
    if (!std::filesystem::exists(path, gone)) return fail(ErrorCode::kNotFound, "{}: gone", path);
    char* arguments[] = {program.data(), path.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return fail_errno(error, "xdg-open");
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
    return fail(ErrorCode::kIo, "xdg-open could not open {}", path);
  }

  Searcher& searcher_;
  const PromptOptions& options_;
  Session& session_;
  SearchQuery query_;
  SearchAnswer answer_;              // the hits shown last
  int64_t hits_ = 0;                 // shown since the search began
  std::map<int64_t, Item> by_rank_;  // of these
  std::set<int64_t> shown_;          // ids of these, and of what is grouped under them
  int64_t like_ = 0;                 // id of the item that the answer is like; 0: none
};

std::string history_file() {
  const auto state = user_state_folder();
  return state && make_folders(*state) ? (*state / "search_history").string() : std::string();
}

}  // namespace

LineReader::LineReader(std::string history) : history_(std::move(history)), edits_(line_library().there) {
  if (!edits_) return;
  // libedit drops what is no character of the locale: texts are UTF-8 whatever that is.
  if (setlocale(LC_CTYPE, "") == nullptr || std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    setlocale(LC_CTYPE, "C.UTF-8");
  }
  const LineLibrary& lines = line_library();
  *lines.rl_catch_signals = 1;  // Ctrl-C leaves the terminal as it was
  lines.using_history();
  lines.stifle_history(kHistoryLines);
  if (!history_.empty()) lines.read_history(history_.c_str());
}

LineReader::~LineReader() {
  if (!edits_ || history_.empty()) return;
  // Search history is private to its user.
  const mode_t before = umask(0077);
  line_library().write_history(history_.c_str());
  umask(before);
}

std::optional<std::string> LineReader::read(const std::string& prompt) {
  if (!edits_) {
    std::cout << prompt << std::flush;
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  char* typed = line_library().readline(prompt.c_str());
  if (typed == nullptr) return std::nullopt;
  std::string line = typed;
  std::free(typed);  // NOLINT(cppcoreguidelines-no-malloc): readline's own allocation
  if (line.find_first_not_of(" \t") != std::string::npos) line_library().add_history(line.c_str());
  return line;
}

Result<int> run_prompt(Searcher& searcher, const PromptOptions& options, Session& session) {
  session.messages.info(fmt::format("{}; :help says what there is beside words",
                                    counted(searcher.collection().item_count(), "image")));
  LineReader lines(history_file());
  Prompt prompt(searcher, options, session);
  for (;;) {
    // A query with --explain or --rerank stops cleanly; a prompt that waits has nothing to stop.
    session.interrupts.end_if_signalled();
    const auto line = lines.read("search> ");
    session.interrupts.end_if_signalled();
    if (!line) break;
    const Result<bool> taken = prompt.take(*line);
    if (!taken) {
      if (session.out.reader_gone()) return fail(taken.error());
      session.messages.error(taken.error().message);
    } else if (!*taken) {
      return kDone;
    }
  }
  // The end of input leaves the cursor behind the prompt.
  SACCADE_TRY(session.out.write("\n"));
  return kDone;
}

}  // namespace saccade::app

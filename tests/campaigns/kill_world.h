// The folder in which the kill campaign runs `saccade`, and what must hold there after each kill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "saccade/core/error.h"

#include "traced_program.h"

namespace saccade::campaign {

// A collection's items: path -> hash of the file and row.
struct KnownItem {
  int64_t id = 0;
  std::string hash;
  std::vector<float> row;
};
using Content = std::map<std::string, KnownItem>;

struct RunningProgram {
  pid_t process = 0;
  int64_t run = 0;  // the number in the names of its files: out-N, err-N
};

struct ProgramEnd {
  bool killed = false;  // by the campaign's SIGKILL
  int code = 0;         // exit code, or 128 + the signal that ended it
};

struct StopCounts {
  int64_t all = 0;
  int64_t changing = 0;
};

// BASE/state is copied for each run to BASE/work, which may be a file system of its own; logs and what never changes
// lie beside it, so that only what a command writes counts.
class World {
 public:
  // `itself`: this program, which run as `itself --trace ...` traces another.
  World(std::filesystem::path base, std::filesystem::path saccade, std::filesystem::path itself);

  [[nodiscard]] const std::filesystem::path& base() const { return base_; }
  [[nodiscard]] std::filesystem::path work() const { return base_ / "work"; }
  [[nodiscard]] std::filesystem::path collection() const { return work() / "c"; }
  [[nodiscard]] std::string checkpoint() const;

  // Empties BASE/work.
  void clear() const;
  // Keeps BASE/work as BASE/states/NAME, or brings it back, times of files included.
  void keep(const std::string& name) const;
  void restore(const std::string& name) const;
  // Makes BASE/work a file system of that many bytes (0: an ordinary folder again), or gives it another size.
  // kUnsupported where this process may not mount.
  Status mount_work(int64_t bytes);
  [[nodiscard]] Result<int64_t> used_bytes() const;

  // Runs `saccade` to its end, or up to the kill point; it runs in BASE/work with a HOME and a TMPDIR there.
  ProgramEnd run(const std::vector<std::string>& arguments, const KillPoint& point = {});
  RunningProgram start(const std::vector<std::string>& arguments, const KillPoint& point = {});
  // Nothing while it runs.
  std::optional<ProgramEnd> poll(const RunningProgram& program);
  ProgramEnd wait(const RunningProgram& program, double seconds = 120);
  static void signal(const RunningProgram& program, int number);
  [[nodiscard]] std::string out(const RunningProgram& program) const;
  [[nodiscard]] std::string errors(const RunningProgram& program) const;
  [[nodiscard]] std::string last_errors() const;
  // Of the program that ended last.
  [[nodiscard]] StopCounts last_counts() const;
  // Waits for what was started by programs that are gone: kLimit, naming one, if a process outlives them.
  [[nodiscard]] static Status wait_for_strays(double seconds = 20);

  // The items of BASE/work/c; nothing where there is no collection.
  [[nodiscard]] Result<std::optional<Content>> content() const;
  // `saccade collection verify` finds nothing.
  Status verify();
  // Each path is as in `before` or as in `after`, and those of `acknowledged` as in `after`.
  [[nodiscard]] Status between(const Content& before, const Content& after,
                               const std::vector<std::string>& acknowledged) const;
  // The collection's folder holds its own files alone, with no bytes past its rows; there is no temporary file, and no
  // upload without an item.
  [[nodiscard]] Status no_orphans() const;

 private:
  std::filesystem::path base_;
  std::filesystem::path saccade_;
  std::filesystem::path itself_;
  int64_t runs_ = 0;
  bool mounted_ = false;
};

}  // namespace saccade::campaign

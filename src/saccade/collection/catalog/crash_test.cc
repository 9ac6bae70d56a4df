// Tests of crashes at every step of a change, and of disks that are full at every size. Committed changes
// survive, uncommitted ones leave no trace, and repeating the work gives the same result as an uninterrupted
// run.
#include <csignal>
#include <map>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using Content = std::map<std::string, std::string>;  // path -> hash

constexpr int kPuts = 6;

std::string first_path(int i) {
  return fmt::format("/first/{}", i);
}
std::string second_path(int i) {
  return fmt::format("/second/{}", i);
}

// Three changes (add; add, replace and remove; compact), each left out where it has been made already: what a
// command does that is given again after a crash.
// In a collection of that kind.
enum class Kind { kPlain, kLate, kInt8 };
Status work(const std::filesystem::path& folder, const WriterOptions& options, Kind kind) {
  IngestSettings settings = kind == Kind::kLate ? test::late_settings_of() : IngestSettings{};
  if (kind == Kind::kInt8) settings.int8_rows = Int8Policy::kOn;
  const auto put_of = kind == Kind::kLate ? test::late_put_of : test::put_of;
  SACCADE_ASSIGN(CollectionWriter writer,
                 CollectionWriter::open_or_create(folder, test::fake_checkpoint(), settings, options));
  SACCADE_ASSIGN(const auto second, writer.find_path(second_path(0)));
  if (!second) {
    SACCADE_ASSIGN(const auto first, writer.find_path(first_path(0)));
    if (!first) {
      CollectionChange change;
      for (int i = 0; i < kPuts; ++i) change.puts.push_back(put_of(first_path(i), i));
      SACCADE_TRY(writer.commit(change));
    }
    CollectionChange change;
    for (int i = 0; i < kPuts; ++i) change.puts.push_back(put_of(second_path(i), 100 + i));
    SACCADE_ASSIGN(const auto replaced, writer.find_path(first_path(1)));
    SACCADE_ASSIGN(const auto removed, writer.find_path(first_path(2)));
    change.puts.push_back(put_of(first_path(1), 201));
    change.puts.back().item.id = replaced->id;
    change.removals = {removed->id};
    SACCADE_TRY(writer.commit(change));
  }
  SACCADE_TRY(writer.compact());
  return {};
}

Content content_of(const std::filesystem::path& folder) {
  const auto collection = CollectionReader::open(folder);
  if (!collection) {
    ADD_FAILURE() << collection.error().message;
    return {};
  }
  Content content;
  for (const Item& item : test::all_items(*collection)) {
    content[item.path] = item.hash;
    // The row is the item's own.
    const auto row = collection->rows().row(item.row);
    EXPECT_THAT(row, testing::ElementsAreArray(test::unit_row(static_cast<int>(item.size - 100))))
        << item.path;
    if (!collection->has_late_rows()) continue;
    const Matrix<float> late = restore_rows(collection->late_rows(item.row));
    const Matrix<float> expected = test::late_rows_of(static_cast<int>(item.size - 100));
    EXPECT_EQ(late.rows(), expected.rows());
    for (size_t i = 0; i < std::min(late.values().size(), expected.values().size()); ++i) {
      EXPECT_NEAR(late.values()[i], expected.values()[i], 1e-3);
    }
  }
  return content;
}

// The states between changes.
std::vector<Content> states() {
  Content first;
  for (int i = 0; i < kPuts; ++i) first[first_path(i)] = sha256_hex(std::to_string(i));
  Content second = first;
  for (int i = 0; i < kPuts; ++i) second[second_path(i)] = sha256_hex(std::to_string(100 + i));
  second[first_path(1)] = sha256_hex("201");
  second.erase(first_path(2));
  return {Content{}, first, second};
}

void expect_a_whole_state(const std::filesystem::path& folder) {
  if (!is_collection(folder)) return;  // stopped before it was one
  EXPECT_THAT(states(), testing::Contains(content_of(folder)));
  EXPECT_EQ(test::faults(folder), "");
}

void expect_finished(const std::filesystem::path& folder, Kind kind) {
  EXPECT_EQ(content_of(folder), states().back());
  EXPECT_EQ(test::faults(folder), "");
  const auto summary = CollectionReader::open(folder).value().summary();
  EXPECT_EQ(summary->dead_rows, 0);
  EXPECT_EQ(summary->generation, 2);
  EXPECT_EQ(std::filesystem::file_size(folder / "rows-2.f32"), (2 * kPuts - 1) * 8 * 4U);
  std::set<std::string> expected = {"collection.json", "catalog.sqlite", "rows-2.f32", "lock"};
  if (kind == Kind::kLate) expected.insert({"late-2.rows", "late-2.ends"});
  if (kind == Kind::kInt8) {
    expected.insert("rows-2.i8");
    // After the last change all rows are there in eight bits too; that they are right has been verified.
    EXPECT_EQ(summary->int8_rows, summary->rows);
  }
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    found.insert(entry.path().filename().string());
  }
  EXPECT_EQ(found, expected);
}

std::string name_of(Kind kind) {
  return kind == Kind::kPlain  ? "OneAnItem"
         : kind == Kind::kLate ? "OneAnItemAndLate"
                               : "OneAnItemInEightBitsToo";
}
[[maybe_unused]] void PrintTo(Kind kind, std::ostream* out) {
  *out << name_of(kind);
}

class Crash : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Rows, Crash, testing::Values(Kind::kPlain, Kind::kLate, Kind::kInt8),
                         [](const auto& kind) { return name_of(kind.param); });

TEST_P(Crash, KilledAtEachStepNothingIsLostOrDoubled) {
  const Kind kind = GetParam();
  bool finished = false;
  int kills = 0;
  for (int step = 1; !finished; ++step) {
    SCOPED_TRACE(fmt::format("killed at step {}", step));
    const test::TestFolder temporary;
    const std::filesystem::path folder = temporary.path() / "c";
    const pid_t child = ::fork();
    if (child == 0) {
      int steps = 0;
      WriterOptions options;
      options.on_step = [&](std::string_view) {
        if (++steps == step) ::kill(::getpid(), SIGKILL);
      };
      ::_exit(work(folder, options, kind) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    finished = WIFEXITED(status);
    if (finished) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
    } else {
      ++kills;
    }
    expect_a_whole_state(folder);
    ASSERT_OK(work(folder, {}, kind));
    expect_finished(folder, kind);
    if (HasFailure()) return;
  }
  // Creation, two changes, a compaction.
  EXPECT_EQ(kills, 4 +
                       2 * (kind == Kind::kLate   ? 10
                            : kind == Kind::kInt8 ? 9
                                                  : 6) +
                       (kind == Kind::kInt8 ? 7 : 4));
}

TEST_P(Crash, KilledTwiceInARow) {
  const Kind kind = GetParam();
  for (int step = 5; step <= (kind == Kind::kPlain ? 20 : 28); ++step) {
    SCOPED_TRACE(step);
    const test::TestFolder temporary;
    const std::filesystem::path folder = temporary.path() / "c";
    for (const int limit : {step, 3}) {
      const pid_t child = ::fork();
      if (child == 0) {
        int steps = 0;
        WriterOptions options;
        options.on_step = [&](std::string_view) {
          if (++steps == limit) ::kill(::getpid(), SIGKILL);
        };
        ::_exit(work(folder, options, kind) ? 0 : 1);
      }
      ASSERT_EQ(::waitpid(child, nullptr, 0), child);
      expect_a_whole_state(folder);
    }
    ASSERT_OK(work(folder, {}, kind));
    expect_finished(folder, kind);
    if (HasFailure()) return;
  }
}

// No file may grow past a limit, as on a full disk: every write past it fails.
TEST_P(Crash, AFullDiskIsAnErrorAndTheWorkGoesOnAfterwards) {
  const Kind kind = GetParam();
  bool finished = false;
  int refusals = 0;
  for (rlim_t limit = 0; !finished; limit += limit < 1'000 ? 50 : 2'000) {
    SCOPED_TRACE(fmt::format("files of at most {} bytes", limit));
    ASSERT_LT(limit, rlim_t{1} << 20);
    const test::TestFolder temporary;
    const std::filesystem::path folder = temporary.path() / "c";
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit file_size{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &file_size);
      const auto status = work(folder, {}, kind);
      ::_exit(status ? 0 : status.error().code == ErrorCode::kIo ? 1 : 2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 2) << "another error than kIo";
    finished = WEXITSTATUS(status) == 0;
    if (!finished) ++refusals;
    expect_a_whole_state(folder);
    ASSERT_OK(work(folder, {}, kind));
    expect_finished(folder, kind);
    if (HasFailure()) return;
  }
  EXPECT_GT(refusals, 10);
}

TEST(CrashedWriter, AWriterWhoseWriteFailedRefusesMore) {
  const test::TestFolder temporary;
  const std::filesystem::path folder = temporary.path() / "c";
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = CollectionWriter::create(folder, test::fake_checkpoint());
    if (!writer) ::_exit(10);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{10, 10};
    ::setrlimit(RLIMIT_FSIZE, &none);
    CollectionChange change;
    change.puts = {test::put_of("/a", 1)};
    if (writer->commit(change) ||
        writer->commit(change).error().message.find("open the collection anew") == std::string::npos) {
      ::_exit(11);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(test::faults(folder), "");
}

}  // namespace
}  // namespace saccade

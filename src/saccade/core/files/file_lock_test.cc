#include "saccade/core/files/file_lock.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/temporary_files.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::HasSubstr;

TEST(FileLock, HasOneHolderAtATime) {
  const test::TestFolder folder;
  auto first = try_lock_file(folder / "a");
  ASSERT_TRUE(first && first->has_value());
  auto second = try_lock_file(folder / "a");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->has_value());
  first->reset();
  second = try_lock_file(folder / "a");
  ASSERT_TRUE(second && second->has_value());
  // If the holder removes the file, a newly created one is not locked.
  std::filesystem::remove(folder / "a");
  const auto third = try_lock_file(folder / "a");
  ASSERT_TRUE(third && third->has_value());
  EXPECT_EQ(try_lock_file(folder / "none/a").error().code, ErrorCode::kNotFound);
}

TEST(FileLock, NamesItsHolder) {
  const test::TestFolder folder;
  const auto lock = lock_file(folder / "lock", "writing here");
  ASSERT_TRUE(lock) << lock.error().message;
  const auto again = lock_file(folder / "lock", "writing here");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(again.error().message, HasSubstr("process " + std::to_string(::getpid()) + " is writing here"));
}

TEST(FileLock, WaitsUntilItIsFreeOrIsStopped) {
  const test::TestFolder folder;
  auto held = wait_for_lock_file(folder / "made/on/the/way/a", {}, {});
  ASSERT_TRUE(held) << held.error().message;
  int waits = 0;
  const auto freed = wait_for_lock_file(folder / "made/on/the/way/a", {}, [&] {
    if (++waits == 2) *held = Descriptor();
  });
  ASSERT_TRUE(freed) << freed.error().message;
  EXPECT_EQ(waits, 2);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = wait_for_lock_file(folder / "made/on/the/way/a", stop.get_token(), {});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(FileLock, AFileOfAnotherKindIsNotOverwritten) {
  const test::TestFolder folder;
  for (const std::string& text : {std::string("the number of my locker"), std::string(500, '1')}) {
    folder.write("lock", text);
    const auto lock = lock_file(folder / "lock", "writing here");
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error().code, ErrorCode::kUsage);
    EXPECT_EQ(read_file(folder / "lock").value_or(""), text);
  }
  folder.write("lock", "1234567");  // id of a process that has ended
  EXPECT_TRUE(lock_file(folder / "lock", "writing here"));
}

TEST(TemporaryFiles, AreToldByTheirWholeNames) {
  EXPECT_EQ(temporary_of("run.json.tmp-12-0"), "run.json");
  EXPECT_EQ(temporary_of("a.tmp-1-2.tmp-3-4"), "a.tmp-1-2");
  for (const char* name : {"", "run.json", "a.tmp-", "a.tmp-1", "a.tmp-1-", "a.tmp--1", "a.tmp-x-1",
                           "a.tmp-1-x", ".tmp-1-2", "a.tmp-1-2.bak"}) {
    EXPECT_EQ(temporary_of(name), std::nullopt) << name;
  }
  // Names of temporary files as AtomicFile creates them.
  const test::TestFolder folder;
  const auto file = AtomicFile::create(folder / "name");
  ASSERT_TRUE(file);
  const std::string made = std::filesystem::directory_iterator(folder.path())->path().filename().string();
  EXPECT_EQ(temporary_of(made), "name");
}

}  // namespace
}  // namespace saccade

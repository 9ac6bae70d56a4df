#include "saccade/core/process/memory_reserve.h"

#include <new>

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(MemoryReserve, IsGivenUpOnceAndSetAsideAgain) {
  EXPECT_TRUE(restore_memory_reserve());  // there is none
  keep_memory_reserve(size_t{1} << 20);
  keep_memory_reserve(size_t{1} << 62);  // not a second one
  const std::new_handler out_of_memory = std::get_new_handler();
  ASSERT_NE(out_of_memory, nullptr);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NO_THROW(out_of_memory());  // tried again, with what was set aside
    EXPECT_THROW(out_of_memory(), std::bad_alloc);
    EXPECT_TRUE(restore_memory_reserve());
    EXPECT_TRUE(restore_memory_reserve());
  }
  {
    const LentMemoryReserve lent;
    const LentMemoryReserve nested;
    EXPECT_THROW(out_of_memory(), std::bad_alloc);  // it is in use
    EXPECT_TRUE(restore_memory_reserve());          // nothing takes the place of what was lent
    EXPECT_THROW(out_of_memory(), std::bad_alloc);
  }
  EXPECT_NO_THROW(out_of_memory());
}

}  // namespace
}  // namespace saccade

// Encoders and rows whose callers share passes: who gets what, and who waits no longer.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/serve/shared/shared_encoder.h"
#include "saccade/serve/shared/shared_rows.h"

namespace saccade::serve {
namespace {

using testing::ElementsAre;

// Rows that say what a pass was given; it can be held up, and fails for texts of token 13; without memory for 114 and 115.
class CountingEncoder : public test::FakeEncoder {
 public:
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    ++passes;
    largest = std::max(largest.load(), static_cast<int>(texts.size()));
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Matrix<float> rows(std::ssize(texts), 8);
    for (int64_t i = 0; i < rows.rows(); ++i) {
      const auto id = texts[static_cast<size_t>(i)].ids.front();
      if (id == 13) return fail(ErrorCode::kBadData, "thirteen");
      if (id == 114) return fail(ErrorCode::kLimit, "encode: out of memory");
      if (id == 115) throw std::bad_alloc();
      rows(i, 0) = static_cast<float>(id);
    }
    return rows;
  }
  std::atomic<int> passes = 0;
  std::atomic<int> largest = 0;
  std::atomic<bool> held = false;
};

struct PlainCall : SharedCall {
  int outcome = 0;
};

// A pass without memory ends with an exception: neither who made it nor who waits for it is left behind, and
// the next one goes on.
TEST(SharedPasses, APassThatThrowsEndsForAllOfItsCalls) {
  SharedPasses<PlainCall> passes(8);
  std::atomic<bool> begun = false;
  std::atomic<bool> held = true;
  std::atomic<int> ended = 0;
  const auto takes = [](const PlainCall&, std::span<PlainCall* const>) { return true; };
  const auto throws = [&](std::span<PlainCall* const>) {
    begun = true;
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw std::bad_alloc();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      PlainCall call;
      try {
        if (passes.join(call, takes, {}, throws) && call.outcome == 0) ++ended;
      } catch (const std::bad_alloc&) {
        ADD_FAILURE() << "thrown out of the pass";
      }
    });
    // The first alone; those that come before its pass has begun would go with it.
    while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  while (passes.counts().waiting < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  held = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 4);
  PlainCall call;
  EXPECT_TRUE(passes.join(call, takes, {}, [](std::span<PlainCall* const> calls) { calls[0]->outcome = 1; }));
  EXPECT_EQ(call.outcome, 1);
}

TEST(SharedEncoder, CallsThatComeMeanwhileShareAPassAndGetTheirOwnRows) {
  auto owned = std::make_unique<CountingEncoder>();
  CountingEncoder& inner = *owned;
  SharedEncoder shared(std::move(owned), {.texts = 8, .tokens = 4096, .pictures = 4});
  inner.held = true;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&, i] {
      TokenizedText text;
      text.ids = {i};
      const auto rows = shared.encode_texts({&text, 1});
      if (!rows) {
        EXPECT_EQ(i, 13);
        EXPECT_EQ(rows.error().message, "thirteen");
        ++failed;
      } else if (rows->rows() == 1 && (*rows)(0, 0) == static_cast<float>(i)) {
        ++right;
      }
    });
    // The first alone; those that come before it has begun would go with it.
    while (inner.passes < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  while (shared.waiting() < 19) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  inner.held = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 19);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(inner.largest, 8);
  EXPECT_EQ(shared.counts().calls, 20);
  EXPECT_EQ(shared.counts().passes, 4) << "one alone, and nineteen in batches of eight";
  EXPECT_THAT(shared.counts().of_size, ElementsAre(1, 1, 2, 4, 4, 4, 4, 4));
}

// Whoever asked may ask again: it is not too large, as kLimit would say.
TEST(SharedEncoder, WithoutMemoryACallIsToBeTriedAgain) {
  SharedEncoder shared(std::make_unique<CountingEncoder>());
  for (const int32_t id : {114, 115}) {
    TokenizedText text;
    text.ids = {id};
    const auto rows = shared.encode_texts({&text, 1});
    ASSERT_FALSE(rows) << id;
    EXPECT_EQ(rows.error().code, ErrorCode::kCancelled) << id;
  }
}

TEST(SharedEncoder, WhoHasGoneWaitsNoLongerAndIsNotEncoded) {
  auto owned = std::make_unique<CountingEncoder>();
  CountingEncoder& inner = *owned;
  SharedEncoder shared(std::move(owned), {.texts = 8, .tokens = 4096, .pictures = 4});
  inner.held = true;
  const auto text = [](int32_t id) {
    TokenizedText made;
    made.ids = {id};
    return made;
  };
  std::thread at_work([&] {
    const TokenizedText one = text(1);
    EXPECT_TRUE(shared.encode_texts({&one, 1}));
  });
  while (inner.passes < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic<bool> gone = false;
  std::thread goes([&] {
    const TokenizedText thirteen = text(13);
    const auto rows = shared.encode_texts_for([&] { return gone.load(); }, {&thirteen, 1});
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, ErrorCode::kCancelled);
  });
  while (shared.waiting() < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  gone = true;
  goes.join();  // though the pass before it has not ended
  EXPECT_EQ(shared.waiting(), 0);
  inner.held = false;
  at_work.join();
  EXPECT_EQ(inner.passes, 1);
  const TokenizedText last = text(2);
  EXPECT_TRUE(LentEncoder(std::shared_ptr<SharedEncoder>(&shared, [](SharedEncoder*) {}), [] { return true; })
                  .encode_texts({&last, 1}))
      << "whose turn it is at once is answered";
}

TEST(SharedEncoder, ATextAskedForAgainIsNotEncodedAgain) {
  auto owned = std::make_unique<CountingEncoder>();
  CountingEncoder& inner = *owned;
  // Room for three rows of 8 numbers.
  SharedEncoder shared(std::move(owned), {.texts = 8, .tokens = 4096, .pictures = 4, .remembered = 700});
  const auto ask = [&](std::vector<int32_t> ids) {
    TokenizedText text;
    text.ids = std::move(ids);
    return shared.encode_texts({&text, 1});
  };
  for (const int32_t id : {1, 2, 3, 1, 3}) {
    const auto rows = ask({id, 7});
    ASSERT_TRUE(rows);
    EXPECT_EQ((*rows)(0, 0), static_cast<float>(id));
  }
  EXPECT_EQ(inner.passes, 3);
  EXPECT_EQ(shared.counts().remembered, 2);
  EXPECT_EQ((*ask({2}))(0, 0), 2) << "other tokens are another text";
  EXPECT_EQ(inner.passes, 4);  // and the second text went, as the one that nobody has asked for the longest
  EXPECT_TRUE(ask({1, 7}));
  EXPECT_TRUE(ask({3, 7}));
  EXPECT_EQ(inner.passes, 4);
  EXPECT_TRUE(ask({2, 7}));
  EXPECT_EQ(inner.passes, 5);
  // A failed text is computed again, and large batches of texts evict nothing.
  EXPECT_FALSE(ask({13}));
  EXPECT_FALSE(ask({13}));
  EXPECT_EQ(inner.passes, 7);
  std::vector<TokenizedText> many(6);
  for (size_t i = 0; i < many.size(); ++i) many[i].ids = {static_cast<int32_t>(100 + i)};
  EXPECT_TRUE(shared.encode_texts(many));
  EXPECT_TRUE(ask({2, 7}));
  EXPECT_EQ(inner.passes, 8);
}

// Many searches at once over rows that repeat: each gets what it would get alone.
TEST(SharedRows, SearchesOfAMomentShareAPassAndGetTheirOwnRows) {
  constexpr int64_t kRows = 20'000;
  constexpr int64_t kDim = 64;
  Matrix<float> rows(kRows, kDim);
  uint32_t seed = 1;
  for (int64_t r = 0; r < kRows; ++r) {
    for (float& value : rows.row(r)) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(seed >> 16) / 65536.0F - 0.5F;
    }
  }
  std::vector<uint8_t> alive(kRows, 1);
  for (int64_t r = 0; r < kRows; r += 7) alive[static_cast<size_t>(r)] = 0;
  const std::vector<uint8_t> others(kRows, 1);
  const SearchedRows searched{rows.view(), alive, {}};
  ThreadPool pool(2);
  SharedRows shared(alive);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 10; ++i) {
        const auto query = rows.row(t * 100 + i);
        const int64_t k = t % 4 == 0 ? 500 : 5 + t;
        SearchedRows mine = searched;
        if (t % 5 == 0) mine.allowed = others;
        // Some of them allowed, some not.
        const std::vector<int64_t> wanted = {t * 7, 5'000 + i, 19'999};
        const std::span<const int64_t> of_query = t % 3 == 0 ? std::span<const int64_t>() : wanted;
        const auto found = shared.find(mine, query, k, of_query, pool);
        const auto alone = find_rows(mine, {query.data(), 1, kDim}, k, pool, {&of_query, 1});
        const bool same =
            found && alone &&
            std::ranges::equal(
                found->best.front(), alone->best.front(),
                [](const RowScore& a, const RowScore& b) { return a.row == b.row && a.score == b.score; }) &&
            std::ranges::equal(found->wanted.front(), alone->wanted.front(),
                               [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
        if (same) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
  EXPECT_EQ(shared.counts().queries, 120);
  EXPECT_LE(shared.counts().passes, 120);
  const std::vector<float> narrow(3);
  EXPECT_EQ(shared.find(searched, narrow, 5, {}, pool).error().code, ErrorCode::kMismatch);
}

}  // namespace
}  // namespace saccade::serve

// Several models under a bound of memory: the least recently used goes, and comes back when it is asked for.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/serve/served_models.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Models : public testing::Test {
 protected:
  // The starter under another name and fingerprint.
  [[nodiscard]] fs::path checkpoint(const std::string& name) const {
    const fs::path folder = folder_.path() / name;
    if (fs::exists(folder)) return folder;
    fs::copy(fs::path(test::kSourceDir) / "models" / "starter", folder, fs::copy_options::recursive);
    for (const char* file : {"config.json", "open_clip_config.json"}) {
      if (const auto text = read_file(folder / file)) {
        EXPECT_TRUE(write_file_atomic(folder / file, *text + std::string(name.size(), '\n')));
      }
    }
    return folder;
  }
  ServedModel* add(ServedModels& models, const std::string& name) const {
    auto added = models.add(checkpoint(name), {});
    EXPECT_TRUE(added) << added.error().message;
    return added ? *added : nullptr;
  }
  [[nodiscard]] int64_t starter_bytes() const {
    ServedModels models(ModelLimits{});
    return add(models, "a")->bytes;
  }

  test::TestFolder folder_;
};

TEST_F(Models, WhatDoesNotRunOnTheDeviceIsServedOnTheProcessor) {
  ServedModels models(ModelLimits{});
  std::vector<std::string> notes;
  const NoteCallback note = [&](const Note& told) { notes.push_back(told.text); };
  const fs::path siglip = fs::path(test::kSourceDir) / "tests/golden/siglip";
  const auto other = models.add(siglip, {.device = "cuda"}, note);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ((*other)->info.device, "cpu");
  EXPECT_THAT(notes, testing::Contains(HasSubstr("served on the processor: device cuda: family siglip")));
  EXPECT_TRUE((*other)->encoder());
  notes.clear();
  const auto eight_bits =
      models.add(checkpoint("a"), {.precision = Precision::kInt8, .device = "cuda"}, note);
  ASSERT_TRUE(eight_bits) << eight_bits.error().message;
  EXPECT_EQ((*eight_bits)->info.device, "cpu");
  EXPECT_THAT(notes, testing::Contains(HasSubstr("precision int8")));
  EXPECT_EQ(models.add(siglip, {.precision = Precision::kBf16, .device = "gpu"}).error().code,
            ErrorCode::kUsage);
}

TEST_F(Models, OneThatIsRetiredIsUnloadedAndComesBackWhenItIsAdded) {
  ServedModels models(ModelLimits{});
  ServedModel* a = add(models, "a");
  ServedModel* b = add(models, "bb");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  auto held = a->encoder();
  ASSERT_TRUE(held) << held.error().message;
  models.retire(*a);
  EXPECT_THAT(models.all(), testing::ElementsAre(b));
  EXPECT_EQ(models.bytes(), a->bytes + b->bytes);  // whoever holds its encoder keeps it
  auto again = a->encoder();                       // work that began before
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *held);
  held->reset();
  EXPECT_EQ(models.bytes(), a->bytes + b->bytes);
  again->reset();
  EXPECT_EQ(models.bytes(), b->bytes);
  auto anew = a->encoder();
  ASSERT_TRUE(anew) << anew.error().message;
  EXPECT_EQ(models.bytes(), a->bytes + b->bytes);
  anew->reset();
  EXPECT_EQ(models.bytes(), b->bytes);
  EXPECT_EQ(add(models, "a"), a);
  EXPECT_THAT(models.all(), testing::ElementsAre(a, b));
  held = a->encoder();
  ASSERT_TRUE(held) << held.error().message;
  models.retire(*a);  // by a collection that leaves it, while another one is about to use it
  models.restore(*a);
  EXPECT_THAT(models.all(), testing::ElementsAre(a, b));
  held->reset();
  EXPECT_TRUE(models.use_of(*a).loaded) << "the next request loads nothing";
}

TEST_F(Models, TheLeastRecentlyUsedGoesAndComesBack) {
  const int64_t one = starter_bytes();
  ASSERT_GT(one, 1 << 20);
  ServedModels models(ModelLimits{.memory = 2 * one + one / 2});
  ServedModel* a = add(models, "a");
  ServedModel* b = add(models, "bb");
  ServedModel* c = add(models, "ccc");
  EXPECT_EQ(add(models, "a"), a);  // the same checkpoint once
  EXPECT_FALSE(models.use_of(*a).loaded);
  EXPECT_TRUE(models.use_of(*b).loaded);
  EXPECT_TRUE(models.use_of(*c).loaded);
  EXPECT_EQ(models.bytes(), 2 * one);
  EXPECT_EQ(a->name, "a");
  EXPECT_GT(a->info.dim, 0);
  EXPECT_TRUE(a->reads_texts);

  const auto row = [](ServedModel& model) {
    const auto encoder = model.encoder().value();
    const TokenizedText text = encoder->tokenizer()->encode("a red bell", encoder->info().context);
    return encoder->encode_texts({&text, 1}).value();
  };
  const Matrix<float> of_b = row(*b);
  const Matrix<float> of_a = row(*a);  // c was asked for before b
  EXPECT_TRUE(models.use_of(*a).loaded);
  EXPECT_TRUE(models.use_of(*b).loaded);
  EXPECT_FALSE(models.use_of(*c).loaded);
  EXPECT_EQ(models.use_of(*a).loads, 2);
  EXPECT_EQ(models.use_of(*c).loads, 1);
  EXPECT_EQ(models.bytes(), 2 * one);
  for (int64_t i = 0; i < of_a.columns(); ++i) EXPECT_EQ(of_a(0, i), of_b(0, i));
  // Counts survive unloading the encoder.
  EXPECT_EQ(models.use_of(*b).counts.texts, 1);
  (void)row(*c);
  EXPECT_FALSE(models.use_of(*b).loaded);
  EXPECT_EQ(models.use_of(*b).counts.texts, 1);
}

TEST_F(Models, WhatIsAtWorkKeepsItsMemoryUntilItEnds) {
  const int64_t one = starter_bytes();
  ServedModels models(ModelLimits{.memory = one + one / 2,
                                  .batches = {},
                                  .wait_seconds = 1});  // an encoder takes a while to go on a busy machine
  ServedModel* a = add(models, "a");
  ServedModel* b = add(models, "bb");
  auto held = b->encoder().value();
  const auto refused = a->encoder();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(refused.error().message, HasSubstr("are held by work on others"));
  EXPECT_EQ(models.bytes(), one);
  // Asked for again while it is in memory, it is the same one.
  EXPECT_EQ(b->encoder().value(), held);
  EXPECT_EQ(models.use_of(*b).loads, 1);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.reset();
  });
  EXPECT_TRUE(a->encoder());
  ends.join();
  EXPECT_FALSE(models.use_of(*b).loaded);
}

TEST_F(Models, TwoThatWorkTogetherAreLoadedInTurns) {
  const int64_t one = starter_bytes();
  ServedModels models(ModelLimits{.memory = 2 * one + one / 2});
  std::vector<ServedModel*> all = {add(models, "a"), add(models, "bb"), add(models, "ccc"),
                                   add(models, "dddd")};
  // If both held their first model, neither would get its second one.
  std::atomic<int> lent = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) {
        const auto both = all[2 * t]->encoder_with(*all[2 * t + 1]);
        if (both && (*both)[0]->info().fingerprint == all[2 * t]->id.fingerprint &&
            (*both)[1]->info().fingerprint == all[2 * t + 1]->id.fingerprint) {
          ++lent;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lent, 8);
  const auto same = all[0]->encoder_with(*all[0]);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ((*same)[0], (*same)[1]);

  ServedModels small(ModelLimits{.memory = one + one / 2});
  ServedModel* a = add(small, "a");
  const auto refused = a->encoder_with(*add(small, "bb"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_THAT(refused.error().message, HasSubstr("a and bb together take"));
  EXPECT_TRUE(a->encoder_with(*a));
}

TEST_F(Models, TwoThatAreLoadedWaitForNobodysTurn) {
  const int64_t one = starter_bytes();
  ServedModels models(ModelLimits{.memory = 2 * one + one / 2});
  ServedModel* a = add(models, "a");
  ServedModel* b = add(models, "bb");
  ServedModel* c = add(models, "ccc");
  ServedModel* d = add(models, "dddd");
  auto both = a->encoder_with(*b);
  ASSERT_TRUE(both) << both.error().message;
  std::atomic<bool> ended = false;
  bool got = false;
  std::thread other([&] {
    got = c->encoder_with(*d).has_value();
    ended = true;
  });
  // It has its turn, and waits for memory.
  while (models.use_of(*a).loaded && !ended) std::this_thread::yield();
  auto again = a->encoder_with(*b);
  EXPECT_FALSE(ended);
  EXPECT_TRUE(again);
  both = fail(ErrorCode::kInternal, "let go");
  again = fail(ErrorCode::kInternal, "let go");
  other.join();
  EXPECT_TRUE(got);
}

// Those who ask for the same one wait side by side, not each for as long behind the one before.
TEST_F(Models, HowLongIsWaitedForRoomDoesNotGrowWithThoseWhoWait) {
  const int64_t one = starter_bytes();
  ServedModels models(ModelLimits{.memory = one + one / 2, .batches = {}, .wait_seconds = 0.5});
  ServedModel* a = add(models, "a");
  ServedModel* b = add(models, "bb");
  const auto held = b->encoder().value();
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (!a->encoder()) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 8);
  EXPECT_LT(seconds_since(start), 2.0);  // 4 where they queue
}

TEST_F(Models, ManyWhoAskAtOnceLoadOne) {
  const int64_t one = starter_bytes();
  ServedModels models(ModelLimits{.memory = one + one / 2});
  std::vector<ServedModel*> all = {add(models, "a"), add(models, "bb"), add(models, "ccc")};
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 4; ++i) {
        const auto encoder = all[(t + i) % 3]->encoder();
        if (!encoder) continue;
        const TokenizedText text = (*encoder)->tokenizer()->encode("bell", (*encoder)->info().context);
        if ((*encoder)->encode_texts({&text, 1})) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 24);
  EXPECT_LE(models.bytes(), one);
  // Those who find the encoder of another in memory may find their text's row there too.
  int64_t texts = 0;
  for (const ServedModel* model : all) {
    const SharedEncoder::Counts counts = models.use_of(*model).counts;
    texts += counts.texts + counts.remembered;  // where two asked for the same while it was loaded
  }
  EXPECT_EQ(texts, 24);
}

TEST_F(Models, OneThatIsTooLargeAloneAndOneThatHasChanged) {
  const int64_t one = starter_bytes();
  ServedModels small(ModelLimits{.memory = one / 2});
  const auto refused = small.add(checkpoint("a"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_THAT(refused.error().message, HasSubstr("a: its parameters take"));
  ServedModels models(ModelLimits{.memory = one + one / 2});
  ServedModel* a = add(models, "a");
  (void)add(models, "bb");
  fs::remove_all(folder_.path() / "a");
  fs::rename(checkpoint("dddd"), folder_.path() / "a");
  const auto changed = a->encoder();
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(models.bytes(), 0);  // the room that was made is free again
}

}  // namespace
}  // namespace saccade::serve

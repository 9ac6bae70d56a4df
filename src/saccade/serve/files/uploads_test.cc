// Tests of uploaded files after failures: a held lock, a killed server, a full disk.
#include "saccade/serve/files/uploads.h"

#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/file_lock.h"
#include "saccade/core/hash.h"
#include "saccade/serve/jobs.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Uploading : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    fs::create_directories(uploads_);
    start(0);
  }
  // A server as it is after a start.
  void start(int64_t most_bytes) {
    JobOptions options;
    options.uploads = uploads_;
    options.uploads_bytes = most_bytes;
    options.turn_seconds = 0.2;
    jobs_ = std::make_unique<Jobs>(options);
    service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, jobs_.get());
  }
  HttpResponse send(const std::string& bytes) const {
    HttpRequest request;
    request.method = "POST";
    request.path = "/api/collections/my pictures/images";
    request.headers = {{"content-type", "multipart/form-data; boundary=b"}};
    request.body = "--b\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n" + bytes + "\r\n--b--\r\n";
    return ask(request);
  }
  HttpResponse take_out(const Json& id) const {
    HttpRequest request;
    request.method = "DELETE";
    request.path = "/api/collections/my pictures/images/" + id.dump();
    return ask(request);
  }
  // Names of all files that were sent, and of their marks.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(uploads_)) {
      if (entry.is_regular_file()) names.insert(entry.path().filename().string());
    }
    return names;
  }
  [[nodiscard]] ServedCollection& collection() const { return *served_->collections().front(); }
  [[nodiscard]] Uploads::Owner owner() const { return {"my pictures", folder_}; }
  static std::string name_of(const std::string& bytes) { return sha256_hex(bytes) + ".png"; }

  fs::path uploads_ = temporary_.path() / "uploads";
  std::unique_ptr<Jobs> jobs_;
};

TEST_F(Uploading, WhatAnotherProcessKeepsFromBeingTakenInLeavesNoFileAndTakesNoRoom) {
  const Json first = json_of(send(test::png(20)));
  start(std::ssize(test::png(20)) + std::ssize(test::png(21)));
  {
    const auto held = try_lock_file(folder_ / "lock");  // as `saccade index` holds it
    ASSERT_TRUE(held && held->has_value());
    for (int i = 0; i < 3; ++i) {
      const HttpResponse refused = send(test::png(21));
      EXPECT_EQ(refused.status, 503) << refused.body;
      EXPECT_EQ(header(refused, "Retry-After"), "1");
      EXPECT_THAT(refused.body, HasSubstr("is writing to this collection"));
    }
    const HttpResponse kept = take_out(first["id"]);
    EXPECT_EQ(kept.status, 503) << kept.body;
    EXPECT_EQ(header(kept, "Retry-After"), "1");
    EXPECT_THAT(files(), UnorderedElementsAre(name_of(test::png(20))));
  }
  const HttpResponse taken = send(test::png(21));
  EXPECT_EQ(taken.status, 201) << taken.body;
  EXPECT_THAT(files(), UnorderedElementsAre(name_of(test::png(20)), name_of(test::png(21))));
  EXPECT_EQ(take_out(first["id"]).status, 204);
  EXPECT_THAT(files(), UnorderedElementsAre(name_of(test::png(21))));
}

TEST_F(Uploading, AStartRemovesWhatAKilledServerLeftAndNothingElse) {
  ASSERT_EQ(send(test::png(20)).status, 201);
  const fs::path folder = uploads_ / "my pictures";
  const auto marked = [&](const std::string& bytes, const fs::path& of) {
    Uploads uploads(uploads_, 0);
    const Uploads::Owner owner{"my pictures", of};
    EXPECT_TRUE(uploads.put(owner, uploads.path_of(owner, name_of(bytes)), bytes).value_or(false));
  };
  // Killed when the file was written; while it was; and behind the item.
  marked(test::png(21), folder_);
  test::write_text(folder / (name_of(test::png(21)) + ".tmp-12-0"), "half");
  Uploads(uploads_, 0).mark(owner(), folder / name_of(test::png(20)));
  // Files of a running server of another collection with the same name, of the user, and of an older server.
  marked(test::png(22), temporary_.path() / "elsewhere" / "my pictures");
  test::write_text(folder / "holiday.png", test::png(23));
  test::write_text(folder / name_of(test::png(24)), test::png(24));
  const std::set<std::string> before = files();
  {
    const auto held = try_lock_file(folder_ / "lock");
    ASSERT_TRUE(held && held->has_value());
    const Status busy = jobs_->remove_unfinished(collection());
    ASSERT_FALSE(busy);
    EXPECT_EQ(busy.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(files(), before);
  }
  const Status removed = jobs_->remove_unfinished(collection());
  ASSERT_TRUE(removed) << removed.error().message;
  std::set<std::string> left = files();
  EXPECT_EQ(std::erase_if(left, [](const std::string& name) { return name.find(".pending-") != name.npos; }),
            1);
  EXPECT_THAT(left, UnorderedElementsAre(name_of(test::png(20)), name_of(test::png(22)), "holiday.png",
                                         name_of(test::png(24))));
  EXPECT_EQ(send(test::png(21)).status, 201);
}

// A file size limit of 0 refuses every write, as a full disk does, and removals go on.
TEST_F(Uploading, OnAFullDiskTheFileGoesFirstAndTheItemOnceThereIsRoom) {
  const Json sent = json_of(send(test::png(20)));
  ASSERT_THAT(files(), UnorderedElementsAre(name_of(test::png(20))));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const HttpResponse full = take_out(sent["id"]);
  const HttpResponse outside = take_out(1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.status, 503) << full.body;
  EXPECT_EQ(header(full, "Retry-After"), "1");
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_NE(outside.status, 204);
  EXPECT_TRUE(fs::exists(pictures_ / "p0.png")) << "no file of the user's is removed";
  EXPECT_EQ(take_out(sent["id"]).status, 204);
  EXPECT_EQ(take_out(sent["id"]).status, 404);
}

}  // namespace
}  // namespace saccade::serve

// Indexing that clients ask for, pictures that they send and take out, and small pictures kept on disk.
#include "saccade/serve/jobs.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/serve/files/thumbnails.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Changing : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    fs::create_directories(more_);
    fs::create_directories(uploads_);
    for (int i = 10; i < 14; ++i) test::write_text(more_ / (std::to_string(i) + ".png"), test::png(i));
    JobOptions options;
    options.folders = {more_, temporary_.path() / "elsewhere" / "more"};
    options.uploads = uploads_;
    options.turn_seconds = 0.2;
    jobs_ = std::make_unique<Jobs>(options);
    service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, jobs_.get());
  }
  // The job once it has ended.
  [[nodiscard]] Json ended(const Json& job) const {
    const std::string path = "/api/jobs/" + job["id"].dump();
    Json now;
    for (int i = 0; i < 6000; ++i) {
      now = json_of(get(path));
      if (now["state"] != "waiting" && now["state"] != "running") return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << now;
    return now;
  }
  HttpResponse send(const std::string& bytes, const std::string& caption = "") const {
    HttpRequest request;
    request.method = "POST";
    request.path = "/api/collections/my pictures/images";
    request.headers = {{"content-type", "multipart/form-data; boundary=b"}};
    request.body =
        "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"../../../etc/x.png\"\r\n\r\n" +
        bytes + "\r\n";
    if (!caption.empty())
      request.body += "--b\r\nContent-Disposition: form-data; name=\"caption\"\r\n\r\n" + caption + "\r\n";
    request.body += "--b--\r\n";
    return ask(request);
  }
  HttpResponse take_out(int64_t id) const {
    HttpRequest request;
    request.method = "DELETE";
    request.path = "/api/collections/my pictures/images/" + std::to_string(id);
    return ask(request);
  }
  [[nodiscard]] int64_t items() const {
    return served_->collections().front()->now()->collection.item_count();
  }

  fs::path more_ = temporary_.path() / "more";
  fs::path uploads_ = temporary_.path() / "uploads";
  std::unique_ptr<Jobs> jobs_;
};

TEST_F(Changing, AFolderThatTheOperatorNamedIsIndexed) {
  const Json there = json_of(get("/api/jobs"));
  EXPECT_EQ(there["folders"], Json::array({"more", "more-2"}));
  EXPECT_EQ(there["takes_images"], true);
  const HttpResponse started = post("/api/collections/my pictures/jobs", R"({"folder": "more"})");
  ASSERT_EQ(started.status, 202) << started.body;
  const Json job = json_of(started);
  EXPECT_EQ(header(started, "Location"), "/api/jobs/" + job["id"].dump());
  const Json done = ended(job);
  EXPECT_EQ(done["state"], "done") << done;
  EXPECT_EQ(done["report"]["added"], 4) << done;
  EXPECT_EQ(done["done"], done["total"]);
  EXPECT_EQ(items(), 10);  // seen at once
  EXPECT_EQ(json_of(get("/api/search?q=red&k=20&group_duplicates=false"))["hits"].size(), 10U);

  // No path of a client's reaches the disk.
  for (const char* folder : {"../more", "/etc", "", "more/", "pictures"}) {
    const HttpResponse refused = post("/api/collections/my pictures/jobs", Json{{"folder", folder}}.dump());
    EXPECT_EQ(refused.status, 404) << folder;
    EXPECT_THAT(refused.body, HasSubstr("there are: more, more-2"));
  }
  const Json failed = ended(json_of(post("/api/collections/my pictures/jobs", R"({"folder": "more-2"})")));
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_THAT(failed["error"].get<std::string>(), HasSubstr("elsewhere"));
  EXPECT_THAT(json_of(get("/api/jobs"))["jobs"], SizeIs(2));
  EXPECT_EQ(json_of(get("/api/jobs"))["jobs"][0]["id"], failed["id"]);
  EXPECT_EQ(get("/api/jobs/99").status, 404);
  EXPECT_EQ(post("/api/collections/none/jobs", R"({"folder": "more"})").status, 404);
  EXPECT_EQ(post("/api/collections/my pictures/jobs", R"({"path": "/etc"})").status, 400);
}

TEST_F(Changing, EventsFollowAJobToItsEnd) {
  const Json job = json_of(post("/api/collections/my pictures/jobs", R"({"folder": "more"})"));
  const HttpResponse response = get("/api/jobs/" + job["id"].dump() + "/events");
  EXPECT_EQ(response.content_type, "text/event-stream");
  ASSERT_TRUE(response.events);
  std::string all;
  bool over = false;
  for (int i = 0; i < 1000 && !over; ++i) {
    const auto more = response.events();
    over = !more;
    if (more) all += *more;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(over);
  EXPECT_THAT(all, HasSubstr("event: job\ndata: {\"id\":"));
  const std::string last = all.substr(all.rfind("data: ") + 6);
  const auto json = parse_json(last);
  ASSERT_TRUE(json) << last;
  EXPECT_EQ((*json)["state"], "done");
  EXPECT_EQ(get("/api/jobs/99/events").status, 404);
}

TEST_F(Changing, AJobIsCancelledBeforeAndWhileItRuns) {
  std::unique_lock held(served_->collections().front()->writing);  // the first has to wait for its turn
  const Json first = json_of(post("/api/collections/my pictures/jobs", R"({"folder": "more"})"));
  const Json same = json_of(post("/api/collections/my pictures/jobs", R"({"folder": "more"})"));
  EXPECT_EQ(same["id"], first["id"]);
  for (int i = 0; i < 500 && json_of(get("/api/jobs/1"))["state"] != "running"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Json second = json_of(post("/api/collections/my pictures/jobs", R"({"folder": "more-2"})"));
  EXPECT_EQ(second["state"], "waiting");
  EXPECT_EQ(send(test::png(20)).status, 503);  // while another changes the collection
  const auto cancel = [&](const Json& job) {
    HttpRequest request;
    request.method = "DELETE";
    request.path = "/api/jobs/" + job["id"].dump();
    return ask(request).status;
  };
  EXPECT_EQ(cancel(second), 200);
  EXPECT_EQ(ended(second)["state"], "cancelled");
  EXPECT_EQ(cancel(first), 200);
  held.unlock();
  EXPECT_EQ(ended(first)["state"], "cancelled");
  EXPECT_EQ(items(), 6);
  EXPECT_EQ(cancel({{"id", 99}}), 404);
}

// A job that was cancelled as one that waits never runs: it may be forgotten by then.
TEST_F(Changing, AJobThatWasCancelledDoesNotBegin) {
  const fs::path empty = temporary_.path() / "empty";
  fs::create_directories(empty);
  ServedCollection& collection = *served_->collections().front();
  JobOptions options;
  options.folders = {empty};
  options.finished = 10'000;
  Jobs jobs(options);
  std::atomic<int64_t> newest = 0;
  std::map<int64_t, int64_t> versions;  // of those that were cancelled, as the canceller was told
  std::jthread canceller([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto asked = jobs.cancel(newest);
      if (asked && asked->state == "cancelled") versions.emplace(asked->id, asked->version);
    }
  });
  for (int i = 0; i < 500; ++i) {
    newest = jobs.start(collection, "empty", false, false).value().id;
    while (!jobs.job(newest).value().ended()) std::this_thread::yield();
  }
  canceller.request_stop();
  canceller.join();
  EXPECT_GT(versions.size(), 0U);
  for (const auto& [id, version] : versions) EXPECT_EQ(jobs.job(id).value().version, version) << id;
}

TEST_F(Changing, PicturesAreTakenInAndOut) {
  const HttpResponse added = send(test::png(20), "a striped thing");
  ASSERT_EQ(added.status, 201) << added.body;
  const Json picture = json_of(added);
  EXPECT_EQ(picture["caption"], "a striped thing");
  EXPECT_EQ(header(added, "Location"), "/api/collections/my%20pictures/images/" + picture["id"].dump());
  EXPECT_EQ(items(), 7);
  const fs::path file = picture["path"].get<std::string>();
  EXPECT_EQ(file.parent_path(), fs::canonical(uploads_ / "my pictures"));
  EXPECT_EQ(file.filename().string(), picture["hash"].get<std::string>() + ".png");
  EXPECT_EQ(json_of(send(test::png(20)))["id"], picture["id"]);  // again: the same one
  EXPECT_EQ(items(), 7);

  EXPECT_EQ(send("no picture").status, 415);
  EXPECT_EQ(send(test::png(21).substr(0, 60)).status, 422);
  const HttpResponse nothing = send("");
  EXPECT_EQ(nothing.status, 400);
  EXPECT_THAT(json_of(nothing)["error"]["message"].get<std::string>(), HasSubstr("a file of 0 bytes"));
  EXPECT_EQ(post("/api/collections/my pictures/images", "{}").status, 400);
  EXPECT_EQ(std::distance(fs::directory_iterator(uploads_ / "my pictures"), fs::directory_iterator()), 1);

  EXPECT_EQ(take_out(picture["id"].get<int64_t>()).status, 204);
  EXPECT_EQ(items(), 6);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(take_out(picture["id"].get<int64_t>()).status, 404);
  // One of a folder of the user's: out of the collection, and its file stays.
  EXPECT_EQ(take_out(1).status, 204);
  EXPECT_TRUE(fs::exists(pictures_ / "p0.png"));
  EXPECT_EQ(items(), 5);
  EXPECT_EQ(get("/api/collections/my pictures/images/1").status, 404);
  // Uploading a removed image brings it back, whether its file exists or not.
  EXPECT_EQ(send(test::png(20)).status, 201);
  EXPECT_EQ(send(test::png(0)).status, 201);
  EXPECT_EQ(take_out(2).status, 204);
  fs::remove(pictures_ / "p1.png");
  EXPECT_EQ(send(test::png(1)).status, 201);
  EXPECT_EQ(items(), 7);
  // And what lies where it was stays out.
  add(7);
  ASSERT_TRUE(served_->collections().front()->follow());
  EXPECT_EQ(items(), 8);
}

TEST_F(Changing, AKeyThatMayChangeNothingIsOfferedNoChange) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(write_file_atomic(path, "read reader-0123456789\nwrite writer-0123456789 my%20pictures\n"));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  keys_ = Keys::read(path).value();
  service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, jobs_.get());
  const auto jobs_for = [&](const char* key) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/api/jobs";
    request.headers = {{"x-api-key", key}};
    return json_of(ask(request));
  };
  const Json reader = jobs_for("reader-0123456789");
  EXPECT_EQ(reader["folders"], Json::array());
  EXPECT_EQ(reader["takes_images"], false);
  const Json writer = jobs_for("writer-0123456789");
  EXPECT_EQ(writer["folders"], Json::array({"more", "more-2"}));
  EXPECT_EQ(writer["takes_images"], true);
}

// While a request waits for its turn, another collection may take the place, where the id is another image's.
TEST_F(Changing, AnIdIsTakenOutOfTheCollectionThatItWasReadFromAlone) {
  JobOptions options;
  options.uploads = uploads_;
  options.turn_seconds = 20;
  jobs_ = std::make_unique<Jobs>(options);
  service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, jobs_.get());
  const fs::path other = temporary_.path() / "another";
  {
    auto writer = CollectionWriter::create(other, test::fake_checkpoint());
    ASSERT_TRUE(writer) << writer.error().message;
    CollectionChange change;
    change.puts = {test::put_of("/another.jpg", 1)};
    ASSERT_TRUE(writer->commit(change));
  }
  HttpResponse refused;
  {
    std::unique_lock turn(served_->collections().front()->writing);
    const std::jthread asks([&] { refused = take_out(1); });
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    fs::rename(folder_, temporary_.path() / "before");
    fs::rename(other, folder_);
    turn.unlock();
  }
  EXPECT_EQ(refused.status, 404) << refused.body;
  const auto now = CollectionReader::open(folder_);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(now->item_count(), 1);
  EXPECT_TRUE(fs::exists(pictures_ / "p0.png"));
}

TEST_F(Changing, PicturesThatAreSentStayWithinABound) {
  JobOptions options;
  options.uploads = uploads_;
  // Existing uploads count towards the limit, and one of two images fits beside them.
  fs::create_directories(uploads_ / "others");
  test::write_text(uploads_ / "others" / "old", std::string(1000, 'x'));
  const auto larger = static_cast<int64_t>(std::max(test::png(20).size(), test::png(22).size()));
  options.uploads_bytes = 1000 + larger;
  jobs_ = std::make_unique<Jobs>(options);
  service_ = std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, jobs_.get());
  const HttpResponse first = send(test::png(20));
  ASSERT_EQ(first.status, 201) << first.body;
  EXPECT_EQ(send(test::png(20)).status, 201) << "it is there already";
  const HttpResponse refused = send(test::png(22));
  EXPECT_EQ(refused.status, 413) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("no room for an image"));
  EXPECT_EQ(std::distance(fs::directory_iterator(uploads_ / "my pictures"), fs::directory_iterator()), 1);
  EXPECT_EQ(take_out(json_of(first)["id"].get<int64_t>()).status, 204);
  EXPECT_EQ(send(test::png(22)).status, 201) << "there is room again";
}

TEST_F(Changing, OnlyThoseWhoMayWriteChangeAnything) {
  const fs::path path = temporary_.path() / "keys";
  ASSERT_TRUE(write_file_atomic(path, "reader-0123456789\nwrite writer-0123456789\n"));
  fs::permissions(path, fs::perms::owner_read);
  keys_ = Keys::read(path).value();
  const auto status = [&](const std::string& key, const std::string& method, const std::string& at) {
    HttpRequest request;
    request.method = method;
    request.path = at;
    request.body = R"({"folder": "more"})";
    if (!key.empty()) request.headers = {{"x-api-key", key}};
    const auto admitted = service_
                              ->admit([&] {
                                HttpRequest local = request;
                                local.headers.emplace_back("host", "localhost");
                                return local;
                              }())
                              .answer;
    const int handled = ask(request).status;
    EXPECT_EQ(admitted ? admitted->status : handled,
              handled);  // what is refused is so before the body is read
    return handled;
  };
  const std::string jobs = "/api/collections/my pictures/jobs";
  EXPECT_EQ(status("", "POST", jobs), 401);
  EXPECT_EQ(status("reader-0123456789", "POST", jobs), 403);
  EXPECT_EQ(status("reader-0123456789", "DELETE", "/api/collections/my pictures/images/1"), 403);
  EXPECT_EQ(status("reader-0123456789", "POST", "/api/collections/my pictures/images"), 403);
  EXPECT_EQ(status("reader-0123456789", "DELETE", "/api/jobs/1"), 403);
  EXPECT_EQ(status("reader-0123456789", "GET", "/api/jobs"), 200);
  EXPECT_EQ(status("writer-0123456789", "POST", jobs), 202);
}

TEST_F(Changing, PagesOfOtherSitesChangeNothing) {
  const auto status = [&](const std::vector<NamedValue>& headers) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/api/search";
    request.body = R"({"text": "red"})";
    request.headers = headers;
    return ask(request).status;
  };
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"origin", "http://localhost:7700"}}), 200);
  EXPECT_EQ(status({{"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status({{"origin", "http://localhost:77001"}}), 403);
  EXPECT_EQ(status({{"origin", "null"}}), 403);
  EXPECT_EQ(status({{"origin", "http://localhost:7700"}, {"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(status({{"sec-fetch-site", "same-origin"}}), 200);
}

TEST_F(Changing, WithoutFoldersAndUploadsNothingChanges) {
  make({});
  EXPECT_EQ(post("/api/collections/my pictures/jobs", R"({"folder": "more"})").status, 403);
  EXPECT_EQ(send(test::png(20)).status, 403);
  EXPECT_EQ(take_out(1).status, 403);
  EXPECT_EQ(json_of(get("/api/jobs"))["jobs"], Json::array());
  EXPECT_EQ(get("/api/jobs/1").status, 404);
}

TEST_F(Changing, ThumbnailsAreKeptWithinABoundAndInTheFormThatTheClientTakes) {
  const fs::path cache = temporary_.path() / "cache";
  const auto kept = Thumbnails::open(cache, 1 << 20).value();
  service_ =
      std::make_unique<Service>(ServiceOptions(), *served_, keys_, pool_, metrics_, nullptr, kept.get());
  const auto thumbnail = [&](const std::string& accept) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/api/collections/my pictures/images/7/thumbnail";
    request.query = {{"size", "100"}};
    request.headers = {{"accept", accept}};
    return ask(request);
  };
  // Large enough that it is no PNG in any case.
  Image large{.width = 300, .height = 200, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  for (int i = 0; i < 300 * 200 * 3; ++i) large.pixels.push_back(static_cast<uint8_t>((i * 7919) >> 5));
  test::write_text(pictures_ / "large.png", encode_png(large).value());
  add(6);
  ASSERT_TRUE(served_->collections().front()->follow());
  int64_t id = 0;
  const Json list = json_of(get("/api/collections/my pictures/images?k=20"));
  for (const Json& picture : list["images"]) {
    if (picture["width"] == 300) id = picture["id"].get<int64_t>();
  }
  ASSERT_EQ(id, 7);
  const HttpResponse jpeg = thumbnail("*/*");
  ASSERT_EQ(jpeg.status, 200) << jpeg.body;
  EXPECT_EQ(jpeg.content_type, "image/jpeg");
  const HttpResponse webp = thumbnail("image/avif,image/webp,*/*;q=0.8");
  EXPECT_EQ(webp.content_type, "image/webp");
  EXPECT_THAT(webp.body, HasSubstr("WEBPVP8"));
  EXPECT_EQ(header(webp, "Vary"), "Accept");
  EXPECT_NE(header(webp, "ETag"), header(jpeg, "ETag"));
  EXPECT_EQ(kept->bytes(), std::ssize(jpeg.body) + std::ssize(webp.body));
  const auto decoded = decode_image(std::as_bytes(std::span(webp.body)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->image.width, 100);
  // From the disk the second time: what lies there is what is answered.
  for (const auto& file : fs::recursive_directory_iterator(cache)) {
    if (file.is_regular_file()) test::write_text(file.path(), "kept");
  }
  EXPECT_EQ(thumbnail("image/webp").body, "kept");
  EXPECT_EQ(thumbnail("*/*").body, "kept");
  EXPECT_THAT(get("/metrics").body, HasSubstr("saccade_events_total{event=\"thumbnail kept\"} 2\n"));
  // A changed file is another picture.
  fs::last_write_time(pictures_ / "large.png", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(thumbnail("*/*").body, jpeg.body);
}

TEST(Thumbnails, TheLeastRecentlyAskedForGoFirst) {
  const test::TestFolder folder;
  auto kept = Thumbnails::open(folder.path() / "a" / "b", 10'000).value();
  const auto key = [](int i) { return std::string(62, '0') + std::to_string(10 + i); };
  for (int i = 0; i < 9; ++i) {
    kept->keep(key(i), {std::string(1000, static_cast<char>('a' + i)), "image/jpeg", ""});
    std::error_code error;
    const fs::path path = folder.path() / "a" / "b" / "00" / (key(i).substr(2) + ".jpg");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(20 - i), error);
    EXPECT_FALSE(error);
  }
  EXPECT_EQ(kept->bytes(), 9000);
  EXPECT_EQ(kept->find(key(0))->bytes, std::string(1000, 'a'));  // used now
  kept->keep(key(9), {std::string(1000, 'x'), "image/webp", ""});
  kept->keep(key(10), {std::string(1000, 'y'), "image/png", ""});
  EXPECT_LE(kept->bytes(), 9000);
  EXPECT_TRUE(kept->find(key(0)));
  EXPECT_FALSE(kept->find(key(1)));
  EXPECT_FALSE(kept->find(key(2)));
  EXPECT_TRUE(kept->find(key(3)));
  EXPECT_EQ(kept->find(key(10))->type, "image/png");
  kept->keep(key(11), {std::string(5000, 'z'), "image/png", ""});  // more than a tenth of all
  EXPECT_FALSE(kept->find(key(11)));
  // Another server finds what is there, and looks at nothing else.
  test::write_text(folder.path() / "a" / "b" / "notes.txt", std::string(50'000, 'n'));
  EXPECT_EQ(Thumbnails::open(folder.path() / "a" / "b", 10'000).value()->bytes(), kept->bytes());
  EXPECT_EQ(Thumbnails::open("/proc/none", 10'000).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace saccade::serve

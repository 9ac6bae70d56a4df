// Tests that the server sends the file that was indexed, even if a link has replaced it.
#include "saccade/serve/files/indexed_files.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/hash.h"
#include "saccade/image/frame_name.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class IndexedFilesTest : public testing::Test {
 protected:
  // The item of a file that has this content.
  static Item item_of(const fs::path& path, const std::string& content) {
    Item item;
    item.path = path.string();
    item.size = std::ssize(content);
    item.hash = sha256_hex(content);
    return item;
  }
  Result<std::string> read(const Item& item) {
    SACCADE_ASSIGN(const OpenFile open, files_.open(item));
    return read_open_file(open, 1 << 20);
  }

  test::TestFolder temporary_;
  fs::path folder_ = fs::canonical(temporary_.path());
  IndexedFiles files_;
};

TEST_F(IndexedFilesTest, OpensAFileThatHasChangedButNoLinkToOtherContent) {
  test::write_text(folder_ / "a.png", "indexed");
  test::write_text(folder_ / "secret", "secrets");
  const Item item = item_of(folder_ / "a.png", "indexed");
  EXPECT_EQ(read(item).value_or(""), "indexed");
  test::write_text(folder_ / "a.png", "edited since");
  EXPECT_EQ(read(item).value_or(""), "edited since");
  fs::remove(folder_ / "a.png");
  fs::create_symlink(folder_ / "secret", folder_ / "a.png");
  const auto refused = read(item);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("through a link"));
  fs::remove(folder_ / "a.png");
  EXPECT_EQ(read(item).error().code, ErrorCode::kNotFound);
  fs::create_directory(folder_ / "a.png");
  EXPECT_EQ(read(item).error().code, ErrorCode::kNotFound);
}

TEST_F(IndexedFilesTest, OpensLinksThatWereIndexedWhileTheirContentIsTheSame) {
  fs::create_directory(folder_ / "real");
  test::write_text(folder_ / "real" / "a.png", "indexed");
  fs::create_symlink(folder_ / "real" / "a.png", folder_ / "file.png");
  fs::create_directory_symlink(folder_ / "real", folder_ / "linked");
  const Item by_file = item_of(folder_ / "file.png", "indexed");
  const Item by_folder = item_of(folder_ / "linked" / "a.png", "indexed");
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));  // until it is remembered what was compared
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(read(by_file).value_or(""), "indexed");
    EXPECT_EQ(read(by_folder).value_or(""), "indexed");
  }
  // The replacement has the size and the time of the indexed file.
  const auto time = fs::last_write_time(folder_ / "real" / "a.png");
  test::write_text(folder_ / "real" / "a.png", "another");
  fs::last_write_time(folder_ / "real" / "a.png", time);
  EXPECT_FALSE(read(by_file));
  EXPECT_FALSE(read(by_folder));
}

TEST_F(IndexedFilesTest, AFrameIsItsVideosContent) {
  test::write_text(folder_ / "real.mp4", "video");
  fs::create_symlink(folder_ / "real.mp4", folder_ / "clip.mp4");
  Item frame = item_of(folder_ / "clip.mp4", "video");
  frame.path = frame_name(frame.path, 1500);
  frame.hash += frame_fragment(1500);
  EXPECT_EQ(read(frame).value_or(""), "video");
}

class LinkedFiles : public ServingTest {};

TEST_F(LinkedFiles, AreNotSentInAnIndexedFilesPlace) {
  const std::string at = "/api/collections/my pictures/images/1/";
  EXPECT_EQ(get(at + "file").status, 200);
  test::write_text(temporary_.path() / "secret", "of the server's user alone");
  fs::remove(pictures_ / "p0.png");
  fs::create_symlink(temporary_.path() / "secret", pictures_ / "p0.png");
  for (const char* what : {"file", "thumbnail"}) {
    const HttpResponse refused = get(at + what);
    EXPECT_EQ(refused.status, 404) << what << refused.body;
  }
  // Moved away with a link left behind: the same content as ever.
  fs::remove(pictures_ / "p0.png");
  test::write_text(temporary_.path() / "moved.png", test::png(0));
  fs::create_symlink(temporary_.path() / "moved.png", pictures_ / "p0.png");
  EXPECT_EQ(get(at + "file").status, 200);
  EXPECT_EQ(get(at + "thumbnail").status, 200);
}

class CutCatalog : public ServingTest {};

TEST_F(CutCatalog, IsUnavailableUntilItIsWholeAgain) {
  served_.reset();  // nothing follows meanwhile
  ServedOptions options;
  options.collections = {folder_};
  options.follow_seconds = 3600;
  served_ = Served::open(options).value();
  make({});
  const std::string catalog = read_file(folder_ / "catalog.sqlite").value();
  fs::resize_file(folder_ / "catalog.sqlite", 0);
  for (const char* path : {"/api/search?q=red", "/api/collections/my pictures", "/api/collections", "/readyz",
                           "/api/collections/my pictures/images", "/api/collections/my pictures/images/1",
                           "/api/collections/my pictures/facets"}) {
    const HttpResponse response = get(path);
    EXPECT_EQ(response.status, 503) << path << response.body;
    EXPECT_EQ(header(response, "Retry-After"), "1") << path;
  }
  EXPECT_THAT(get("/api/search?q=red").body, HasSubstr("catalog.sqlite"));
  EXPECT_EQ(get("/healthz").status, 200);
  test::write_text(folder_ / "catalog.sqlite", catalog);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/api/search?q=red").status, 200);
}

class ImportedWithoutFiles : public ServingTest {};

TEST_F(ImportedWithoutFiles, ImagesAreFoundAndTheServerSaysThatTheirFilesAreNotHere) {
  // A file is there all the same: it was never indexed, and is not sent.
  const std::string path = (temporary_.path() / "never.png").string();
  saccade::test::write_text(path, saccade::test::png(9));
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_TRUE(writer) << writer.error().message;
    CollectionChange change;
    change.puts.emplace_back();
    auto& put = change.puts.back();
    put.item.path = path;
    put.item.size = put.item.mtime_ns = kUnknownState;
    put.item.file.elsewhere = true;
    put.values = saccade::test::unit_row(1, writer->info().checkpoint.dim);
    const Status committed = writer->commit(change);
    ASSERT_TRUE(committed) << committed.error().message;
  }
  ServedOptions options;
  options.collections = {folder_};
  served_ = Served::open(options).value();
  make({});
  const Json found = json_of(get("/api/search?q=red&k=10"));
  ASSERT_EQ(found["hits"].size(), 7U);
  int without = 0;
  for (const Json& hit : found["hits"]) {
    const bool here = hit["id"] != 7;
    EXPECT_EQ(hit["file_here"], here) << hit;
    EXPECT_EQ(hit["date"].is_null(), !here) << hit;
    without += here ? 0 : 1;
  }
  EXPECT_EQ(without, 1);
  const Json facts = json_of(get("/api/collections/my pictures/images/7"));
  EXPECT_EQ(facts["file_here"], false);
  EXPECT_TRUE(facts["bytes"].is_null() && facts["modified"].is_null() && facts["date"].is_null()) << facts;
  EXPECT_EQ(facts["width"], 0);
  for (const char* part : {"file", "thumbnail"}) {
    const HttpResponse response = get(std::string("/api/collections/my pictures/images/7/") + part);
    EXPECT_EQ(response.status, 404) << part;
    EXPECT_THAT(response.body, HasSubstr("not on this host")) << part;
    EXPECT_EQ(get(std::string("/api/collections/my pictures/images/1/") + part).status, 200) << part;
  }
  EXPECT_EQ(json_of(get("/api/collections/my pictures/images"))["total"], 7);
  EXPECT_EQ(json_of(get("/api/collections/my pictures/images?filter=width>0"))["total"], 6);
}

}  // namespace
}  // namespace saccade::serve

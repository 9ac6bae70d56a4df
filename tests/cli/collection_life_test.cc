// Tests of a collection over weeks of use: image metadata, files that are not indexed, duplicates, and
// folders that change while they are watched.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/json.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/image_codec.h"
#include "saccade/matrix.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

class Life : public ProgramTest {
 protected:
  void tag(const fs::path& picture, std::vector<std::string> tags) const {
    const auto exiftool = find_program("exiftool");
    ASSERT_TRUE(exiftool) << "libimage-exiftool-perl";
    tags.insert(tags.begin(), {"-q", "-m", "-overwrite_original"});
    tags.push_back(picture.string());
    const auto ran = run_limited(*exiftool, tags, {});
    ASSERT_TRUE(ran && ran->code == 0);
  }
  // Returns the tests' photographs by name, as pixels.
  static std::map<std::string, Image> photographs() {
    std::map<std::string, Image> pictures;
    for (const auto& entry : fs::directory_iterator(fs::path(kSourceDir) / "tests/golden/clip_photographs")) {
      if (entry.path().extension() != ".jpg") continue;
      pictures[entry.path().stem().string()] = decode_image_file(entry.path())->image;
    }
    return pictures;
  }
  void save(const std::string& name, const Image& image, int quality = 92) const {
    write(name, encode_jpeg(image, quality).value());
  }
};

// The commands of docs/collections.md, again and again while a collection is filled: each copy is whole.
TEST_F(Life, ABackupIsWholeWhileImagesAreIndexed) {
  const auto page = read_file(fs::path(kSourceDir) / "docs/collections.md");
  ASSERT_TRUE(page);
  const size_t begin = page->find("mkdir backup\n");
  const size_t end = page->find("saccade collection verify", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string commands = page->substr(begin, end - begin);
  ASSERT_THAT(commands, HasSubstr("sqlite3 photos/catalog.sqlite"));
  const auto backed_up = [&](int number) {
    std::string script = commands;
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"photos/", "c/"},
                                   {" backup", fmt::format(" backup-{}", number)}}) {
      for (size_t at = script.find(from); at != std::string::npos; at = script.find(from, at + to.size()))
        script.replace(at, from.size(), to);
    }
    // The last command copies what may not be there.
    script = fmt::format("cd '{}' && set -e\n{}", folder_.path().string(), script);
    const size_t last = script.rfind("cp ");
    script.insert(last, "set +e\n");
    const auto ran = run_limited("/bin/sh", std::vector<std::string>{"-c", script}, {});
    return ran && fs::exists(folder_ / fmt::format("backup-{}/collection.json", number));
  };
  for (int i = 0; i < 400; ++i) picture(fmt::format("pictures/{}.png", i), i % 250, 20, 250 - i % 250);
  RunOptions options;
  int backups = 0;
  options.stop_when = [&](std::string_view) {
    if (backups < 8 && fs::exists(folder_ / "c/collection.json") && backed_up(backups)) ++backups;
    return false;
  };
  const Outcome indexed = run({"index", "pictures", "-c", "c", "-m", "model"}, options);
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  ASSERT_TRUE(backed_up(backups++));
  ASSERT_GE(backups, 2) << "none was made while images were indexed";
  int64_t before = 0;
  for (int i = 0; i < backups; ++i) {
    const std::string name = fmt::format("backup-{}", i);
    const Outcome verified = run({"collection", "verify", "-c", name});
    EXPECT_EQ(verified.code, 0) << name << ": " << verified.out << verified.err;
    const Json info = json_of(run({"collection", "info", "-c", name, "--json"}));
    EXPECT_GE(info["items"].get<int64_t>(), before) << name;
    before = info["items"].get<int64_t>();
  }
  EXPECT_EQ(before, 400);
  // Put back in the collection's place it is searched, and the next run reads nothing again.
  fs::remove_all(folder_ / "c");
  fs::rename(folder_ / fmt::format("backup-{}", backups - 1), folder_ / "c");
  EXPECT_EQ(run({"search", "-c", "c", "a"}).code, 0);
  const Outcome again = run({"index", "pictures", "-c", "c"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("400  unchanged"));
}

TEST_F(Life, FiltersAskForWhatFilesSay) {
  picture("pictures/red.png", 200, 20, 20);
  const Image grey{32, 32, 3, PixelMode::kRgb, std::vector<uint8_t>(32 * 32 * 3, 128)};
  save("pictures/tower.jpg", grey);
  tag(folder_ / "pictures/tower.jpg",
      {"-Make=Canon", "-Model=Canon EOS R5", "-DateTimeOriginal=2019:07:14 21:30:00",
       "-OffsetTimeOriginal=+02:00", "-GPSLatitude=48.8583", "-GPSLatitudeRef=N", "-GPSLongitude=2.2945",
       "-GPSLongitudeRef=E", "-XMP-xmp:Rating=5", "-XMP-dc:Title=Fireworks", "-XMP-dc:Subject=Paris",
       "-XMP-dc:Subject=night"});
  const Outcome indexed = run({"index", "pictures", "-c", "c", "-m", "model"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  EXPECT_THAT(indexed.out, HasSubstr("encoder: model, as named"));
  const auto found = [&](const std::string& filter) {
    const Json json = json_of(run({"search", "-c", "c", "a", "--json", "--filter", filter}));
    std::set<std::string> names;
    for (const Json& hit : json["hits"])
      names.insert(fs::path(hit["path"].get<std::string>()).filename().string());
    return names;
  };
  const std::set<std::string> tower = {"tower.jpg"};
  for (const char* filter :
       {"camera~canon", "taken=2019-07-14", "date=2019", "rating>=4", "keyword=paris", "title~fire",
        "latitude>48 and longitude<3", "path~TOWER", "format=jpg", "caption~night"}) {
    EXPECT_EQ(found(filter), tower) << filter;
  }
  EXPECT_EQ(found("rating=0"), std::set<std::string>{"red.png"});
  // Hits contain it too: in JSON, for scripts and for people. They are sorted by capture date, the newest
  // first.
  fs::last_write_time(folder_ / "pictures/red.png",
                      fs::file_time_type::clock::now() - std::chrono::hours(24 * 365 * 10));
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  const Json json = json_of(run({"search", "-c", "c", "a", "--json", "--order", "date"}));
  const Json& facts = json["hits"][0]["metadata"];
  EXPECT_EQ(facts["taken"], "2019-07-14T21:30:00") << json;
  EXPECT_EQ(facts["zone_minutes"], 120);
  EXPECT_EQ(facts["camera"], "Canon EOS R5");
  EXPECT_NEAR(facts["latitude"].get<double>(), 48.8583, 1e-4);
  EXPECT_EQ(facts["rating"], 5);
  EXPECT_EQ(facts["keywords"], (Json{"Paris", "night"}));
  EXPECT_EQ(json["hits"][1]["metadata"], Json::object());
  EXPECT_EQ(run({"search", "-c", "c", "a", "--order", "date", "--format",
                 "{taken}|{camera}|{rating}|{title}|{keywords}|{lens}"})
                .out,
            "2019-07-14T21:30:00|Canon EOS R5|5|Fireworks|Paris, night|\n|||||\n");
  EXPECT_THAT(run({"search", "-c", "c", "a"}).out, HasSubstr("{2019-07-14 21:30, "));
  // If the date is used, each hit says which of the two dates it is.
  EXPECT_EQ(run({"search", "-c", "c", "a", "--order", "date", "--format", "{dated_by} "}).out,
            "taken \nfile \n");
  const std::string by_date = run({"search", "-c", "c", "a", "--order", "date"}).out;
  EXPECT_THAT(by_date, HasSubstr("{taken 2019-07-14 21:30, "));
  EXPECT_THAT(by_date, HasSubstr("{file 20"));
  EXPECT_THAT(run({"search", "-c", "c", "a", "--filter", "date=2019"}).out, HasSubstr("{taken 2019-07-14"));
  // Shows the nearest town, if the list of towns was made.
  const Outcome near = run({"search", "-c", "c", "a", "--paths", "--filter", "place~Paris"});
  if (fs::exists(fs::path(kSourceDir) / "build/places/towns.tsv")) {
    EXPECT_THAT(near.out, HasSubstr("tower.jpg"));
  } else {
    EXPECT_THAT(near.err, HasSubstr("no list of towns is installed"));
  }
  // A filter that cannot match says why, and lists the existing values.
  EXPECT_THAT(run({"search", "-c", "c", "a", "--filter", "camera~leica and width>1"}).err,
              HasSubstr("--filter: no image meets camera~leica (values here: \"Canon EOS R5\" (1))"));
  expect_failure({"search", "-c", "c", "a", "--filter", "width>"}, 2,
                 {"--filter: column 7: expected a value"});
}

// A caption that came from a file's own metadata goes with that content, also if the new content is that of another
// image of the collection.
TEST_F(Life, EmbeddedCaptionsGoWithTheContentThatTheyCameFrom) {
  const auto photograph = [&](const std::string& name, uint8_t grey, const std::string& description) {
    save(name, {32, 32, 3, PixelMode::kRgb, std::vector<uint8_t>(32 * 32 * 3, grey)});
    if (!description.empty()) tag(folder_ / name, {"-ImageDescription=" + description});
  };
  photograph("pictures/a.jpg", 40, "a tower at dusk");
  photograph("pictures/b.jpg", 120, "a clock in fog");
  photograph("pictures/c.jpg", 200, "");
  ASSERT_EQ(run({"index", "pictures", "-c", "c", "-m", "model"}).code, 0);
  const auto caption = [&](const std::string& name) {
    return run({"search", "-c", "c", "--filter", "path~" + name, "--format", "{caption}"}).out;
  };
  EXPECT_EQ(caption("a.jpg"), "a tower at dusk\n");
  // The content of b comes in a's place, and that of c in b's.
  fs::rename(folder_ / "pictures/b.jpg", folder_ / "pictures/a.jpg");
  fs::copy_file(folder_ / "pictures/c.jpg", folder_ / "pictures/b.jpg");
  EXPECT_EQ(json_of(run({"index", "pictures", "-c", "c", "--json"}))["updated"], 2);
  EXPECT_EQ(caption("a.jpg"), "a clock in fog\n");
  EXPECT_EQ(caption("b.jpg"), "\n");
  // Content that is new, without metadata to be read.
  photograph("pictures/a.jpg", 90, "a bridge");
  EXPECT_EQ(json_of(run({"index", "pictures", "-c", "c", "--no-metadata", "--json"}))["updated"], 1);
  EXPECT_EQ(caption("a.jpg"), "\n");
  // A caption from beside the image stays with its path.
  write("pictures/c.txt", "a lamp");
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  fs::remove(folder_ / "pictures/c.txt");
  fs::copy_file(folder_ / "pictures/a.jpg", folder_ / "pictures/c.jpg", fs::copy_options::overwrite_existing);
  EXPECT_EQ(json_of(run({"index", "pictures", "-c", "c", "--json"}))["updated"], 1);
  EXPECT_EQ(caption("c.jpg"), "a lamp\n");
  // So does one whose file cannot be read any more.
  write("pictures/c.txt", std::string((64 << 10) + 1, 'x'));
  EXPECT_THAT(run({"index", "pictures", "-c", "c"}).out,
              HasSubstr("1  caption files not read; the captions of their images are unchanged:\n"));
  EXPECT_EQ(caption("c.jpg"), "a lamp\n");
}

TEST_F(Life, RawFilesComeInAndAreShownOnceWithTheirJpegs) {
  const fs::path fixtures = fs::path(kSourceDir) / "tests/data/raw";
  picture("pictures/green.png", 20, 200, 20);
  fs::copy_file(fixtures / "preview.dng", folder_ / "pictures/IMG_1.DNG");
  save("pictures/IMG_1.jpg", decode_image_file(fixtures / "preview.jpg")->image, 30);
  const Outcome indexed = run({"index", "pictures", "-c", "c", "-m", "model"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  if (!reads_raw_files()) {
    EXPECT_THAT(indexed.out, HasSubstr("1 .dng (RAW photographs: this build has no LibRaw)"));
    return;
  }
  EXPECT_THAT(indexed.out, HasSubstr("3  added"));
  const Json json = json_of(run({"search", "-c", "c", "a", "--json"}));
  ASSERT_EQ(json["hits"].size(), 2U) << json;
  const Json& pair = json["hits"][json["hits"][0]["near_duplicates"].empty() ? 1 : 0];
  ASSERT_EQ(pair["near_duplicates"].size(), 1U);
  EXPECT_THAT(pair["path"].get<std::string>(), testing::EndsWith("IMG_1.jpg"));
  EXPECT_EQ(json_of(run({"search", "-c", "c", "a", "--json", "--no-group-duplicates"}))["hits"].size(), 3U);
  const Json raw = json_of(run({"search", "-c", "c", "a", "--json", "--filter", "format=raw"}));
  ASSERT_EQ(raw["hits"].size(), 1U);
  EXPECT_EQ(raw["hits"][0]["width"], 240);
  EXPECT_EQ(raw["hits"][0]["metadata"]["camera"], "Saccade Sensor of the tests");
  // No image of a burst is suggested for deletion.
  const std::vector<std::string> bursts = {"collection",     "duplicates", "-c",    "c",
                                           "--min-likeness", "burst",      "--json"};
  EXPECT_EQ(json_of(run(bursts))["groups"], Json::array());
  std::vector<std::string> earlier = {"collection", "duplicates", "-c", "c", "--least", "picture", "--json"};
  const Json groups = json_of(run(earlier))["groups"];
  earlier[4] = "--min-likeness";
  earlier[5] = "image";
  EXPECT_EQ(json_of(run(earlier))["groups"], groups);
}

TEST_F(Life, VideosComeInBySceneAndHitsSayTheSecond) {
  const auto ffmpeg = find_program("ffmpeg");
  if (!ffmpeg || !find_program("ffprobe")) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
  picture("pictures/green.png", 20, 200, 20);
  fs::create_directories(folder_ / "films");
  const std::string film = (folder_ / "films/two scenes.mp4").string();
  const auto made =
      run_limited(*ffmpeg,
                  std::vector<std::string>{
                      "-nostdin", "-v", "error", "-f", "lavfi", "-i", "color=red:s=96x64:d=62:r=5", "-f",
                      "lavfi", "-i", "smptebars=s=96x64:d=4:r=5", "-filter_complex", "[0][1]concat=n=2:v=1",
                      "-c:v", "mpeg4", "-metadata", "creation_time=2019-07-14T21:30:05Z", film},
                  {.memory_bytes = int64_t{8} << 30});
  ASSERT_TRUE(made && made->code == 0);
  write("films/broken.mkv", "no video");
  const Outcome indexed =
      run({"index", "pictures", "films", "-c", "c", "-m", "model", "--video-seconds", "100"});
  EXPECT_EQ(indexed.code, 3) << indexed.err;
  EXPECT_THAT(indexed.out, HasSubstr("3  added"));
  EXPECT_THAT(indexed.out, HasSubstr("1  video looked into"));
  EXPECT_THAT(indexed.out, HasSubstr("broken.mkv: no video that ffprobe reads: "));
  const Json again = json_of(run({"index", "pictures", "films", "-c", "c", "--json"}));
  EXPECT_EQ(again["unchanged"], 3);
  EXPECT_EQ(again["skipped_failed"], 1);
  EXPECT_EQ(again["videos"], 0);
  EXPECT_EQ(again["encoder_used"], false);

  const std::vector<std::string> late = {"search",   "-c",          "c", "a", "--no-group-duplicates",
                                         "--filter", "format=video"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), late.begin(), late.end());
    return run(more);
  };
  EXPECT_THAT(with({}).out, HasSubstr("films/two scenes.mp4 at 1:02  {2019-07-14 21:30}"));
  const Json json = json_of(with({"--json"}));
  ASSERT_EQ(json["hits"].size(), 2U);
  std::set<double> seconds;
  for (const Json& hit : json["hits"]) {
    EXPECT_EQ(hit["path"], film);
    EXPECT_EQ(hit["width"], 96);
    seconds.insert(hit["second"].get<double>());
  }
  EXPECT_EQ(seconds, (std::set<double>{0, 62}));
  const Outcome formatted = with({"--format", "{name} {second}|"});
  EXPECT_THAT(formatted.out, HasSubstr("two scenes.mp4 62.000|"));
  EXPECT_EQ(with({"--paths"}).out, film + "\n" + film + "\n");
  // A hit's picture can be asked for again, and shown.
  for (const char* second : {"#t=62.000", "#t=62"}) {
    const Json frame =
        json_of(run({"search", "-c", "c", "--image", film + second, "--no-group-duplicates", "--json"}));
    EXPECT_EQ(frame["hits"][0]["second"], 62.0);
    EXPECT_GT(frame["hits"][0]["score"], 0.999);
  }
  ASSERT_EQ(with({"--html", "page.html"}).code, 0);
  const std::string page = read_file(folder_ / "page.html").value();
  EXPECT_THAT(page, HasSubstr("two%20scenes.mp4#t=62.000\""));
  EXPECT_THAT(page, HasSubstr("two scenes.mp4 at 1:02"));
  EXPECT_THAT(page, HasSubstr("data:image/jpeg;base64,"));
  EXPECT_EQ(json_of(run({"collection", "verify", "-c", "c", "--deep", "--json"}))["ok"], true);
  // A removed video loses all its embeddings. Without a video reader, existing ones stay.
  const std::string nothing = (folder_ / "nothing").string();
  fs::create_directories(nothing);
  const Outcome without = run({"index", "films", "-c", "c", "--prune"}, {.environment = {"PATH=" + nothing}});
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.out,
              HasSubstr("1 .mkv, 1 .mp4 (videos are read by ffmpeg and ffprobe, which are not here: "
                        "install ffmpeg)"));
  EXPECT_THAT(without.out, Not(HasSubstr("removed")));
  EXPECT_EQ(json_of(run({"collection", "remove", "-c", "c", "films", "--json"}))["removed"], 2);
  EXPECT_EQ(json_of(run({"index", "films", "-c", "c", "--json"}))["stayed_out"], 1);
}

// A mistyped path makes nothing, and nothing is said to be made.
TEST_F(Life, IndexDoesNotPruneWhereADiskMayBeAway) {
  make_collection();
  fs::rename(folder_ / "pictures", folder_ / "away");
  fs::create_directories(folder_ / "pictures");
  const Outcome refused = run({"index", "pictures", "-c", "c", "--prune"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, HasSubstr("empty (not mounted?): 4 images below it kept"));
  EXPECT_THAT(refused.out, HasSubstr("4  kept although the file is gone\n"));
  EXPECT_THAT(refused.out, HasSubstr("--prune=force removes them"));
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["items"], 4);
  EXPECT_THAT(run({"index", "pictures", "-c", "c"}).out,
              HasSubstr("4  kept although the file is gone (saccade index --prune removes them)\n"));
  fs::remove(folder_ / "pictures");
  EXPECT_EQ(run({"index", "pictures", "-c", "c", "--prune"}).code, 3);
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["items"], 4);
  expect_failure({"index", "pictures", "-c", "c", "--prune=yes"}, 2, {"--prune"});
  const Outcome forced = run({"index", "pictures", "-c", "c", "--prune=force", "--json"});
  EXPECT_EQ(json_of(forced)["removed"], 4);
  EXPECT_THAT(forced.err, Not(HasSubstr("no images in")));
}

TEST_F(Life, IndexOfNothingSaysOneThing) {
  expect_failure({"index", "nowhere", "-m", "model"}, 1, {"nowhere", "no such file or folder"});
  EXPECT_FALSE(fs::exists(folder_ / ".saccade"));
}

TEST_F(Life, IndexSaysWhatItDidNotLookAtAndLoadsNothingWithoutNews) {
  picture("pictures/a.png", 200, 20, 20);
  picture("pictures/drafts/b.png", 20, 200, 20);
  write("pictures/song.OGG", "sound");
  write("pictures/a.txt", "a caption");
  write("pictures/a.png.txt", "another");
  write("pictures/.saccadeignore", "drafts/\n");
  fs::create_directory_symlink(folder_ / "pictures/drafts", folder_ / "pictures/link");
  const Outcome first = run({"index", "pictures", "-c", "c", "-m", "model"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("1  added"));
  EXPECT_THAT(first.out, HasSubstr("not looked at: 1 .ogg, 1 folder link (--follow-links), 1 excluded"));
  // This works even if the checkpoint no longer exists.
  fs::rename(folder_ / "model", folder_ / "elsewhere");
  const Outcome again = run({"index", "pictures", "-c", "c", "-m", "elsewhere", "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json_of(again)["encoder_used"], false);
  EXPECT_FALSE(json_of(again).contains("encoder"));
  // Once told the checkpoint's new location, the collection stores it.
  ASSERT_EQ(run({"search", "-c", "c", "-m", "elsewhere", "a"}).code, 0);
  const Outcome remembered = run({"search", "-c", "c", "a"});
  EXPECT_EQ(remembered.code, 0) << remembered.err;
}

// A folder above other collections: these are named, not counted file by file; images beside them are
// indexed.
TEST_F(Life, IndexNamesTheCollectionsThatItMeets) {
  make_collection();
  fs::create_directory(folder_ / "all");
  fs::rename(folder_ / "c", folder_ / "all/c");
  fs::rename(folder_ / "pictures", folder_ / "all/pictures");
  picture("all/c/beside.png", 200, 200, 20);
  write("all/theirs/collection.json", "{}");  // somebody else's
  write("all/theirs/song.ogg", "sound");
  const Outcome first = run({"index", "all", "-c", "all/d", "-m", "model"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("5  added"));
  const std::string found = fs::canonical(folder_.path() / "all/c").string();
  EXPECT_THAT(first.out, HasSubstr("  not looked at: 1 .json, 1 .ogg, the files of 1 other collection (" +
                                   found + ")\n"));
  const Json again = json_of(run({"index", "all", "-c", "all/d", "--json"}));
  EXPECT_EQ(again["not_looked_at"]["collections"], Json({found}));
  EXPECT_EQ(again["not_looked_at"]["endings"], Json({{".json", 1}, {".ogg", 1}}));
}

TEST_F(Life, RemovedPicturesStayOutUntilForgotten) {
  make_collection();
  const Outcome removed = run({"collection", "remove", "-c", "c", "pictures/red.png"});
  EXPECT_EQ(removed.code, 0) << removed.err;
  EXPECT_EQ(
      removed.out,
      "1 image removed from the collection; index leaves it out from now on (--forget allows it again), and "
      "the files were not touched\n");
  const Outcome gone = run({"collection", "remove", "-c", "c", "pictures/red.png", "--json"});
  EXPECT_EQ(gone.code, 3);
  EXPECT_EQ(json_of(gone)["removed"], 0);
  EXPECT_EQ(gone.err, "saccade: warning: pictures/red.png is not in the collection\n");
  const Json after = json_of(run({"index", "pictures", "-c", "c", "--json"}));
  EXPECT_EQ(after["added"], 0);
  EXPECT_EQ(after["stayed_out"], 1);
  EXPECT_EQ(json_of(run({"collection", "remove", "-c", "c", "--forget", "pictures", "--json"}))["forgotten"],
            1);
  EXPECT_EQ(run({"collection", "remove", "-c", "c", "--forget", "pictures"}).code, 3);
  ASSERT_EQ(run({"collection", "remove", "-c", "c", "pictures/blue.png", "pictures/green.png"}).code, 0);
  EXPECT_EQ(run({"collection", "remove", "-c", "c", "--forget", "pictures"}).out,
            "2 images allowed again: the next saccade index adds them\n");
  EXPECT_EQ(json_of(run({"index", "pictures", "-c", "c", "--json"}))["added"], 3);
  expect_failure({"collection", "remove", "-c", "c", "--forget", "--id", "1"}, 2,
                 {"--forget takes the PATHs"});
}

// Tests half sizes, other qualities, brighter and cropped versions with the starter's embeddings. Nearly
// every copy is found, and no two different photographs or drawings are taken as duplicates.
TEST_F(Life, DuplicatesOfPhotographsWithTheStarter) {
  const std::string starter = (fs::path(kSourceDir) / "models/starter").string();
  for (const auto& photograph : photographs()) {
    const std::string& name = photograph.first;
    const Image& image = photograph.second;
    save("p/" + name + "_original.jpg", image);
    save("p/" + name + "_recompressed.jpg", image, 40);
    Image half{image.width / 2, image.height / 2, 3, PixelMode::kRgb, {}};
    Image bright = image;
    const int mx = image.width * 25 / 1000;
    const int my = image.height * 25 / 1000;
    Image cropped{image.width - 2 * mx, image.height - 2 * my, 3, PixelMode::kRgb, {}};
    const auto at = [&](int x, int y, int c) {
      return image
          .pixels[(static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) * 3 +
                  static_cast<size_t>(c)];
    };
    for (int y = 0; y < half.height; ++y) {
      for (int x = 0; x < half.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          half.pixels.push_back(static_cast<uint8_t>((at(2 * x, 2 * y, c) + at(2 * x + 1, 2 * y, c) +
                                                      at(2 * x, 2 * y + 1, c) + at(2 * x + 1, 2 * y + 1, c)) /
                                                     4));
        }
      }
    }
    for (int y = 0; y < cropped.height; ++y) {
      for (int x = 0; x < cropped.width; ++x) {
        for (int c = 0; c < 3; ++c) cropped.pixels.push_back(at(x + mx, y + my, c));
      }
    }
    for (uint8_t& value : bright.pixels) value = static_cast<uint8_t>(std::min(255, value * 12 / 10));
    save("p/" + name + "_scaled.jpg", half);
    save("p/" + name + "_cropped.jpg", cropped);
    save("p/" + name + "_bright.jpg", bright);
    fs::copy_file(folder_ / ("p/" + name + "_original.jpg"), folder_ / ("p/" + name + "_copy.jpg"));
  }
  for (int i = 0; i < 12; ++i) picture(fmt::format("p/drawing{}.png", i), 20 * i, 255 - 20 * i, i * 50 % 256);
  const Outcome indexed = run({"index", "p", "-c", "c", "-m", starter});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  // Most are photographs, on which the starter was not trained.
  EXPECT_THAT(indexed.err, HasSubstr("photographs, and the starter was trained on drawings and icons only"));
  EXPECT_THAT(run({"search", "-c", "c", "a", "dog"}).err, HasSubstr("photographs, and the starter"));

  const auto stem = [](const Json& member) {
    const std::string name = fs::path(member["path"].get<std::string>()).stem().string();
    return name.substr(0, name.rfind('_'));
  };
  int right = 0;
  const Json report = json_of(
      run({"collection", "duplicates", "-c", "c", "--json", "--script", "remove.sh", "--html", "page.html"}));
  for (const Json& group : report["groups"]) {
    for (const Json& a : group["members"]) {
      for (const Json& b : group["members"]) {
        right += a["id"] < b["id"] && stem(a) == stem(b) ? 1 : 0;
      }
    }
  }
  // 7 photographs in 6 forms are 105 pairs; one copy of the 35 may be missed, and its five pairs with it.
  EXPECT_GE(right, 7 * 15 - 5) << report.dump(1);
  int photographs_wrong = 0;
  for (const Json& group : report["groups"]) {
    std::set<std::string> stems;
    for (const Json& member : group["members"]) {
      if (stem(member).find("drawing") == std::string::npos &&
          member["path"].get<std::string>().ends_with(".jpg")) {
        stems.insert(stem(member));
      }
    }
    photographs_wrong += stems.size() > 1 ? 1 : 0;
  }
  EXPECT_EQ(photographs_wrong, 0);
  const std::string page = read_file(folder_ / "page.html").value();
  EXPECT_THAT(page, HasSubstr("data:image/jpeg;base64,"));
  EXPECT_THAT(page, HasSubstr("the best: "));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  // The script removes the listed files, and nothing else.
  const std::string script = read_file(folder_ / "remove.sh").value();
  int removals = 0;
  for (size_t at = script.find("&& rm -- "); at != std::string::npos; at = script.find("&& rm -- ", at + 1))
    ++removals;
  EXPECT_GE(removals, 7 * 4);
  const auto files = [&] {
    return std::distance(fs::directory_iterator(folder_ / "p"), fs::directory_iterator());
  };
  const auto before = files();
  const auto sh = find_program("sh");
  ASSERT_TRUE(run_limited(*sh, std::vector<std::string>{(folder_ / "remove.sh").string()}, {}));
  EXPECT_EQ(files(), before - removals);
}

TEST_F(Life, ExportImportAndMergeGoRound) {
  make_collection();
  ASSERT_EQ(json_of(run({"collection", "export", "-c", "c", "out", "--json"}))["items"], 4);
  // A mistyped folder leaves no collection behind, whose settings would refuse the right one.
  expect_failure({"collection", "import", "-c", "d", "uot", "-m", "model"}, 1, {"import uot", "rows.npy"});
  EXPECT_FALSE(fs::exists(folder_ / "d"));
  const Outcome imported = run({"collection", "import", "-c", "d", "out", "-m", "model", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(json_of(imported)["added"], 4);
  const auto hits = [&](const std::string& collection) {
    const Json answer = json_of(run({"search", "-c", collection, "a", "--json"}));
    Json list = Json::array();
    for (const Json& hit : answer["hits"]) list.push_back(hit["path"]);
    return list;
  };
  EXPECT_EQ(hits("d"), hits("c"));
  const auto settings = [&](const std::string& collection) {
    return json_of(run({"collection", "info", "-c", collection, "--json"}))["settings"];
  };
  EXPECT_EQ(settings("d"), settings("c"));
  const Json merged = json_of(run({"collection", "merge", "-c", "d", "c", "--json"}));
  EXPECT_EQ(merged["added"], 0);
  EXPECT_EQ(merged["same"], 4);
  // A collection whose JPEGs are decoded otherwise takes neither.
  ASSERT_EQ(run({"index", "pictures/red.png", "-c", "f", "-m", "model", "--exact-decode"}).code, 0);
  expect_failure({"collection", "merge", "-c", "f", "c"}, 1, {"JPEGs", "--fast-decode"});
  expect_failure({"collection", "import", "-c", "f", "out"}, 1, {"JPEGs", "--fast-decode"});
  // Rows that nothing is recorded of are taken as exact.
  ASSERT_TRUE(fs::remove(folder_ / "out/export.json"));
  ASSERT_EQ(run({"collection", "import", "-c", "g", "out", "-m", "model"}).code, 0);
  EXPECT_EQ(settings("g")["fast_decode"], false);
  expect_failure({"collection", "import", "-c", "e", "out"}, 2, {"name the checkpoint", "-m"});
  expect_failure({"collection", "export", "-c", "c", "out"}, 2, {"not empty"});
}

TEST_F(Life, ExportSaysWhichPathsItCannotWrite) {
  picture("pictures/a.png", 200, 20, 20);
  ASSERT_EQ(run({"index", "pictures", "-c", "c", "-m", "model"}).code, 0);
  EXPECT_EQ(run({"collection", "export", "-c", "c", "out"}).err, "");
  picture("pictures/caf\xe9.png", 20, 20, 200);
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  const Outcome exported = run({"collection", "export", "-c", "c", "again"});
  EXPECT_EQ(exported.code, 0);
  EXPECT_EQ(exported.out, "2 images written to again\n");
  EXPECT_EQ(
      exported.err,
      "saccade: warning: 1 path is not UTF-8 and written with U+FFFD, as JSON holds no other bytes: an import "
      "does not find the file\n");
}

TEST_F(Life, ReencodeFillsASecondCollectionAndSwitchesALink) {
  make_collection();
  // The same model under another name and fingerprint.
  fs::copy(folder_ / "model", folder_ / "renewed", fs::copy_options::recursive);
  const auto config = read_file(folder_ / "renewed/config.json");
  ASSERT_TRUE(config);
  write("renewed/config.json", *config + "\n");
  fs::create_directory_symlink("c", folder_ / "photos");
  const std::vector<std::string> command = {"collection", "reencode", "-c",       "photos",
                                            "--to",       "d",        "--switch", "photos"};
  expect_failure(command, 2, {"a new collection", "-m"});
  std::vector<std::string> named = command;
  named.insert(named.end(), {"-m", "renewed", "--decode-memory", "512"});
  // An image that is left out keeps the link where it is.
  fs::rename(folder_ / "pictures/red.png", folder_ / "red.png");
  const Outcome partly = run(named);
  EXPECT_EQ(partly.code, 3) << partly.err;
  EXPECT_THAT(partly.out, HasSubstr("d: 3 of 4 images encoded"));
  EXPECT_THAT(partly.out, HasSubstr("red.png"));
  EXPECT_THAT(partly.err, HasSubstr("photos was not switched"));
  EXPECT_EQ(fs::read_symlink(folder_ / "photos"), "c");
  fs::rename(folder_ / "red.png", folder_ / "pictures/red.png");
  named.emplace_back("--json");
  const Outcome whole = run(named);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Json done = json_of(whole);
  EXPECT_EQ(done["added"], 1);
  EXPECT_EQ(done["unchanged"], 3);
  EXPECT_EQ(done["switched"], true);
  EXPECT_EQ(fs::read_symlink(folder_ / "photos"), "d");
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "photos", "--json"}))["checkpoint"]["name"], "renewed");
  const auto hits = [&](const std::string& collection) {
    Json list = Json::array();
    for (const Json& hit : json_of(run({"search", "-c", collection, "a", "--json"}))["hits"])
      list.push_back(hit["path"]);
    return list;
  };
  EXPECT_EQ(hits("photos"), hits("c"));
  EXPECT_EQ(run({"collection", "verify", "-c", "d", "--deep"}).code, 0);
  EXPECT_THAT(run(command).out, HasSubstr("photos leads to d already"));
  // A collection that is no copy of the first one is not touched.
  expect_failure({"collection", "reencode", "-c", "c", "--to", "d"}, 1,
                 {"not being filled from the first one"});
  expect_failure({"collection", "reencode", "-c", "c", "--to", "e", "-m", "renewed", "--switch", "c"}, 2,
                 {"not a symbolic link"});
  EXPECT_FALSE(fs::exists(folder_ / "e"));
  expect_failure({"collection", "reencode", "-c", "c", "--to", "e", "-m", "renewed", "--incomplete"}, 2,
                 {"--switch"});
  expect_failure({"collection", "reencode", "-c", "c"}, 2, {"--to"});
}

TEST_F(Life, ReencodeKeepsTheSettingsThatNoOptionChanges) {
  picture("pictures/red.png", 220, 10, 10);
  ASSERT_EQ(run({"index", "pictures", "-c", "c", "-m", "model", "--as-stored", "--fast-decode",
                 "--background", "white", "--int8-rows", "on"})
                .code,
            0);
  const auto settings = [&](const std::string& collection) {
    return json_of(run({"collection", "info", "-c", collection, "--json"}))["settings"];
  };
  const std::vector<std::string> command = {"collection", "reencode", "-c", "c", "-m", "model", "--to"};
  std::vector<std::string> same = command;
  same.emplace_back("same");
  ASSERT_EQ(run(same).code, 0);
  EXPECT_EQ(settings("same"), settings("c"));
  std::vector<std::string> other = command;
  other.insert(other.end(), {"other", "--background", "checkpoint", "--convert-to-srgb"});
  ASSERT_EQ(run(other).code, 0);
  Json wanted = settings("c");
  wanted["background"] = "checkpoint";
  wanted["convert_to_srgb"] = true;
  EXPECT_EQ(settings("other"), wanted);
  same.insert(same.end(), {"--background", "checkpoint"});
  expect_failure(same, 2, {"--background", "white"});
}

TEST_F(Life, WatchTakesInWhatIsThereAndEndsWhenAsked) {
  make_collection();
  picture("pictures/new.png", 120, 10, 200);
  const fs::path measured = folder_ / "c/background.safetensors";
  ASSERT_TRUE(fs::remove(measured));
  RunOptions options;
  options.stop_when = [&](std::string_view) {
    // Until it has been taken in, and what answers say of their hits was measured.
    return fs::exists(measured) && json_of(run({"collection", "info", "-c", "c", "--json"}))["items"] == 5;
  };
  const Outcome watched = run({"watch", "pictures", "-c", "c", "--settle", "0"}, options);
  EXPECT_EQ(watched.code, 0) << watched.err;
  EXPECT_THAT(watched.out, HasSubstr("1  added"));
  EXPECT_TRUE(fs::exists(measured));
  EXPECT_THAT(watched.err, HasSubstr("deleted are removed from the collection (--no-prune keeps them)"));
  EXPECT_THAT(run({"watch", "--help"}).out, HasSubstr("--no-prune"));
  expect_failure({"watch", "pictures", "-c", "none"}, 1, {"saccade index PATH -c none", "makes one"});
}

// The approximate index of embeddings that were made elsewhere, from its build to its removal.
TEST_F(Life, AnApproximateIndexIsBuiltUsedAndRemoved) {
  constexpr int64_t kRows = 20'000;
  constexpr int64_t kDim = 24;  // of the tests' checkpoint
  constexpr int64_t kCenters = 200;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Matrix<float> centers(kCenters, kDim);
  for (float& value : centers.values()) value = normal(random);
  Matrix<float> rows(kRows, kDim);
  std::string items;
  for (int64_t r = 0; r < kRows; ++r) {
    const auto center = std::as_const(centers).row(r % kCenters);
    for (int64_t c = 0; c < kDim; ++c) {
      rows.row(r)[static_cast<size_t>(c)] = center[static_cast<size_t>(c)] + 0.4F * normal(random);
    }
    items += fmt::format("{{\"path\": \"/elsewhere/{}.png\"}}\n", r);
  }
  write("made/items.jsonl", items);
  ASSERT_TRUE(write_npy(folder_ / "made/rows.npy", std::as_const(rows).view()));
  const Outcome imported =
      run({"collection", "import", "made", "-c", "c", "-m", "model", "--no-files", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(json_of(imported)["added"], kRows);

  const auto approximate = [&] {
    return json_of(run({"collection", "info", "-c", "c", "--json"}))["approximate"];
  };
  const auto search = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"search", "-c", "c", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("a red card");
    const Outcome found = run(words);
    EXPECT_EQ(found.code, 0) << found.err;
    return json_of(found);
  };
  EXPECT_TRUE(approximate().is_null());
  EXPECT_TRUE(search({})["approximate"].is_null());

  const Outcome built = run({"collection", "ann", "-c", "c", "--from", "1", "--recall", "0.7", "--json"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Json index = json_of(built)["approximate"];
  EXPECT_EQ(index["usable"], true);
  EXPECT_EQ(index["used"], true);
  EXPECT_EQ(index["used_from"], 1);
  EXPECT_EQ(index["rows"], kRows);
  EXPECT_EQ(index["text"]["wanted"], 0.7);
  EXPECT_EQ(index["text"]["reached"], true);
  EXPECT_EQ(approximate(), index);
  EXPECT_THAT(run({"collection", "info", "-c", "c"}).out, HasSubstr("approximate  20,000 rows in"));

  const Json near = search({});
  ASSERT_TRUE(near["approximate"].is_object()) << near.dump();
  EXPECT_EQ(near["approximate"]["of"], "text");
  EXPECT_EQ(near["approximate"]["at"], 10);
  EXPECT_EQ(near["approximate"]["recall"], index["text"]["recall"]);
  const Outcome shown = run({"search", "-c", "c", "a red card"});
  EXPECT_THAT(shown.out + shown.err, HasSubstr("approximate, recall "));
  const Json exact = search({"--exact"});
  EXPECT_TRUE(exact["approximate"].is_null());
  ASSERT_EQ(exact["hits"].size(), 10U);
  ASSERT_EQ(near["hits"].size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    // No row scores higher than those that an exact search finds.
    EXPECT_LE(near["hits"][i]["score"].get<double>(), exact["hits"][i]["score"].get<double>() + 1e-6);
  }

  const Outcome removed = run({"collection", "ann", "-c", "c", "--none"});
  EXPECT_EQ(removed.code, 0) << removed.err;
  EXPECT_THAT(removed.out, HasSubstr("the approximate index was removed"));
  EXPECT_TRUE(approximate().is_null());
  EXPECT_EQ(search({})["hits"], exact["hits"]);
  EXPECT_THAT(run({"collection", "ann", "-c", "c", "--none"}).out,
              HasSubstr("there is no approximate index"));
}

// A new release lies elsewhere, and the starter with it.
TEST_F(Life, AStarterThatHasMovedIsFound) {
  picture("pictures/red.png", 220, 10, 10);
  picture("pictures/blue.png", 10, 10, 220);
  ASSERT_EQ(run({"index", "pictures", "-c", "c"}).code, 0);
  Json info = parse_json(read_file(folder_ / "c/collection.json").value()).value();
  info["checkpoint"]["path"] = "/nowhere/starter";
  write("c/collection.json", info.dump());
  for (const std::vector<std::string>& command : std::initializer_list<std::vector<std::string>>{
           {"search", "red", "-c", "c"},
           {"collection", "ann", "-c", "c"},
           {"collection", "composer", "starter", "--if-better", "-c", "c"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  // Another checkpoint in its place is refused.
  info["checkpoint"]["path"] = (folder_ / "model").string();
  write("c/collection.json", info.dump());
  expect_failure({"collection", "ann", "-c", "c"}, 1, {"starter", "model"});
}

TEST_F(Life, HelpOffersAClusterWhereOneIsTaken) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"search"},
                                                  {"index"},
                                                  {"collection", "info"},
                                                  {"collection", "export"},
                                                  {"collection", "reencode"}}) {
    std::vector<std::string> help = command;
    help.emplace_back("--help");
    EXPECT_THAT(run(help).out, HasSubstr("weaviate://")) << command.back();
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"illustrate"}, {"collection", "duplicates"}, {"collection", "ann"}}) {
    std::vector<std::string> help = command;
    help.emplace_back("--help");
    const Outcome shown = run(help);
    EXPECT_THAT(shown.out, HasSubstr("--collection")) << command.back();
    EXPECT_THAT(shown.out, Not(HasSubstr("weaviate"))) << command.back();
  }
}

}  // namespace
}  // namespace saccade::test

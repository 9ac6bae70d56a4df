#include "kill_scenarios.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image_codec.h"
#include "saccade/serve/test_client.h"

namespace saccade::campaign {
namespace {

namespace fs = std::filesystem;
namespace http = serve::test;
using Clock = std::chrono::steady_clock;

constexpr int kPictures = 20;  // in BASE/pictures
constexpr int kMore = 9;       // in BASE/more
constexpr int kUploaded = 4;   // uploads that are there before the server is attacked

[[noreturn]] void give_up(const World& world, std::string_view text) {
  fmt::print(stderr, "campaign: {}\n{}", text, world.last_errors());
  std::exit(2);
}

void must(World& world, const std::vector<std::string>& arguments) {
  if (world.run(arguments).code != 0) give_up(world, fmt::format("{} failed", fmt::join(arguments, " ")));
}

// A small picture that differs for every number: some PNG, some JPEG.
std::string picture(int number) {
  Image image{40, 32, 3, PixelMode::kRgb, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.pixels.push_back(
            static_cast<uint8_t>((number * (37 + 11 * c) + x * (number % 7) + y * c) & 255));
      }
    }
  }
  return (number % 3 == 0 ? encode_jpeg(image, 90) : encode_png(image)).value();
}

void write(const fs::path& path, std::string_view content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

void write_pictures(const fs::path& folder, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    write(folder / fmt::format("{:02}.{}", i, i % 3 == 0 ? "jpg" : "png"), picture(i));
  }
}

std::string pictures_of(const World& world) {
  return (world.base() / "pictures").string();
}

void index(World& world, const std::string& folder, const std::string& collection) {
  must(world, {"index", folder, "-c", collection, "-m", world.checkpoint()});
}

// --- commands that end ---------------------------------------------------------------------------------------

void prepare_index(World& world) {
  world.clear();
}
ProgramEnd work_index(World& world, Attempt& attempt) {
  return world.run({"index", pictures_of(world), "-c", "c", "-m", world.checkpoint()}, attempt.point);
}

void prepare_refresh(World& world) {
  world.clear();
  const fs::path photos = world.work() / "photos";
  write_pictures(photos, 0, 16);
  index(world, "photos", "c");
  for (int i = 0; i < 4; ++i) fs::remove(photos / fmt::format("{:02}.{}", i, i % 3 == 0 ? "jpg" : "png"));
  for (int i = 4; i < 8; ++i)
    write(photos / fmt::format("{:02}.{}", i, i % 3 == 0 ? "jpg" : "png"), picture(200 + i));
  write_pictures(photos / "new", 100, 6);
}
ProgramEnd work_refresh(World& world, Attempt& attempt) {
  // The campaign mounts another file system for each run, and a plain --prune keeps all where that is so.
  return world.run({"index", "photos", "-c", "c", "--prune=force"}, attempt.point);
}

void prepare_compact(World& world) {
  world.clear();
  index(world, pictures_of(world), "c");
  must(world, {"collection", "remove", "-c", "c", "--id", "2", "--id", "3", "--id", "11", "--id", "20"});
}
ProgramEnd work_compact(World& world, Attempt& attempt) {
  return world.run({"collection", "compact", "-c", "c"}, attempt.point);
}

void prepare_merge(World& world) {
  world.clear();
  write_pictures(world.work() / "photos", 0, 6);
  index(world, "photos", "c");
  fs::create_directory(world.work() / "others");
  index(world, pictures_of(world), "others/a");
  write_pictures(world.work() / "photos", 50, 5);
  index(world, "photos", "others/b");
}
ProgramEnd work_merge(World& world, Attempt& attempt) {
  return world.run({"collection", "merge", "others/a", "others/b", "-c", "c"}, attempt.point);
}

void prepare_import(World& world) {
  world.clear();
  write_pictures(world.work() / "photos", 0, 6);
  index(world, "photos", "c");
}
ProgramEnd work_import(World& world, Attempt& attempt) {
  return world.run({"collection", "import", (world.base() / "export").string(), "-c", "c"}, attempt.point);
}

void prepare_import_anew(World& world) {
  world.clear();
}
ProgramEnd work_import_anew(World& world, Attempt& attempt) {
  return world.run(
      {"collection", "import", (world.base() / "export").string(), "-c", "c", "-m", world.checkpoint()},
      attempt.point);
}

void prepare_remove(World& world) {
  world.clear();
  index(world, pictures_of(world), "c");
}
ProgramEnd work_remove(World& world, Attempt& attempt) {
  return world.run({"collection", "remove", "-c", "c", "--filter", "format=jpeg"}, attempt.point);
}

// A collection as the first version wrote it, which is brought to the newest schema when it is opened for writing.
void prepare_upgrade(World& world) {
  world.clear();
  fs::copy(fs::path(test::kSourceDir) / "tests/data/collection_v1", world.collection());
  fs::remove(world.collection() / "README.md");
}
ProgramEnd work_upgrade(World& world, Attempt& attempt) {
  return world.run({"index", (world.base() / "more").string(), "-c", "c", "-m", world.checkpoint()},
                   attempt.point);
}
ProgramEnd work_upgrade_compact(World& world, Attempt& attempt) {
  return world.run({"collection", "compact", "-c", "c"}, attempt.point);
}

// --- watch ---------------------------------------------------------------------------------------------------

void prepare_watch(World& world) {
  world.clear();
  write_pictures(world.work() / "photos", 0, 6);
  index(world, "photos", "c");
}

// What the lines of `watch --json` say was added, together.
int64_t added_of(const std::string& lines) {
  int64_t added = 0;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    if (const auto json = parse_json(line); json && json->contains("added"))
      added += json->value("added", int64_t{0});
  }
  return added;
}

// The pictures of BASE/more come in three at a time, each when `watch` has said that those before are in.
ProgramEnd work_watch(World& world, Attempt& attempt) {
  const fs::path photos = world.work() / "photos";
  const auto before = world.content();
  int64_t known = before && *before ? std::ssize(**before) : 0;
  int64_t there = std::distance(fs::directory_iterator(photos), fs::directory_iterator());
  const RunningProgram program =
      world.start({"watch", "photos", "-c", "c", "--settle", "0.1", "--json"}, attempt.point);
  std::vector<fs::path> more;
  for (const auto& entry : fs::directory_iterator(world.base() / "more")) more.push_back(entry.path());
  std::ranges::sort(more);
  for (size_t group = 0; group <= more.size(); group += 3) {
    const auto until = Clock::now() + std::chrono::duration<double>(attempt.patience);
    while (known + added_of(world.out(program)) < there && Clock::now() < until) {
      if (const auto end = world.poll(program)) return *end;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (known + added_of(world.out(program)) < there) break;
    for (const auto& entry : fs::directory_iterator(photos))
      attempt.acknowledged.push_back(entry.path().string());
    for (size_t i = group; i < std::min(group + 3, more.size()); ++i) {
      const fs::path name = photos / more[i].filename();
      if (fs::exists(name)) continue;
      std::error_code error;
      fs::copy_file(more[i], photos / ".coming", fs::copy_options::overwrite_existing, error);
      if (!error) fs::rename(photos / ".coming", name);
      if (!error) ++there;
      fs::remove(photos / ".coming");
    }
  }
  // It says this once it handles the signal, which would end it before as any other kill does. It
  // removes the temporary files of an earlier one when it first takes in what is there.
  const auto is_at_work = [&] {
    const fs::directory_iterator files(world.work() / "c");
    return world.errors(program).find("files are deleted") != std::string::npos &&
           std::none_of(begin(files), end(files), [](const fs::directory_entry& each) {
             return each.path().filename().string().find(".tmp-") != std::string::npos;
           });
  };
  const auto until = Clock::now() + std::chrono::duration<double>(attempt.patience);
  while (!is_at_work() && Clock::now() < until) {
    if (const auto end = world.poll(program)) return *end;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  World::signal(program, SIGINT);
  return world.wait(program);
}

// --- serve ---------------------------------------------------------------------------------------------------

// A running server, asked one thing after the other.
class Server {
 public:
  Server(World& world, const Attempt& attempt)
      : world_(world),
        program_(
            world.start({"serve", "-c", "c", "-q", "--listen", "127.0.0.1:0", "--allow-write", "uploads"},
                        attempt.point)),
        until_(Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1000 * attempt.patience))) {}

  // The end of a server that never listened.
  std::optional<ProgramEnd> wait_until_it_listens() {
    while (Clock::now() < until_) {
      if (const auto end = world_.poll(program_)) return end;
      const std::string said = world_.out(program_);
      if (const size_t colon = said.rfind(':'); colon != std::string::npos && said.ends_with('\n')) {
        port_ = static_cast<uint16_t>(std::stoi(said.substr(colon + 1)));
        return std::nullopt;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return world_.wait(program_, 0);
  }
  // The status; 0 where there was no answer.
  [[nodiscard]] int ask(std::string_view method, const std::string& target, const std::string& body = {},
                        std::string_view type = {}) const {
    http::Client client(port_);
    if (!client.connected()) return 0;
    return client.exchange(http::request(method, target, body, type)).status;
  }
  [[nodiscard]] int upload(const std::string& bytes) const {
    return ask("POST", "/api/collections/c/images",
               "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"p\"\r\n\r\n" + bytes +
                   "\r\n--b--\r\n",
               "Content-Type: multipart/form-data; boundary=b\r\n");
  }
  ProgramEnd stop() {
    World::signal(program_, SIGTERM);
    return world_.wait(program_);
  }

 private:
  World& world_;
  RunningProgram program_;
  Clock::time_point until_;
  uint16_t port_ = 0;
};

std::string uploaded_path(const World& world, int number) {
  const std::string bytes = picture(number);
  return (world.work() / "uploads/c" / (sha256_hex(bytes) + (number % 3 == 0 ? ".jpg" : ".png"))).string();
}

void prepare_serve(World& world) {
  world.clear();
  index(world, (world.base() / "more").string(), "c");
  fs::create_directory(world.work() / "uploads");
  Attempt none;
  Server server(world, none);
  if (server.wait_until_it_listens()) give_up(world, "the server did not start");
  for (int i = 0; i < kUploaded; ++i) {
    if (const int status = server.upload(picture(400 + i)); status != 201) {
      give_up(world, fmt::format("an upload was answered with {}", status));
    }
  }
  if (server.stop().code != 0) give_up(world, "the server did not stop");
}

// Takes pictures in, and two of those out that were there.
ProgramEnd work_serve(World& world, Attempt& attempt) {
  const auto content = world.content();
  Server server(world, attempt);
  if (const auto end = server.wait_until_it_listens()) return *end;
  const auto upload = [&](int number) {
    if (server.upload(picture(number)) == 201) attempt.acknowledged.push_back(uploaded_path(world, number));
  };
  const auto remove = [&](int number) {
    if (!content || !*content) return;
    const auto found = (*content)->find(uploaded_path(world, number));
    if (found == (*content)->end()) return;
    const int status = server.ask("DELETE", fmt::format("/api/collections/c/images/{}", found->second.id));
    if (status / 100 == 2) attempt.acknowledged.push_back(found->first);
  };
  upload(500);
  remove(400);
  upload(501);
  upload(502);
  remove(403);
  upload(503);
  return server.stop();
}

constexpr std::array kScenarios = {
    Scenario{"index", prepare_index, work_index},
    Scenario{"refresh", prepare_refresh, work_refresh},
    Scenario{"watch", prepare_watch, work_watch},
    Scenario{"compact", prepare_compact, work_compact},
    Scenario{"merge", prepare_merge, work_merge},
    Scenario{"import", prepare_import, work_import},
    Scenario{"import-anew", prepare_import_anew, work_import_anew},
    Scenario{"remove", prepare_remove, work_remove},
    Scenario{"serve", prepare_serve, work_serve},
    Scenario{"upgrade", prepare_upgrade, work_upgrade},
    Scenario{"upgrade-compact", prepare_upgrade, work_upgrade_compact},
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

void prepare_inputs(World& world) {
  fs::remove_all(world.base() / "export");  // of an earlier campaign in the same folder
  write_pictures(world.base() / "pictures", 0, kPictures);
  write_pictures(world.base() / "more", 300, kMore);
  world.clear();
  index(world, pictures_of(world), "c");
  must(world, {"collection", "export", (world.base() / "export").string(), "-c", "c"});
}

}  // namespace saccade::campaign

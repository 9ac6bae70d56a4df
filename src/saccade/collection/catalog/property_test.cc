// Property test: five hundred random file operations against a plain model of the collection's content. Runs
// are stopped and processes are killed in between.
#include <array>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "saccade/collection/test_support.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Several times slower: fewer files.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The thread sanitizer of GCC 12 ends some forked processes that start threads ("dup thread with used id"): no kills.
#ifdef __SANITIZE_THREAD__
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif
constexpr int kSteps = 500;

// Content of a file, as a collection sees it.
enum class Kind { kPicture, kBroken };

class Model {
 public:
  // `names`: how many a folder has; few, so that they are used again, whatever was there.
  Model(fs::path pictures, unsigned names) : pictures_(std::move(pictures)), names_(names) {
    fs::create_directories(pictures_);
  }
  // So many files, before anything happens to them.
  void fill(size_t files, std::mt19937& random) {
    while (files_.size() < files) put(random_path(random), random);
  }

  // One random thing that somebody does. `random` decides all.
  void step(std::mt19937& random) {
    const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
    const int what = pick(100);
    if (files_.empty() || what < 40) {
      put(random_path(random), random);
    } else if (what < 55) {
      put(any_file(random), random);  // written anew, perhaps as something else
    } else if (what < 75) {
      move(any_file(random), random_path(random));
    } else if (what < 88) {
      const std::string path = any_file(random);
      fs::remove(path);
      files_.erase(path);
    } else if (what < 94) {
      copy(any_file(random), random_path(random));
    } else {
      touch(any_file(random));
    }
  }

  // path -> hash of all that should be items, and the paths of all that should be
  // failures, after a pruning run.
  std::map<std::string, std::string> items() const {
    std::map<std::string, std::string> items;
    for (const auto& [path, file] : files_) {
      if (file.kind == Kind::kPicture && removed_.count(path) == 0) items[path] = file.hash;
    }
    return items;
  }
  std::set<std::string> failures() const {
    std::set<std::string> failures;
    for (const auto& [path, file] : files_) {
      if (file.kind == Kind::kBroken && removed_.count(path) == 0) failures.insert(path);
    }
    return failures;
  }
  // A picture that was overwritten by something that is none keeps the item it had, until
  // it is a picture again or gone.
  [[nodiscard]] bool broken(const std::string& path) const {
    const auto file = files_.find(path);
    return file != files_.end() && file->second.kind == Kind::kBroken;
  }
  // An image that the user removes from the collection stays out while its file stays in place.
  void remove(const std::string& path) { removed_.insert(path); }
  void forget(const std::string& path) { removed_.erase(path); }
  [[nodiscard]] const std::set<std::string>& removed() const { return removed_; }

 private:
  struct File {
    Kind kind = Kind::kPicture;
    std::string hash;
  };

  std::string random_path(std::mt19937& random) {
    static constexpr std::array<const char*, 5> kFolders = {"", "a", "a/b", "c d", "\xc3\xa9"};
    const std::string folder = kFolders[random() % kFolders.size()];
    // None that was taken out: see below.
    for (;;) {
      const std::string path =
          (pictures_ / folder / fmt::format("{}.png", random() % names_)).lexically_normal().string();
      if (removed_.count(path) == 0) return path;
    }
  }
  std::string any_file(std::mt19937& random) {
    for (;;) {
      auto file = files_.begin();
      std::advance(file, static_cast<std::ptrdiff_t>(random() % files_.size()));
      // Moving what was taken out is ingest_test's matter: whether it follows depends on what else is there.
      if (removed_.count(file->first) == 0 || removed_.size() >= files_.size()) return file->first;
    }
  }

  void write(const std::string& path, const std::string& content, Kind kind) {
    fs::create_directories(fs::path(path).parent_path());
    test::write_text(path, content);
    stamp(path);
    files_[path] = {kind, sha256_hex(content)};
  }
  // A time of its own, as if days lay between: what changed is told by time and size.
  void stamp(const std::string& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 365) +
                                  std::chrono::seconds(++clock_));
  }
  void put(const std::string& path, std::mt19937& random) {
    const auto chance = random() % 10;
    // Some files share the content of others. A file's name does not determine its content.
    const auto seed = static_cast<int>(random() % (names_ + 20));
    if (chance < 5) {
      write(path, test::png(seed), Kind::kPicture);
    } else if (chance < 7) {
      write(path, encode_jpeg(test::striped_image(seed)).value(), Kind::kPicture);
    } else if (chance < 8) {
      write(path,
            fmt::format(
                "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='{}'><path d='M0 0h9v4z'/></svg>",
                5 + seed % 300),
            Kind::kPicture);
    } else {
      write(path, "broken " + std::to_string(random() % 1000), Kind::kBroken);
    }
  }
  void move(const std::string& from, const std::string& to) {
    if (from == to) return;
    fs::create_directories(fs::path(to).parent_path());
    fs::rename(from, to);
    files_[to] = files_[from];
    files_.erase(from);
    stamp(to);
  }
  void copy(const std::string& from, const std::string& to) {
    if (from == to) return;
    fs::create_directories(fs::path(to).parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
    files_[to] = files_[from];
    stamp(to);
  }
  void touch(const std::string& path) { stamp(path); }

  fs::path pictures_;
  unsigned names_;
  std::map<std::string, File> files_;
  std::set<std::string> removed_;
  int64_t clock_ = 0;
};

IngestOptions pruning(int64_t items_per_transaction) {
  IngestOptions options;
  options.prune = true;
  options.batch = 4;
  options.items_per_transaction = items_per_transaction;
  return options;
}

Result<IngestReport> index(const fs::path& folder, const fs::path& pictures,
                           int64_t items_per_transaction = 5, const WriterOptions& options = {},
                           std::stop_token stop = {}) {
  SACCADE_ASSIGN(CollectionWriter writer,
                 CollectionWriter::open_or_create(folder, test::fake_checkpoint(), {}, options));
  test::FakeEncoder encoder;
  ThreadPool pool(1);
  return ingest(writer, encoder, std::vector<fs::path>{pictures}, pruning(items_per_transaction), pool, {},
                std::move(stop));
}

// A run in a process of its own that ends itself, as by a power cut, at a step of its writing.
void index_and_die(const fs::path& folder, const fs::path& pictures, int at_step) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int step = 0;
    WriterOptions options;
    options.on_step = [&](std::string_view) {
      if (++step == at_step) ::kill(::getpid(), SIGKILL);
    };
    const bool done = index(folder, pictures, 5, options).has_value();
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

// Runs kSteps random steps over `files` files. Kills the process every kill_every steps and checks the
// collection every look_every steps.
void five_hundred_steps(size_t files, unsigned names, int kill_every, int look_every) {
  const test::TestFolder temporary;
  const fs::path pictures = temporary.path() / "pictures";
  const fs::path folder = temporary.path() / "collection";
  Model model(pictures, names);
  std::mt19937 random(20'261);
  model.fill(files, random);
  if (files > 0) ASSERT_OK(index(folder, pictures, 512));
  int kills = 0;
  int runs = 0;
  for (int step = 1; step <= kSteps; ++step) {
    model.step(random);
    if (kForks && step % kill_every == 0) {
      index_and_die(folder, pictures, 1 + static_cast<int>(random() % 12));
      ++kills;
    }
    if (step % 60 == 0 && is_collection(folder)) {
      // Somebody takes a picture out, or lets all in again.
      auto writer = CollectionWriter::open(folder);
      ASSERT_OK(writer);
      if (model.removed().size() < 3 && !model.items().empty()) {
        const std::string path = model.items().begin()->first;
        ASSERT_OK(writer->remove_path(path));
        if (CollectionReader::open(folder)->removed()->size() > model.removed().size()) model.remove(path);
      } else {
        ASSERT_OK(writer->forget_removed(pictures));
        for (const std::string& path : std::set(model.removed())) model.forget(path);
      }
    }
    if (step % look_every != 0) continue;
    const auto report = index(folder, pictures);
    ASSERT_OK(report);
    ++runs;
    const auto collection = CollectionReader::open(folder);
    ASSERT_OK(collection);
    std::map<std::string, std::string> items;
    std::set<int64_t> ids;
    for (const Item& item : test::all_items(*collection)) {
      if (!model.broken(item.path)) items[item.path] = item.hash;
      EXPECT_TRUE(ids.insert(item.id).second);
      EXPECT_NE(collection->facts(item.id)->read, FactsRead::kNothing) << item.path;
    }
    ASSERT_EQ(items, model.items()) << "after step " << step;
    std::set<std::string> failures;
    const auto failed = collection->failures();
    ASSERT_OK(failed);
    for (const Failure& failure : *failed) failures.insert(failure.path);
    ASSERT_EQ(failures, model.failures()) << "after step " << step;
    // The rows are those of the contents: equal contents, equal rows, and what a fresh collection would have.
    std::map<std::string, std::vector<float>> rows;
    for (const Item& item : test::all_items(*collection)) {
      const auto row = collection->rows().row(item.row);
      const auto [known, fresh] = rows.try_emplace(item.hash, row.begin(), row.end());
      if (!fresh) {
        EXPECT_THAT(row, testing::ElementsAreArray(known->second)) << item.path;
      }
    }
    EXPECT_EQ(test::faults(folder), "") << "after step " << step;
    // And the same again is no work at all.
    const auto again = index(folder, pictures);
    ASSERT_OK(again);
    EXPECT_EQ(again->bytes_read, 0);
    EXPECT_FALSE(again->encoder_used);
  }
  EXPECT_EQ(kills, kForks ? kSteps / kill_every : 0);
  EXPECT_EQ(runs, kSteps / look_every);
  ASSERT_OK(CollectionWriter::open(folder)->compact());
  EXPECT_EQ(test::faults(folder), "");
  // A fresh collection of the same files has the same content.
  const fs::path fresh = temporary.path() / "fresh";
  {
    auto writer = CollectionWriter::open(folder);
    ASSERT_OK(writer->forget_removed(pictures));
  }
  ASSERT_OK(index(folder, pictures));
  ASSERT_OK(index(fresh, pictures, 512));
  const auto content = [&](const fs::path& where) {
    const auto collection = CollectionReader::open(where);
    std::map<std::string, std::vector<float>> rows;
    for (const Item& item : test::all_items(*collection)) {
      const auto row = collection->rows().row(item.row);
      if (!model.broken(item.path)) rows[item.path] = {row.begin(), row.end()};
    }
    return rows;
  };
  EXPECT_EQ(content(folder), content(fresh));
}

TEST(CollectionProperty, FiveHundredStepsAndKillsAgainstAModel) {
  five_hundred_steps(0, 40, 9, 20);
}

TEST(CollectionProperty, TheSameAmongTwentyThousandFiles) {
  constexpr size_t kFiles = kSanitized ? 2'000 : 20'000;
  five_hundred_steps(kFiles, 8'000, 50, 250);
}

}  // namespace
}  // namespace saccade

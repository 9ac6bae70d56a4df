#include "saccade/collection/verify.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <utility>

#include "saccade/collection/catalog/descriptor.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/rows/int8_file.h"
#include "saccade/collection/rows/late_file.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"

namespace saccade {
namespace {

constexpr size_t kMaxProblems = 1'000;

class Verifier {
 public:
  Verifier(const std::filesystem::path& folder, const VerifyOptions& options, ThreadPool& pool,
           const ProgressCallback& progress, std::stop_token stop)
      : folder_(folder), options_(options), pool_(pool), progress_(progress), stop_(std::move(stop)) {}

  Result<VerifyReport> run() {
    SACCADE_ASSIGN(const CollectionInfo info, store::read_info(folder_));
    SACCADE_ASSIGN(Database database, store::open_catalog(folder_, info, Database::Mode::kRead));
    SACCADE_ASSIGN(const store::Meta meta, take_snapshot(database, info));
    report_.rows = meta.rows;
    SACCADE_TRY(check_pages(database));
    SACCADE_TRY(check_rows(database, meta, info.checkpoint.dim));
    SACCADE_TRY(check_int8(meta, info.checkpoint.dim));
    SACCADE_TRY(check_words(database));
    SACCADE_TRY(check_facts(database));
    if (options_.deep) SACCADE_TRY(check_files(database));
    return std::move(report_);
  }

 private:
  void problem(std::string subject, std::string message, bool fatal) {
    const std::lock_guard lock(mutex_);
    ++report_.problem_count;
    if (fatal) ++report_.fatal_count;
    if (report_.problems.size() < kMaxProblems) {
      report_.problems.push_back({std::move(subject), std::move(message), fatal});
    }
  }

  [[nodiscard]] Status stopped() const {
    if (!stop_.stop_requested()) return {};
    return fail(ErrorCode::kCancelled, "asked to stop");
  }

  // A broken page can end any statement: that is a finding, not a failure of the check.
  Status check_pages(Database& database) {
    const auto check = [&]() -> Status {
      SACCADE_ASSIGN(Statement statement, database.prepare("PRAGMA integrity_check(100)"));
      return statement.for_each([&] {
        if (statement.text(0) != "ok") problem("catalog", statement.text(0), true);
      });
    };
    if (auto status = check(); !status) problem("catalog", status.error().message, true);
    return stopped();
  }

  // Read, not mapped: a file that another program cuts off meanwhile is a finding.
  [[nodiscard]] Result<Descriptor> open_rows(int64_t generation) const {
    const std::string path = store::rows_path(folder_, generation).string();
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno, path);
    return file;
  }

  // Takes one catalog snapshot for all checks, with its rows files. They are opened first, because `compact`
  // removes them as soon as it has written the next ones.
  Result<store::Meta> take_snapshot(Database& database, const CollectionInfo& info) {
    for (int attempt = 1;; ++attempt) {
      SACCADE_TRY(database.execute("BEGIN"));
      SACCADE_ASSIGN(const store::Meta meta, store::read_meta(database));
      auto rows = open_rows(meta.generation);
      Result<store::LateReader> late;
      if (info.settings.late) {
        late = store::LateReader::open(folder_, meta.generation, meta.rows, store::late_layout(info));
      }
      const auto gone = [](const auto& opened) {
        return !opened && opened.error().code == ErrorCode::kNotFound;
      };
      if ((gone(rows) || gone(late)) && attempt < store::kSnapshotTries) {
        SACCADE_TRY(database.execute("ROLLBACK"));
        continue;
      }
      if (!rows) problem("rows", rows.error().message, true);
      if (rows) rows_ = *std::move(rows);
      if (!late) problem("late rows", late.error().message, true);
      if (late && info.settings.late) late_ = *std::move(late);
      return meta;
    }
  }

  // That each of an item's rows is finite and of length 1, as far as it was rounded when it was stored.
  void check_late(const std::string& subject, int64_t row) {
    const StoredRows stored = late_->of(row);
    const double tolerance = stored.layout.precision == RowPrecision::kFp16 ? 2e-3 : 5e-2;
    const Matrix<float> rows = restore_rows(stored);
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const Status usable = check_unit_row(rows.row(r), tolerance);
      if (usable) continue;
      problem(subject, fmt::format("late row {}: {}", r, usable.error().message), true);
      return;
    }
  }

  Status check_rows(Database& database, const store::Meta& meta, int64_t dim) {
    const int64_t row_bytes = dim * static_cast<int64_t>(sizeof(float));
    const std::string name = store::rows_path(folder_, meta.generation).string();
    int64_t whole_rows = 0;
    if (rows_) {  // without the file, which was reported, the catalog alone is checked
      struct stat info {};
      if (::fstat(rows_->get(), &info) != 0) return fail_errno(errno, name);
      whole_rows = info.st_size / row_bytes;
      if (whole_rows < meta.rows) {
        problem("rows", fmt::format("{} holds {} rows, the catalog says {}", name, whole_rows, meta.rows),
                true);
      }
    }
    std::vector<float> values(static_cast<size_t>(dim));
    std::map<int64_t, int64_t> owner;  // row -> item; ordered: no choice of rows makes a look-up slow
    const auto scan = [&]() -> Status {
      SACCADE_ASSIGN(Statement statement, database.prepare("SELECT id, row FROM items ORDER BY id"));
      for (;;) {
        SACCADE_ASSIGN(const bool more, statement.step());
        if (!more) return {};
        if (++report_.items % (late_ ? 64 : 4096) == 0) {
          SACCADE_TRY(stopped());
          if (progress_) progress_({"checking rows", report_.items, 0, {}});
        }
        const int64_t id = statement.integer(0);
        const int64_t row = statement.integer(1);
        const std::string subject = fmt::format("item {}", id);
        if (id < 1 || id > store::kMostId) {
          problem(subject, fmt::format("id {}, expected 1 to {}", id, store::kMostId), true);
        }
        if (row < 0 || row >= meta.rows) {
          problem(subject, fmt::format("row {}, but there are {} rows", row, meta.rows), true);
          continue;
        }
        const auto [first, fresh] = owner.emplace(row, id);
        if (!fresh) problem(subject, fmt::format("row {} is item {}'s too", row, first->second), true);
        if (row >= whole_rows) continue;
        auto usable =
            store::read_at(rows_->get(), std::as_writable_bytes(std::span(values)), row * row_bytes, name);
        if (usable) usable = check_unit_row(values);
        if (!usable) {
          problem(subject, fmt::format("row {}: {}", row, usable.error().message), true);
        }
        if (late_) check_late(subject, row);
      }
    };
    auto status = scan();
    if (!status && status.error().code == ErrorCode::kCancelled) return status;
    if (!status) problem("catalog", status.error().message, true);
    return {};
  }

  // Checks that the int8 rows match the rows file.
  Status check_int8(const store::Meta& meta, int64_t dim) {
    if (!rows_) return {};
    const std::string name = store::int8_path(folder_, meta.generation).string();
    const auto reader = store::Int8Reader::open(folder_, meta.generation, meta.rows, dim);
    if (reader.foreign()) {
      problem("rows in eight bits",
              name + ": not of this program's version, and not used; the next change makes it anew", false);
    }
    const Int8Rows int8 = reader.rows();
    const Int8Encoder encoder(dim);
    const auto width = static_cast<size_t>(int8_row_bytes(dim));
    std::vector<float> values(static_cast<size_t>(dim));
    std::vector<std::byte> expected(width);
    int64_t wrong = 0;
    int64_t first = 0;
    for (int64_t row = 0; row < int8.count; ++row) {
      const auto bytes = std::as_writable_bytes(std::span(values));
      // Faults of the rows file have already been reported.
      if (!store::read_at(rows_->get(), bytes, row * static_cast<int64_t>(bytes.size()), name)) break;
      encoder.encode(values, row, expected);
      const std::byte* found = int8.data + static_cast<size_t>(row) * width;
      if (!std::equal(expected.begin(), expected.end(), found) && wrong++ == 0) first = row;
      if (row % 4096 == 0) {
        SACCADE_TRY(stopped());
        if (progress_) progress_({"checking rows in eight bits", row, int8.count, {}});
      }
    }
    if (wrong > 0) {
      problem(
          "rows in eight bits",
          fmt::format("{}: {} of {} rows, the first of them row {}, are not what the rows file says; answers "
                      "stay right, and are slower: remove the file, and the next change makes it anew",
                      name, wrong, int8.count, first),
          true);
    }
    return {};
  }

  // Checks that the word index matches the items.
  Status check_words(Database& database) {
    SACCADE_ASSIGN(const int64_t version, database.integer("PRAGMA user_version"));
    if (version < store::kWordsSince) return {};
    const auto faults = store::word_faults(database);
    if (!faults) {
      problem("words", faults.error().message, true);
    } else if (faults->count > 0) {
      problem(
          "words",
          fmt::format("of {} items, the first of them {}, other words are searched than they have: `saccade "
                      "collection compact` makes them anew",
                      faults->count, faults->first),
          true);
    }
    return stopped();
  }

  // Checks that stored metadata belongs to existing images and has possible values.
  Status check_facts(Database& database) {
    const auto check = [&]() -> Status {
      SACCADE_ASSIGN(const int64_t version, database.integer("PRAGMA user_version"));
      if (version < store::kFactsSince) return {};
      SACCADE_ASSIGN(const int64_t strays,
                     database.integer("SELECT count(*) FROM facts WHERE id NOT IN (SELECT id FROM items)"));
      if (strays > 0) problem("facts", fmt::format("of {} images that are not there", strays), true);
      SACCADE_ASSIGN(Statement facts,
                     database.prepare(fmt::format("SELECT {} FROM facts ORDER BY id", store::kFactsColumns)));
      for (int64_t seen = 1;; ++seen) {
        SACCADE_ASSIGN(const bool more, facts.step());
        if (!more) return {};
        const ItemFacts kept = store::read_facts(facts);
        const bool left_out = (!facts.is_null(1) && !kept.picture.taken) ||
                              facts.integer(15) != static_cast<int64_t>(kept.read);
        if (left_out || !(kept.grain >= 0 && kept.grain <= 1) || plausible(kept.picture) != kept.picture) {
          problem(fmt::format("item {}", facts.integer(0)), "what is kept of its file cannot be true", true);
        }
        if (seen % 4096 == 0) SACCADE_TRY(stopped());
      }
    };
    auto status = check();
    if (!status && status.error().code == ErrorCode::kCancelled) return status;
    if (!status) problem("facts", status.error().message, true);
    return {};
  }

  void check_file(const Item& item) {
    const std::string subject = fmt::format("item {}", item.id);
    if (const auto frame = read_frame_name(item.path)) {
      const Result<std::string>& hash = videos_.at(frame->file);
      if (!hash) {
        problem(subject, hash.error().message, false);
      } else if (*hash + frame_fragment(frame->milliseconds) != item.hash) {
        problem(subject, shown_name(item.path) + ": the video has changed since it was taken in", false);
      }
      return;
    }
    // read_file, not a mapping: the picture may be rewritten by others at any time.
    const auto content = read_file(item.path, int64_t{4} << 30);
    if (!content) {
      problem(subject, content.error().message, false);
    } else if (sha256_hex(*content) != item.hash) {
      problem(subject, item.path + ": its content has changed since it was taken in", false);
    }
  }

  Status check_files(Database& database) {
    SACCADE_ASSIGN(Statement statement,
                   database.prepare(fmt::format("SELECT {} FROM items ORDER BY id", store::kItemColumns)));
    // A few files a thread at a time: bounded, however large the collection.
    const auto block = static_cast<size_t>(4 * pool_.size());
    std::vector<Item> items;
    for (bool more = true; more;) {
      auto stepped = statement.step();
      if (!stepped) {
        problem("catalog", stepped.error().message, true);
        return {};
      }
      more = *stepped;
      if (more) {
        Item item = store::read_item(statement);
        if (item.file.elsewhere) {
          ++report_.without_files;
        } else {
          items.push_back(std::move(item));
        }
      }
      if (items.size() < block && more) continue;
      // Once for all frames of a video.
      for (const Item& item : items) {
        const auto frame = read_frame_name(item.path);
        if (frame && videos_.find(frame->file) == videos_.end()) {
          videos_.emplace(frame->file, sha256_file(frame->file));
        }
      }
      pool_.parallel_for(static_cast<int64_t>(items.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) check_file(items[static_cast<size_t>(i)]);
      });
      report_.files_hashed += static_cast<int64_t>(items.size());
      items.clear();
      if (progress_) progress_({"checking files", report_.files_hashed, report_.items, {}});
      SACCADE_TRY(stopped());
    }
    return {};
  }

  const std::filesystem::path& folder_;
  const VerifyOptions& options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  std::mutex mutex_;
  VerifyReport report_;
  std::map<std::string, Result<std::string>> videos_;  // the hashes of those that items are frames of
  std::optional<Descriptor> rows_;
  std::optional<store::LateReader> late_;
};

// Checks the objects of a vector database: their rows, and that no two have one path.
Result<VerifyReport> verify_index(const std::filesystem::path& address, const ProgressCallback& progress,
                                  const std::stop_token& stop) {
  SACCADE_ASSIGN(const CollectionReader collection, CollectionReader::open(address));
  VerifyReport report;
  std::set<std::string> paths;
  const auto problem = [&](const std::string& subject, std::string message) {
    ++report.problem_count;
    ++report.fatal_count;
    if (report.problems.size() < kMaxProblems) report.problems.push_back({subject, std::move(message), true});
  };
  SACCADE_TRY(
      collection.for_each_row([&](const Item& item, const ItemFacts&, std::span<const float> row) -> Status {
        if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
        ++report.items;
        ++report.rows;
        if (item.file.elsewhere) ++report.without_files;
        const std::string subject = fmt::format("item {}", item.id);
        if (const Status unit = check_unit_row(row); !unit) problem(subject, unit.error().message);
        if (!paths.insert(item.path).second) problem(subject, item.path + ": another item has this path");
        if (progress && report.items % 1'000 == 0)
          progress({"checking", report.items, collection.item_count(), {}});
        return {};
      }));
  return report;
}

}  // namespace

Result<VerifyReport> verify_collection(const std::filesystem::path& folder, const VerifyOptions& options,
                                       ThreadPool& pool, const ProgressCallback& progress,
                                       std::stop_token stop) {
  if (weaviate::is_address(folder)) {
    if (options.deep) {
      return fail(
          ErrorCode::kUnsupported,
          "verify collection: {}: a deep check reads the files of a collection in a folder only; leave it out",
          folder.string());
    }
    return verify_index(folder, progress, stop).in("verify collection");
  }
  Verifier verifier(folder, options, pool, progress, std::move(stop));
  auto report = verifier.run().in("verify collection");
  if (report) {
    std::sort(report->problems.begin(), report->problems.end(), [](const auto& a, const auto& b) {
      return std::tie(a.fatal, a.subject) > std::tie(b.fatal, b.subject);
    });
  }
  return report;
}

}  // namespace saccade

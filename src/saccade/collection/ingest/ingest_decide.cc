#include "saccade/collection/ingest/ingest_decide.h"

#include <algorithm>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/core/rows.h"
#include "saccade/core/seconds_since.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

// Late rows kept in memory before a transaction is written. Copies of a picture within one share no memory,
// so that thousands of them may take more, at 512 items a transaction at most.
constexpr int64_t kPendingBytes = int64_t{64} << 20;

Item item_of(const PreparedFile& file) {
  Item item;
  if (file.task.existing) {
    item = *file.task.existing;  // its id, caption and date of arrival stay
  } else {
    item.added = store::now_seconds();
  }
  item.path = file.task.path;
  item.hash = file.hash;
  item.size = file.task.state.size;
  item.mtime_ns = file.task.state.mtime_ns;
  item.file = file.task.state.identity;
  if (!file.task.caption.empty()) item.caption = file.task.caption;
  return item;
}

}  // namespace

Failure failure_of(const std::string& path, Error error) {
  Failure failure;
  failure.path = path;
  failure.code = error.code;
  failure.reason = std::move(error.message);
  // Readers of files put the path in front; the list of failures has it already.
  if (failure.reason.starts_with(path + ": ")) failure.reason.erase(0, path.size() + 2);
  failure.when = store::now_seconds();
  return failure;
}

IngestDecider::IngestDecider(CollectionWriter& collection, const IngestOptions& options, IngestReport& report)
    : collection_(collection), options_(options), report_(report), batch_size_(std::max(1, options.batch)) {}

Result<std::optional<FileTask>> IngestDecider::offer(const std::string& path, std::string caption) {
  FileTask task;
  task.path = path;
  SACCADE_ASSIGN(const bool removed, collection_.was_removed(path));
  if (removed) {
    ++report_.stayed_out;
    return std::optional<FileTask>();
  }
  const auto state = file_state(path);
  if (!state) {
    report_failure(path, state.error());
    return std::optional<FileTask>();
  }
  task.state = *state;
  SACCADE_ASSIGN(task.existing, collection_.find_path(path));
  task.caption = std::move(caption);
  const auto same = [&](const auto& known) {
    return known.size == task.state.size && known.mtime_ns == task.state.mtime_ns;
  };
  if (task.existing) {
    SACCADE_ASSIGN(task.wants_facts, wants_facts(*task.existing));
    if (same(*task.existing)) note_identity(*task.existing, task.state.identity);
  }
  if (task.existing && same(*task.existing) && !task.wants_facts) {
    if (task.caption.empty() || task.caption == task.existing->caption) {
      ++report_.unchanged;
    } else {
      task.existing->caption = std::move(task.caption);
      change_.updates.push_back(*std::move(task.existing));
      ++pending_unchanged_;
      SACCADE_TRY(flush_if_due());
    }
    return std::optional<FileTask>();
  }
  if (!options_.retry_failed) {
    SACCADE_ASSIGN(const std::optional<Failure> failure, collection_.find_failure(path));
    if (failure && is_of_the_bytes(failure->code) && same(*failure)) {
      ++report_.skipped_failed;
      remove_unreadable(task, failure->code);
      return std::optional<FileTask>();
    }
    if (!failure && !task.existing) {
      SACCADE_ASSIGN(const bool followed, follow_failure(task));
      if (followed) return std::optional<FileTask>();
    }
  }
  return std::optional(std::move(task));
}

// Removes the item of a file whose new content cannot be read. A limit says nothing about the content unless the
// size has changed.
void IngestDecider::remove_unreadable(const FileTask& task, ErrorCode code) {
  if (!task.existing || task.existing->file.elsewhere) return;
  if (code == ErrorCode::kLimit && task.state.size == task.existing->size) return;
  change_.removals.push_back(task.existing->id);
}

void IngestDecider::note_identity(Item& item, const FileIdentity& now) {
  if (item.file == now) return;
  mounts_.note_unchanged(item.file.folder_device, now.folder_device);
  item.file = now;
  change_.identities.emplace_back(item.id, now);
}

Result<bool> IngestDecider::wants_facts(const Item& item) {
  if (!options_.facts) return false;
  SACCADE_ASSIGN(const ItemFacts known, collection_.find_facts(item.id));
  return known.read < facts_of(options_.limits);
}

// A file that failed under a name that is gone, and stands here now: it need not
// be tried to know that it fails.
Result<bool> IngestDecider::follow_failure(const FileTask& task) {
  if (!gone_failures_) {
    gone_failures_.emplace();
    SACCADE_TRY(collection_.for_each_failure_under("/", [&](const Failure& failure) {
      if (is_of_the_bytes(failure.code) && failure.size != kUnknownState && is_gone(failure.path)) {
        (*gone_failures_)[{failure.size, failure.mtime_ns}].push_back(failure);
      }
      return Status{};
    }));
  }
  const auto found = gone_failures_->find({task.state.size, task.state.mtime_ns});
  if (found == gone_failures_->end()) return false;
  Failure failure = std::move(found->second.back());
  found->second.pop_back();
  if (found->second.empty()) gone_failures_->erase(found);
  change_.forget_failures.push_back(failure.path);
  failure.path = task.path;
  change_.failures.push_back(std::move(failure));
  ++report_.skipped_failed;
  SACCADE_TRY(flush_if_due());
  return true;
}

// A new file whose content was taken out of the collection, under a name that is
// gone: it stays out under this one.
Result<bool> IngestDecider::stays_out(const PreparedFile& file) {
  SACCADE_ASSIGN(const std::vector<std::string> removed, collection_.removed_of_hash(file.hash));
  for (const std::string& path : removed) {
    if (!is_gone(path)) continue;
    change_.forget_removed.push_back(path);
    change_.removed.push_back({file.task.path, file.hash});
    ++report_.stayed_out;
    return true;
  }
  return false;
}

// An item of that content whose file is gone. Each item is
// looked at once a run, however many copies there are.
Result<std::optional<Item>> IngestDecider::find_moved(const std::string& hash) {
  const auto found = examined_.find(hash);
  int64_t examined = found == examined_.end() ? 0 : found->second;
  for (;;) {
    SACCADE_ASSIGN(std::vector<Item> known, collection_.find_hash(hash, examined));
    if (known.empty()) return std::optional<Item>();
    for (Item& candidate : known) {
      examined = candidate.id;
      if (!is_gone(candidate.path)) continue;
      examined_[hash] = examined;
      return std::optional<Item>(std::move(candidate));
    }
    examined_[hash] = examined;
  }
}

Result<std::optional<std::string>> IngestDecider::take(PreparedFile file) {
  const std::optional<std::string> done;
  if (file.task.carried) return take_carried(std::move(file));
  if (file.error && file.same_content && !file.catalog_failed) {
    // Only looked into again, and it could be read before: what is known of it
    // stays, and this is not tried again.
    file.error.reset();
    file.facts = ItemFacts{};
    file.facts->read = facts_of(options_.limits);
  }
  if (file.error) {
    if (file.catalog_failed) return fail(*std::move(file.error));
    if (file.of_the_bytes) remove_unreadable(file.task, file.error->code);
    add_failure(file.task.path, *std::move(file.error),
                file.of_the_bytes ? std::optional(file.task.state) : std::nullopt);
    SACCADE_TRY(flush_if_due());
    return done;
  }
  Item item = item_of(file);
  if (file.same_content) {
    SACCADE_TRY(take_same(std::move(item), file));
    return done;
  }
  SACCADE_TRY(drop_embedded_caption(item, file.task));
  if (!file.task.existing) {
    SACCADE_ASSIGN(const bool out, stays_out(file));
    if (out) {
      SACCADE_TRY(flush_if_due());
      return done;
    }
  }
  SACCADE_ASSIGN(const std::vector<Item> known, collection_.find_hash(item.hash));
  std::optional<Item> moved;
  if (!file.task.existing) {
    SACCADE_ASSIGN(moved, find_moved(item.hash));
  }
  if (moved) {
    moved->path = item.path;
    moved->size = item.size;
    moved->mtime_ns = item.mtime_ns;
    moved->file = item.file;
    if (!item.caption.empty()) moved->caption = item.caption;
    change_.updates.push_back(*std::move(moved));
    ++pending_moved_;
  } else if (!known.empty()) {
    SACCADE_TRY(take_known(std::move(item), known.front()));
  } else if (file.known_content) {
    return std::optional(file.task.path);  // the item that had this content has changed since
  } else {
    SACCADE_TRY(take_new(std::move(item), std::move(file)));
  }
  SACCADE_TRY(flush_if_due());
  return done;
}

// Handles a file of an item of another collection. It is taken only with the content that the item was made of.
Result<std::optional<std::string>> IngestDecider::take_carried(PreparedFile file) {
  const std::shared_ptr<const CarriedItem> carried = file.task.carried;
  if (file.catalog_failed) return fail(*std::move(file.error));
  if (!file.hash.empty() && !carried->item.hash.empty() && file.hash != carried->item.hash) {
    file.error = Error{ErrorCode::kMismatch, std::string(kChangedSince)};
  }
  if (file.error) {
    add_failure(file.task.path, *std::move(file.error), std::nullopt);
    SACCADE_TRY(flush_if_due());
    return std::optional<std::string>();
  }
  Item item = carried->item;
  item.id = file.task.existing ? file.task.existing->id : 0;
  item.hash = file.hash;
  item.size = file.task.state.size;
  item.mtime_ns = file.task.state.mtime_ns;
  item.file = file.task.state.identity;
  SACCADE_ASSIGN(const std::vector<Item> known, collection_.find_hash(item.hash));
  if (!known.empty()) {
    SACCADE_TRY(take_known(std::move(item), known.front(), carried.get()));
  } else if (file.known_content || file.same_content) {
    return std::optional(file.task.path);  // the item that had this content has changed since
  } else {
    SACCADE_TRY(take_new(std::move(item), std::move(file)));
  }
  SACCADE_TRY(flush_if_due());
  return std::optional<std::string>();
}

// Handles a file whose bytes are unchanged: its time has changed, or its metadata are read again.
Status IngestDecider::take_same(Item item, PreparedFile& file) {
  mounts_.note_unchanged(file.task.existing->file.folder_device, item.file.folder_device);
  if (item.width == 0) {
    item.width = file.picture.original_width;
    item.height = file.picture.original_height;
    item.format = file.picture.format;
  }
  if (file.facts) {
    SACCADE_ASSIGN(const ItemFacts known, collection_.find_facts(item.id));
    if (known.read != FactsRead::kEverything) fill_gaps(*file.facts, known);
    SACCADE_TRY(drop_embedded_caption(item, file.task));
    if (item.caption.empty()) item.caption = file.facts->caption;
    change_.facts.emplace_back(item.id, *std::move(file.facts));
    ++pending_facts_;
  }
  change_.updates.push_back(std::move(item));
  ++pending_unchanged_;
  return flush_if_due();
}

// Drops a caption that came from the embedded metadata of the file as it was indexed before.
Status IngestDecider::drop_embedded_caption(Item& item, const FileTask& task) {
  if (!task.existing || !task.caption.empty() || item.caption.empty()) return {};
  SACCADE_ASSIGN(const ItemFacts known, collection_.find_facts(item.id));
  if (known.caption == item.caption) item.caption.clear();
  return {};
}

// Handles a file with the same bytes as an item of the catalog: it gets the same row, without encoding again.
Status IngestDecider::take_known(Item item, const Item& known, const CarriedItem* carried) {
  Pending pending;
  item.width = known.width;
  item.height = known.height;
  item.format = known.format;
  pending.item = std::move(item);
  pending.duplicate = true;
  SACCADE_ASSIGN(pending.values, collection_.row_values(known.row));
  SACCADE_ASSIGN(pending.late, collection_.late_values(known.row));
  if (carried != nullptr) {
    pending.wanted_id = carried->item.id;
    pending.facts = carried->facts;
  } else {
    SACCADE_ASSIGN(pending.facts, collection_.find_facts(known.id));
    if (pending.item.caption.empty()) pending.item.caption = pending.facts->caption;
  }
  pending_bytes_ += static_cast<int64_t>(pending.late.size());
  pending_.push_back(std::move(pending));
  return {};
}

Status IngestDecider::take_new(Item item, PreparedFile file) {
  Pending pending;
  item.width = file.picture.original_width;
  item.height = file.picture.original_height;
  item.format = file.picture.format;
  if (file.task.carried) {
    pending.wanted_id = file.task.carried->item.id;
    pending.facts = file.task.carried->facts;
  } else {
    if (item.caption.empty() && file.facts) item.caption = file.facts->caption;
    pending.facts = std::move(file.facts);
  }
  // The content of this item has changed, so its stored metadata is outdated.
  if (!pending.facts && file.task.existing) pending.facts = ItemFacts{};
  const auto index = static_cast<int64_t>(pending_.size());
  const auto [same, first] = pending_hashes_.emplace(item.hash, index);
  pending.item = std::move(item);
  pending.duplicate = !first;
  if (!first) pending.copy_of = same->second;
  pending_.push_back(std::move(pending));
  if (first) batch_.push_back({index, std::move(file.block), file.row});
  return static_cast<int>(batch_.size()) < batch_size_ ? Status{} : encode_batch();
}

void IngestDecider::report_failure(const std::string& path, Error error) {
  report_.failed.push_back(failure_of(path, std::move(error)));
}

// `state`: the file's, where the failure is a property of its bytes: it is not tried again while that stays.
void IngestDecider::add_failure(const std::string& path, Error error, std::optional<FileState> state) {
  const bool vanished = error.code == ErrorCode::kNotFound;
  report_failure(path, std::move(error));
  if (vanished) return;
  Failure& failure = report_.failed.back();
  if (state) {
    failure.size = state->size;
    failure.mtime_ns = state->mtime_ns;
  }
  change_.failures.push_back(failure);
}

// One row a picture of the batch.
Status IngestDecider::encode_rows(MatrixView<const float> pixels) {
  const int64_t dim = collection_.info().checkpoint.dim;
  SACCADE_ASSIGN(const Matrix<float> rows, encoder_->encode_images(pixels).in("encode images"));
  if (rows.rows() != pixels.rows() || rows.columns() != dim) {
    return fail(ErrorCode::kInternal, "encode images: [{}, {}] came back, expected [{}, {}]", rows.rows(),
                rows.columns(), pixels.rows(), dim);
  }
  for (size_t i = 0; i < batch_.size(); ++i) {
    Pending& pending = pending_[static_cast<size_t>(batch_[i].pending)];
    const auto row = rows.row(static_cast<int64_t>(i));
    if (auto usable = check_unit_row(row); usable) {
      pending.values.assign(row.begin(), row.end());
    } else {
      pending.error = Error{ErrorCode::kInternal, "the encoder gave " + usable.error().message};
    }
  }
  return {};
}

// Many rows a picture, and their mean, which is what encode_images would give.
Status IngestDecider::encode_late(MatrixView<const float> pixels) {
  const LateSettings& settings = *collection_.info().settings.late;
  const int64_t dim = collection_.info().checkpoint.dim;
  SACCADE_ASSIGN(const RowSets sets,
                 encoder_->late_interaction()->encode_image_rows(pixels).in("encode images"));
  if (static_cast<int64_t>(sets.begin.size()) != pixels.rows() + 1 || sets.rows.columns() != dim ||
      sets.begin.front() != 0 || sets.begin.back() != sets.rows.rows() ||
      !std::ranges::is_sorted(sets.begin)) {
    return fail(ErrorCode::kInternal,
                "encode images: {} sets of [{}, {}] rows came back, expected {} of {} columns",
                sets.begin.size() - 1, sets.rows.rows(), sets.rows.columns(), pixels.rows(), dim);
  }
  for (size_t i = 0; i < batch_.size(); ++i) {
    Pending& pending = pending_[static_cast<size_t>(batch_[i].pending)];
    const auto rows = sets.rows.view().slice(sets.begin[i], sets.begin[i + 1] - sets.begin[i]);
    if (auto item = make_late_item(rows, settings); item) {
      pending.values = std::move(item->mean);
      pending.late = std::move(item->stored);
      pending_bytes_ += static_cast<int64_t>(pending.late.size());
    } else {
      pending.error = Error{ErrorCode::kInternal, "the encoder gave " + item.error().message};
    }
  }
  return {};
}

// The pixels of the batch: mostly those of a whole block, as they lie there.
MatrixView<const float> IngestDecider::batch_pixels() {
  const Waiting& first = batch_.front();
  const auto count = static_cast<int64_t>(batch_.size());
  bool together = true;
  for (int64_t i = 0; i < count; ++i) {
    const Waiting& each = batch_[static_cast<size_t>(i)];
    together = together && each.block == first.block && each.row == first.row + i;
  }
  if (together) return first.block->view().slice(first.row, count);
  if (gathered_.rows() < count) gathered_ = Matrix<float>(batch_size_, first.block->columns());
  for (int64_t i = 0; i < count; ++i) {
    const Waiting& each = batch_[static_cast<size_t>(i)];
    std::ranges::copy(each.block->row(each.row), gathered_.row(i).begin());
  }
  return gathered_.view().slice(0, count);
}

Status IngestDecider::encode_batch() {
  if (batch_.empty()) return {};
  const auto start = Clock::now();
  const MatrixView<const float> pixels = batch_pixels();
  const Status encoded = collection_.info().settings.late ? encode_late(pixels) : encode_rows(pixels);
  // Asked to stop in the middle of a pass: flush() drops the pictures without a row, and the next run takes them.
  if (!encoded && encoded.error().code != ErrorCode::kCancelled) return encoded;
  batch_.clear();
  report_.seconds.encode += seconds_since(start);
  return {};
}

// Anything still waiting for the encoder is dropped: the caller encodes first, unless it has
// been asked to stop.
Status IngestDecider::flush() {
  const auto start = Clock::now();
  IngestReport counted;
  for (Pending& pending : pending_) {
    if (pending.copy_of >= 0) {
      const Pending& source = pending_[static_cast<size_t>(pending.copy_of)];
      pending.values = source.values;
      pending.late = source.late;
      pending.error = source.error;
    }
  }
  for (Pending& pending : pending_) {
    if (pending.error) {
      add_failure(pending.item.path, *std::move(pending.error), std::nullopt);
    } else if (!pending.values.empty()) {
      pending.item.id == 0 ? ++counted.added : ++counted.updated;
      if (pending.item.id == 0 && pending.duplicate) ++counted.duplicates;
      change_.puts.push_back({.item = std::move(pending.item),
                              .values = std::move(pending.values),
                              .late = std::move(pending.late),
                              .facts = std::move(pending.facts),
                              .wanted_id = pending.wanted_id});
    }
  }
  pending_.clear();
  pending_hashes_.clear();
  pending_bytes_ = 0;
  batch_.clear();
  SACCADE_TRY(collection_.commit(change_));
  change_ = CollectionChange{};
  report_.added += counted.added;
  report_.updated += counted.updated;
  report_.duplicates += counted.duplicates;
  report_.moved += std::exchange(pending_moved_, 0);
  report_.unchanged += std::exchange(pending_unchanged_, 0);
  report_.facts_read += std::exchange(pending_facts_, 0);
  report_.seconds.write += seconds_since(start);
  last_flush_ = Clock::now();
  return {};
}

Status IngestDecider::flush_if_due() {
  if (held_) return {};
  const auto items = static_cast<int64_t>(pending_.size() + change_.updates.size() + change_.failures.size());
  if (items == 0 || (items < options_.items_per_transaction && pending_bytes_ < kPendingBytes)) return {};
  SACCADE_TRY(encode_batch());
  return flush();
}

Status IngestDecider::end_block() {
  const bool nothing = pending_.empty() && change_.empty();
  if (nothing || held_ || seconds_since(last_flush_) < options_.seconds_per_transaction) return {};
  SACCADE_TRY(encode_batch());
  return flush();
}

Status IngestDecider::finish() {
  SACCADE_TRY(encode_batch());
  return flush();
}

void IngestDecider::drop() {
  pending_.clear();
  pending_hashes_.clear();
  pending_bytes_ = 0;
  batch_.clear();
  change_ = CollectionChange{};
  pending_moved_ = 0;
  pending_unchanged_ = 0;
  pending_facts_ = 0;
  held_ = false;
}

Status IngestDecider::stop() {
  return flush();
}

}  // namespace saccade

#include "saccade/serve/served_models.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/device/off_device.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/search/explain/explain_hits.h"

namespace saccade::serve {
namespace {

// Returns the memory of the parameters in bytes. The batches bound the additional memory of a pass.
int64_t bytes_of(const EncoderInfo& info) {
  switch (info.precision) {
    case Precision::kFp32:
    case Precision::kAuto:  // no encoder has it
      return 4 * info.parameters;
    case Precision::kBf16:
      return 2 * info.parameters;
    case Precision::kInt8:
      return info.parameters;
  }
  return 4 * info.parameters;
}

void add(const SharedEncoder::Counts& more, SharedEncoder::Counts& counts) {
  counts.passes += more.passes;
  counts.calls += more.calls;
  counts.texts += more.texts;
  counts.pictures += more.pictures;
  counts.remembered += more.remembered;
  counts.seconds += more.seconds;
  for (size_t i = 0; i < counts.of_size.size(); ++i) counts.of_size[i] += more.of_size[i];
}

// Returns the options with the processor as device if the given one does not run this model: a server may have
// models of several families.
Result<BackendOptions> possible_options(const std::filesystem::path& checkpoint,
                                        const BackendOptions& options, const NoteCallback& note) {
  SACCADE_ASSIGN(const std::string reason, off_device_reason(checkpoint, options));
  if (reason.empty()) return options;
  BackendOptions possible = options;
  possible.device = kProcessor;
  if (note) {
    note({fmt::format("checkpoint {} is served on the processor: {}", checkpoint.string(), reason), false});
  }
  return possible;
}

}  // namespace

Result<std::shared_ptr<SharedEncoder>> ServedModel::encoder() {
  return owner_->encoder_of(*this);
}

Result<std::array<std::shared_ptr<SharedEncoder>, 2>> ServedModel::encoder_with(ServedModel& other) {
  return owner_->encoders_of(*this, other);
}

Result<ServedModel*> ServedModels::add(const std::filesystem::path& checkpoint, const BackendOptions& options,
                                       const NoteCallback& note) {
  const std::lock_guard one_at_a_time(adding_);
  SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(checkpoint, options.fingerprints));
  for (const auto& model : models_) {
    if (model->id.fingerprint != fingerprint || model->info.precision != options.precision) continue;
    const std::lock_guard lock(mutex_);
    model->retired_ = false;
    return model.get();
  }
  SACCADE_ASSIGN(const BackendOptions possible, possible_options(checkpoint, options, note));
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(checkpoint.string(), possible));
  auto model = std::make_unique<ServedModel>();
  const NoteCallback kept = [&](const Note& told) {
    if (told.warning) model->warnings.push_back(told.text);
    if (note) note(told);
  };
  note_of_loaded(loaded, kept);
  model->owner_ = this;
  model->options_ = possible;
  model->id = std::move(loaded.id);
  model->info = loaded.encoder->info();
  model->name = model->id.name;
  const auto taken = [&] {
    return std::ranges::any_of(models_, [&](const auto& other) { return other->name == model->name; });
  };
  if (taken()) model->name += fmt::format("@{}", enum_name(options.precision));
  if (taken()) model->name += fmt::format("-{:.12}", fingerprint);
  model->reads_texts = loaded.encoder->tokenizer() != nullptr;
  model->late_interaction = loaded.encoder->late_interaction() != nullptr;
  model->pair_scorer = loaded.encoder->pair_scorer() != nullptr;
  model->explains = check_explains(*loaded.encoder, {}).has_value();
  model->measured_length = measured_length_of(model->id, kept);
  model->bytes = bytes_of(model->info);
  if (limits_.memory > 0 && model->bytes > limits_.memory) {
    return fail(ErrorCode::kLimit, "{}: its parameters take {} bytes, and all models may take {}",
                model->name, model->bytes, limits_.memory);
  }
  SACCADE_TRY(make_room(model->bytes, *model, deadline()));
  (void)keep(*model, std::make_unique<SharedEncoder>(std::move(loaded.encoder), limits_.batches));
  const std::lock_guard lock(mutex_);
  models_.push_back(std::move(model));
  return models_.back().get();
}

std::vector<ServedModel*> ServedModels::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServedModel*> models;
  for (const auto& model : models_) {
    if (!model->retired_) models.push_back(model.get());
  }
  return models;
}

void ServedModels::retire(ServedModel& model) {
  std::shared_ptr<SharedEncoder> goes;  // let go of behind the lock: its end asks for it
  const std::lock_guard lock(mutex_);
  model.retired_ = true;
  goes = std::move(model.encoder_);
}

void ServedModels::restore(ServedModel& model) {
  const std::lock_guard lock(mutex_);
  model.retired_ = false;
  if (!model.encoder_) model.encoder_ = model.last_.lock();
}

std::shared_ptr<SharedEncoder> ServedModels::loaded(ServedModel& model) {
  const std::lock_guard lock(mutex_);
  model.used_ = ++asked_;
  if (model.encoder_) return model.encoder_;
  std::shared_ptr<SharedEncoder> last = model.last_.lock();
  if (last && !model.retired_) {  // a retired one goes when its last user ends
    model.encoder_ = last;
    changed_.notify_all();
  }
  return last;
}

Result<std::shared_ptr<SharedEncoder>> ServedModels::encoder_of(ServedModel& model) {
  if (auto encoder = loaded(model)) return encoder;
  // Covers waiting for other callers that load this model and then for memory, both together.
  const Clock::time_point until = deadline();
  const std::lock_guard only_one(model.loading_);
  if (auto encoder = loaded(model)) return encoder;
  SACCADE_TRY(make_room(model.bytes, model, until));
  bool kept = false;
  const std::shared_ptr<void> room(nullptr, [&](void*) {
    if (!kept) gone(model, {});
  });
  SACCADE_ASSIGN(LoadedEncoder anew, load_checkpoint(model.id.path, model.options_));
  if (anew.id.fingerprint != model.id.fingerprint) {
    return fail(ErrorCode::kMismatch, "{}: another checkpoint lies at {} by now", model.name, model.id.path);
  }
  auto shared = std::make_unique<SharedEncoder>(std::move(anew.encoder), limits_.batches);
  kept = true;
  return keep(model, std::move(shared));
}

Result<std::array<std::shared_ptr<SharedEncoder>, 2>> ServedModels::encoders_of(ServedModel& first,
                                                                                ServedModel& second) {
  std::array<std::shared_ptr<SharedEncoder>, 2> encoders = {loaded(first), loaded(second)};
  if (encoders[0] && encoders[1]) return encoders;
  encoders = {};
  std::unique_lock turn(pairing_, std::defer_lock);
  if (limits_.memory > 0 && &first != &second) {
    if (first.bytes + second.bytes > limits_.memory) {
      return fail(ErrorCode::kLimit, "{} and {} together take {} bytes, and all models may take {}",
                  first.name, second.name, first.bytes + second.bytes, limits_.memory);
    }
    if (!turn.try_lock_until(deadline())) {
      return fail(ErrorCode::kCancelled, "others wait for the memory of {} and {}: try again", first.name,
                  second.name);
    }
  }
  SACCADE_ASSIGN(encoders[0], encoder_of(first));
  SACCADE_ASSIGN(encoders[1], encoder_of(second));
  return encoders;
}

ServedModels::Clock::time_point ServedModels::deadline() const {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.wait_seconds));
}

// An unloaded encoder occupies memory until its last user has finished.
Status ServedModels::make_room(int64_t bytes, const ServedModel& model, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  while (limits_.memory > 0 && bytes_ + bytes > limits_.memory) {
    ServedModel* oldest = nullptr;
    for (const auto& other : models_) {
      if (other->encoder_ && (oldest == nullptr || other->used_ < oldest->used_)) oldest = other.get();
    }
    if (oldest != nullptr) {
      std::shared_ptr<SharedEncoder> goes = std::move(oldest->encoder_);
      lock.unlock();  // its end, if nobody else holds it, asks for the mutex
      goes.reset();
      lock.lock();
      continue;
    }
    if (Clock::now() >= deadline) {
      return fail(ErrorCode::kCancelled,
                  "{} takes {} bytes, and {} of the {} for all models are held by work on others: try again",
                  model.name, bytes, bytes_, limits_.memory);
    }
    changed_.wait_until(lock, deadline);
  }
  bytes_ += bytes;
  return {};
}

std::shared_ptr<SharedEncoder> ServedModels::keep(ServedModel& model,
                                                  std::unique_ptr<SharedEncoder> encoder) {
  const auto ended = [this, &model](SharedEncoder* shared) {
    const SharedEncoder::Counts counts = shared->counts();
    delete shared;  // NOLINT(*-owning-memory): this is its owner
    gone(model, counts);
  };
  std::shared_ptr<SharedEncoder> shared(encoder.release(), ended);
  const std::lock_guard lock(mutex_);
  if (!model.retired_) model.encoder_ = shared;
  model.last_ = shared;
  model.used_ = ++asked_;
  ++model.loads_;
  changed_.notify_all();  // it may be the one that goes for another
  return shared;
}

void ServedModels::gone(ServedModel& model, const SharedEncoder::Counts& counts) {
  const std::lock_guard lock(mutex_);
  serve::add(counts, model.past_);
  bytes_ -= model.bytes;
  changed_.notify_all();
}

ServedModels::Use ServedModels::use_of(const ServedModel& model) const {
  std::shared_ptr<SharedEncoder> last;  // let go of behind the lock: its end asks for it
  Use use;
  {
    const std::lock_guard lock(mutex_);
    use.loaded = model.encoder_ != nullptr;
    use.loads = model.loads_;
    use.counts = model.past_;
    last = model.last_.lock();
  }
  if (last) serve::add(last->counts(), use.counts);
  return use;
}

int64_t ServedModels::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace saccade::serve

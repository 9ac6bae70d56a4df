// Checkpoints of a server, with their encoders loaded within a memory limit. The least recently used encoder
// is unloaded first, and loaded again when it is requested.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/engine/core.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/serve/shared/shared_encoder.h"

namespace saccade::serve {

class ServedModels;

// A checkpoint, whether its encoder is loaded or not, and access to its encoder.
class ServedModel {
 public:
  std::string name;  // what clients call it: the checkpoint's name
  CheckpointId id;
  EncoderInfo info;
  bool reads_texts = false;
  bool late_interaction = false;
  bool pair_scorer = false;
  bool explains = false;  // check_explains
  std::optional<MeasuredLength> measured_length;
  std::vector<std::string> warnings;  // about the checkpoint, for people
  int64_t bytes = 0;                  // of memory that its encoder takes, by its parameters

  // Returns the encoder, loaded now if it is not. It stays loaded while anybody holds it. kCancelled if
  // others hold the memory for longer than a client should wait; errors of load_checkpoint; kMismatch if
  // another checkpoint has replaced it. Thread-safe; concurrent callers wait for the one that loads it.
  [[nodiscard]] Result<std::shared_ptr<SharedEncoder>> encoder();
  // Returns the encoders of this model and of `other`, both as encoder(). kLimit if the two exceed the memory limit together.
  // With such a limit callers that have to load one take turns, so that no two of them hold an encoder each and wait for the
  // other's memory.
  // Thread-safe.
  [[nodiscard]] Result<std::array<std::shared_ptr<SharedEncoder>, 2>> encoder_with(ServedModel& other);
  // Returns this model's encoder, lent to one user, as engines take it.
  [[nodiscard]] EngineEncoder engine_encoder(std::shared_ptr<EncoderBackend> lent) const {
    return {std::move(lent), name, measured_length};
  }

 private:
  friend class ServedModels;
  ServedModels* owner_ = nullptr;
  BackendOptions options_;
  std::mutex loading_;
  // The owner's mutex guards the following fields.
  bool retired_ = false;        // no longer served
  SharedEncoder::Counts past_;  // of encoders that have gone
  int64_t loads_ = 0;
  uint64_t used_ = 0;                       // when it was asked for, in askings of all models
  std::weak_ptr<SharedEncoder> last_;       // in memory while anybody holds it
  std::shared_ptr<SharedEncoder> encoder_;  // nullptr: not loaded, or to go once nobody holds it
};

struct ModelLimits {
  int64_t memory = 0;  // bytes of all encoders that are loaded; 0: no limit
  BatchLimits batches = {};
  double wait_seconds = 30;  // for others' encoders to go
};

class ServedModels {
 public:
  explicit ServedModels(ModelLimits limits) : limits_(limits) {}
  ServedModels(const ServedModels&) = delete;
  ServedModels& operator=(const ServedModels&) = delete;

  // Adds a checkpoint and loads it, unless the same one exists in the same precision. kLimit if it alone
  // exceeds the memory limit. A model that does not run on the device, by its family or precision, is loaded on the
  // processor. `note` is told what people should know of it. Thread-safe; callers take turns.
  Result<ServedModel*> add(const std::filesystem::path& checkpoint, const BackendOptions& options,
                           const NoteCallback& note = {});
  // Returns the models in the order in which they were added, without those that were retired. Thread-safe.
  [[nodiscard]] std::vector<ServedModel*> all() const;
  // Unloads a model, and does not list it any more until it is added again. Whoever holds its encoder keeps it. Thread-safe.
  void retire(ServedModel& model);
  // Lists a model again that was retired while somebody was about to use it, and keeps its encoder if that is still in
  // memory. Thread-safe.
  void restore(ServedModel& model);

  // Thread-safe.
  struct Use {
    bool loaded = false;
    int64_t loads = 0;  // the first included
    SharedEncoder::Counts counts;
  };
  [[nodiscard]] Use use_of(const ServedModel& model) const;
  [[nodiscard]] int64_t bytes() const;  // of all that are in memory, those about to go included

 private:
  friend class ServedModel;
  // Returns the model's encoder if it is in memory, else `nullptr`. Waits for nobody.
  std::shared_ptr<SharedEncoder> loaded(ServedModel& model);
  Result<std::shared_ptr<SharedEncoder>> encoder_of(ServedModel& model);
  Result<std::array<std::shared_ptr<SharedEncoder>, 2>> encoders_of(ServedModel& first, ServedModel& second);
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] Clock::time_point deadline() const;  // of waiting for room, from now
  Status make_room(int64_t bytes, const ServedModel& model, Clock::time_point deadline);
  // Stores the encoder in the model; its memory is already reserved.
  std::shared_ptr<SharedEncoder> keep(ServedModel& model, std::unique_ptr<SharedEncoder> encoder);
  void gone(ServedModel& model, const SharedEncoder::Counts& counts);

  const ModelLimits limits_;
  std::mutex adding_;         // held by add(), which alone changes the list of models
  std::timed_mutex pairing_;  // held by encoders_of()
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // what is loaded, or what is in memory
  int64_t bytes_ = 0;
  uint64_t asked_ = 0;
  // Last: encoders say that they go.
  std::vector<std::unique_ptr<ServedModel>> models_;
};

}  // namespace saccade::serve

// Pool of decoder processes: no image can crash, stall or read from the program.
//
// Decoders abort if memory runs out (GLib, librsvg), take hours on malicious files, and are a prime target of
// attackers. The kernel limits the memory and time of a separate process. It has no network, and no files but
// the system's libraries and fonts (sandbox.h). A crash is one image's error.
// docs/adr/0007-decoding-in-processes.md has the reasons and the costs.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/decode_need.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"

namespace saccade {

struct DecoderPoolOptions {
  std::filesystem::path program;            // saccade-decode, of the same build
  int64_t memory_bytes = int64_t{2} << 30;  // that a process may take for itself; 0: no limit
  int64_t budget_bytes = 0;                 // memory of all processes together; 0: default_decode_memory()
  int processes = 0;  // number of processes at a time; 0: as many as this program may use processors
};

// Returns the memory of a process that has room for an image of so many pixels, at least that of DecoderPoolOptions. Decoders of
// whole images hold them once or twice, at up to 4 bytes a pixel.
inline int64_t decoder_memory(int64_t pixels) {
  return std::max(DecoderPoolOptions().memory_bytes, 8 * std::min(pixels, int64_t{1} << 40));
}

// Finds the helper of the running program: saccade-decode beside it, or in ../libexec/saccade. `nullopt` if
// neither exists.
std::optional<std::filesystem::path> find_decoder_program();

class DecoderPool {
 public:
  // Starts a first process, about 0.05 s: so that a helper that is missing or of another build is known
  // before pictures are read. kNotFound, kMismatch, kIo.
  static Result<std::unique_ptr<DecoderPool>> start(DecoderPoolOptions options);
  DecoderPool(const DecoderPool&) = delete;
  DecoderPool& operator=(const DecoderPool&) = delete;
  // Ends all processes. No call may be running.
  ~DecoderPool();

  // Runs decode_image in a process; called through DecodeOptions::processes. A call waits, first come, first
  // served, for a free process and for its memory. A process first reads the header with little memory. An
  // image that needs more waits for that much of the budget, which the kernel then enforces. One that needs
  // more than the whole budget is refused (kLimit).
  //
  // A process is ended if it dies, is asked to stop, or exceeds max_seconds of processor time (or tenfold and
  // a minute of wall time). The next call starts another. If it dies of a lack of memory, the image is tried
  // once more in a fresh process with the maximum memory. The answer thus does not depend on estimates or on
  // earlier images. Thread-safe; a call must not come from within `use` of another. Cost over decoding:
  // copying bytes there and pixels back, two wake-ups.
  Result<DecodedImage> decode(std::span<const std::byte> bytes, const DecodeOptions& options);
  // decode_for() likewise: the pixels are those that the process has written,
  // which waits until `use` returns.
  Status decode_for(std::span<const std::byte> bytes, const DecodeOptions& options, const UsePicture& use);

  // Share of the budget and of the processors for another program that decodes (decode/video.h). The destructor
  // gives it back.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), processes_(other.processes_), bytes_(other.bytes_) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation();
    [[nodiscard]] int64_t bytes() const { return bytes_; }

   private:
    friend class DecoderPool;
    Reservation(DecoderPool& pool, int processes, int64_t bytes)
        : pool_(&pool), processes_(processes), bytes_(bytes) {}
    DecoderPool* pool_;  // nullptr: moved from
    int processes_;
    int64_t bytes_;
  };
  // Waits, in one queue with decode(), until so many bytes and processors are free. More than there are is as much
  // as all. A stop request, or max_wait_seconds (0: no limit), ends the wait with kCancelled. Thread-safe; a call
  // must not come from within `use` of decode_for().
  Result<Reservation> reserve(int64_t bytes, int processors, const std::stop_token& stop = {},
                              double max_wait_seconds = 0);

  // Returns the isolation that the kernel granted: "files: Landlock 7; system calls: seccomp; memory:
  // limited".
  [[nodiscard]] const std::string& isolation() const { return isolation_; }
  [[nodiscard]] int64_t budget_bytes() const { return options_.budget_bytes; }
  [[nodiscard]] int processes() const { return options_.processes; }

 private:
  class Process;
  class Lease;
  struct Wish {
    DecodeNeed need;
    size_t input = 0;    // bytes of the file
    bool fresh = false;  // a process that has decoded nothing before
  };
  struct Patience {
    std::stop_token stop;
    double seconds = 0;  // 0: no limit
  };
  using Ended = std::vector<std::unique_ptr<Process>>;  // destroyed without the lock: it takes a moment
  explicit DecoderPool(DecoderPoolOptions options);
  Result<Lease> acquire(const Wish& wish, const DecodeOptions& options);
  Status wait_for_turn(std::unique_lock<std::mutex>& lock, int64_t charge, int processes,
                       const Patience& patience);
  [[nodiscard]] bool has_room(int64_t charge, int processes) const;
  void end_idle(int64_t charge, int processes, Ended& ended);
  [[nodiscard]] int64_t charge_of(const DecodeNeed& need, size_t input) const;
  [[nodiscard]] int64_t most_working(const Wish& wish) const;
  void give_back(std::unique_ptr<Process> process, int64_t charge, int processes = 1);

  DecoderPoolOptions options_;
  std::string isolation_;
  int64_t base_bytes_ = 0;  // memory of a process before its first image
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::list<uint64_t> waiting_;  // tickets, the longest waiting first
  uint64_t tickets_ = 0;
  int busy_ = 0;            // processes at work, and processors that are reserved
  int64_t busy_bytes_ = 0;  // of the budget, for both
  std::vector<std::unique_ptr<Process>> free_;
};

}  // namespace saccade

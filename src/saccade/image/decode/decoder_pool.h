// Processes that decode, so that no picture can end, stall or read from the program.
//
// Decoders abort where memory runs out (GLib, librsvg), take hours where the file wants them to, and are the
// code that attackers look at first. A process of its own has a limit of memory and of time that the kernel
// enforces, no network, and no files but those of the system's libraries and fonts (sandbox.h). What it does
// not survive is one picture's error. docs/adr/0007-decoding-in-processes.md has the reasons and the costs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/image.h"
#include "saccade/image/image_view.h"

namespace saccade {

struct DecoderPoolOptions {
  std::filesystem::path program;            // saccade-decode, of the same build
  int64_t memory_bytes = int64_t{2} << 30;  // that a process may take for itself; 0: no limit
};

// The helper of the running program: saccade-decode beside it,
// or in ../libexec/saccade. Nothing where neither is there.
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

  // decode_image in a process: for DecodeOptions::processes, which is what calls it. As many processes run as
  // calls at a time; those that are free are kept. A process that dies, or outlasts max_seconds (of its
  // processor's time; tenfold and a minute by the clock on the wall), or is asked to stop, is ended, and the
  // next call starts another. What died for want of memory is tried once more in a fresh process, so that the
  // answer does not depend on what was decoded before. Thread-safe. Cost over decoding: copying bytes there
  // and pixels back, two wake-ups.
  Result<DecodedImage> decode(std::span<const std::byte> bytes, const DecodeOptions& options);
  // decode_for() likewise: the pixels are those that the process has written,
  // which waits until `use` returns.
  Status decode_for(std::span<const std::byte> bytes, const DecodeOptions& options, const UsePicture& use);

  // What the kernel granted: "files: Landlock 7; system calls: seccomp; memory: limited".
  [[nodiscard]] const std::string& isolation() const { return isolation_; }

 private:
  class Process;
  explicit DecoderPool(DecoderPoolOptions options);
  std::unique_ptr<Process> take_free();  // nullptr: none is free
  void give_back(std::unique_ptr<Process> process);

  DecoderPoolOptions options_;
  std::string isolation_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Process>> free_;
};

}  // namespace saccade

#include "saccade/image/decode/process/decoder_process.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "saccade/image/decode/decode_here.h"
#include "saccade/image/decode/process/decoder_messages.h"
#include "saccade/image/decode/process/sandbox.h"
#include "saccade/image/decode/vips_support.h"

namespace saccade {
namespace {

bool send_message(const void* message, size_t size) {
  for (;;) {
    const ssize_t sent = ::send(kDecoderSocket, message, size, MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) return sent == static_cast<ssize_t>(size);
  }
}

// Ends this process with the one that started it, whatever it is doing: when the lifeline's other end closes,
// the default action of SIGIO ends it. PR_SET_PDEATHSIG would follow the thread that started it, not the
// process.
bool follow_to_the_end() {
  return ::fcntl(kDecoderLifeline, F_SETOWN, ::getpid()) == 0 &&
         ::fcntl(kDecoderLifeline, F_SETFL, O_NONBLOCK | O_ASYNC) == 0;
}

// Limit of processor time that the kernel enforces if the parent does not: whole seconds. It is reset only
// when an image would have less than its limit left, not for each image.
class ProcessorLimit {
 public:
  void allow(double seconds) {
    rlimit limit = {};
    if (seconds <= 0) {
      if (limited_ && ::getrlimit(RLIMIT_CPU, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        limited_ = ::setrlimit(RLIMIT_CPU, &limit) != 0;
      }
      return;
    }
    rusage used = {};
    ::getrusage(RUSAGE_SELF, &used);
    const double now = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 2;
    const double end = now + std::ceil(seconds) + 1;
    if (limited_ && end <= end_ && end_ <= end + kSlack) return;
    if (::getrlimit(RLIMIT_CPU, &limit) != 0) return;
    end_ = end + kSlack;
    limit.rlim_cur = end_ < 1e9 ? static_cast<rlim_t>(end_) : limit.rlim_max;
    limited_ = ::setrlimit(RLIMIT_CPU, &limit) == 0;
  }

 private:
  static constexpr double kSlack = 10;
  double end_ = 0;
  bool limited_ = false;
};

// Memory of this process's own in bytes, as RLIMIT_DATA counts it; 0 if it cannot be read.
int64_t data_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return file ? pages * ::sysconf(_SC_PAGESIZE) : 0;
}

// One picture. False: nobody listens any more, or there is no room for an answer.
bool answer(const DecodeRequest& request, const DecoderReaders& readers, SharedBytes& input,
            SharedBytes& output) {
  const DecodeOptions options = options_of(request);
  bool has_pixels = false;
  DecodeHere here;
  here.in_own_process = true;
  here.raw = readers.raw;
  DecodeNeed lacking;
  here.claim = [&](const DecodeNeed& need, const std::string& what) -> Status {
    if (need.working <= request.granted.working && need.output <= request.granted.output) return {};
    lacking = need;
    return fail(ErrorCode::kLimit, "{}", what);
  };
  here.room = [&](size_t bytes) -> uint8_t* {
    const auto room = output.map(kDecoderPixels + bytes, true);
    has_pixels = room.has_value();
    return has_pixels ? reinterpret_cast<uint8_t*>(*room) + kDecoderPixels : nullptr;
  };
  const auto decode = [&]() -> Result<DecodedImage> {
    SACCADE_ASSIGN(const std::byte* bytes, input.map(request.bytes, false));
    const std::span content(bytes, request.bytes);
    SACCADE_TRY(check_decode_input(content, options));
    return decode_here(content, options, here);
  };
  const Result<DecodedImage> decoded = decode();
  const auto front = output.map(kDecoderPixels, true);
  if (!front) return false;
  auto& said = *reinterpret_cast<DecodeAnswer*>(*front);
  said.has_facts = 0;
  said.lacking = decoded ? DecodeNeed() : lacking;
  said.reply = reply_of(decoded, has_pixels);
  std::atomic_ref(said.number).store(request.number, std::memory_order_release);
  if (asks_for_facts(options, said.reply)) {
    const auto bytes = input.map(request.bytes, false);
    if (bytes) {
      said.facts = message_of(readers.facts(std::span<const std::byte>(*bytes, request.bytes)));
      said.has_facts = 1;
    }
  }
  return send_message(&request.number, sizeof request.number);
}

}  // namespace

int run_decoder_process(std::span<const std::string> arguments, const DecoderReaders& readers,
                        std::string& problem) {
  const std::string number = std::to_string(kDecoderProtocol);
  int64_t memory = 0;
  if (arguments.size() != 2 ||
      std::from_chars(arguments[1].data(), arguments[1].data() + arguments[1].size(), memory).ec !=
          std::errc()) {
    problem = "saccade-decode decodes images for saccade, which starts it; it is not run by hand.\nHere: " +
              isolate(int64_t{1} << 30).describe();
    return 2;
  }
  if (arguments[0] != number) {
    problem =
        "saccade-decode of another version: it speaks protocol " + number + ", asked for " + arguments[0];
    return 2;
  }
  // Closes descriptors that the program had open and did not mark close-on-exec.
  (void)::close_range(kDecoderLifeline + 1, ~0U, 0);
  // Keeps freed memory for the next image. Returning and allocating it again costs a page fault for every
  // 4 KiB, a tenth of the time of decoding a photograph.
  (void)::mallopt(M_MMAP_THRESHOLD, 64 << 20);
  (void)::mallopt(M_TRIM_THRESHOLD, 128 << 20);
  if (!follow_to_the_end()) {
    problem = "saccade-decode: no lifeline";
    return 1;
  }
  if (bundled_vips()) {
    // Libraries that came with Saccade load no modules of the system, which are built for other versions of them.
    ::setenv("GIO_MODULE_DIR", "/nonexistent", 1);
    ::setenv("GDK_PIXBUF_MODULE_FILE", "/dev/null", 1);
  }
  problem = start_vips();
  if (!problem.empty()) return 1;
  DecoderHello hello;
  // Shadow memory of sanitizers is not what the budget for decoding is about.
  if (memory_can_be_limited()) hello.data_bytes = data_bytes();
  const Isolation isolation = isolate(memory);
  hello.landlock = isolation.landlock;
  hello.seccomp = isolation.seccomp ? 1 : 0;
  hello.memory_limited = isolation.memory_limited ? 1 : 0;
  if (!send_message(&hello, sizeof hello)) return 0;

  SharedBytes input(Descriptor(kDecoderInput), false);
  SharedBytes output(Descriptor(kDecoderOutput), true);
  ProcessorLimit limit;
  for (;;) {
    DecodeRequest request;
    const ssize_t got = ::recv(kDecoderSocket, &request, sizeof request, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof request)) return 0;
    limit.allow(request.max_seconds);
    if (!answer(request, readers, input, output)) return 0;
  }
}

}  // namespace saccade

#include "saccade/image/decode/process/decoder_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/installed.h"
#include "saccade/core/process/spawn_settings.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"
#include "saccade/image/decode/decode_here.h"
#include "saccade/image/decode/process/decoder_messages.h"
#include "saccade/image/decode/process/sandbox.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMilliseconds = 100;  // how often clocks and stop tokens are looked at
constexpr double kHelloSeconds = 60;    // a machine under load starts programs slowly
// A decoder says itself that its time is over, where it can; it is ended so much later.
constexpr double kGraceSeconds = 0.25;
constexpr double kFactsSeconds = 5;  // for what a file says of itself, once its pixels are there
// Memory with which a process reads a header, and most files whole.
constexpr DecodeNeed kFirstNeed = {.working = int64_t{32} << 20, .output = int64_t{16} << 20};
constexpr size_t kLeastInput = size_t{16} << 20;  // of a file that fits into any budget
// A process that was granted more is ended after its image: what libraries keep would count against the budget.
constexpr int64_t kKeptBytes = int64_t{256} << 20;
constexpr size_t kWordsBytes = 4096;  // of what a decoder said on stderr before it died

// Descriptors that dup2 in the child cannot meet: above those that it begins with.
Result<Descriptor> raised(int descriptor, std::string_view what) {
  const Descriptor low(descriptor);
  if (descriptor < 0) return fail_errno(errno, what);
  const int high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  if (high < 0) return fail_errno(errno, what);
  return Descriptor(high);
}

struct Ends {
  Descriptor ours;
  Descriptor its;
};

Result<Ends> make_pipe(bool we_read) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  Result<Descriptor> reading = raised(ends[0], "make a pipe");
  Result<Descriptor> writing = raised(ends[1], "make a pipe");
  if (!reading) return fail(reading.error());
  if (!writing) return fail(writing.error());
  if (we_read) return Ends{*std::move(reading), *std::move(writing)};
  return Ends{*std::move(writing), *std::move(reading)};
}

Result<Ends> make_socket() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno(errno, "make a socket");
  }
  Result<Descriptor> ours = raised(ends[0], "make a socket");
  Result<Descriptor> its = raised(ends[1], "make a socket");
  if (!ours) return fail(ours.error());
  if (!its) return fail(its.error());
  return Ends{*std::move(ours), *std::move(its)};
}

Status mapped_first(SharedBytes& bytes) {
  constexpr size_t kFirst = size_t{1} << 20;
  SACCADE_ASSIGN(const std::byte* mapped, bytes.map(kFirst, true));
  (void)mapped;
  return {};
}

DecodeNeed larger(const DecodeNeed& a, const DecodeNeed& b) {
  return {std::max(a.working, b.working), std::max(a.output, b.output)};
}

// Shared files grow by whole steps.
int64_t in_steps(int64_t bytes) {
  constexpr auto kStep = static_cast<int64_t>(SharedBytes::kStep);
  return (bytes + kStep - 1) / kStep * kStep;
}

std::string gibibytes(int64_t bytes) {
  return fmt::format("{:.3g} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

}  // namespace

// One process, and the files in memory shared with it. One call at a time.
class DecoderPool::Process {
 public:
  static Result<std::unique_ptr<Process>> start(const DecoderPoolOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { end(); }

  struct Answer {
    Status done;                             // the decoder's error, or what `use` returned
    bool of_memory = false;                  // which earlier pictures may have taken
    bool never_begun = false;                // the process had gone before
    std::optional<DecodeNeed> lacking = {};  // all memory that the image needs; `done` describes the image
  };
  Answer decode(std::span<const std::byte> bytes, const DecodeOptions& options, const UsePicture& use);

  [[nodiscard]] bool usable() const { return pid_ > 0; }
  // Raises the process's limits to at least this; earlier grants stay valid.
  void grant(const DecodeNeed& need);
  [[nodiscard]] const DecodeNeed& granted() const { return granted_; }
  [[nodiscard]] size_t input_bytes() const { return input_.size(); }
  [[nodiscard]] const DecoderHello& hello() const { return hello_; }

 private:
  Process(SharedBytes input, SharedBytes output) : input_(std::move(input)), output_(std::move(output)) {}

  Status read_hello(const std::filesystem::path& program);
  Result<std::optional<Error>> wait(const DecodeOptions& options);
  [[nodiscard]] bool has_decoded();
  Result<DecodeAnswer> said();
  [[nodiscard]] double processor_seconds() const;
  int end();
  std::string last_words();
  Answer died();

  pid_t pid_ = 0;  // 0: ended
  Descriptor socket_;
  Descriptor words_;     // its stderr
  Descriptor lifeline_;  // closes with us
  SharedBytes input_;
  SharedBytes output_;
  uint64_t number_ = 0;  // of the request that it is at, or was
  DecoderHello hello_;
  int64_t memory_bytes_ = 0;  // most that it may ever take; 0: no limit
  DecodeNeed granted_;
  int64_t data_limit_ = 0;  // RLIMIT_DATA now; 0: none
};

Result<std::unique_ptr<DecoderPool::Process>> DecoderPool::Process::start(const DecoderPoolOptions& options) {
  SACCADE_ASSIGN(SharedBytes input, SharedBytes::make("saccade-decode input"));
  SACCADE_ASSIGN(SharedBytes output, SharedBytes::make("saccade-decode output"));
  // So long at once, for most pictures; and where files may not be (RLIMIT_FSIZE), this is where it shows.
  for (SharedBytes* bytes : {&input, &output}) SACCADE_TRY(mapped_first(*bytes));
  SACCADE_ASSIGN(Descriptor its_input, raised(::dup(input.descriptor()), "share memory"));
  SACCADE_ASSIGN(Descriptor its_output, raised(::dup(output.descriptor()), "share memory"));
  SACCADE_ASSIGN(Ends socket, make_socket());
  SACCADE_ASSIGN(Ends words, make_pipe(true));
  SACCADE_ASSIGN(Ends lifeline, make_pipe(false));
  // Words that nobody reads are lost, not waited for.
  for (const int end : {words.ours.get(), words.its.get()}) (void)::fcntl(end, F_SETFL, O_NONBLOCK);

  std::string program = options.program.string();
  std::string protocol = std::to_string(kDecoderProtocol);
  std::string memory = std::to_string(options.memory_bytes);
  std::array<char*, 4> argv = {program.data(), protocol.data(), memory.data(), nullptr};
  SpawnSettings settings;
  const auto hand_over = [&](const Descriptor& from, int to) {
    posix_spawn_file_actions_adddup2(&settings.files, from.get(), to);
  };
  hand_over(socket.its, kDecoderSocket);
  hand_over(its_input, kDecoderInput);
  hand_over(words.its, STDERR_FILENO);
  hand_over(its_output, kDecoderOutput);
  hand_over(lifeline.its, kDecoderLifeline);
  pid_t child = 0;
  // Never fork without exec: this process has many threads, and pages by the gigabyte.
  const int error =
      ::posix_spawn(&child, program.c_str(), &settings.files, &settings.attributes, argv.data(), environ);
  if (error != 0) return fail_errno(error, fmt::format("start {}", program));

  std::unique_ptr<Process> process(new Process(std::move(input), std::move(output)));
  process->pid_ = child;
  process->socket_ = std::move(socket.ours);
  process->words_ = std::move(words.ours);
  process->lifeline_ = std::move(lifeline.ours);
  process->memory_bytes_ = options.memory_bytes;
  socket.its = Descriptor();
  SACCADE_TRY(process->read_hello(options.program));
  return process;
}

Status DecoderPool::Process::read_hello(const std::filesystem::path& program) {
  const auto start = Clock::now();
  for (;;) {
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, kLookMilliseconds);
    if (ready > 0) break;
    if (seconds_since(start) > kHelloSeconds) {
      return fail(ErrorCode::kIo, "{} does not answer within {} seconds", program.string(), kHelloSeconds);
    }
  }
  const ssize_t got = ::recv(socket_.get(), &hello_, sizeof hello_, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof hello_) && hello_.protocol == kDecoderProtocol) return {};
  (void)end();
  const std::string said = last_words();
  return fail(ErrorCode::kMismatch, "{} is not the decoder of this program{}{}", program.string(),
              said.empty() ? "" : ": ", said);
}

void DecoderPool::Process::grant(const DecodeNeed& need) {
  granted_ = larger(granted_, need);
  // The hard limits are those that it has set itself (sandbox.h), and stay.
  const auto set = [&](__rlimit_resource resource, int64_t bytes) {
    const rlim_t most = memory_bytes_ > 0 ? static_cast<rlim_t>(memory_bytes_) : RLIM_INFINITY;
    const rlimit limits = {std::min(static_cast<rlim_t>(bytes), most), most};
    return ::prlimit(pid_, resource, &limits, nullptr) == 0 ? static_cast<int64_t>(limits.rlim_cur) : 0;
  };
  if (memory_bytes_ <= 0) return;
  (void)set(RLIMIT_FSIZE, in_steps(static_cast<int64_t>(kDecoderPixels) + granted_.output));
  if (hello_.memory_limited != 0) data_limit_ = set(RLIMIT_DATA, hello_.data_bytes + granted_.working);
}

double DecoderPool::Process::processor_seconds() const {
  clockid_t clock{};
  timespec now{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns true if the image has been decoded, whatever happens to its metadata.
bool DecoderPool::Process::has_decoded() {
  const auto front = output_.map(kDecoderPixels, false);
  if (!front) return false;
  auto& said = *reinterpret_cast<DecodeAnswer*>(*front);
  return std::atomic_ref(said.number).load(std::memory_order_acquire) == number_;
}

// A copy of what it says: a process that was taken over may write on.
Result<DecodeAnswer> DecoderPool::Process::said() {
  SACCADE_ASSIGN(const std::byte* front, output_.map(kDecoderPixels, false));
  DecodeAnswer answer;
  std::memcpy(&answer, front, sizeof answer);
  if (answer.number != number_) {
    return fail(ErrorCode::kInternal, "its decoder's answer makes no sense: it is to another image");
  }
  return answer;
}

// Waits until there is an answer to read, or the end of it. An error: the process has to be ended for it.
Result<std::optional<Error>> DecoderPool::Process::wait(const DecodeOptions& options) {
  double allowed = options.max_seconds;
  auto since = Clock::now();
  // Its own clock is first looked at when it takes long.
  std::optional<double> before;
  bool decoded = false;
  for (;;) {
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&wait, 1, kLookMilliseconds);
    if (ready > 0) return std::optional<Error>();
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "wait for a decoder");
    if (options.stop.stop_requested()) {
      return std::optional(Error{ErrorCode::kCancelled, "asked to stop while decoding"});
    }
    const double now = processor_seconds();
    if (!before) before = now;
    if (!decoded && has_decoded()) {
      decoded = true;
      allowed = kFactsSeconds;
      since = Clock::now();
      before = now;
    }
    if (allowed <= 0) continue;
    if (now - *before > allowed + kGraceSeconds || seconds_since(since) > 10 * allowed + 60) {
      return std::optional(Error{ErrorCode::kLimit, fmt::format("not decoded within {} seconds", allowed)});
    }
  }
}

int DecoderPool::Process::end() {
  if (pid_ <= 0) return 0;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

// The end of what it wrote to stderr, as one line.
std::string DecoderPool::Process::last_words() {
  std::string text(kWordsBytes, '\0');
  std::string all;
  for (;;) {
    const ssize_t got = ::read(words_.get(), text.data(), text.size());
    if (got <= 0) break;
    all.append(text.data(), static_cast<size_t>(got));
    if (all.size() > kWordsBytes) all.erase(0, all.size() - kWordsBytes);
  }
  while (!all.empty() && static_cast<unsigned char>(all.back()) <= ' ') all.pop_back();
  const size_t line = all.rfind('\n');
  if (line != std::string::npos) all.erase(0, line + 1);
  if (all.size() > 300) all.resize(300);
  for (char& c : all) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return all;
}

// Returns the error of the image that made the process end by itself.
DecoderPool::Process::Answer DecoderPool::Process::died() {
  const int status = end();  // it ends already: what it ends of stands
  const std::string said = last_words();
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU) {
    return {fail(ErrorCode::kLimit, "its decoder ran out of time"), false, false};
  }
  // This signal did not come from here: the kernel ends programs so when the machine's memory runs out.
  if (signal == SIGKILL) {
    return {fail(ErrorCode::kIo, "its decoder was killed, as it happens where memory runs out"), true, false};
  }
  if (speaks_of_memory(said)) {
    return {fail(ErrorCode::kLimit, "its decoder ran out of its {}: {}", gibibytes(data_limit_), said), true,
            false};
  }
  const std::string how = signal != 0 ? fmt::format("crashed ({})", ::strsignal(signal))
                                      : fmt::format("ended with code {}", WEXITSTATUS(status));
  return {fail(ErrorCode::kBadData, "its decoder {}{}{}", how, said.empty() ? "" : ": ", said), false, false};
}

DecoderPool::Process::Answer DecoderPool::Process::decode(std::span<const std::byte> bytes,
                                                          const DecodeOptions& options,
                                                          const UsePicture& use) {
  const auto room = input_.map(bytes.size(), true);
  if (!room) return {fail(room.error()), false, false};
  std::memcpy(*room, bytes.data(), bytes.size());
  DecodeNeed granted = granted_;
  // No estimate may refuse what the process's own limit allows.
  if (memory_bytes_ > 0 && hello_.data_bytes + granted.working >= memory_bytes_) {
    granted.working = std::numeric_limits<int64_t>::max();
  }
  const DecodeRequest request = request_of(++number_, bytes.size(), options, granted);
  if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request)) {
    (void)end();
    return {fail(ErrorCode::kIo, "its decoder had ended"), false, true};
  }
  auto waited = wait(options);
  uint64_t number = 0;
  const bool answered = waited && !*waited &&
                        ::recv(socket_.get(), &number, sizeof number, MSG_DONTWAIT) == sizeof number &&
                        number == number_;
  const bool cancelled = waited && *waited && (*waited)->code == ErrorCode::kCancelled;
  // Without an answer the image may still have been decoded. The process then died of the metadata.
  if (!answered && (cancelled || !has_decoded())) {
    if (waited && !*waited) return died();
    (void)end();
    return {fail(waited ? **std::move(waited) : std::move(waited).error()), false, false};
  }
  if (!answered) (void)end();
  auto answer = said();
  if (!answer) {
    (void)end();
    return {fail(answer.error()), false, false};
  }
  auto read = read_reply(answer->reply, options);
  if (!read) {
    const bool of_memory = read.error().code == ErrorCode::kIo && speaks_of_memory(read.error().message);
    if (of_memory) {
      (void)end();
      return {fail(ErrorCode::kLimit, "its decoder ran out of its {}: {}", gibibytes(data_limit_),
                   read.error().message),
              true, false};
    }
    if (read.error().code == ErrorCode::kInternal) (void)end();
    const DecodeNeed& lacking = answer->lacking;
    if (lacking.working > granted.working || lacking.output > granted.output) {
      return {fail(std::move(read).error()), false, false, lacking};
    }
    return {fail(std::move(read).error()), false, false};
  }
  DecodedImage& picture = read->picture;
  PictureView view{ImageView(picture), std::move(picture.format), picture.original_width,
                   picture.original_height};
  if (read->pixels > 0) {
    const auto pixels = output_.map(kDecoderPixels + read->pixels, false);
    if (!pixels) {
      (void)end();
      return {fail(pixels.error()), false, false};
    }
    view.image.pixels = {reinterpret_cast<const uint8_t*>(*pixels) + kDecoderPixels, read->pixels};
  }
  if (answered && answer->has_facts != 0 && asks_for_facts(options, answer->reply)) {
    view.facts = facts_of(answer->facts);
  }
  return {use(view)};
}

// A process for one call, and its share of the budget, given back with it.
class DecoderPool::Lease {
 public:
  Lease(DecoderPool& pool, std::unique_ptr<Process> process, int64_t charge)
      : pool_(&pool), process_(std::move(process)), charge_(charge), fresh_(process_ == nullptr) {}
  Lease(Lease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        process_(std::move(other.process_)),
        charge_(other.charge_),
        fresh_(other.fresh_) {}
  Lease& operator=(Lease&&) = delete;
  // The process is ended: nobody knows what it is at.
  ~Lease() {
    if (pool_ == nullptr) return;
    process_.reset();
    pool_->give_back(nullptr, charge_);
  }

  Status start(const DecoderPoolOptions& options) {
    SACCADE_ASSIGN(process_, Process::start(options));
    return {};
  }
  // The call is over, and the process waits for another.
  void done() {
    if (process_->usable() && charge_ <= kKeptBytes) {
      std::exchange(pool_, nullptr)->give_back(std::move(process_), charge_);
    }
  }
  [[nodiscard]] Process* process() const { return process_.get(); }
  [[nodiscard]] bool fresh() const { return fresh_; }

 private:
  DecoderPool* pool_;
  std::unique_ptr<Process> process_;
  int64_t charge_;
  bool fresh_;
};

std::optional<std::filesystem::path> find_decoder_program() {
  for (const std::filesystem::path& prefix : install_prefixes()) {
    for (const char* place : {"bin/saccade-decode", "libexec/saccade/saccade-decode"}) {
      if (::access((prefix / place).c_str(), X_OK) == 0) return prefix / place;
    }
  }
  return std::nullopt;
}

DecoderPool::DecoderPool(DecoderPoolOptions options) : options_(std::move(options)) {
  if (options_.budget_bytes <= 0) options_.budget_bytes = default_decode_memory();
  if (options_.processes <= 0) options_.processes = available_processors();
}

DecoderPool::~DecoderPool() = default;

Result<std::unique_ptr<DecoderPool>> DecoderPool::start(DecoderPoolOptions options) {
  std::unique_ptr<DecoderPool> pool(new DecoderPool(std::move(options)));
  SACCADE_ASSIGN(std::unique_ptr<Process> first, Process::start(pool->options_));
  const DecoderHello& hello = first->hello();
  pool->isolation_ = Isolation{hello.landlock, hello.seccomp != 0, hello.memory_limited != 0}.describe();
  pool->base_bytes_ = hello.data_bytes;
  // One process always has room: small images are decoded on any machine.
  pool->options_.budget_bytes =
      std::max(pool->options_.budget_bytes, pool->charge_of(kFirstNeed, kLeastInput));
  first->grant(kFirstNeed);
  pool->free_.push_back(std::move(first));
  return pool;
}

int64_t DecoderPool::charge_of(const DecodeNeed& need, size_t input) const {
  int64_t own = base_bytes_ + need.working;
  if (options_.memory_bytes > 0) own = std::min(own, options_.memory_bytes);
  return own + in_steps(static_cast<int64_t>(kDecoderPixels) + need.output) +
         in_steps(static_cast<int64_t>(input));
}

// Returns the working memory that the process's own limit and the budget leave.
int64_t DecoderPool::most_working(const Wish& wish) const {
  const int64_t left = options_.budget_bytes - charge_of({0, wish.need.output}, wish.input);
  return options_.memory_bytes > 0 ? std::min(options_.memory_bytes, left) : left;
}

// Waits until it is this call's turn, and so many processes and `charge` bytes are free or held by idle processes.
Status DecoderPool::wait_for_turn(std::unique_lock<std::mutex>& lock, int64_t charge, int processes,
                                  const Patience& patience) {
  const auto place = waiting_.insert(waiting_.end(), ++tickets_);
  const auto ready = [&] {
    return place == waiting_.begin() && busy_ + processes <= options_.processes &&
           busy_bytes_ + charge <= options_.budget_bytes;
  };
  const auto limit = std::chrono::duration<double>(patience.seconds);
  const bool waits_long = patience.seconds > 0;
  const bool turn =
      waits_long ? changed_.wait_for(lock, patience.stop,
                                     std::chrono::duration_cast<std::chrono::milliseconds>(limit), ready)
                 : changed_.wait(lock, patience.stop, ready);
  waiting_.erase(place);
  changed_.notify_all();
  if (turn) return {};
  if (patience.stop.stop_requested()) {
    return fail(ErrorCode::kCancelled, "asked to stop while waiting for a decoder");
  }
  return fail(ErrorCode::kCancelled,
              "waited {} seconds for a decoder: {} are at work, with {} of {} of memory", patience.seconds,
              busy_, gibibytes(busy_bytes_), gibibytes(options_.budget_bytes));
}

// Returns true if so much more fits beside the processes at work and the idle ones.
bool DecoderPool::has_room(int64_t charge, int processes) const {
  int64_t bytes = busy_bytes_ + charge;
  for (const auto& idle : free_) bytes += charge_of(idle->granted(), idle->input_bytes());
  return bytes <= options_.budget_bytes && busy_ + std::ssize(free_) + processes <= options_.processes;
}

// Takes idle processes out, the longest idle first, until there is room.
void DecoderPool::end_idle(int64_t charge, int processes, Ended& ended) {
  while (!free_.empty() && !has_room(charge, processes)) {
    ended.push_back(std::move(free_.front()));
    free_.erase(free_.begin());
  }
}

Result<DecoderPool::Lease> DecoderPool::acquire(const Wish& wish, const DecodeOptions& options) {
  const int64_t least = charge_of(wish.need, wish.input);
  Ended ended;
  std::unique_ptr<Process> process;
  int64_t charge = least;
  {
    std::unique_lock lock(mutex_);
    SACCADE_TRY(wait_for_turn(lock, least, 1, {options.stop, options.max_wait_seconds}));
    if (!wish.fresh && !free_.empty()) {
      process = std::move(free_.back());
      free_.pop_back();
      charge = charge_of(larger(process->granted(), wish.need), std::max(process->input_bytes(), wish.input));
    }
    end_idle(charge, 1, ended);
    if (process && !has_room(charge, 1)) {  // what it has been granted before
      ended.push_back(std::move(process));
      charge = least;
    }
    ++busy_;
    busy_bytes_ += charge;
  }
  ended.clear();
  Lease lease(*this, std::move(process), charge);
  if (lease.fresh()) SACCADE_TRY(lease.start(options_));
  lease.process()->grant(wish.need);
  return lease;
}

// Takes nullptr for a process that has ended.
void DecoderPool::give_back(std::unique_ptr<Process> process, int64_t charge, int processes) {
  const std::lock_guard lock(mutex_);
  busy_ -= processes;
  busy_bytes_ -= charge;
  if (process) free_.push_back(std::move(process));
  changed_.notify_all();
}

DecoderPool::Reservation::~Reservation() {
  if (pool_ != nullptr) pool_->give_back(nullptr, bytes_, processes_);
}

Result<DecoderPool::Reservation> DecoderPool::reserve(int64_t bytes, int processors,
                                                      const std::stop_token& stop, double max_wait_seconds) {
  bytes = std::min(bytes, options_.budget_bytes);
  processors = std::min(processors, options_.processes);
  Ended ended;
  std::unique_lock lock(mutex_);
  SACCADE_TRY(wait_for_turn(lock, bytes, processors, {stop, max_wait_seconds}));
  end_idle(bytes, processors, ended);
  busy_ += processors;
  busy_bytes_ += bytes;
  lock.unlock();
  return Reservation(*this, processors, bytes);
}

Result<DecodedImage> DecoderPool::decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  DecodedImage decoded;
  SACCADE_TRY(decode_for(bytes, options, [&](const PictureView& picture) -> Status {
    const ImageView& image = picture.image;
    decoded = {
        {image.width, image.height, image.channels, image.mode, {image.pixels.begin(), image.pixels.end()}},
        picture.format,
        picture.original_width,
        picture.original_height,
        image.shrunk};
    return {};
  }));
  return decoded;
}

Status DecoderPool::decode_for(std::span<const std::byte> bytes, const DecodeOptions& options,
                               const UsePicture& use) {
  SACCADE_TRY(check_decode_input(bytes, options));
  Wish wish{.need = kFirstNeed, .input = bytes.size()};
  std::string what = fmt::format("{} bytes", bytes.size());
  for (;;) {
    if (options.stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop before decoding");
    if (const int64_t all = charge_of(wish.need, wish.input); all > options_.budget_bytes) {
      return fail(ErrorCode::kLimit, "{}: decoding takes {} of memory, the budget for decoding is {}", what,
                  gibibytes(all), gibibytes(options_.budget_bytes));
    }
    SACCADE_ASSIGN(Lease lease, acquire(wish, options));
    Process::Answer answer = lease.process()->decode(bytes, options, use);
    lease.done();
    // Each turn of this uses up a process that was free.
    if (answer.never_begun && !lease.fresh()) continue;
    if (answer.lacking) {
      const DecodeNeed before = wish.need;
      wish.need = larger(before, *answer.lacking);
      if (options_.memory_bytes > 0) {
        wish.need.working = std::min(wish.need.working, options_.memory_bytes);
        wish.need.output = std::min(wish.need.output, options_.memory_bytes);
      }
      what = answer.done.error().message;
      if (wish.need.working > before.working || wish.need.output > before.output) continue;
      return fail(ErrorCode::kLimit, "{}: decoding takes more than the {} that a decoder may have", what,
                  gibibytes(options_.memory_bytes));
    }
    // Estimates may be too low, and earlier images may have left less: once more, with all there is.
    if (answer.of_memory && (!lease.fresh() || wish.need.working < most_working(wish))) {
      wish.need.working = std::max(wish.need.working, most_working(wish));
      wish.fresh = true;
      continue;
    }
    return std::move(answer.done);
  }
}

}  // namespace saccade

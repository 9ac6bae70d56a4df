// saccade serve: collections and encoders over HTTP.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/core/files/user_folders.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/hub/address_range.h"
#include "saccade/serve/descriptors.h"
#include "saccade/serve/files/remote_pictures.h"
#include "saccade/serve/files/thumbnails.h"
#include "saccade/serve/http/http_server.h"
#include "saccade/serve/http/passed_socket.h"
#include "saccade/serve/jobs.h"
#include "saccade/serve/service.h"

#include "collection_choice.h"
#include "command_help.h"
#include "end_within.h"
#include "load_checkpoint.h"
#include "number.h"
#include "product_commands.h"
#include "towns.h"

namespace saccade::app {
namespace {

struct ServeArguments {
  std::vector<std::string> collections;
  std::vector<std::string> checkpoints;
  std::string listen = "127.0.0.1:7700";
  std::string key_file;
  bool no_key = false;
  bool json_log = false;
  bool log_queries = false;
  int64_t memory_mb = 0;
  int64_t thumbnails_mb = 512;
  std::vector<std::string> index_folders;
  std::string uploads;
  int64_t uploads_mb = 10 << 10;
  std::vector<std::string> fetch_from;
  EncoderChoice encoder;
  DecodeOptions limits;
  serve::HttpServerOptions server;
};

// "127.0.0.1:7700", "[::1]:7700".
Status parse_listen(const std::string& text, serve::HttpServerOptions& server) {
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return fail(ErrorCode::kUsage, "--listen {}: expected ADDRESS:PORT, such as 127.0.0.1:7700 or [::1]:7700",
                text);
  };
  if (colon == std::string::npos) return wrong();
  std::string address = text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  const std::string port = text.substr(colon + 1);
  const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), server.port);
  if (address.empty() || port.empty() || error != std::errc() || rest != port.data() + port.size())
    return wrong();
  server.address = std::move(address);
  return {};
}

std::string log_line(const serve::HttpExchange& exchange, bool json, bool queries) {
  const std::string about = queries ? std::string(exchange.about) : "";
  if (json) {
    Json line = {{"id", exchange.id},           {"peer", exchange.peer},
                 {"method", exchange.method},   {"path", exchange.path},
                 {"status", exchange.status},   {"bytes", exchange.bytes},
                 {"seconds", exchange.seconds}, {"queue_seconds", exchange.queue_seconds}};
    if (!about.empty()) line["query"] = about;
    return dump_json(line);
  }
  return fmt::format("{} {} {} {}, {:.1f} ms, {}{}", exchange.peer, exchange.method, one_line(exchange.path),
                     exchange.status, exchange.seconds * 1e3, exchange.id,
                     about.empty() ? "" : ", \"" + one_line(about) + "\"");
}

Result<serve::Keys> keys_of(const ServeArguments& arguments) {
  if (!arguments.key_file.empty()) return serve::Keys::read(arguments.key_file);
  if (hub::is_loopback(arguments.server.address) || arguments.no_key) return serve::Keys();
  return fail(ErrorCode::kUsage,
              "{}: others can reach this server there: give --key-file FILE, or --no-key to let everybody in",
              arguments.server.socket < 0 ? "--listen " + arguments.listen
                                          : "the socket at " + arguments.server.address);
}

// Shells give a process a thousand descriptors: the server takes as many as it is allowed to, and has fewer
// connections and workers where these are not enough.
Status make_room_for_connections(serve::HttpServerOptions& server, Messages& messages) {
  struct rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  const int64_t open = serve::open_descriptors();
  const auto wanted = static_cast<rlim_t>(open + serve::wanted_descriptors(server));
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    (void)::setrlimit(RLIMIT_NOFILE, &files);
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  }
  if (files.rlim_cur >= wanted) return {};
  const int connections = server.connections;
  SACCADE_TRY(serve::fit_to_descriptors(static_cast<int64_t>(files.rlim_cur) - open, server));
  messages.warning(fmt::format("{} files may be open (ulimit -n): {} connections are taken at a time, not {}",
                               files.rlim_cur, server.connections, connections));
  return {};
}

// Thumbnails are kept in the user's cache; without one they are made each time.
std::unique_ptr<serve::Thumbnails> thumbnails_of(const ServeArguments& arguments, Messages& messages) {
  if (arguments.thumbnails_mb == 0) return nullptr;
  const auto opened = [&]() -> Result<std::unique_ptr<serve::Thumbnails>> {
    SACCADE_ASSIGN(const std::filesystem::path cache, user_cache_folder());
    return serve::Thumbnails::open(cache / "thumbnails", arguments.thumbnails_mb << 20);
  };
  auto thumbnails = opened();
  if (thumbnails) return *std::move(thumbnails);
  messages.warning("no thumbnails are kept: " + thumbnails.error().message);
  return nullptr;
}

// Folders that clients may have indexed, and the one for what they send.
Result<serve::JobOptions> job_options(const ServeArguments& arguments, const DecodeOptions& limits) {
  serve::JobOptions jobs;
  for (const std::string& folder : arguments.index_folders) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      return fail(ErrorCode::kNotFound, "--index-folder {}: no folder", folder);
    jobs.folders.emplace_back(folder);
  }
  jobs.uploads = arguments.uploads;
  jobs.uploads_bytes = arguments.uploads_mb << 20;
  if (!arguments.uploads.empty()) {
    std::error_code error;
    if (!std::filesystem::is_directory(arguments.uploads, error))
      return fail(ErrorCode::kNotFound, "--allow-write {}: no folder", arguments.uploads);
  }
  jobs.ingest.limits = limits;
  jobs.ingest.video_tools = find_video_tools();
  return jobs;
}

// nullptr: nothing is fetched.
Result<std::unique_ptr<serve::RemotePictures>> remote_pictures(const ServeArguments& arguments,
                                                               serve::Metrics& metrics) {
  if (arguments.fetch_from.empty()) return nullptr;
  serve::RemoteOptions options;
  options.hosts = arguments.fetch_from;
  options.most_bytes = arguments.server.body_bytes;
  return serve::RemotePictures::open(std::move(options), metrics).in("--fetch-from");
}

volatile std::sig_atomic_t keys_asked_again = 0;

// Follows the key file: looks at it every second, and reads it on SIGHUP in any case. Without keys SIGHUP ends the program.
std::jthread follow_keys(const serve::Keys& keys, Messages& messages) {
  if (!keys.asked_for()) return {};
  struct sigaction hang_up = {};
  hang_up.sa_handler = [](int) { keys_asked_again = 1; };
  hang_up.sa_flags = SA_RESTART;
  ::sigaction(SIGHUP, &hang_up, nullptr);
  return std::jthread([keys, &messages](const std::stop_token& stop) {
    std::string told;  // what is wrong with the file, told once
    const auto look = [&] {
      const bool asked = keys_asked_again != 0;
      keys_asked_again = 0;
      const auto followed = keys.follow(asked);
      const std::string wrong = followed ? "" : followed.error().message;
      if (!wrong.empty() && (asked || wrong != told)) {
        messages.warning("the keys stay as they were: " + wrong);
      } else if (followed && (*followed || asked)) {
        messages.info("the key file was read again");
      }
      told = wrong;
    };
    while (stoppable_wait(std::chrono::milliseconds(500), stop)) {
      try {
        look();
      } catch (const std::exception&) {  // no memory: in half a second there may be
      }
    }
  });
}

// Warns of keys for collections that are not served, such as of a name with a typing error.
void warn_of_unknown_names(const serve::Keys& keys, const serve::Served& served, Messages& messages) {
  for (const std::string& name : keys.collections()) {
    const bool known = std::ranges::any_of(
        served.collections(), [&](const auto& collection) { return collection->name() == name; });
    if (!known) {
      messages.warning(
          fmt::format("the key file names the collection {}, which is not served", one_line(name)));
    }
  }
}

void wait_for_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, stop, [] { return false; });
}

// Systemd kills a server 30 s after it was asked to stop (docs/serve.md).
constexpr double kStopSeconds = 28;

Result<int> run_serve(ServeArguments& arguments, Session& session) {
  std::optional<EndWithin> end;  // goes last: jobs and models have to be gone in time too
  SACCADE_ASSIGN(const std::optional<serve::PassedSocket> passed, serve::passed_socket());
  if (passed) {
    arguments.server.socket = passed->socket;
    arguments.server.address = passed->address;
    arguments.server.port = passed->port;
  } else {
    SACCADE_TRY(parse_listen(arguments.listen, arguments.server));
  }
  SACCADE_ASSIGN(const serve::Keys keys, keys_of(arguments));
  if (arguments.no_key && !hub::is_loopback(arguments.server.address) &&
      (!arguments.uploads.empty() || !arguments.index_folders.empty())) {
    return fail(ErrorCode::kUsage,
                "--no-key with --allow-write or --index-folder: everybody could change the collections; give "
                "--key-file FILE");
  }
  if (arguments.collections.empty() && arguments.checkpoints.empty()) {
    SACCADE_TRY(settle_collection(arguments.collections.emplace_back(), session.messages));
  }
  serve::ServedOptions served_options;
  served_options.collections.assign(arguments.collections.begin(), arguments.collections.end());
  served_options.checkpoints = arguments.checkpoints;
  served_options.encoder = options_of(arguments.encoder);
  if (arguments.encoder.fastest) served_options.encoder.precision = Precision::kAuto;
  served_options.models.memory = arguments.memory_mb << 20;
  served_options.note = [&session](const Note& note) {
    note.warning ? session.messages.warning(note.text) : session.messages.info(note.text);
  };
  SACCADE_ASSIGN(const std::unique_ptr<serve::Served> served, serve::Served::open(served_options));

  serve::ServiceOptions options;
  options.limits = arguments.limits;
  options.limits.max_bytes = arguments.server.body_bytes;
  options.limits.processes = session.decoders.start(session.messages, options.limits.max_pixels);
  options.own_host_only = hub::is_loopback(arguments.server.address) && !keys.asked_for();
  ThreadPool pool(arguments.encoder.threads);
  serve::Metrics metrics;
  SACCADE_ASSIGN(serve::JobOptions jobs_options, job_options(arguments, options.limits));
  const std::unique_ptr<Gazetteer> towns = find_towns();
  jobs_options.ingest.places = towns.get();
  options.have_towns = towns != nullptr;
  serve::Jobs jobs(std::move(jobs_options));
  for (const auto& collection : served->collections()) {
    if (const Status removed = jobs.remove_unfinished(*collection); !removed)
      session.messages.warning("uploads that an earlier server did not finish stay: " +
                               removed.error().message);
  }
  const std::unique_ptr<serve::Thumbnails> thumbnails = thumbnails_of(arguments, session.messages);
  SACCADE_ASSIGN(const std::unique_ptr<serve::RemotePictures> remote, remote_pictures(arguments, metrics));
  SACCADE_TRY(make_room_for_connections(arguments.server, session.messages));
  const serve::Service service(options, *served, keys, pool, metrics, &jobs, thumbnails.get(), remote.get());
  const std::stop_token stop = session.interrupts.stop_cleanly();
  warn_of_unknown_names(keys, *served, session.messages);
  const std::jthread following_keys = follow_keys(keys, session.messages);
  SACCADE_ASSIGN(
      const std::unique_ptr<serve::HttpServer> server,
      serve::HttpServer::start(
          arguments.server,
          {.handle = [&](const serve::HttpRequest& request) { return service.handle(request); },
           .refuse = [&](const serve::HttpRequest& request, int status,
                         const std::string& message) { return service.refuse(request, status, message); },
           .admit = [&](const serve::HttpRequest& request) { return service.admit(request); },
           .observe =
               [&](const serve::HttpExchange& exchange) {
                 if (exchange.refused) {
                   metrics.refused(exchange.status);
                 } else {
                   metrics.spent("queue", exchange.queue_seconds);
                   metrics.spent("write", exchange.write_seconds);
                 }
                 if (!session.quiet)
                   session.messages.info(log_line(exchange, arguments.json_log, arguments.log_queries));
               },
           .trouble = [&](const std::string& what) { session.messages.warning(what); }}));
  std::vector<std::string> names;
  for (const auto& collection : served->collections()) names.push_back(collection->name());
  for (const auto& model : served->models()) names.push_back(model->name);
  const bool six = arguments.server.address.find(':') != std::string::npos;
  SACCADE_TRY(session.out.write(fmt::format(
      "serving {} at {}://{}:{}\n", fmt::join(names, ", "),
      arguments.server.certificate.empty() ? "http" : "https",
      six ? fmt::format("[{}]", arguments.server.address) : arguments.server.address, server->port())));
  wait_for_stop(stop);
  session.messages.info("stopping: what is at hand is answered first");
  end.emplace(kStopSeconds,
              fmt::format("what was at hand has not ended after {} s, and is left", kStopSeconds));
  server->stop();
  return kDone;
}

}  // namespace

void add_serve_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve", "Serve search and embeddings over HTTP");
  command->add_option("-c,--collection", arguments->collections,
                      "folders of the collections to serve, or addresses like weaviate://HOST:PORT/Name");
  command->add_option(
      "-m,--model", arguments->checkpoints,
      "checkpoints to serve in addition to the collections' own, or the new place of one that has moved: "
      "folders, or OWNER/NAME[@REVISION] of the hub's cache");
  command
      ->add_option(
          "--listen", arguments->listen,
          "address and port to listen on, unless systemd passes a socket; port 0: a free port, which is "
          "printed")
      ->capture_default_str();
  CLI::Option* key_file = command->add_option(
      "--key-file", arguments->key_file,
      "file with API keys, which only its owner may read: lines of 'read KEY [COLLECTION...]' or 'write KEY "
      "[COLLECTION...]', without COLLECTION for all; it is read again when it changes, and on SIGHUP");
  command
      ->add_flag("--no-key", arguments->no_key,
                 "accept requests without a key on an address that other machines can reach")
      ->excludes(key_file);
  CLI::Option* certificate = command->add_option("--tls-certificate", arguments->server.certificate,
                                                 "PEM file with the TLS certificate and its chain");
  CLI::Option* tls_key = command->add_option("--tls-key", arguments->server.certificate_key,
                                             "PEM file with the certificate's private key");
  certificate->needs(tls_key);
  tls_key->needs(certificate);
  add_number(*command, "--memory", arguments->memory_mb, whole_number(0, 1 << 24),
             "memory limit for the parameters of all models together, in MiB; the least recently used are "
             "unloaded until they are needed again; 0: no limit");
  command->add_option(
      "--index-folder", arguments->index_folders,
      "folder that clients may have indexed into a collection; repeatable; needs a key that may write, if "
      "there are keys");
  command->add_option(
      "--allow-write", arguments->uploads,
      "folder for images that clients upload; they may also remove images; needs a key that may write, if "
      "there are keys");
  add_number(*command, "--max-uploads", arguments->uploads_mb, whole_number(0, 1 << 24),
             "maximum size of all uploaded images together, in MiB; 0: no limit");
  command->add_option(
      "--fetch-from", arguments->fetch_from,
      "hosts from which images are fetched if a client sends a URL: HOST, *.HOST or HOST:PORT with public "
      "addresses, or HOST=RANGE with the range of its addresses, such as 10.0.0.0/8 (default: none)");
  add_number(*command, "--thumbnails", arguments->thumbnails_mb, whole_number(0, 1 << 20),
             "maximum size of cached thumbnails, in MiB; 0: no cache");
  add_number(*command, "--max-body", arguments->server.body_bytes, whole_number(1024, int64_t{1} << 31),
             "maximum size of a request body, in bytes");
  add_number(*command, "--max-requests", arguments->server.requests, whole_number(1, 1 << 20),
             "maximum number of pending requests; more are refused with 429");
  add_number(*command, "--max-connections", arguments->server.connections, whole_number(1, 1 << 20),
             "maximum number of open connections");
  command->add_flag("--json-log", arguments->json_log,
                    "log requests to stderr as JSON lines instead of text");
  command->add_flag("--log-queries", arguments->log_queries, "include query texts in the log");
  add_encoder_options(*command, arguments->encoder,
                      "fp32; it is that of -m alone, since collections keep theirs");
  add_device_option(*command, arguments->encoder);
  add_pixel_limit_option(*command, arguments->limits);
  add_decode_options(*command);
  group_options(*command, {{"Address and who may ask",
                            {"--listen", "--key-file", "--no-key", "--tls-certificate", "--tls-key"}},
                           {"What clients may change", {"--index-folder", "--allow-write", "--max-uploads"}},
                           {"Images elsewhere", {"--fetch-from"}},
                           {"Bounds",
                            {"--memory", "--decode-memory", "--max-pixels", "--thumbnails", "--max-body",
                             "--max-requests", "--max-connections"}},
                           {"Log", {"--json-log", "--log-queries"}},
                           {"Model and speed", {"-m", "--precision", "--threads", "--device"}}});
  run_when_given(*command, chosen, arguments, run_serve);
}

}  // namespace saccade::app

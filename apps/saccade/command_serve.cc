// saccade serve: collections and encoders over HTTP.
#include <charconv>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/serve/http_server.h"
#include "saccade/serve/service.h"

#include "checkpoint.h"
#include "collection_choice.h"
#include "command.h"
#include "number.h"

namespace saccade::app {
namespace {

struct ServeArguments {
  std::vector<std::string> collections;
  std::vector<std::string> checkpoints;
  std::string listen = "127.0.0.1:7700";
  std::string key_file;
  bool no_key = false;
  bool json_log = false;
  EncoderChoice encoder;
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

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

std::string log_line(const serve::HttpExchange& exchange, bool json) {
  if (json) {
    return dump_json({{"id", exchange.id},
                      {"peer", exchange.peer},
                      {"method", exchange.method},
                      {"path", exchange.path},
                      {"status", exchange.status},
                      {"bytes", exchange.bytes},
                      {"seconds", exchange.seconds},
                      {"queue_seconds", exchange.queue_seconds}});
  }
  return fmt::format("{} {} {} {}, {:.1f} ms, {}", exchange.peer, exchange.method, one_line(exchange.path),
                     exchange.status, exchange.seconds * 1e3, exchange.id);
}

Result<serve::Keys> keys_of(const ServeArguments& arguments) {
  if (!arguments.key_file.empty()) return serve::Keys::read(arguments.key_file);
  if (is_loopback(arguments.server.address) || arguments.no_key) return serve::Keys();
  return fail(
      ErrorCode::kUsage,
      "--listen {}: others can reach this server there: give --key-file FILE, or --no-key to let everybody in",
      arguments.listen);
}

void wait_for_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, stop, [] { return false; });
}

Result<int> run_serve(ServeArguments& arguments, Session& session) {
  SACCADE_TRY(parse_listen(arguments.listen, arguments.server));
  SACCADE_ASSIGN(const serve::Keys keys, keys_of(arguments));
  if (arguments.collections.empty() && arguments.checkpoints.empty()) {
    SACCADE_TRY(settle_collection(arguments.collections.emplace_back(), session.messages));
  }
  serve::ServedOptions served_options;
  served_options.collections.assign(arguments.collections.begin(), arguments.collections.end());
  served_options.checkpoints = arguments.checkpoints;
  served_options.encoder = options_of(arguments.encoder);
  SACCADE_ASSIGN(const std::unique_ptr<serve::Served> served, serve::Served::open(served_options));

  serve::ServiceOptions options;
  options.limits.max_bytes = arguments.server.body_bytes;
  options.limits.processes = session.decoders.start(session.messages, options.limits.max_pixels);
  options.own_host_only = is_loopback(arguments.server.address) && !keys.asked_for();
  ThreadPool pool(arguments.encoder.threads);
  serve::Metrics metrics;
  const serve::Service service(options, *served, keys, pool, metrics);
  const std::stop_token stop = session.interrupts.stop_cleanly();
  SACCADE_ASSIGN(
      const std::unique_ptr<serve::HttpServer> server,
      serve::HttpServer::start(
          arguments.server, [&](const serve::HttpRequest& request) { return service.handle(request); },
          [&](const serve::HttpRequest& request, int status, const std::string& message) {
            return service.refuse(request, status, message);
          },
          [&](const serve::HttpExchange& exchange) {
            metrics.spent("queue", exchange.queue_seconds);
            if (!session.quiet) session.messages.info(log_line(exchange, arguments.json_log));
          }));
  std::vector<std::string> names;
  for (const auto& collection : served->collections()) names.push_back(collection->name());
  for (const auto& model : served->models()) names.push_back(model->name);
  const bool six = arguments.server.address.find(':') != std::string::npos;
  SACCADE_TRY(session.out.write(fmt::format(
      "serving {} at http://{}:{}\n", fmt::join(names, ", "),
      six ? fmt::format("[{}]", arguments.server.address) : arguments.server.address, server->port())));
  wait_for_stop(stop);
  session.messages.info("stopping: what is at hand is answered first");
  server->stop();
  return kDone;
}

}  // namespace

void add_serve_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve", "Answer searches and encode over HTTP");
  command->add_option("-c,--collection", arguments->collections, "folders of the collections to serve");
  command->add_option(
      "-m,--model", arguments->checkpoints,
      "checkpoints to serve beside those of the collections: folders, or OWNER/NAME[@REVISION] of the hub's cache");
  command
      ->add_option("--listen", arguments->listen,
                   "address and port to listen at; port 0: any that is free, which is printed")
      ->capture_default_str();
  CLI::Option* key_file = command->add_option(
      "--key-file", arguments->key_file,
      "file with the keys of those who may ask, one a line, that its owner alone can read");
  command
      ->add_flag("--no-key", arguments->no_key,
                 "let everybody in who reaches the address, though it is not this machine's own")
      ->excludes(key_file);
  command
      ->add_option("--max-body", arguments->server.body_bytes, "largest body of a request to take, in bytes")
      ->transform(whole_number(1024, int64_t{1} << 31))
      ->capture_default_str();
  command
      ->add_option("--max-requests", arguments->server.requests,
                   "number of requests to have at hand; more are refused with 429")
      ->transform(whole_number(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--max-connections", arguments->server.connections, "number of connections to have open")
      ->transform(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json-log", arguments->json_log,
                    "write a line of JSON for each request to stderr, not one of text");
  add_encoder_options(*command, arguments->encoder);
  command->callback([arguments, &chosen] {
    chosen = [arguments](Session& session) { return run_serve(*arguments, session); };
  });
}

}  // namespace saccade::app

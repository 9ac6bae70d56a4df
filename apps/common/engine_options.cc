#include "engine_options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "choice.h"
#include "number.h"

namespace saccade::app {
namespace {

// "512x768"
Result<std::pair<int, int>> parse_size(std::string_view text) {
  const size_t cross = text.find('x');
  const auto side = [](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value > 0 ? value : 0;
  };
  if (cross != std::string_view::npos) {
    const int width = side(text.substr(0, cross));
    const int height = side(text.substr(cross + 1));
    if (width > 0 && height > 0) return std::pair(width, height);
  }
  return fail(ErrorCode::kUsage, "--size is \"{}\", expected WIDTHxHEIGHT in pixels, such as 512x512", text);
}

// "steps=20": a number, true, an object where it is JSON, else a string.
Status parse_field(std::string_view text, std::map<std::string, Json>& set) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(ErrorCode::kUsage, "--set is \"{}\", expected FIELD=VALUE", text);
  }
  const std::string_view value = text.substr(equals + 1);
  const auto json = parse_json(value);
  set[std::string(text.substr(0, equals))] = json ? *json : Json(std::string(value));
  return {};
}

}  // namespace

void add_engine_options(CLI::App& command, EngineArguments& arguments, std::vector<std::string> kinds,
                        const std::string& help) {
  ImageEngineOptions& options = arguments.options;
  command.add_option("--engine", arguments.kind, help)->check(CLI::IsMember(std::move(kinds)));
  command.add_option("--endpoint", options.endpoint,
                     "address of a remote engine (default: the usual address of this engine)");
  command.add_option("--engine-model", options.model, "name of the model, as the engine calls it");
  command.add_option("--workflow", arguments.workflow,
                     "ComfyUI workflow in API format with the placeholders %prompt% and %reference%");
  command.add_option(
      "--size", arguments.size,
      "WIDTHxHEIGHT in pixels to request from a remote engine; images of another size are refused (default: "
      "the engine's own, 512x512 for automatic1111 and comfyui)");
  command.add_option("--prompt", options.prompt, "prompt for the engine; {text} is replaced by the text")
      ->capture_default_str();
  command.add_option("--set", arguments.set,
                     "FIELD=VALUE: extra field in the engine's requests; VALUE is JSON or a plain word");
  add_number(command, "--concurrency", options.calls_at_once, whole_number(0, 256),
             "number of concurrent requests; 0: the engine's default (openai 4, automatic1111 1, comfyui 2)");
  add_number(command, "--timeout", arguments.timeout, whole_number(1, 86'400),
             "timeout of a request, in seconds");
  add_number(command, "--tries", options.retry.tries, whole_number(1, 100),
             "maximum number of attempts for a request that fails temporarily");
  add_number(command, "--max-requests", options.max_requests, whole_number(0),
             "maximum number of requests, retries included; 0: no limit");
  add_number(command, "--max-bytes", options.max_bytes, whole_number(0),
             "maximum number of bytes exchanged with the engine; 0: no limit");
}

Result<std::unique_ptr<PictureEngine>> engine_of(const EngineArguments& arguments) {
  ImageEngineOptions options = arguments.options;
  if (!arguments.kind.empty()) options.kind = *from_name<EngineKind>(arguments.kind);
  options.workflow = arguments.workflow;
  options.silence = std::chrono::seconds(arguments.timeout);
  if (!arguments.size.empty()) {
    SACCADE_ASSIGN(const auto size, parse_size(arguments.size));
    options.width = size.first;
    options.height = size.second;
  }
  for (const std::string& field : arguments.set) SACCADE_TRY(parse_field(field, options.set));
  const hub::Environment environment = [](const char* name) { return std::getenv(name); };
  options.key = engine_key(options.kind, options.endpoint, environment);
  options.certificates = hub::certificates_from(environment);
  return open_engine(options);
}

}  // namespace saccade::app

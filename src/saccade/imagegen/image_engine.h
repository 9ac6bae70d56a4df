// Image engines: programs that draw an image from a text, or change a reference image as a text says. The ones here are
// servers that speak HTTP (docs/engines.md). The laboratory adds an editor of its own (lab/generate/own_engine.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/hub/client.h"
#include "saccade/hub/settings.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"

namespace saccade {

struct PictureRequest {
  std::string text;
  const Image* reference = nullptr;  // from PictureEngine::reference(); nullptr for text alone
  uint64_t seed = 0;
};

// Interface of all image engines. Thread-safe.
class PictureEngine {
 public:
  virtual ~PictureEngine() = default;

  // Returns all settings that affect its images, "name" first; no secrets.
  [[nodiscard]] virtual Json settings() const = 0;
  // Return the best number of requests per call of make(), and the best number of concurrent calls.
  [[nodiscard]] virtual int64_t at_once() const { return 1; }
  [[nodiscard]] virtual int calls_at_once() const { return 1; }
  // Returns the shorter side, in pixels, at which vector images are rasterized.
  [[nodiscard]] virtual int vector_side() const = 0;
  // Converts an image to the engine's reference input: RGB.
  [[nodiscard]] virtual Image reference(const ImageView& picture) const = 0;
  // Generates one image file per request and returns the engine's bytes, not yet validated. kCancelled on a
  // stop request.
  [[nodiscard]] virtual std::vector<Result<std::string>> make(std::span<const PictureRequest> requests,
                                                              const std::stop_token& stop) = 0;
  // Returns the reason if no further image can be generated: the server is unreachable, the key is refused,
  // or a limit is reached.
  [[nodiscard]] virtual std::optional<Error> over() const { return std::nullopt; }
  // Return the requested width and height; 0 means the engine's choice.
  [[nodiscard]] virtual int asked_width() const { return 0; }
  [[nodiscard]] virtual int asked_height() const { return 0; }
  // Returns the number of counted requests of a remote engine, and the bytes sent and received.
  [[nodiscard]] virtual int64_t requests() const { return 0; }
  [[nodiscard]] virtual int64_t bytes() const { return 0; }
  // Returns the number of texts that were longer than the engine reads.
  [[nodiscard]] virtual int64_t cut_texts() const { return 0; }
};

enum class EngineKind { kOpenAi, kAutomatic1111, kComfyUi };
std::span<const EnumName<EngineKind>> enum_names(EngineKind);  // "openai", "automatic1111", "comfyui"

struct ImageEngineOptions {
  EngineKind kind = EngineKind::kOpenAi;
  std::string endpoint;  // empty: where such an engine usually is
  std::string key;       // as of engine_key(); never part of a message
  std::string model;     // by the engine's own name for it
  int width = 0;         // 0: the engine's own choice
  int height = 0;
  std::string prompt = "{text}";      // prompt template: {text} is replaced by the text
  std::map<std::string, Json> set;    // further fields of its requests
  std::filesystem::path workflow;     // ComfyUI's workflow in API format, with placeholders
  int calls_at_once = 0;              // 0: the engine's default
  std::chrono::seconds silence{600};  // an answer that takes longer is given up
  hub::RetryPolicy retry;
  int64_t max_requests = 0;  // 0: no bound
  int64_t max_bytes = 0;     // limit of bytes sent and received; 0 means no limit
  int64_t max_answer = int64_t{96} << 20;
  std::filesystem::path certificates;  // empty: the system's
};

// Returns SACCADE_ENGINE_KEY, or for OpenAI's own address also OPENAI_API_KEY. Empty if not set.
std::string engine_key(EngineKind kind, const std::string& endpoint, const hub::Environment& environment);

// Checks that a prompt contains {text}. kUsage if not.
Status check_prompt(std::string_view prompt);

// Returns an engine of the given kind. Sends nothing to it yet. Errors: kUsage for options that the engine does not know
// or lacks, and those of reading the workflow's file.
Result<std::unique_ptr<PictureEngine>> open_engine(const ImageEngineOptions& options);

// Each kind's own. Internal to the module.
Result<std::unique_ptr<PictureEngine>> open_openai_engine(const ImageEngineOptions& options);
Result<std::unique_ptr<PictureEngine>> open_automatic1111_engine(const ImageEngineOptions& options);
Result<std::unique_ptr<PictureEngine>> open_comfyui_engine(const ImageEngineOptions& options);

}  // namespace saccade

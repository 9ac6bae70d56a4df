#include "saccade/imagegen/image_engine.h"

#include <array>

namespace saccade {
namespace {

constexpr int kMostSide = 8192;

std::string default_endpoint(EngineKind kind) {
  switch (kind) {
    case EngineKind::kOpenAi:
      return "https://api.openai.com/v1";
    case EngineKind::kAutomatic1111:
      return "http://127.0.0.1:7860";
    case EngineKind::kComfyUi:
      return "http://127.0.0.1:8188";
  }
  return {};
}

}  // namespace

std::span<const EnumName<EngineKind>> enum_names(EngineKind) {
  static constexpr std::array<EnumName<EngineKind>, 3> kWords{
      {{EngineKind::kOpenAi, "openai", "the API of OpenAI's images, and servers that speak it"},
       {EngineKind::kAutomatic1111, "automatic1111", "the API of AUTOMATIC1111's web UI and of Forge"},
       {EngineKind::kComfyUi, "comfyui", "ComfyUI's API, with a workflow"}}};
  return kWords;
}

std::string engine_key(EngineKind kind, const std::string& endpoint, const hub::Environment& environment) {
  const auto value = [&](const char* name) {
    const char* text = environment(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (std::string key = value("SACCADE_ENGINE_KEY"); !key.empty()) return key;
  const bool its_own = endpoint.empty() || endpoint == default_endpoint(EngineKind::kOpenAi);
  if (kind == EngineKind::kOpenAi && its_own) return value("OPENAI_API_KEY");
  return {};
}

Status check_prompt(std::string_view prompt) {
  if (prompt.find("{text}") != std::string_view::npos) return {};
  return fail(ErrorCode::kUsage, "the prompt \"{}\" has no {{text}} in it", prompt);
}

Result<std::unique_ptr<PictureEngine>> open_engine(const ImageEngineOptions& given) {
  ImageEngineOptions options = given;
  if ((options.width > 0) != (options.height > 0) || options.width < 0 || options.width > kMostSide ||
      options.height < 0 || options.height > kMostSide) {
    return fail(ErrorCode::kUsage, "a size of {} x {}, expected sides of 1 to {}", options.width,
                options.height, kMostSide);
  }
  SACCADE_TRY(check_prompt(options.prompt));
  for (const char c : options.key) {
    if (static_cast<unsigned char>(c) > 0x20 && c != 0x7f) continue;
    return fail(ErrorCode::kUsage, "the engine's key has a space or a control character in it");
  }
  if (options.endpoint.empty()) options.endpoint = default_endpoint(options.kind);
  if (!options.workflow.empty() && options.kind != EngineKind::kComfyUi) {
    return fail(ErrorCode::kUsage, "--workflow is for ComfyUI");
  }
  if (options.kind == EngineKind::kOpenAi) return open_openai_engine(options);
  if (options.kind == EngineKind::kAutomatic1111) return open_automatic1111_engine(options);
  return open_comfyui_engine(options);
}

}  // namespace saccade

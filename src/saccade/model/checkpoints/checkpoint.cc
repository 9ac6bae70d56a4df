#include "saccade/model/checkpoints/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>

#include "saccade/model/checkpoints/alias.h"
#include "saccade/nn/operations.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongClipKeptPositions = 20;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the single `*.pt` or `*.pth` file of a folder, if there is one, as published by OpenAI and
// Long-CLIP.
Result<std::string> torch_file_name(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".pt" || extension == ".pth") names.insert(entry.path().filename().string());
  }
  if (names.size() > 1) {
    return fail(ErrorCode::kBadData, "{}: {} and {} could both be the weights", folder.string(),
                *names.begin(), *std::next(names.begin()));
  }
  return names.empty() ? std::string() : *names.begin();
}

// Returns the possible weight file names of a layout, in order of preference.
std::vector<std::string> candidates(Layout layout) {
  if (layout == Layout::kOpenClip) return {"open_clip_model.safetensors", "open_clip_pytorch_model.bin"};
  return {"model.safetensors", "pytorch_model.bin"};
}

// Returns the weight files of a layout; empty if there are none.
Result<std::vector<std::string>> find_weights(const fs::path& folder, Layout layout) {
  for (const std::string& single : candidates(layout)) {
    if (is_there(folder / single)) return std::vector<std::string>{single};
    if (const std::string index = single + ".index.json"; is_there(folder / index)) {
      return shard_names(folder / index);
    }
  }
  if (layout == Layout::kOpenAi) {
    SACCADE_ASSIGN(const std::string name, torch_file_name(folder));
    if (!name.empty()) return std::vector<std::string>{name};
  }
  return std::vector<std::string>{};
}

Result<std::vector<std::string>> weight_names(const fs::path& folder, Layout layout) {
  SACCADE_ASSIGN(auto names, find_weights(folder, layout));
  if (!names.empty()) return names;
  const std::vector<std::string> wanted = candidates(layout);
  return fail(ErrorCode::kNotFound, "{}: neither {} nor {} (nor shards with {}.index.json)", folder.string(),
              wanted[0], wanted[1], wanted[0]);
}

// Rejects an adapter's folder: it has no model, because the base model is stored elsewhere.
Status refuse_adapter(const fs::path& folder) {
  const fs::path file = folder / "adapter_config.json";
  if (!is_there(file)) return {};
  for (const Layout layout : {Layout::kHuggingFace, Layout::kOpenClip}) {
    SACCADE_ASSIGN(const auto weights, find_weights(folder, layout));
    if (!weights.empty()) return {};
  }
  SACCADE_ASSIGN(const Json config, read_json(file));
  SACCADE_ASSIGN(
      const auto base,
      json_field_or<std::string>(config, "base_model_name_or_path", std::string()).in(file.string()));
  return fail(ErrorCode::kUnsupported,
              "{}: an adapter (LoRA) to \"{}\" without the weights it adapts; take a checkpoint that it is "
              "merged into, as ColPali's are published under names that end in -merged",
              file.string(), base.substr(0, 200));
}

Result<PictureConfig> read_picture_config(const fs::path& folder) {
  const fs::path processor = folder / "processor_config.json";
  if (is_there(processor)) {
    SACCADE_ASSIGN(const Json json, read_json(processor));
    if (json.is_object() && json.contains("image_processor")) {
      return PictureConfig{json["image_processor"], processor.string() + ": image_processor"};
    }
  }
  const fs::path file = folder / "preprocessor_config.json";
  PictureConfig result{nullptr, file.string()};
  if (is_there(file)) {
    SACCADE_ASSIGN(result.json, read_json(file));
  }
  return result;
}

// Maps OpenAI's block names to the Hugging Face layout's, except for the joint attention input.
const std::map<std::string, std::string, std::less<>>& block_renames() {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"ln_1.weight", "layer_norm1.weight"},
      {"ln_1.bias", "layer_norm1.bias"},
      {"ln_2.weight", "layer_norm2.weight"},
      {"ln_2.bias", "layer_norm2.bias"},
      {"attn.out_proj.weight", "self_attn.out_proj.weight"},
      {"attn.out_proj.bias", "self_attn.out_proj.bias"},
      {"mlp.c_fc.weight", "mlp.fc1.weight"},
      {"mlp.c_fc.bias", "mlp.fc1.bias"},
      {"mlp.c_proj.weight", "mlp.fc2.weight"},
      {"mlp.c_proj.bias", "mlp.fc2.bias"}};
  return kNames;
}

const std::map<std::string, std::string, std::less<>>& plain_renames() {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"visual.class_embedding", "vision_model.embeddings.class_embedding"},
      {"visual.conv1.weight", "vision_model.embeddings.patch_embedding.weight"},
      {"visual.positional_embedding", "vision_model.embeddings.position_embedding.weight"},
      {"visual.ln_pre.weight", "vision_model.pre_layrnorm.weight"},
      {"visual.ln_pre.bias", "vision_model.pre_layrnorm.bias"},
      {"visual.ln_post.weight", "vision_model.post_layernorm.weight"},
      {"visual.ln_post.bias", "vision_model.post_layernorm.bias"},
      {"token_embedding.weight", "text_model.embeddings.token_embedding.weight"},
      {"positional_embedding", "text_model.embeddings.position_embedding.weight"},
      {"ln_final.weight", "text_model.final_layer_norm.weight"},
      {"ln_final.bias", "text_model.final_layer_norm.bias"},
      {"logit_scale", "logit_scale"}};
  return kNames;
}

}  // namespace

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::kHuggingFace:
      return "hugging_face";
    case Layout::kOpenClip:
      return "open_clip";
    case Layout::kOpenAi:
      break;
  }
  return "openai";
}

bool looks_like_checkpoint(const fs::path& folder) {
  if (is_there(folder / "config.json") || is_there(folder / "open_clip_config.json")) return true;
  const auto weights = find_weights(folder, Layout::kOpenAi);
  return !weights ||
         !weights->empty();  // several files that could be the weights are an error of a checkpoint
}

Result<Checkpoint> open_checkpoint(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    if (fs::exists(folder, error))
      return fail(ErrorCode::kNotFound, "checkpoint {}: not a folder", folder.string());
    return fail(
        ErrorCode::kNotFound,
        "checkpoint {}: no folder and no alias of this name; `saccade model list` shows the checkpoints here{}",
        folder.string(), checkpoint_suggestion(folder.string()));
  }
  SACCADE_TRY(refuse_adapter(folder));
  Checkpoint checkpoint{
      .folder = folder, .layout = Layout::kHuggingFace, .config = nullptr, .pictures = {}, .files = {}};
  if (is_there(folder / "config.json")) {
    SACCADE_ASSIGN(checkpoint.config, read_json(folder / "config.json"));
  }
  // OpenCLIP's repositories may also have a config.json; their own config and weights together take
  // precedence.
  if (is_there(folder / "open_clip_config.json")) {
    SACCADE_ASSIGN(const auto own, find_weights(folder, Layout::kOpenClip));
    if (!own.empty() || checkpoint.config.is_null()) {
      SACCADE_ASSIGN(const auto other, find_weights(folder, Layout::kOpenAi));
      checkpoint.layout = own.empty() && !other.empty() ? Layout::kOpenAi : Layout::kOpenClip;
      SACCADE_ASSIGN(checkpoint.config, read_json(folder / "open_clip_config.json"));
    }
  } else if (checkpoint.config.is_null()) {
    checkpoint.layout = Layout::kOpenAi;
    SACCADE_ASSIGN(const auto names, find_weights(folder, Layout::kOpenAi));
    if (names.empty()) {
      // A training run's folder was given instead of the checkpoint inside it.
      for (const char* below : {"model", "fuse/model", "align/model"}) {
        if (!is_there(folder / below / "config.json")) continue;
        return fail(ErrorCode::kNotFound, "checkpoint {}: a training's folder; its checkpoint is {}",
                    folder.string(), (folder / below).string());
      }
      return fail(
          ErrorCode::kNotFound,
          "checkpoint {}: no config.json (Hugging Face), open_clip_config.json (OpenCLIP) or weights under "
          "OpenAI's names (model.safetensors, *.pt)",
          folder.string());
    }
  }

  SACCADE_ASSIGN(checkpoint.pictures, read_picture_config(folder));
  SACCADE_ASSIGN(const auto weights, weight_names(folder, checkpoint.layout));
  std::set<std::string> names(weights.begin(), weights.end());
  for (const char* name :
       {"config.json", "open_clip_config.json", "preprocessor_config.json", "tokenizer.json",
        "tokenizer_config.json", "vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json",
        "spiece.model", "tokenizer.model", "processor_config.json"}) {
    if (is_there(folder / name)) names.insert(name);
  }
  for (const std::string& name : names) checkpoint.files.push_back(folder / name);
  return checkpoint;
}

Result<Weights> map_weights(const Checkpoint& checkpoint) {
  SACCADE_ASSIGN(const auto names, weight_names(checkpoint.folder, checkpoint.layout));
  Weights weights;
  for (const std::string& name : names) {
    nn::TensorMap tensors;
    if (name.ends_with(".safetensors")) {
      SACCADE_ASSIGN(SafeTensors opened, SafeTensors::open(checkpoint.folder / name));
      weights.files.push_back(std::make_unique<SafeTensors>(std::move(opened)));
      SACCADE_ASSIGN(tensors, nn::borrow_tensors(*weights.files.back()).in(name));
    } else {
      SACCADE_ASSIGN(TorchFile opened, TorchFile::open(checkpoint.folder / name));
      weights.torch_files.push_back(std::make_unique<TorchFile>(std::move(opened)));
      SACCADE_ASSIGN(tensors, nn::borrow_tensors(*weights.torch_files.back()).in(name));
    }
    for (auto& [tensor_name, tensor] : tensors) {
      if (!weights.tensors.emplace(tensor_name, tensor).second) {
        return fail(ErrorCode::kBadData, "tensor {} is in two shards, the second {}", tensor_name, name);
      }
    }
  }
  return weights;
}

Result<nn::TensorMap> rename_to_hugging_face(nn::TensorMap tensors) {
  if (const auto rest = tensors.find("positional_embedding_res"); rest != tensors.end()) {
    const auto kept = tensors.find("positional_embedding");
    if (kept == tensors.end() || kept->second.sizes() != rest->second.sizes() || rest->second.dim() != 2 ||
        rest->second.size(0) < kLongClipKeptPositions) {
      return fail(ErrorCode::kBadData,
                  "positional_embedding_res has shape {}: positional_embedding must be there, of the same "
                  "shape, with {} rows or more",
                  shape_text(rest->second.sizes()), kLongClipKeptPositions);
    }
    kept->second = nn::cat(
        {kept->second.slice(0, 0, kLongClipKeptPositions), rest->second.slice(0, kLongClipKeptPositions)});
    tensors.erase(rest);
  }

  // A convolutional tower has no counterpart in the other layout, so its names are kept, such as
  // "visual.conv1.weight".
  const bool convolutional = tensors.contains("visual.attnpool.positional_embedding");
  nn::TensorMap renamed;
  for (const auto& [full_name, tensor] : tensors) {
    if (convolutional && full_name.starts_with("visual.")) {
      renamed[full_name] = tensor;
      continue;
    }
    // Models with a separate text class keep the text tower's tensors under "text.".
    const std::string name = full_name.starts_with("text.") ? full_name.substr(5) : full_name;
    if (const auto plain = plain_renames().find(name); plain != plain_renames().end()) {
      renamed[plain->second] = name == "logit_scale" ? tensor.reshape({}) : tensor;
      continue;
    }
    if (name == "visual.proj" || name == "text_projection") {
      if (tensor.dim() != 2)
        return fail(ErrorCode::kBadData, "tensor {} has {} dimensions, not 2", name, tensor.dim());
      renamed[name == "visual.proj" ? "visual_projection.weight" : "text_projection.weight"] = tensor.t();
      continue;
    }
    const bool vision = name.starts_with("visual.transformer.resblocks.");
    const std::string_view start = vision ? "visual.transformer.resblocks." : "transformer.resblocks.";
    const size_t dot = name.find('.', start.size());
    if (!name.starts_with(start) || dot == std::string::npos) {
      renamed[full_name] = tensor;  // unknown: kept, so that it is reported as such
      continue;
    }
    const std::string layer = fmt::format("{}.encoder.layers.{}.", vision ? "vision_model" : "text_model",
                                          name.substr(start.size(), dot - start.size()));
    const std::string part = name.substr(dot + 1);
    if (part == "attn.in_proj_weight" || part == "attn.in_proj_bias") {
      if (tensor.dim() < 1 || tensor.size(0) % 3 != 0) {
        return fail(ErrorCode::kBadData, "tensor {} has shape {}, not three equal parts", name,
                    shape_text(tensor.sizes()));
      }
      const std::string kind = part.ends_with("weight") ? "weight" : "bias";
      const char* names[] = {"q_proj", "k_proj", "v_proj"};
      for (int64_t i = 0; i < 3; ++i) {
        renamed[fmt::format("{}self_attn.{}.{}", layer, names[i], kind)] = tensor.chunk(3, i, 0);
      }
    } else if (const auto found = block_renames().find(part); found != block_renames().end()) {
      renamed[layer + found->second] = tensor;
    } else {
      renamed[full_name] = tensor;
    }
  }
  return renamed;
}

namespace {

// Returns the key of a value; empty if there is none.
std::string_view key_of(const std::map<std::string, std::string, std::less<>>& renames,
                        std::string_view value) {
  const auto found =
      std::ranges::find_if(renames, [&](const auto& rename) { return rename.second == value; });
  return found == renames.end() ? std::string_view() : found->first;
}

}  // namespace

Result<nn::TensorMap> rename_to_open_clip(const nn::TensorMap& tensors) {
  nn::TensorMap renamed;
  for (const auto& [name, tensor] : tensors) {
    if (const std::string_view plain = key_of(plain_renames(), name); !plain.empty()) {
      renamed[std::string(plain)] = tensor;
      continue;
    }
    if (name == "visual_projection.weight" || name == "text_projection.weight") {
      renamed[name == "visual_projection.weight" ? "visual.proj" : "text_projection"] =
          tensor.t().contiguous();
      continue;
    }
    const bool vision = name.starts_with("vision_model.encoder.layers.");
    const std::string_view start = vision ? "vision_model.encoder.layers." : "text_model.encoder.layers.";
    const size_t dot = name.find('.', start.size());
    if (!name.starts_with(start) || dot == std::string::npos) {
      renamed[name] = tensor;
      continue;
    }
    const std::string layer = fmt::format("{}transformer.resblocks.{}.", vision ? "visual." : "",
                                          name.substr(start.size(), dot - start.size()));
    const std::string part = name.substr(dot + 1);
    if (const std::string_view same = key_of(block_renames(), part); !same.empty()) {
      renamed[layer + std::string(same)] = tensor;
      continue;
    }
    const std::string_view query = "self_attn.q_proj.";
    if (part.starts_with("self_attn.k_proj.") || part.starts_with("self_attn.v_proj.")) continue;
    if (!part.starts_with(query)) {
      renamed[name] = tensor;
      continue;
    }
    const std::string kind = part.substr(query.size());
    std::vector<nn::Tensor> parts = {tensor};
    for (const char* other : {"k_proj", "v_proj"}) {
      const auto found = tensors.find(fmt::format("{}self_attn.{}.{}", name.substr(0, dot + 1), other, kind));
      if (found == tensors.end()) {
        return fail(ErrorCode::kBadData, "tensor {} without that of {}", name, other);
      }
      parts.push_back(found->second);
    }
    renamed[fmt::format("{}attn.in_proj_{}", layer, kind)] = nn::cat(parts, 0);
  }
  return renamed;
}

}  // namespace saccade

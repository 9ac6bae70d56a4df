// A CLIP checkpoint as an encoder: loading, batching, pooling, conformance answers.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>

#include "saccade/core/hash.h"
#include "saccade/core/threads.h"
#include "saccade/model/architecture.h"
#include "saccade/model/clip.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// Forward passes run on pieces of this many pictures or tokens: enough to fill the kernels, small enough for
// the activations of the largest models to stay within a few hundred megabytes.
constexpr int64_t kImagesAtOnce = 64;
constexpr int64_t kTokensAtOnce = 64 * 77;

class ClipEncoder : public Architecture {
 public:
  ClipEncoder(EncoderInfo info, Preprocessing preprocessing, std::unique_ptr<Tokenizer> tokenizer,
              ClipModel model, Weights weights, at::ScalarType dtype)
      : info_(std::move(info)),
        preprocessing_(preprocessing),
        tokenizer_(std::move(tokenizer)),
        weights_(std::move(weights)),
        model_(std::move(model)),
        dtype_(dtype) {}

  const EncoderInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return preprocessing_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    const ClipConfig& config = model_.config();
    const int64_t expected = config.channels * config.image_size * config.image_size;
    if (pixels.columns() != expected) {
      return fail(ErrorCode::kUsage, "pictures of {} values, this encoder takes {}", pixels.columns(),
                  expected);
    }
    Matrix<float> rows(pixels.rows(), info_.dim);
    return guarded(std::move(rows), [&](Matrix<float>& out) {
      for (int64_t first = 0; first < pixels.rows(); first += kImagesAtOnce) {
        const MatrixView<const float> part =
            pixels.slice(first, std::min(kImagesAtOnce, pixels.rows() - first));
        const Tensor input =
            torch::from_blob(const_cast<float*>(part.data()),
                             {part.rows(), config.channels, config.image_size, config.image_size},
                             {part.stride(), config.image_size * config.image_size, config.image_size, 1});
        store(model_.encode_images(input, dtype_), out.data() + first * info_.dim);
      }
    });
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    for (const TokenizedText& text : texts) {
      const auto length = static_cast<int64_t>(text.ids.size());
      if (length < 1 || length > info_.context) {
        return fail(ErrorCode::kUsage, "a text of {} tokens, this encoder takes 1 to {}", length,
                    info_.context);
      }
      for (const int32_t id : text.ids) {
        if (id < 0 || id >= model_.config().vocabulary) {
          return fail(ErrorCode::kMismatch, "token id {} is outside the model's vocabulary of {}", id,
                      model_.config().vocabulary);
        }
      }
    }
    // Like lengths together: a batch costs as many tokens as its longest text.
    std::vector<size_t> order(texts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return texts[a].ids.size() < texts[b].ids.size(); });

    Matrix<float> rows(static_cast<int64_t>(texts.size()), info_.dim);
    return guarded(std::move(rows), [&](Matrix<float>& out) {
      for (size_t first = 0; first < order.size();) {
        size_t last = first + 1;
        while (last < order.size() &&
               static_cast<int64_t>((last + 1 - first) * texts[order[last]].ids.size()) <= kTokensAtOnce) {
          ++last;
        }
        const Tensor batch =
            model_.encode_texts(padded(texts, std::span(order).subspan(first, last - first)), dtype_);
        Matrix<float> part(batch.size(0), info_.dim);
        store(batch, part.data());
        for (size_t i = first; i < last; ++i) {
          const std::span<const float> row = part.row(static_cast<int64_t>(i - first));
          std::copy(row.begin(), row.end(), out.row(static_cast<int64_t>(order[i])).begin());
        }
        first = last;
      }
    });
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& inputs) override {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    const auto input = [&](const char* name) {
      const auto found = inputs.find(name);
      return found == inputs.end() ? Tensor() : found->second;
    };
    const ClipConfig& config = model_.config();
    const Tensor pixels = input("pixel_values");
    const Tensor ids = input("input_ids");
    const Tensor mask = input("attention_mask");
    nn::TensorMap result;
    if (pixels.defined()) {
      const std::vector<int64_t> wanted = {config.channels, config.image_size, config.image_size};
      if (pixels.dim() != 4 || pixels.sizes().slice(1) != at::IntArrayRef(wanted)) {
        return fail(ErrorCode::kMismatch, "pixel_values has shape {}, expected [n, {}]",
                    shape_text(pixels.sizes().vec()), fmt::join(wanted, ", "));
      }
      // Embeddings the way users get them; the states on the way by a second pass, as looking at them costs
      // the shortcut of the last block.
      result["image_embeds"] = nn::normalize_rows(model_.encode_images(pixels.to(at::kFloat), dtype_));
      TowerTrace trace;
      (void)model_.encode_images(pixels.to(at::kFloat), dtype_, &trace);
      result["vision_hidden_1"] = trace.hidden_1;
      result["vision_last_hidden_state"] = trace.last_hidden_state;
    }
    if (ids.defined()) {
      if (ids.dim() != 2 || ids.size(1) < 1 || ids.size(1) > config.positions || ids.is_floating_point() ||
          ids.min().item<int64_t>() < 0 || ids.max().item<int64_t>() >= config.vocabulary) {
        return fail(ErrorCode::kMismatch, "input_ids has shape {}: expected [n, up to {}] of ids below {}",
                    shape_text(ids.sizes().vec()), config.positions, config.vocabulary);
      }
      if (mask.defined() && mask.sizes() != ids.sizes()) {
        return fail(ErrorCode::kMismatch, "attention_mask has shape {}, input_ids {}",
                    shape_text(mask.sizes().vec()), shape_text(ids.sizes().vec()));
      }
      result["text_embeds"] = nn::normalize_rows(model_.encode_texts(ids.to(at::kLong), dtype_, mask));
      TowerTrace trace;
      (void)model_.encode_texts(ids.to(at::kLong), dtype_, mask, &trace);
      result["text_hidden_1"] = trace.hidden_1;
      result["text_last_hidden_state"] = trace.last_hidden_state;
    }
    if (pixels.defined() && ids.defined()) {
      result["logits_per_image"] =
          at::matmul(result["image_embeds"], result["text_embeds"].t()) * model_.logit_scale().exp();
      result["logits_per_text"] = result["logits_per_image"].t().contiguous();
    }
    return result;
  }

 private:
  // Runs body(rows) alone and without gradients; libtorch's exceptions become errors.
  template <typename Body>
  Result<Matrix<float>> guarded(Matrix<float> rows, const Body& body) {
    const std::lock_guard lock(mutex_);
    const torch::InferenceMode inference;
    try {
      body(rows);
    } catch (const std::exception& error) {
      const std::string_view text = error.what();
      return fail(ErrorCode::kInternal, "encode: {}", text.substr(0, text.find('\n')));
    }
    return rows;
  }

  static void store(const Tensor& rows, float* out) {
    const Tensor unit = nn::normalize_rows(rows).contiguous();
    std::memcpy(out, unit.data_ptr<float>(), static_cast<size_t>(unit.numel()) * sizeof(float));
  }

  // [n, longest] ids, the rest filled with 0: what follows a text's end token is never looked at, and 0 is
  // neither the end id nor the highest.
  static Tensor padded(std::span<const TokenizedText> texts, std::span<const size_t> chosen) {
    size_t longest = 0;
    for (const size_t i : chosen) longest = std::max(longest, texts[i].ids.size());
    Tensor ids =
        torch::zeros({static_cast<int64_t>(chosen.size()), static_cast<int64_t>(longest)}, at::kLong);
    auto* out = ids.data_ptr<int64_t>();
    for (size_t row = 0; row < chosen.size(); ++row) {
      const std::vector<int32_t>& text = texts[chosen[row]].ids;
      std::copy(text.begin(), text.end(), out + row * longest);
    }
    return ids;
  }

  EncoderInfo info_;
  Preprocessing preprocessing_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Weights weights_;  // before the model, whose tensors borrow from it
  ClipModel model_;
  at::ScalarType dtype_;
  std::mutex mutex_;
};

Result<Preprocessing> load_preprocessing(const Checkpoint& checkpoint, const ClipConfig& config) {
  const auto image_size = static_cast<int>(config.image_size);
  const bool open_clip = checkpoint.config.is_object() && checkpoint.config.contains("preprocess_cfg");
  if (open_clip) {
    return preprocessing_from_open_clip(checkpoint.config["preprocess_cfg"], image_size)
        .in((checkpoint.folder / "open_clip_config.json").string());
  }
  const fs::path file = checkpoint.folder / "preprocessor_config.json";
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    SACCADE_ASSIGN(const Json json, read_json(file));
    return preprocessing_from_hugging_face(json, image_size).in(file.string());
  }
  // A checkpoint without the file is preprocessed as CLIP always was.
  if (checkpoint.layout == Layout::kHuggingFace) {
    return preprocessing_from_hugging_face(
        Json{{"do_resize", true},
             {"size", {{"shortest_edge", image_size}}},
             {"resample", 3},
             {"do_center_crop", true},
             {"crop_size", {{"height", image_size}, {"width", image_size}}},
             {"do_normalize", true},
             {"image_mean", {0.48145466, 0.4578275, 0.40821073}},
             {"image_std", {0.26862954, 0.26130258, 0.27577711}}},
        image_size);
  }
  return preprocessing_from_open_clip(Json::object(), image_size);
}

Result<ClipConfig> load_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  if (checkpoint.config.is_null()) return clip_config_from_tensors(tensors);
  if (checkpoint.layout == Layout::kHuggingFace) return clip_config_from_hugging_face(checkpoint.config);
  if (!checkpoint.config.is_object() || !checkpoint.config.contains("model_cfg")) {
    return fail(ErrorCode::kBadData, "no \"model_cfg\" in it");
  }
  return clip_config_from_open_clip(checkpoint.config["model_cfg"], tensors);
}

}  // namespace

Result<std::unique_ptr<Architecture>> load_clip(const Checkpoint& checkpoint, const EncoderOptions& options) {
  at::set_num_threads(options.threads > 0 ? options.threads : available_processors());
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(Weights weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const ClipConfig config, load_config(checkpoint, weights.tensors).in(where));

  nn::TensorMap tensors = weights.tensors;
  if (checkpoint.layout != Layout::kHuggingFace) {
    SACCADE_ASSIGN(tensors, rename_to_hugging_face(std::move(tensors)).in(where));
  }
  // Buffers of older transformers: 0, 1, 2, ... for the position embeddings.
  tensors.erase("text_model.embeddings.position_ids");
  tensors.erase("vision_model.embeddings.position_ids");
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(ClipModel model, ClipModel::make(config, source).in(where));
  if (const auto unused = source.unused(); !unused.empty()) {
    return fail(ErrorCode::kBadData, "{}: tensor {} has no place in this model ({} such tensors)", where,
                unused.front(), unused.size());
  }

  EncoderInfo info;
  info.family = "clip";
  info.layout = std::string(layout_name(checkpoint.layout));
  SACCADE_ASSIGN(info.fingerprint, checkpoint_fingerprint(checkpoint.folder));
  info.dim = config.projection;
  info.context = config.positions;
  for (const auto& [name, tensor] : weights.tensors) info.parameters += tensor.numel();
  info.image_height = info.image_width = static_cast<int>(config.image_size);
  info.logit_scale = model.logit_scale().exp().item<float>();

  SACCADE_ASSIGN(const Preprocessing preprocessing, load_preprocessing(checkpoint, config));
  if (preprocessing.output_height() != config.image_size ||
      preprocessing.output_width() != config.image_size) {
    return fail(ErrorCode::kMismatch, "{}: preprocessing makes pictures of {} x {}, the model takes {} x {}",
                where, preprocessing.output_width(), preprocessing.output_height(), config.image_size,
                config.image_size);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  std::error_code ignored;
  if (fs::exists(checkpoint.folder / "tokenizer.json", ignored) ||
      fs::exists(checkpoint.folder / "vocab.json", ignored)) {
    const bool hugging_face = checkpoint.layout == Layout::kHuggingFace;
    SACCADE_ASSIGN(tokenizer,
                   load_clip_tokenizer(checkpoint.folder,
                                       hugging_face ? TextCleanup::kTokenizerFile : TextCleanup::kOpenAi));
    if (tokenizer->vocabulary_size() > config.vocabulary) {
      return fail(ErrorCode::kMismatch, "{}: the tokenizer has {} tokens, the model {}", where,
                  tokenizer->vocabulary_size(), config.vocabulary);
    }
  }

  const at::ScalarType dtype = options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  model.pack(dtype);
  return std::unique_ptr<Architecture>(std::make_unique<ClipEncoder>(
      std::move(info), preprocessing, std::move(tokenizer), std::move(model), std::move(weights), dtype));
}

}  // namespace saccade

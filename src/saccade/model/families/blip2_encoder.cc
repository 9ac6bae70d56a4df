// BLIP-2 checkpoints as encoders: loading, batching, pooling, conformance answers.
#include <algorithm>
#include <mutex>

#include "saccade/model/architecture.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/encoder_parts.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/explain/state_mapper.h"
#include "saccade/model/families/blip2.h"
#include "saccade/model/towers/picture_tower.h"

namespace saccade {
namespace {

using nn::Tensor;

// Common parts of both kinds beside their models.
struct Parts : EncoderParts {
  Blip2Config config;
};

// Removes image placeholders: newer processors put one token per query before the text, and the model cuts
// them off again.
nn::TensorMap without_image_tokens(nn::TensorMap inputs, const Blip2Config& config) {
  const auto ids = inputs.find("input_ids");
  if (!config.image_token || ids == inputs.end() || ids->second.dim() != 2 ||
      ids->second.size(1) <= config.queries) {
    return inputs;
  }
  const Tensor places = ids->second.slice(1, 0, config.queries).to(DType::kF64).contiguous();
  for (int64_t i = 0; i < places.numel(); ++i) {
    if (places.data<double>()[i] != static_cast<double>(*config.image_token)) return inputs;
  }
  for (const char* name : {"input_ids", "attention_mask"}) {
    const auto found = inputs.find(name);
    if (found == inputs.end() || found->second.dim() != 2) continue;
    found->second = found->second.slice(1, config.queries);
  }
  return inputs;
}

// Returns the number of rows per image of a state.
int64_t rows_of(const Blip2Config& config, FrozenFeatures::ImageState state) {
  return state == FrozenFeatures::ImageState::kVision ? config.vision.tokens() : config.queries;
}

// --- maps -----------------------------------------------------------------------------------------------

Result<PictureMaps> map_asked(MatrixView<const float> pixels, const Parts& parts, std::mutex& mutex,
                              MapMethod method, const Blip2Vision& vision, const QFormer& qformer,
                              const StateScore& score) {
  SACCADE_TRY(check_pictures(pixels, parts.info));
  const auto side = static_cast<int>(vision.config().image_size / vision.config().patch_size);
  PictureMaps maps{side, side, Matrix<float>(pixels.rows(), int64_t{side} * side)};
  // The intermediate values of every block are kept, so fewer images are processed at a time.
  const int64_t cost = vision.config().tokens() * (method == MapMethod::kChefer ? 16 : 1);
  SACCADE_TRY(run_alone(mutex, [&] {
    for_pictures(pixels, parts, cost, [&](int64_t first, const Tensor& piece) {
      store_rows(map_queries(vision, qformer, piece, score, method, parts.dtype), first, maps.relevance);
    });
  }));
  return maps;
}

// Computes the gradient of the cosine between `target` [dim] and the nearest row, with one row per query
// state.
StateGradient nearest_query(const Tensor& states, const nn::Linear& projection, const Tensor& target) {
  const int64_t n = states.size(0);
  const int64_t queries = states.size(1);
  const Tensor rows = projection.forward(states);  // [n, queries, dim]
  const Tensor cosines = nn::row_products(nn::normalize_rows(rows), target.unsqueeze(0)).contiguous();
  const Tensor all = cosine_gradient(rows.contiguous().view({n * queries, -1}), target).view(rows.sizes());
  const Tensor change = Tensor::zeros(rows.sizes(), DType::kF32, states.workspace());
  StateGradient gradient;
  gradient.weights = Tensor::zeros({n, queries});
  for (int64_t i = 0; i < n; ++i) {
    const std::span<const float> each = cosines[i].floats();
    const int64_t best = std::max_element(each.begin(), each.end()) - each.begin();
    change[i][best].copy_from(all[i][best]);
    gradient.weights.data<float>()[i * queries + best] = 1;
  }
  gradient.change = projection.backward(change);
  return gradient;
}

// Computes a score of encode_images' embeddings: the mean of the projected query states, normalized to length
// 1. With `of_unit`, each projected state is normalized before the mean.
StateGradient of_mean_row(const Tensor& states, const nn::Linear& projection, bool of_unit,
                          const StateScore& score) {
  const int64_t n = states.size(0);
  const int64_t queries = states.size(1);
  const Tensor rows = projection.forward(states).contiguous();  // [n, queries, dim]
  const Tensor mean = nn::mean(of_unit ? nn::normalize_rows(rows) : rows, 1);
  const Tensor unit = nn::normalize_rows(mean);
  const Tensor change =
      cosine_gradient(mean, score(unit.unsqueeze(1)).change.contiguous().view(mean.sizes())) *
      (1.0F / static_cast<float>(queries));
  const Tensor each = change.unsqueeze(1).expand({n, queries, -1}).contiguous();
  const nn::Shape flat = {n * queries, each.size(2)};
  StateGradient gradient;
  gradient.change = projection.backward(
      of_unit ? cosine_gradient(rows.view(flat), each.view(flat)).view(rows.sizes()) : each);
  gradient.weights = Tensor::full({n, queries}, 1.0F / static_cast<float>(queries));
  return gradient;
}

// --- retrieval ------------------------------------------------------------------------------------------

class RetrievalEncoder : public Architecture,
                         public LateInteraction,
                         public PairScorer,
                         public FrozenFeatures,
                         public PictureMapper,
                         public PromptReader,
                         public StateMapper {
 public:
  RetrievalEncoder(Parts parts, Blip2Retrieval model) : parts_(std::move(parts)), model_(std::move(model)) {}

  const EncoderInfo& info() const override { return parts_.info; }
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  EncoderCapabilities capabilities() override {
    return {.late_interaction = this,
            .pair_scorer = this,
            .frozen_features = this,
            .picture_mapper = this,
            .prompt_reader = this};
  }
  int patch_rows() const override { return 0; }
  int patch_columns() const override { return 0; }
  Result<PictureMaps> map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                   MapMethod method) override {
    SACCADE_TRY(check_target(target, parts_.info));
    const Tensor row = Tensor::of(target, {parts_.info.dim});
    const StateScore best = [&](const Tensor& states) {
      return nearest_query(states, model_.image_projection, row);
    };
    return map_asked(pixels, parts_, mutex_, method, model_.vision, model_.qformer, best);
  }

  StateMapper* state_mapper() override { return this; }
  bool can_map_states(ImageStates states) const override {
    return states == ImageStates::kRows || states == ImageStates::kQueries || states == ImageStates::kVision;
  }
  Result<PictureMaps> map_states(MatrixView<const float> pixels, const StatesScored& scored,
                                 MapMethod method) override {
    const StateScore of_mean = [&](const Tensor& states) {
      return of_mean_row(states, model_.image_projection, true, scored.score);
    };
    return map_asked(pixels, parts_, mutex_, method, model_.vision,
                     scored.qformer != nullptr ? *scored.qformer : model_.qformer,
                     scored.states == ImageStates::kRows ? of_mean : scored.score);
  }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    Matrix<float> rows(pixels.rows(), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, parts_, config().vision.tokens(), [&](int64_t first, const Tensor& piece) {
        store_rows(mean_rows(model_.image_rows(look(piece), parts_.dtype)), first, rows);
      });
    }));
    return rows;
  }

  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    RowSets sets = equal_row_sets(pixels.rows(), config().queries, parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, parts_, config().vision.tokens(), [&](int64_t first, const Tensor& piece) {
        store_rows(model_.image_rows(look(piece), parts_.dtype), first * config().queries, sets.rows);
      });
    }));
    return sets;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, parts_.info, config().qformer.vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config().qformer.pad_id, batching())) {
        store_rows(model_.text_rows(batch.ids, batch.mask, parts_.dtype), batch.items, rows);
      }
    }));
    return rows;
  }

  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    return one_each(encode_texts(texts));
  }

  int64_t image_width(ImageState state) const override {
    if (state == ImageState::kQueries) return config().qformer.shape.width;
    return state == ImageState::kVision ? config().vision.shape.width : 0;
  }
  int64_t image_rows(ImageState state) const override { return rows_of(config(), state); }
  int64_t text_width(TextState state) const override {
    return state == TextState::kPooled ? config().qformer.shape.width : 0;
  }

  Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) override {
    SACCADE_TRY(check_state(image_width(state), parts_.info));
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    RowSets sets = equal_row_sets(pixels.rows(), image_rows(state), image_width(state));
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, parts_, config().vision.tokens(), [&](int64_t first, const Tensor& piece) {
        const Tensor memory = look(piece);
        store_rows(state == ImageState::kVision ? memory : model_.qformer.ask(memory, parts_.dtype),
                   first * image_rows(state), sets.rows);
      });
    }));
    return sets;
  }

  Result<RowSets> text_features(std::span<const TokenizedText> texts, TextState state) override {
    SACCADE_TRY(check_state(text_width(state), parts_.info));
    SACCADE_TRY(check_texts(texts, parts_.info, config().qformer.vocabulary));
    RowSets sets = equal_row_sets(static_cast<int64_t>(texts.size()), 1, text_width(state));
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config().qformer.pad_id, batching())) {
        store_rows(model_.qformer.read(batch.ids, batch.mask, parts_.dtype), batch.items, sets.rows);
      }
    }));
    return sets;
  }

  Result<std::vector<float>> score_pairs(MatrixView<const float> pixels,
                                         std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    SACCADE_TRY(check_texts(texts, parts_.info, config().qformer.vocabulary));
    if (pixels.rows() != static_cast<int64_t>(texts.size())) {
      return fail(ErrorCode::kUsage, "{} images and {} texts do not make pairs", pixels.rows(), texts.size());
    }
    std::vector<float> scores;
    scores.reserve(texts.size());
    SACCADE_TRY(run_alone(mutex_, [&] {
      const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / config().vision.tokens());
      for (int64_t first = 0; first < pixels.rows(); first += at_once) {
        const int64_t count = std::min(at_once, pixels.rows() - first);
        score(pixels.slice(first, count),
              texts.subspan(static_cast<size_t>(first), static_cast<size_t>(count)), scores);
      }
    }));
    return scores;
  }

  Result<Matrix<float>> encode_with_prompts(const RowSets& images,
                                            std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, parts_.info, config().qformer.vocabulary));
    SACCADE_TRY(check_memories(images, std::ssize(texts)));
    Matrix<float> rows(std::ssize(texts), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch :
           text_batches(texts, config().qformer.pad_id, batching(config().queries))) {
        store_rows(model_.prompted_rows(memory_of(images, batch), batch.ids, batch.mask, parts_.dtype),
                   batch.items, rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& given) override {
    const std::lock_guard lock(mutex_);
    const nn::TensorMap inputs = without_image_tokens(given, config());
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, parts_));
    SACCADE_ASSIGN(const TextInputs texts,
                   text_inputs_of(inputs, parts_, config().qformer.positions, config().qformer.vocabulary));
    nn::TensorMap result;
    if (pixels.defined()) {
      result["vision_last_hidden_state"] = look(pixels);
      result["query_output"] = model_.qformer.ask(result["vision_last_hidden_state"], parts_.dtype);
      result["image_embeds"] = model_.image_rows(result["vision_last_hidden_state"], parts_.dtype);
    }
    if (texts.ids.defined()) {
      result["text_embeds"] = model_.text_rows(texts.ids, texts.mask, parts_.dtype);
    }
    if (pixels.defined() && texts.ids.defined()) {
      const Tensor each_query = nn::row_products(result["image_embeds"], result["text_embeds"]);
      result["itc_logits_per_image"] = nn::largest(each_query, 1);  // [images, texts]
      if (pixels.size(0) == texts.ids.size(0)) {
        result["itm_logits"] =
            model_.match_logits(result["vision_last_hidden_state"], texts.ids, texts.mask, parts_.dtype);
      }
    }
    return result;
  }

 private:
  const Blip2Config& config() const { return parts_.config; }
  TextBatching batching(int64_t extra_tokens = 0) const {
    return {.workspace = parts_.workspace.get(), .extra_tokens = extra_tokens};
  }
  Tensor look(const Tensor& pixels) const { return model_.vision.forward(pixels, parts_.dtype); }

  // Returns kUsage unless `images` holds the vision tower's states of one image per text, or of one.
  Status check_memories(const RowSets& images, int64_t texts) const {
    const int64_t each = config().vision.tokens();
    const int64_t count = std::ssize(images.begin) - 1;
    if (count == 0 && texts == 0) return {};
    if (count != texts && count != 1) {
      return fail(ErrorCode::kUsage, "states of {} images with {} texts, expected one each, or one for all",
                  count, texts);
    }
    bool fits = images.rows.columns() == config().vision.shape.width;
    for (int64_t i = 0; i <= count; ++i) fits = fits && images.begin[static_cast<size_t>(i)] == i * each;
    if (!fits || images.rows.rows() != count * each) {
      return fail(ErrorCode::kUsage,
                  "{} images with {} states of width {}, expected {} states of width {} per image", count,
                  images.rows.rows(), images.rows.columns(), each, config().vision.shape.width);
    }
    return {};
  }
  // Returns the states of a batch's images, [n, tokens, width], or [1, ...] if one image is for all texts.
  Tensor memory_of(const RowSets& images, const TextBatch& batch) const {
    const int64_t each = config().vision.tokens();
    const int64_t width = config().vision.shape.width;
    const auto memory = [&](int64_t image) {
      return Tensor::borrow(images.rows.row(image * each).data(), {1, each, width},
                            {each * images.rows.columns(), images.rows.columns(), 1}, DType::kF32,
                            parts_.workspace.get());
    };
    if (std::ssize(images.begin) == 2) return memory(0);
    std::vector<Tensor> memories;
    for (const size_t item : batch.items) memories.push_back(memory(static_cast<int64_t>(item)));
    return nn::cat(memories);
  }

  // Image in the form the towers produce.
  struct Sight {
    Tensor memory;  // [1, tokens, width]
    Tensor rows;    // [1, queries, projection]
  };

  // Cache of the last image, because callers that rank texts for an image pass it repeatedly. Equal pixels
  // have equal states, so it stays valid between calls.
  struct Seen {
    std::vector<float> pixels;
    Sight sight;
  };

  // Scores the pairs of one piece by LAVIS's score (compute_sim_matrix of blip2_qformer.py): the logit of
  // "matches" plus the contrastive similarity. Consecutive equal images are encoded once.
  void score(MatrixView<const float> pixels, std::span<const TokenizedText> texts,
             std::vector<float>& scores) {
    std::vector<int64_t> new_pictures;  // rows
    std::vector<int64_t> which;         // per pair: 0 for the one seen before, 1 + i for new_pictures[i]
    const auto same = [](std::span<const float> a, std::span<const float> b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    };
    for (int64_t i = 0; i < pixels.rows(); ++i) {
      const std::span<const float> last =
          new_pictures.empty() ? std::span<const float>(seen_.pixels) : pixels.row(new_pictures.back());
      if (!same(pixels.row(i), last)) new_pictures.push_back(i);
      which.push_back(static_cast<int64_t>(new_pictures.size()));
    }
    std::vector<Sight> sights = {seen_.sight};
    if (!new_pictures.empty()) {
      std::vector<Tensor> pictures;
      for (const int64_t row : new_pictures) {
        pictures.push_back(picture_tensor(pixels.slice(row, 1), parts_));
      }
      const Tensor memory = look(nn::cat(pictures));
      const Tensor rows = model_.image_rows(memory, parts_.dtype);
      for (int64_t i = 0; i < memory.size(0); ++i) {
        sights.push_back({memory.slice(0, i, i + 1), rows.slice(0, i, i + 1)});
      }
      const std::span<const float> last = pixels.row(new_pictures.back());
      seen_ = {{last.begin(), last.end()}, {sights.back().memory.clone(), sights.back().rows.clone()}};
    }
    Matrix<float> out(pixels.rows(), 1);
    for (const TextBatch& batch : text_batches(texts, config().qformer.pad_id, batching(config().queries))) {
      std::vector<Tensor> memories, rows;
      for (const size_t item : batch.items) {
        const Sight& sight = sights[static_cast<size_t>(which[item])];
        memories.push_back(sight.memory);
        rows.push_back(sight.rows);
      }
      const bool one = std::all_of(memories.begin(), memories.end(), [&](const Tensor& memory) {
        return memory.raw() == memories.front().raw();
      });
      const Tensor memory = one ? memories.front() : nn::cat(memories);
      const Tensor logits = model_.match_logits(memory, batch.ids, batch.mask, parts_.dtype);
      const Tensor text_rows = model_.text_rows(batch.ids, batch.mask, parts_.dtype);
      std::vector<Tensor> similarities;  // similarity of the best query for the text, [1] each
      for (size_t i = 0; i < rows.size(); ++i) {
        const Tensor text = text_rows[static_cast<int64_t>(i)].unsqueeze(0);
        similarities.push_back(nn::largest(nn::row_products(rows[i][0], text), 0));
      }
      store_rows(logits.slice(1, 1, 2) + nn::cat(similarities).unsqueeze(1), batch.items, out);
    }
    scores.insert(scores.end(), out.values().begin(), out.values().end());
  }

  Parts parts_;
  Blip2Retrieval model_;
  Seen seen_;
  std::mutex mutex_;
};

// --- frozen towers --------------------------------------------------------------------------------------

class FrozenEncoder : public Architecture, public FrozenFeatures, public StateMapper {
 public:
  FrozenEncoder(Parts parts, Blip2T5 model) : parts_(std::move(parts)), model_(std::move(model)) {}

  const EncoderInfo& info() const override { return parts_.info; }
  const Preprocessing& preprocessing() const override { return parts_.preprocessing; }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  EncoderCapabilities capabilities() override { return {.frozen_features = this}; }

  int64_t image_width(ImageState state) const override {
    switch (state) {
      case ImageState::kQueries:
        return config().qformer.shape.width;
      case ImageState::kProjected:
        return config().text.width;
      case ImageState::kVision:
        return config().vision.shape.width;
      case ImageState::kPooled:
        break;
    }
    return 0;
  }
  int64_t image_rows(ImageState state) const override { return rows_of(config(), state); }
  int64_t text_width(TextState state) const override {
    return state == TextState::kTokens ? config().text.width : 0;
  }

  Result<RowSets> image_features(MatrixView<const float> pixels, ImageState state) override {
    SACCADE_TRY(check_state(image_width(state), parts_.info));
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    RowSets sets = equal_row_sets(pixels.rows(), image_rows(state), image_width(state));
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, parts_, config().vision.tokens(), [&](int64_t first, const Tensor& piece) {
        store_rows(image_states(piece, state), first * image_rows(state), sets.rows);
      });
    }));
    return sets;
  }

  Result<RowSets> text_features(std::span<const TokenizedText> texts, TextState state) override {
    SACCADE_TRY(check_state(text_width(state), parts_.info));
    SACCADE_TRY(check_texts(texts, parts_.info, config().text.vocabulary));
    RowSets sets = token_row_sets(texts, text_width(state));
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config().text.pad_id, batching())) {
        store_token_rows(model_.text.forward(batch.ids, batch.mask, parts_.dtype), batch, sets);
      }
    }));
    return sets;
  }

  StateMapper* state_mapper() override { return this; }
  bool can_map_states(ImageStates states) const override { return states != ImageStates::kPooled; }
  Result<PictureMaps> map_states(MatrixView<const float> pixels, const StatesScored& scored,
                                 MapMethod method) override {
    const nn::Linear& projection = model_.language_projection;
    const StateScore score = [&](const Tensor& states) -> StateGradient {
      if (scored.states == ImageStates::kRows) return of_mean_row(states, projection, false, scored.score);
      if (scored.states != ImageStates::kProjected) return scored.score(states);
      StateGradient gradient = scored.score(projection.forward(states));
      gradient.change = projection.backward(gradient.change);
      return gradient;
    };
    return map_asked(pixels, parts_, mutex_, method, model_.vision,
                     scored.qformer != nullptr ? *scored.qformer : model_.qformer, score);
  }

  // Uses the checkpoint without training for it: the mean of the projected queries, and the mean of the
  // text's states, in their common width.
  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_TRY(check_pictures(pixels, parts_.info));
    Matrix<float> rows(pixels.rows(), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for_pictures(pixels, parts_, config().vision.tokens(), [&](int64_t first, const Tensor& piece) {
        store_rows(mean_rows(image_states(piece, ImageState::kProjected)), first, rows);
      });
    }));
    return rows;
  }

  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    SACCADE_TRY(check_texts(texts, parts_.info, config().text.vocabulary));
    Matrix<float> rows(static_cast<int64_t>(texts.size()), parts_.info.dim);
    SACCADE_TRY(run_alone(mutex_, [&] {
      for (const TextBatch& batch : text_batches(texts, config().text.pad_id, batching())) {
        const Tensor states = model_.text.forward(batch.ids, batch.mask, parts_.dtype);
        store_rows(mean_rows(states, batch.mask), batch.items, rows);
      }
    }));
    return rows;
  }

  Result<nn::TensorMap> answers(const nn::TensorMap& given) override {
    const std::lock_guard lock(mutex_);
    const nn::TensorMap inputs = without_image_tokens(given, config());
    SACCADE_ASSIGN(const Tensor pixels, pixel_values_of(inputs, parts_));
    SACCADE_ASSIGN(const TextInputs texts,
                   text_inputs_of(inputs, parts_, parts_.info.context, config().text.vocabulary));
    nn::TensorMap result;
    if (pixels.defined()) {
      result["vision_last_hidden_state"] = model_.vision.forward(pixels, parts_.dtype);
      result["query_output"] = model_.qformer.ask(result["vision_last_hidden_state"], parts_.dtype);
      result["language_projection"] = model_.language_projection.forward(result["query_output"]);
    }
    if (texts.ids.defined()) {
      result["text_encoder_last_hidden_state"] = model_.text.forward(texts.ids, texts.mask, parts_.dtype);
    }
    return result;
  }

 private:
  const Blip2Config& config() const { return parts_.config; }

  TextBatching batching() const { return {.workspace = parts_.workspace.get()}; }
  Tensor image_states(const Tensor& pixels, ImageState state) const {
    const Tensor memory = model_.vision.forward(pixels, parts_.dtype);
    if (state == ImageState::kVision) return memory;
    const Tensor queries = model_.qformer.ask(memory, parts_.dtype);
    return state == ImageState::kQueries ? queries : model_.language_projection.forward(queries);
  }

  Parts parts_;
  Blip2T5 model_;
  std::mutex mutex_;
};

// --- loading --------------------------------------------------------------------------------------------

// Buffers that older transformers saved beside the weights: 0, 1, 2, ...
constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "*.embeddings.position_ids"};

// Returns the tensors that a kind reads, without those for text generation. A T5's embedding may be stored
// only under its encoder's name.
nn::TensorMap tensors_of(const Weights& weights, Blip2Kind kind) {
  nn::TensorMap tensors;
  for (const auto& [name, tensor] : weights.tensors) {
    const bool writes =
        name.starts_with("language_model.decoder.") || name.starts_with("language_model.lm_head.");
    if (kind == Blip2Kind::kT5 && writes) continue;
    tensors.emplace(name, tensor);
  }
  if (kind == Blip2Kind::kT5) {
    // emplace keeps an existing "shared": the reference ties the encoder's embedding to it.
    if (auto encoder = tensors.extract("language_model.encoder.embed_tokens.weight")) {
      tensors.emplace("language_model.shared.weight", encoder.mapped());
    }
  }
  return tensors;
}

Result<Blip2Config> load_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors) {
  return blip2_config_from_hugging_face(checkpoint.config, tensors)
      .in((checkpoint.folder / "config.json").string());
}

// Fills in the fields that follow from the config alone.
void set_shape(const Blip2Config& config, EncoderInfo& info) {
  const bool retrieval = config.kind == Blip2Kind::kRetrieval;
  info.dim = retrieval ? config.projection : config.text.width;
  info.context = config.context();
  info.image_height = info.image_width = static_cast<int>(config.vision.image_size);
  info.logit_scale = 1;
  info.shared_space = retrieval;
}

Result<Preprocessing> blip2_preprocessing(const Checkpoint& checkpoint, const EncoderInfo& info) {
  return load_preprocessing(checkpoint, info, Json{{"image_processor_type", "BlipImageProcessor"}});
}

WordTable word_table(const Blip2Config& config) {
  constexpr int64_t kSentinels = 100;  // T5's sentinels, which its tokenizer may lack
  // The image placeholder is a token beyond those that the model reads.
  const int64_t pictures = config.image_token ? 1 : 0;
  if (config.kind == Blip2Kind::kRetrieval) {
    return {"embeddings.word_embeddings.weight", config.qformer.vocabulary, pictures};
  }
  return {"language_model.shared.weight", config.text.vocabulary, pictures, kSentinels};
}

Status check_tokenizer(const Checkpoint& checkpoint, const Blip2Config& config, const Tokenizer* tokenizer) {
  const bool retrieval = config.kind == Blip2Kind::kRetrieval;
  const char* name = retrieval ? "qformer_config" : "text_config";
  SACCADE_ASSIGN(const Json text, section(checkpoint.config, name));
  if (retrieval) return check_bert_ids(text, name, tokenizer);
  if (tokenizer == nullptr) return {};
  // T5 has no start token.
  return check_special_ids(text, name,
                           {{"eos_token_id", tokenizer->end_id()}, {"pad_token_id", tokenizer->pad_id()}});
}

Result<Parts> load_parts(const Checkpoint& checkpoint, const BackendOptions& options,
                         const std::string& where) {
  Parts parts;
  SACCADE_ASSIGN(static_cast<EncoderParts&>(parts), open_parts(checkpoint, options, "blip-2"));
  SACCADE_ASSIGN(parts.config, load_config(checkpoint, parts.weights.tensors));
  const Blip2Config& config = parts.config;
  set_shape(config, parts.info);
  SACCADE_ASSIGN(parts.preprocessing, blip2_preprocessing(checkpoint, parts.info));
  const TextCleanup cleanup =
      config.captions == Blip2Captions::kLavis ? TextCleanup::kLavis : TextCleanup::kTokenizerFile;
  // The embedding of a Q-Former's text is the state at its start token.
  const ReadAt read_at = config.kind == Blip2Kind::kRetrieval ? ReadAt::kStart : ReadAt::kAnywhere;
  SACCADE_ASSIGN(parts.tokenizer,
                 load_checkpoint_tokenizer(checkpoint, cleanup, word_table(config), read_at));
  SACCADE_TRY(check_tokenizer(checkpoint, config, parts.tokenizer.get()).in(where));
  return parts;
}

template <typename Model, typename EncoderOf>
Result<std::unique_ptr<Architecture>> load_kind(Parts parts, const std::string& where) {
  nn::TensorMap tensors = tensors_of(parts.weights, parts.config.kind);
  parts.info.parameters = 0;  // counts only parameters that are read
  for (const auto& [name, tensor] : tensors) parts.info.parameters += tensor.numel();
  nn::LoadedParameters source(std::move(tensors));
  SACCADE_ASSIGN(Model model, Model::make(parts.config, source).in(where));
  if (const Status used = source.all_used(kBuffers); !used) return fail(used.error().in(where));
  model.pack(parts.packing);
  return std::unique_ptr<Architecture>(std::make_unique<EncoderOf>(std::move(parts), std::move(model)));
}

Result<std::unique_ptr<Architecture>> load(const Checkpoint& checkpoint, const BackendOptions& options) {
  const std::string where = fmt::format("checkpoint {}", checkpoint.folder.string());
  SACCADE_ASSIGN(Parts parts, load_parts(checkpoint, options, where));
  return parts.config.kind == Blip2Kind::kRetrieval
             ? load_kind<Blip2Retrieval, RetrievalEncoder>(std::move(parts), where)
             : load_kind<Blip2T5, FrozenEncoder>(std::move(parts), where);
}

Status outline(const Checkpoint& checkpoint, const nn::TensorMap& tensors, CheckpointOutline& result) {
  return outline_from(load_config(checkpoint, tensors), checkpoint, set_shape, blip2_preprocessing, result);
}

}  // namespace

extern const Family blip2_family = {{"blip-2"}, load, outline};

Result<FrozenQFormer> read_qformer(const std::filesystem::path& folder, QFormerPart part) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const std::string type, model_type_of(checkpoint));
  if (type != "blip-2") {
    return fail(ErrorCode::kUsage, "checkpoint {}: it has no Q-Former (model_type \"{}\", not \"blip-2\")",
                folder.string(), type);
  }
  FrozenQFormer result;
  SACCADE_ASSIGN(result.weights, map_weights(checkpoint));
  SACCADE_ASSIGN(const Blip2Config config, load_config(checkpoint, result.weights.tensors));
  result.config = config.qformer;
  if (part == QFormerPart::kQueries) {
    result.config.text_input = false;
  } else if (config.kind == Blip2Kind::kRetrieval) {
    result.projection = config.projection;
  } else {
    return fail(ErrorCode::kUsage,
                "checkpoint {}: its Q-Former reads no text, that of a BLIP-2 for retrieval does",
                folder.string());
  }
  result.queries = config.queries;
  result.memory_rows = config.vision.tokens();
  return result;
}

}  // namespace saccade

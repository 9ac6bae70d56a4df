#include "saccade/model/dual_encoder.h"

#include <algorithm>
#include <cassert>

namespace saccade {

using nn::Tensor;

template <typename Body>
Status DualEncoder::for_image_states(MatrixView<const float> pixels, const Body& body) {
  SACCADE_TRY(check_pictures(pixels, parts_.info));
  return run_alone(mutex_, [&] {
    for_pictures(
        pixels, parts_, shape_.image_tokens,
        [&](int64_t first, const Tensor& piece) { body(first, image_states(piece, nullptr)); },
        states_at_once());
  });
}

template <typename Body>
Status DualEncoder::for_text_states(std::span<const TokenizedText> texts, const Body& body) {
  SACCADE_TRY(check_texts(texts, parts_.info, shape_.vocabulary));
  const TextBatching batching{
      .workspace = parts_.workspace.get(), .at_once = states_at_once(), .padded_to = shape_.padded_to};
  return run_alone(mutex_, [&] {
    for (const TextBatch& batch : text_batches(texts, shape_.pad_id, batching)) {
      const Tensor mask = shape_.masked ? batch.mask : Tensor();
      body(batch, text_states(batch.ids, mask, nullptr));
    }
  });
}

Result<Matrix<float>> DualEncoder::encode_images(MatrixView<const float> pixels) {
  return picture_rows(pixels, true);
}

Result<Matrix<float>> DualEncoder::encode_texts(std::span<const TokenizedText> texts) {
  return sentence_rows(texts, true);
}

Result<Matrix<float>> DualEncoder::picture_rows(MatrixView<const float> pixels, bool unit) {
  Matrix<float> rows(pixels.rows(), parts_.info.dim);
  SACCADE_TRY(for_image_states(pixels, [&](int64_t first, const Tensor& states) {
    const Tensor raw = project_images(states);
    store_rows(unit ? nn::normalize_rows(raw) : raw, first, rows);
  }));
  return rows;
}

Result<Matrix<float>> DualEncoder::sentence_rows(std::span<const TokenizedText> texts, bool unit) {
  Matrix<float> rows(static_cast<int64_t>(texts.size()), parts_.info.dim);
  SACCADE_TRY(for_text_states(texts, [&](const TextBatch& batch, const Tensor& states) {
    const Tensor raw = project_texts(states);
    store_rows(unit ? nn::normalize_rows(raw) : raw, batch.items, rows);
  }));
  return rows;
}

Result<RowSets> DualEncoder::image_features(MatrixView<const float> pixels, ImageState state) {
  SACCADE_TRY(check_state(image_width(state), parts_.info));
  RowSets sets = equal_row_sets(pixels.rows(), 1, shape_.image_states);
  SACCADE_TRY(for_image_states(
      pixels, [&](int64_t first, const Tensor& states) { store_rows(states, first, sets.rows); }));
  return sets;
}

Result<RowSets> DualEncoder::text_features(std::span<const TokenizedText> texts, TextState state) {
  SACCADE_TRY(check_state(text_width(state), parts_.info));
  RowSets sets = equal_row_sets(static_cast<int64_t>(texts.size()), 1, shape_.text_states);
  SACCADE_TRY(for_text_states(texts, [&](const TextBatch& batch, const Tensor& states) {
    store_rows(states, batch.items, sets.rows);
  }));
  return sets;
}

Result<PictureMaps> DualEncoder::map_pictures(MatrixView<const float> pixels, std::span<const float> target,
                                              MapMethod method) {
  SACCADE_TRY(check_target(target, parts_.info));
  const Tensor row = Tensor::of(target, {1, 1, parts_.info.dim});
  const StateScore cosine = [&row](const Tensor& rows) -> StateGradient {
    return {row.expand(rows.sizes()), Tensor::full({rows.size(0), 1}, 1)};
  };
  return map_states(pixels, {.states = ImageStates::kRows, .score = cosine}, method);
}

Result<PictureMaps> DualEncoder::map_states(MatrixView<const float> pixels, const StatesScored& scored,
                                            MapMethod method) {
  const std::optional<PictureTower> tower = picture_tower();
  if (!tower) return fail(ErrorCode::kUnsupported, "the image tower is no transformer: it has no maps");
  SACCADE_TRY(check_pictures(pixels, parts_.info));
  const StateChange of_given = [&](const Tensor& states) {
    return scored.score(states.unsqueeze(1)).change.contiguous().view(states.sizes());
  };
  const StateChange of_rows = [&](const Tensor& states) {
    return projected_gradient(tower->projection, states, of_given);
  };
  PictureMaps maps{tower->rows, tower->columns,
                   Matrix<float>(pixels.rows(), int64_t{tower->rows} * tower->columns)};
  // The intermediate values of every block are kept, so fewer images are processed at a time.
  const int64_t cost = method == MapMethod::kChefer ? 16 * shape_.image_tokens : shape_.image_tokens;
  SACCADE_TRY(run_alone(mutex_, [&] {
    for_pictures(pixels, parts_, cost, [&](int64_t first, const Tensor& piece) {
      const StateChange& change = scored.states == ImageStates::kRows ? of_rows : of_given;
      store_rows(map_tower(*tower, piece, change, method), first, maps.relevance);
    });
  }));
  return maps;
}

Result<RowSets> DualEncoder::image_tokens(MatrixView<const float> pixels) {
  SACCADE_TRY(check_pictures(pixels, parts_.info));
  RowSets sets = equal_row_sets(pixels.rows(), shape_.picture_tokens, parts_.info.dim);
  SACCADE_TRY(run_alone(mutex_, [&] {
    for_pictures(pixels, parts_, shape_.image_tokens, [&](int64_t first, const Tensor& piece) {
      const Tensor states = image_token_states(piece);
      store_rows(states.view({-1, parts_.info.dim}), first * shape_.picture_tokens, sets.rows);
    });
  }));
  return sets;
}

Result<RowSets> DualEncoder::text_tokens(std::span<const TokenizedText> texts) {
  SACCADE_TRY(check_texts(texts, parts_.info, shape_.vocabulary));
  RowSets sets = token_row_sets(texts, parts_.info.dim);
  const TextBatching batching{.workspace = parts_.workspace.get(), .at_once = parts_.tokens_at_once};
  SACCADE_TRY(run_alone(mutex_, [&] {
    for (const TextBatch& batch : text_batches(texts, shape_.pad_id, batching)) {
      store_token_rows(text_token_states(batch.ids), batch, sets);
    }
  }));
  return sets;
}

int64_t DualEncoder::end_token(const TokenizedText& text) const {
  Tensor ids = Tensor::empty({1, std::ssize(text.ids)}, DType::kI64);
  std::copy(text.ids.begin(), text.ids.end(), ids.integers().begin());
  return text_ends(ids).integers()[0];
}

Result<Matrix<float>> DualEncoder::encode_with_words(std::span<const TokenizedText> texts,
                                                     std::span<const int64_t> places,
                                                     MatrixView<const float> words) {
  SACCADE_TRY(check_texts(texts, parts_.info, shape_.vocabulary));
  if (places.size() != texts.size() || words.rows() != std::ssize(texts) ||
      words.columns() != shape_.word_width) {
    return fail(ErrorCode::kUsage,
                "{} texts with {} places and words [{}, {}], expected one of each of width {}", texts.size(),
                places.size(), words.rows(), words.columns(), shape_.word_width);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (places[i] >= 0 && places[i] < std::ssize(texts[i].ids)) continue;
    return fail(ErrorCode::kUsage, "text {}: no token {} to be replaced, it has {}", i, places[i],
                texts[i].ids.size());
  }
  Matrix<float> rows(std::ssize(texts), parts_.info.dim);
  const TextBatching batching{.workspace = parts_.workspace.get(), .at_once = parts_.tokens_at_once};
  SACCADE_TRY(run_alone(mutex_, [&] {
    for (const TextBatch& batch : text_batches(texts, shape_.pad_id, batching)) {
      const int64_t n = std::ssize(batch.items);
      const Tensor at = Tensor::empty({n}, DType::kI64, parts_.workspace.get());
      const Tensor inserted = Tensor::empty({n, shape_.word_width}, DType::kF32, parts_.workspace.get());
      for (int64_t i = 0; i < n; ++i) {
        const size_t item = batch.items[static_cast<size_t>(i)];
        at.integers()[static_cast<size_t>(i)] = places[item];
        const std::span<const float> word = words.row(static_cast<int64_t>(item));
        std::copy(word.begin(), word.end(), inserted.data<float>() + i * shape_.word_width);
      }
      store_rows(nn::normalize_rows(project_texts(text_states_with(batch.ids, at, inserted))), batch.items,
                 rows);
    }
  }));
  return rows;
}

// Never called for a family whose shape provides none of these.
Tensor DualEncoder::image_token_states(const Tensor&) const {
  assert(false);
  return {};
}
Tensor DualEncoder::text_token_states(const Tensor&) const {
  assert(false);
  return {};
}
Tensor DualEncoder::text_ends(const Tensor&) const {
  assert(false);
  return {};
}
Tensor DualEncoder::text_states_with(const Tensor&, const Tensor&, const Tensor&) const {
  assert(false);
  return {};
}

Result<nn::TensorMap> DualEncoder::answers(const nn::TensorMap& inputs) {
  const std::lock_guard lock(mutex_);
  SACCADE_ASSIGN(const Tensor pixels, reference_pixels(inputs));
  SACCADE_ASSIGN(const TextInputs texts,
                 text_inputs_of(inputs, parts_, parts_.info.context, shape_.vocabulary));
  nn::TensorMap result;
  TowerTrace trace;
  if (pixels.defined()) {
    result["image_embeds"] = nn::normalize_rows(project_images(image_states(pixels, nullptr)));
    (void)image_states(pixels, &trace);
    result["vision_hidden_1"] = trace.hidden_1;
    result["vision_last_hidden_state"] = trace.last_hidden_state;
  }
  if (texts.ids.defined()) {
    SACCADE_TRY(check_reference_texts(texts));
    result["text_embeds"] = nn::normalize_rows(project_texts(text_states(texts.ids, texts.mask, nullptr)));
    (void)text_states(texts.ids, texts.mask, &trace);
    result["text_hidden_1"] = trace.hidden_1;
    result["text_last_hidden_state"] = trace.last_hidden_state;
  }
  if (pixels.defined() && texts.ids.defined()) {
    result["logits_per_image"] = logits(nn::row_products(result["image_embeds"], result["text_embeds"]));
    result["logits_per_text"] = result["logits_per_image"].t().contiguous();
  }
  return result;
}

Result<Tensor> DualEncoder::reference_pixels(const nn::TensorMap& inputs) const {
  return pixel_values_of(inputs, parts_);
}

Status DualEncoder::check_reference_texts(const TextInputs&) const {
  return {};
}

}  // namespace saccade

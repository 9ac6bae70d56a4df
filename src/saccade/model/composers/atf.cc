#include "saccade/model/composers/atf.h"

#include <array>
#include <cmath>
#include <utility>

#include "saccade/core/name_field.h"
#include "saccade/model/checkpoints/config_fields.h"
#include "saccade/model/encoder_parts.h"

namespace saccade {

using nn::Tensor;

std::span<const EnumName<AtfPlaces>> enum_names(AtfPlaces) {
  static constexpr std::array<EnumName<AtfPlaces>, 3> kWords{
      {{AtfPlaces::kLearned, "learned", "a learned encoding of each place"},
       {AtfPlaces::kSinusoidal, "sinusoidal", "fixed sines and cosines"},
       {AtfPlaces::kNone, "none", "no encoding of places"}}};
  return kWords;
}

std::span<const EnumName<AtfPooling>> enum_names(AtfPooling) {
  static constexpr std::array<EnumName<AtfPooling>, 4> kWords{
      {{AtfPooling::kMean, "mean", "the tokens' mean"},
       {AtfPooling::kLearned, "learned", "attention, asked by a learned query"},
       {AtfPooling::kAsked, "asked", "attention, asked by the sum of the image's and the text's row"},
       {AtfPooling::kNone, "none", "the sum of both rows, no token"}}};
  return kWords;
}

std::span<const EnumName<AtfProjection>> enum_names(AtfProjection) {
  static constexpr std::array<EnumName<AtfProjection>, 4> kWords{
      {{AtfProjection::kLinear, "linear", "one layer"},
       {AtfProjection::kMlp, "mlp", "two layers with GELU, which see the sum of both rows too"},
       {AtfProjection::kBoth, "both", "two layers with GELU, which see each of both rows too"},
       {AtfProjection::kCombiner, "combiner", "CLIP4Cir's Combiner, with what was pooled as a third row"}}};
  return kWords;
}

std::span<const EnumName<AtfResidual>> enum_names(AtfResidual) {
  static constexpr std::array<EnumName<AtfResidual>, 2> kWords{
      {{AtfResidual::kNone, "none", "the projection alone"},
       {AtfResidual::kSum, "sum", "the sum of both rows plus the projection"}}};
  return kWords;
}

namespace {

Result<int64_t> count_field(const Json& json, const char* key, int64_t least, int64_t most) {
  SACCADE_ASSIGN(const auto value, json_field<int64_t>(json, key));
  SACCADE_TRY(in_range(key, value, least, most));
  return value;
}

class AtfModel : public ComposerModel {
 public:
  explicit AtfModel(AtfOf<Tensor> atf, const AtfOptions& options) : atf_(std::move(atf)), options_(options) {}

  Result<Composed> compose(EncoderBackend& /*encoder*/, const ComposerInput& input,
                           nn::Workspace* workspace) override {
    const auto n = input.picture_rows.rows();
    for (int64_t i = 0; i < n; ++i) {
      const auto item = static_cast<size_t>(i);
      const int64_t pictures = input.picture_tokens.begin[item + 1] - input.picture_tokens.begin[item];
      const int64_t texts = input.text_tokens.begin[item + 1] - input.text_tokens.begin[item];
      if (pictures == options_.picture_tokens && texts <= options_.text_places) continue;
      return fail(ErrorCode::kMismatch,
                  "query {}: {} image tokens and {} text tokens, expected {} and at most {}", i + 1, pictures,
                  texts, options_.picture_tokens, options_.text_places);
    }
    Composed composed;
    composed.rows = Matrix<float>(n, input.picture_rows.columns());
    if (n == 0) return composed;
    TokenMerge merge;
    store_rows(atf_.forward(composer_parts(input, workspace), &merge), 0, composed.rows);
    composed.matches = merged_pairs(merge);
    return composed;
  }

 private:
  AtfOf<Tensor> atf_;
  AtfOptions options_;
};

Result<std::unique_ptr<ComposerModel>> load(const ComposerConfig& config, nn::ParameterSource& source) {
  SACCADE_ASSIGN(const AtfOptions options, atf_options_from_json(config.options).in("\"options\""));
  SACCADE_ASSIGN(AtfOf<Tensor> atf, AtfOf<Tensor>::make(options, config.dim, source));
  atf.pack(DType::kF32);
  return std::unique_ptr<ComposerModel>(std::make_unique<AtfModel>(std::move(atf), options));
}

}  // namespace

Result<AtfOptions> atf_options_from_json(const Json& json) {
  AtfOptions options;
  SACCADE_ASSIGN(options.merge.tau, json_field<double>(json, "tau"));
  SACCADE_ASSIGN(options.merge.matching, name_field<MergeMatching>(json, "matching"));
  SACCADE_ASSIGN(options.merge.weights, name_field<MergeWeights>(json, "weights"));
  SACCADE_ASSIGN(options.places, name_field<AtfPlaces>(json, "places"));
  SACCADE_ASSIGN(options.pooling, name_field<AtfPooling>(json, "pooling"));
  SACCADE_ASSIGN(options.heads, count_field(json, "heads", 1, 1024));
  SACCADE_ASSIGN(options.projection, name_field<AtfProjection>(json, "projection"));
  SACCADE_ASSIGN(options.hidden_width, count_field(json, "hidden_width", 0, 1 << 20));
  SACCADE_ASSIGN(options.residual, name_field<AtfResidual>(json, "residual"));
  SACCADE_TRY(check_atf_options(options));
  SACCADE_ASSIGN(options.picture_tokens, count_field(json, "picture_tokens", 1, 1 << 20));
  SACCADE_ASSIGN(options.text_places, count_field(json, "text_places", 1, 1 << 20));
  return options;
}

AtfOptions attention_atf_options() {
  AtfOptions options;
  options.merge.matching = MergeMatching::kMutual;
  options.merge.weights = MergeWeights::kEqual;
  options.pooling = AtfPooling::kAsked;
  options.projection = AtfProjection::kMlp;
  options.residual = AtfResidual::kSum;
  return options;
}

Status check_atf_options(const AtfOptions& options) {
  if (options.projection == AtfProjection::kCombiner && options.residual != AtfResidual::kSum) {
    return fail(ErrorCode::kBadData,
                "residual {} with projection combiner: its weighted mean of both rows stands for their sum; "
                "take residual sum",
                enum_name(options.residual));
  }
  return {};
}

Json atf_options_json(const AtfOptions& options) {
  return {{"tau", options.merge.tau},
          {"matching", enum_name(options.merge.matching)},
          {"weights", enum_name(options.merge.weights)},
          {"places", enum_name(options.places)},
          {"pooling", enum_name(options.pooling)},
          {"heads", options.heads},
          {"projection", enum_name(options.projection)},
          {"hidden_width", options.hidden_width},
          {"residual", enum_name(options.residual)},
          {"picture_tokens", options.picture_tokens},
          {"text_places", options.text_places}};
}

Tensor sinusoidal_places(int64_t count, int64_t dim) {
  Tensor table = Tensor::empty({count, dim});
  for (int64_t place = 0; place < count; ++place) {
    for (int64_t d = 0; d < dim; ++d) {
      const double angle = static_cast<double>(place) /
                           std::pow(10'000.0, static_cast<double>(d / 2 * 2) / static_cast<double>(dim));
      table.data<float>()[place * dim + d] =
          static_cast<float>(d % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

std::vector<nn::PooledToken> pooled_tokens(const Tensor& picture_tokens, const Tensor& text_tokens,
                                           const TokenMerge& merge, MergeWeights weights, float share,
                                           int64_t picture_none, int64_t text_none) {
  const int64_t dim = picture_tokens.size(2);
  std::vector<nn::PooledToken> tokens;
  tokens.reserve(merge.tokens.size());
  for (size_t e = 0; e + 1 < merge.begin.size(); ++e) {
    const auto entry = static_cast<int64_t>(e);
    const float* picture = picture_tokens.data<float>() + entry * picture_tokens.size(1) * dim;
    const float* text = text_tokens.data<float>() + entry * text_tokens.size(1) * dim;
    for (int64_t k = merge.begin[e]; k < merge.begin[e + 1]; ++k) {
      const MergedToken& token = merge.tokens[static_cast<size_t>(k)];
      nn::PooledToken& pooled = tokens.emplace_back();
      pooled.first = token.picture >= 0 ? picture + token.picture * dim : text + token.text * dim;
      if (token.is_average()) {
        pooled.second = text + token.text * dim;
        pooled.share = text_share(weights, token.cosine, share);
      }
      pooled.places = {token.picture >= 0 ? token.picture : static_cast<int32_t>(picture_none),
                       token.text >= 0 ? token.text : static_cast<int32_t>(text_none)};
    }
  }
  return tokens;
}

Tensor pool_merged(const MergedPoolOf<Tensor>& pool) {
  const Tensor pictures = pool.picture_tokens.contiguous();
  const Tensor texts = pool.text_tokens.contiguous();
  const Tensor query = pool.query.defined() ? pool.query.contiguous() : Tensor();
  const auto rows_of = [](const Tensor& table) { return table.defined() ? table.size(0) : 1; };
  const std::vector<nn::PooledToken> tokens =
      pooled_tokens(pictures, texts, *pool.merge, pool.weights,
                    pool.share.defined() ? static_cast<float>(pool.share.item()) : 0.0F,
                    rows_of(pool.picture_places) - 1, rows_of(pool.text_places) - 1);
  nn::Workspace* workspace = nn::workspace_of({&pictures, &texts});
  nn::TokenPoolTask task;
  task.entries = pictures.size(0);
  task.width = pictures.size(2);
  task.heads = pool.heads;
  task.tokens = tokens;
  task.begin = pool.merge->begin;
  if (pool.picture_places.defined()) task.tables[0] = pool.picture_places.data<float>();
  if (pool.text_places.defined()) task.tables[1] = pool.text_places.data<float>();
  task.gain = pool.gain.data<float>();
  task.bias = pool.bias.data<float>();
  task.eps = static_cast<float>(kMergedNormEps);
  if (query.defined()) task.query = query.data<float>();
  task.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(task.width)));
  Tensor out = Tensor::empty({task.entries, task.heads * task.width}, DType::kF32, workspace);
  task.out = out.data<float>();
  nn::pool_tokens(task, workspace);
  return out;
}

Tensor plain_values(const Tensor& x) {
  return x;
}

Tensor constant_beside(const Tensor& /*x*/, const Tensor& table) {
  return table;
}

ComposerPartsOf<Tensor> composer_parts(const ComposerInput& input, nn::Workspace* workspace) {
  ComposerPartsOf<Tensor> parts;
  const int64_t n = std::max(input.picture_rows.rows(), input.text_rows.rows());
  const auto rows_of = [&](const Matrix<float>& rows) {
    return rows.rows() == 0
               ? Tensor()
               : Tensor::borrow(rows.data(), {rows.rows(), rows.columns()}, DType::kF32, workspace);
  };
  parts.pictures = rows_of(input.picture_rows);
  parts.texts = rows_of(input.text_rows);
  if (input.text_tokens.rows.rows() == 0) return parts;
  const int64_t dim = input.text_tokens.rows.columns();
  parts.picture_tokens =
      Tensor::borrow(input.picture_tokens.rows.data(), {n, input.picture_tokens.rows.rows() / n, dim},
                     DType::kF32, workspace);
  int64_t longest = 0;
  for (size_t i = 0; i + 1 < input.text_tokens.begin.size(); ++i) {
    parts.text_lengths.push_back(input.text_tokens.begin[i + 1] - input.text_tokens.begin[i]);
    longest = std::max(longest, parts.text_lengths.back());
  }
  if (longest * n == input.text_tokens.rows.rows()) {
    parts.text_tokens =
        Tensor::borrow(input.text_tokens.rows.data(), {n, longest, dim}, DType::kF32, workspace);
    return parts;
  }
  parts.text_tokens = Tensor::zeros({n, longest, dim}, DType::kF32, workspace);
  for (int64_t i = 0; i < n; ++i) {
    const auto item = static_cast<size_t>(i);
    const float* from = input.text_tokens.rows.data() + input.text_tokens.begin[item] * dim;
    std::copy(from, from + parts.text_lengths[item] * dim,
              parts.text_tokens.data<float>() + i * longest * dim);
  }
  return parts;
}

const ComposerKind atf_kind = {"atf", {.picture_rows = true, .text_rows = true, .tokens = true}, load};

}  // namespace saccade

// Pooling of the embeddings of a long text's chunks (text/token_parts.h) into one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"

namespace saccade {

enum class ChunkPooling {
  kMean,      // every chunk counts the same
  kMaximum,   // column by column, the largest
  kWeighted,  // each chunk counts by its number of tokens
};
inline constexpr std::array kChunkPoolings = {ChunkPooling::kMean, ChunkPooling::kMaximum,
                                              ChunkPooling::kWeighted};
std::span<const EnumName<ChunkPooling>> enum_names(ChunkPooling);  // "mean", "maximum", "weighted"

// Pools rows: [chunks, dim] of length 1, at least one; tokens: number of each chunk's tokens without its
// frame. Returns an embedding of length 1; a single chunk's is returned unchanged. Returns kBadData for rows
// that cancel out.
Result<std::vector<float>> pool_chunks(MatrixView<const float> rows, std::span<const int64_t> tokens,
                                       ChunkPooling pooling);

}  // namespace saccade

// Relevance maps for a head's score of an encoder's states. Internal interface between the families' files.
#pragma once

#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/head_input.h"
#include "saccade/model/towers/qformer.h"
#include "saccade/model/towers/state_score.h"

namespace saccade {

struct StatesScored {
  ImageStates states = ImageStates::kRows;
  // Score of the states that image_head_input reads, before pooling; with kVision, of the states of qformer's
  // queries.
  StateScore score;
  const QFormer* qformer = nullptr;  // only with kVision: queries the vision tower's states
};

// Interface of architectures whose states can be traced back to an image's patches.
class StateMapper {
 public:
  virtual ~StateMapper() = default;
  [[nodiscard]] virtual bool can_map_states(ImageStates states) const = 0;
  // Computes maps like PictureMapper::map_pictures, for states accepted by can_map_states().
  [[nodiscard]] virtual Result<PictureMaps> map_states(MatrixView<const float> pixels,
                                                       const StatesScored& scored, MapMethod method) = 0;
};

}  // namespace saccade

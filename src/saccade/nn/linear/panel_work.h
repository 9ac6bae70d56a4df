// Shares out a product of rows with panels of weights among a workspace's threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "saccade/nn/kernels/panel_task.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

// Calls body(panel, first, last) for all panels by all chunks of rows, on the workspace's threads, or on the calling thread if
// `workspace` is nullptr. row_bytes: size of a row's values, of which each is multiplied by kPanelOutputs weights of a panel.
template <typename Body>
void for_panels(Workspace* workspace, const RowChunks& chunks, int64_t row_bytes, int64_t panels,
                const Body& body) {
  // A work item is a chunk of rows by some panels.
  constexpr int64_t kProductsAtOnce = int64_t{1} << 22;
  const int64_t panel_products = chunks.most_rows() * row_bytes * kPanelOutputs;
  const int64_t threads = workspace == nullptr ? 1 : workspace->workers().size();
  const int64_t fewest = std::min(panels, (4 * threads + chunks.count() - 1) / chunks.count());
  const int64_t shares = std::clamp(panels * panel_products / kProductsAtOnce, fewest, panels);
  for_items(workspace, chunks.count() * shares, [&](int64_t item, int) {
    const int64_t chunk = item / shares;
    const int64_t share = item % shares;
    for (int64_t panel = panels * share / shares; panel < panels * (share + 1) / shares; ++panel) {
      body(panel, chunks.first(chunk), chunks.first(chunk + 1));
    }
  });
}

}  // namespace saccade::nn

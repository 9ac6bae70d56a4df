// Workspace of forward passes: reusable memory and threads.
//
// A tensor knows its workspace, and results computed from it are allocated there too. So the images or texts
// at the start of a pass determine where all of it runs. Blocks return to the workspace with their last
// tensor and are reused: a second pass of the same shapes allocates nothing from the system. Tensors keep
// their memory alive even after the workspace is destroyed; results computed from them are then allocated
// separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "saccade/nn/workers.h"

namespace saccade::nn {

class Workspace {
 public:
  // threads: see Workers.
  explicit Workspace(int threads);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  // Allocates at least `bytes` of uninitialized memory, aligned to a cache line. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<void> allocate(size_t bytes);
  // Returns uninitialized scratch memory of one worker for the duration of an item. It grows and is kept.
  [[nodiscard]] void* scratch(int worker, size_t bytes);
  [[nodiscard]] Workers& workers() { return workers_; }
  // Returns the link that tensors hold to the workspace. It points to nullptr once the workspace is
  // destroyed.
  [[nodiscard]] const std::shared_ptr<Workspace*>& link() const { return link_; }
  // Returns the number of bytes kept for reuse.
  [[nodiscard]] size_t kept() const;

 private:
  struct Blocks;
  std::shared_ptr<Workspace*> link_;
  Workers workers_;
  std::shared_ptr<Blocks> blocks_;
  std::vector<std::shared_ptr<void>> scratch_;
  std::vector<size_t> scratch_bytes_;
};

// Calls body(item, worker) for each item, on the workspace's threads if there is a workspace.
template <typename Body>
void for_items(Workspace* workspace, int64_t count, const Body& body) {
  if (workspace != nullptr) return workspace->workers().run(count, body);
  for (int64_t item = 0; item < count; ++item) body(item, 0);
}

// Calls body(first, last) over parts of [0, count) of `grain` items or more, on the workspace's threads if there is one.
template <typename Body>
void split(Workspace* workspace, int64_t count, int64_t grain, const Body& body) {
  if (workspace != nullptr) {
    workspace->workers().split(count, grain, [&](int64_t first, int64_t last, int) { body(first, last); });
  } else if (count > 0) {
    body(int64_t{0}, count);
  }
}

// Allocates memory that belongs to no workspace.
std::shared_ptr<void> allocate_plain(size_t bytes);

}  // namespace saccade::nn

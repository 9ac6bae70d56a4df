// What a forward pass works with: memory that is used again and again, and threads.
//
// A tensor knows the workspace it was made in, and what is computed from it is made there too; so the
// pictures or texts that a pass begins with say where all of it runs. Blocks return to the workspace when the
// last tensor over them goes, and are handed out again: a second pass of the same shapes asks the system for
// nothing. Tensors keep what they lie in alive, also past the workspace's own end; what is computed from them
// then is made in memory of its own.
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

  // At least `bytes`, aligned to a cache line, of any content. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<void> allocate(size_t bytes);
  // Memory of one worker for the length of an item, of any content; grows and stays.
  [[nodiscard]] void* scratch(int worker, size_t bytes);
  [[nodiscard]] Workers& workers() { return workers_; }
  // What tensors hold of it: nullptr once it has ended.
  [[nodiscard]] const std::shared_ptr<Workspace*>& link() const { return link_; }
  // Bytes held for later.
  [[nodiscard]] size_t kept() const;

 private:
  struct Blocks;
  std::shared_ptr<Workspace*> link_;
  Workers workers_;
  std::shared_ptr<Blocks> blocks_;
  std::vector<std::shared_ptr<void>> scratch_;
  std::vector<size_t> scratch_bytes_;
};

// Memory that belongs to no workspace.
std::shared_ptr<void> allocate_plain(size_t bytes);

}  // namespace saccade::nn

#include "saccade/nn/workspace.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace saccade::nn {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;

void* take_memory(size_t bytes) {
  void* memory = std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Returned blocks by size. A block serves requests down to half its size, so that batches of similar lengths
// share it.
struct Workspace::Blocks {
  std::mutex mutex;
  std::multimap<size_t, void*> free;
  size_t bytes = 0;
  bool closed = false;

  ~Blocks() { clear(); }
  void clear() {
    for (const auto& [size, memory] : free) std::free(memory);
    free.clear();
    bytes = 0;
  }
};

Workspace::Workspace(int threads)
    : link_(std::make_shared<Workspace*>(this)),
      workers_(threads),
      blocks_(std::make_shared<Blocks>()),
      scratch_(static_cast<size_t>(workers_.size())),
      scratch_bytes_(static_cast<size_t>(workers_.size())) {}

Workspace::~Workspace() {
  *link_ = nullptr;
  const std::lock_guard lock(blocks_->mutex);
  blocks_->closed = true;
  blocks_->clear();
}

std::shared_ptr<void> Workspace::allocate(size_t bytes) {
  size_t size = (bytes + kLine - 1) / kLine * kLine;
  if (size > kPage) size = (size + kPage - 1) / kPage * kPage;
  if (size == 0) size = kLine;
  void* memory = nullptr;
  {
    const std::lock_guard lock(blocks_->mutex);
    const auto found = blocks_->free.lower_bound(size);
    if (found != blocks_->free.end() && found->first <= 2 * size) {
      size = found->first;
      memory = found->second;
      blocks_->bytes -= size;
      blocks_->free.erase(found);
    } else if (found == blocks_->free.end() && !blocks_->free.empty() && size > kPage) {
      // A batch is larger than any before: the largest free block is of no use and is released.
      const auto largest = std::prev(blocks_->free.end());
      blocks_->bytes -= largest->first;
      std::free(largest->second);
      blocks_->free.erase(largest);
    }
  }
  if (memory == nullptr) memory = take_memory(size);
  return {memory, [size, blocks = blocks_](void* block) {
            const std::lock_guard lock(blocks->mutex);
            if (blocks->closed) {
              std::free(block);
              return;
            }
            blocks->free.emplace(size, block);
            blocks->bytes += size;
          }};
}

void* Workspace::scratch(int worker, size_t bytes) {
  const auto slot = static_cast<size_t>(worker);
  if (scratch_bytes_[slot] < bytes) {
    scratch_[slot] = allocate_plain(bytes);
    scratch_bytes_[slot] = bytes;
  }
  return scratch_[slot].get();
}

size_t Workspace::kept() const {
  const std::lock_guard lock(blocks_->mutex);
  return blocks_->bytes;
}

std::shared_ptr<void> allocate_plain(size_t bytes) {
  return {take_memory(bytes == 0 ? kLine : bytes), [](void* memory) { std::free(memory); }};
}

}  // namespace saccade::nn

// Memory that a mapped file takes while it is read.
#pragma once

#include <cstddef>
#include <span>

namespace saccade {

// Gives back the memory of bytes inside a file mapped read-only (MappedFile): they are read from the file
// again when they are asked for again. Whole pages only.
void release_mapped_pages(std::span<const std::byte> bytes);

}  // namespace saccade

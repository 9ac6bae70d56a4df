// Release of the memory of mapped files.
#pragma once

#include <cstddef>
#include <span>

namespace saccade {

// Releases the memory of bytes inside a file mapped read-only (MappedFile); the next access reads the file
// again. Whole pages only.
void release_mapped_pages(std::span<const std::byte> bytes);

}  // namespace saccade

// Image metadata in the catalog: embedded metadata of the file and features of the image's look.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/image/metadata/facts.h"

namespace saccade {

// Amount of metadata that has been read from an image. A later run that can read more reads it again, once.
enum class FactsRead : int64_t {
  kNothing = 0,  // taken in by a program that kept none of this
  kPixels = 1,   // no process was there to read foreign bytes in
  kEverything = 2,
};
std::span<const EnumName<FactsRead>> enum_names(FactsRead);

struct ItemFacts {
  PictureFacts picture;
  std::string place;    // the town nearest to where it was taken; empty where that is not known
  std::string caption;  // made of title, description and keywords, for an item that has no other
  uint64_t look = 0;    // PictureLook::hash
  double grain = 0;     // PictureLook::grain
  FactsRead read = FactsRead::kNothing;

  friend bool operator==(const ItemFacts&, const ItemFacts&) = default;
};

// "Title. Description. (keyword, keyword)", with what is there of it.
std::string caption_of(const PictureFacts& facts);

// Fills the empty fields of `facts` from `from`. Imported metadata therefore never replaces the file's own.
void fill_gaps(ItemFacts& facts, const ItemFacts& from);

// An image that was removed from the collection permanently.
struct RemovedPicture {
  std::string path;
  std::string hash;
};

}  // namespace saccade

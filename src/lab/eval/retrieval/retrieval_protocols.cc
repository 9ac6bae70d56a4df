#include "lab/eval/retrieval/retrieval_protocols.h"

#include <array>

namespace saccade::lab {

std::span<const EnumName<RetrievalProtocol>> enum_names(RetrievalProtocol) {
  static constexpr std::array<EnumName<RetrievalProtocol>, 5> kWords{
      {{RetrievalProtocol::kSevenModels, "seven-models",
        "The benchmark of seven models (E. Krem, 2025): its program asks for an image by the first caption alone, and "
        "for captions among the first five of every image."},
       {RetrievalProtocol::kKarpathy, "karpathy",
        "COCO's and Flickr30k's Karpathy split as papers count it: the first five captions of each image, 25,000 on "
        "COCO's 5,000 images."},
       {RetrievalProtocol::kClipBenchmark, "clip-benchmark",
        "CLIP_benchmark and OpenCLIP's tables: every caption of each image, 25,010 on COCO's 5,000 images."},
       {RetrievalProtocol::kLongClip, "long-clip",
        "Long-CLIP's tables: the first five captions of each image. They are of COCO's val2017 and of the whole of "
        "Flickr30k, so they do not compare with figures on a Karpathy split."},
       {RetrievalProtocol::kSymmetric, "symmetric",
        "As many texts as images: the first caption of each image, and one right answer in both directions."}}};
  return kWords;
}

void use_protocol(RetrievalProtocol protocol, RetrievalOptions& options) {
  options.protocol = protocol;
  options.first_queries = protocol == RetrievalProtocol::kSevenModels;
  switch (protocol) {
    case RetrievalProtocol::kSevenModels:
    case RetrievalProtocol::kKarpathy:
    case RetrievalProtocol::kLongClip:
      options.captions = CaptionPolicy::kFirst5;
      break;
    case RetrievalProtocol::kClipBenchmark:
      options.captions = CaptionPolicy::kAll;
      break;
    case RetrievalProtocol::kSymmetric:
      options.captions = CaptionPolicy::kFirst1;
      break;
  }
}

}  // namespace saccade::lab

#include "lab/data/where_to_get.h"

#include "saccade/core/ascii.h"

namespace saccade::lab {
namespace {

struct Source {
  std::string_view name;  // small letters and digits
  std::string_view text;
};

constexpr Source kSources[] = {
    {"coco",
     "COCO is not part of Saccade. Unpack http://images.cocodataset.org/zips/val2017.zip and "
     "http://images.cocodataset.org/annotations/annotations_trainval2017.zip into one folder, and pass "
     "annotations/captions_val2017.json; for Karpathy's splits, which papers report, also "
     "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip and val2014.zip, and pass "
     "dataset_coco.json#split=test"},
    {"flickr30k",
     "Flickr30k is not part of Saccade. Ask for the images at https://shannon.cs.illinois.edu/DenotationGraph/, unpack "
     "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip beside them, and pass "
     "dataset_flickr30k.json#split=test,images=FOLDER"},
    {"flickr8k",
     "Flickr8k is not part of Saccade. Get the images and Flickr8k.token.txt, or Karpathy's "
     "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip, and pass "
     "dataset_flickr8k.json#split=test,images=FOLDER"},
    {"winoground",
     "Winoground is not part of Saccade. Accept its terms at https://huggingface.co/datasets/facebook/winoground, unpack "
     "data/images.zip, and pass the folder, or the Parquet files that the hub makes of it"},
    {"sugarcrepe",
     "SugarCrepe is not part of Saccade. Clone https://github.com/RAIVNLab/sugar-crepe, unpack "
     "http://images.cocodataset.org/zips/val2017.zip, and pass data#images=FOLDER/val2017"},
    {"cirr",
     "CIRR is not part of Saccade. Clone the branch cirr_dataset of https://github.com/Cuberick-Orion/CIRR, ask for NLVR2's "
     "images there, and pass the folder"},
    {"circo",
     "CIRCO is not part of Saccade. Clone https://github.com/miccunifi/CIRCO, unpack "
     "http://images.cocodataset.org/zips/unlabeled2017.zip and image_info_unlabeled2017.zip into COCO2017_unlabeled, and "
     "pass the folder"},
    {"fashioniq",
     "Fashion-IQ is not part of Saccade. Clone https://github.com/XiaoxiaoGuo/fashion-iq, get the images that it names, and "
     "pass the folder"},
    {"sharegpt4v",
     "ShareGPT4V is not part of Saccade. Get its JSON files from https://huggingface.co/datasets/Lin-Chen/ShareGPT4V and the "
     "images that they name, and pass one of the files"},
    {"urban1k",
     "Urban1k is not part of Saccade. Get it from https://huggingface.co/datasets/BeichenZhang/Urban1k, unpack it, and pass "
     "the folder with image/ and caption/"},
    {"roco",
     "ROCO is not part of Saccade. Clone https://github.com/razorx89/roco-dataset, fetch its images with its "
     "scripts/fetch.py, and pass FOLDER#split=test; missing=skip leaves out images that the script could not fetch"},
};

}  // namespace

std::string where_to_get(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (is_ascii_alphanumeric(c)) {
      plain += lower_ascii(c);
    } else if (c != '-' && c != '_' && c != '/') {
      return {};
    }
  }
  for (const Source& source : kSources) {
    if (plain == source.name || plain == std::string(source.name) + "2017" ||
        plain == std::string(source.name) + "2014") {
      return std::string(source.text);
    }
  }
  return {};
}

}  // namespace saccade::lab

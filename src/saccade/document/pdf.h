// Extraction of running text in reading order and of images from PDF files.
//
// Poppler's programs (pdfinfo, pdftotext, pdfimages) read the file, each in a process with limits, because a
// PDF may be untrusted. Their output is converted to paragraphs here: columns are put in order, hyphenated
// words are joined, and repeated lines at page edges (titles, page numbers) are removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

struct PdfOptions {
  int max_pages = 2000;                   // those behind are not read, and counted
  double max_seconds = 120;               // CPU time per document, all programs together
  int64_t max_memory = int64_t{1} << 30;  // bytes that each program may take
  int64_t max_bytes = int64_t{1} << 30;   // limit of the file size
  int min_side = 100;                     // pixels; smaller images are rules, bullets, icons
  int64_t max_page_pixels = 200'000'000;  // limit of all images of a page; above it, none is kept
  DecodeOptions decode = {};              // decoding limits of the images
};

struct PdfPage {
  int number = 0;                       // from 1
  std::vector<std::string> paragraphs;  // in reading order, each one line of valid UTF-8 in form C
  std::vector<size_t> pictures;         // indices in PdfDocument::pictures, ascending
};

struct PdfPicture {
  std::string bytes;  // image file: JPEG as embedded, else PNG
  std::string sha256;
  std::string ending;  // "jpg", "png"
  int width = 0;
  int height = 0;
};

struct PdfDocument {
  std::vector<PdfPage> pages;        // those read, in order
  std::vector<PdfPicture> pictures;  // each once, in the order of the pages
  int64_t pages_left_out = 0;        // behind max_pages
  int64_t edge_lines = 0;            // headers, footers and page numbers that were dropped
  int64_t small_pictures = 0;        // placed images below min_side
  int64_t repeated_pictures = 0;     // images on half of the pages or more: logos
  int64_t unread_pictures = 0;       // broken, or of pages with too many pixels
};

// Programs that read_pdf starts.
class PdfPrograms {
 public:
  // Finds the programs; kNotFound, naming the Debian package, if one is missing.
  static Result<PdfPrograms> find();

 private:
  friend class PdfReader;
  std::filesystem::path info_;
  std::filesystem::path text_;
  std::filesystem::path images_;
};

// Reads a file. Returns kUnsupported if it requires a password or has no text on any page (a scan), and
// kBadData if it is broken. Other errors: kLimit, kNotFound, kIo, kCancelled. with_pictures = false reads
// only the text. Transparent images are composited over white. Vector drawings are not extracted.
// Thread-safe. Cost: about 0.1 s per hundred pages of text; images are written to the system's temporary
// folder, one page at a time.
Result<PdfDocument> read_pdf(const PdfPrograms& programs, const std::filesystem::path& file,
                             const PdfOptions& options = {}, bool with_pictures = true,
                             const std::stop_token& stop = {});

}  // namespace saccade

// What a PDF's pages say and show: running text in reading order, and the pictures inside it.
//
// Poppler's programs (pdfinfo, pdftotext, pdfimages) read the file, each a process under limits, as a
// PDF may come from anywhere. What they give is made into paragraphs here: columns one after the
// other, words that a line's end has divided joined, and what stands at the edge of page after page
// (titles, page numbers) left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/image.h"

namespace saccade {

struct PdfOptions {
  int max_pages = 2000;                   // those behind are not read, and counted
  double max_seconds = 120;               // of the processor, all programs together, a document
  int64_t max_memory = int64_t{1} << 30;  // bytes that each program may take
  int64_t max_bytes = int64_t{1} << 30;   // of the file
  int min_side = 100;                     // pixels: pictures with a shorter side are rules, bullets, icons
  int64_t max_page_pixels = 200'000'000;  // of all pictures of a page; what has more keeps none
  DecodeOptions decode = {};              // of the pictures
};

struct PdfPage {
  int number = 0;                       // from 1
  std::vector<std::string> paragraphs;  // in reading order, each one line of valid UTF-8 in form C
  std::vector<size_t> pictures;         // in PdfDocument::pictures, ascending
};

struct PdfPicture {
  std::string bytes;  // of a picture file: JPEG as it was embedded, else PNG
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
  int64_t small_pictures = 0;        // placed pictures below min_side
  int64_t repeated_pictures = 0;     // pictures that stand on half of the pages or more: logos
  int64_t unread_pictures = 0;       // broken, or of pages with too many pixels
};

// The programs that read_pdf starts.
class PdfPrograms {
 public:
  // kNotFound, naming the Debian package, where one of them is missing.
  static Result<PdfPrograms> find();

 private:
  friend class PdfReader;
  std::filesystem::path info_;
  std::filesystem::path text_;
  std::filesystem::path images_;
};

// Reads a file. kUnsupported where it asks for a password or has no text on any page (a scan), kBadData where
// it is broken, kLimit, kNotFound, kIo, kCancelled. with_pictures = false: text alone. Transparent pictures
// come over white. Vector drawings are no pictures here. Thread-safe. Cost: about 0.1 s a hundred pages of
// text; pictures are written to the system's temporary folder, one page at a time.
Result<PdfDocument> read_pdf(const PdfPrograms& programs, const std::filesystem::path& file,
                             const PdfOptions& options = {}, bool with_pictures = true,
                             const std::stop_token& stop = {});

}  // namespace saccade

// The page for people: files that Vite has built of src/saccade/serve/page, carried inside the program. So is
// the document that describes the API.
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "saccade/core/hash.h"
#include "saccade/serve/service.h"

// clang-format off
// saccade_page_NAME: a file's bytes, and saccade_page_NAME_end behind its last.
#define SACCADE_PAGE_FILE(name, file)                                        \
  asm(".section .rodata\n"                                                   \
      ".global saccade_page_" #name "\n"                                     \
      ".global saccade_page_" #name "_end\n"                                 \
      "saccade_page_" #name ":\n"                                            \
      ".incbin \"" file "\"\n"                                              \
      "saccade_page_" #name "_end:\n"                                        \
      ".byte 0\n"                                                            \
      ".previous\n");                                                        \
  extern "C" const char saccade_page_##name[];      /* NOLINT(*-avoid-c-arrays) */ \
  extern "C" const char saccade_page_##name##_end[] /* NOLINT(*-avoid-c-arrays) */
// clang-format on

SACCADE_PAGE_FILE(html, SACCADE_PAGE_BUILT "/index.html");
SACCADE_PAGE_FILE(script, SACCADE_PAGE_BUILT "/page.js");
SACCADE_PAGE_FILE(style, SACCADE_PAGE_BUILT "/page.css");
SACCADE_PAGE_FILE(icon, SACCADE_PAGE_BUILT "/icon.svg");
SACCADE_PAGE_FILE(openapi, SACCADE_OPENAPI);

namespace saccade::serve {
namespace {

struct PageFile {
  std::string_view path;
  std::string_view type;
  std::string_view bytes;
};

std::array<PageFile, 6> page_files() {
  return {{
      {"/", "text/html; charset=utf-8", {saccade_page_html, saccade_page_html_end}},
      {"/docs",
       "text/html; charset=utf-8",
       {saccade_page_html, saccade_page_html_end}},  // shows openapi.json
      {"/page.js", "text/javascript; charset=utf-8", {saccade_page_script, saccade_page_script_end}},
      {"/page.css", "text/css; charset=utf-8", {saccade_page_style, saccade_page_style_end}},
      {"/icon.svg", "image/svg+xml", {saccade_page_icon, saccade_page_icon_end}},
      {"/api/openapi.json", "application/json", {saccade_page_openapi, saccade_page_openapi_end}},
  }};
}

// The page runs its own script, shows this server's pictures and those its reader
// picks, and reaches nothing else.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

}  // namespace

Format page_format() {
  Format format;
  for (const PageFile& file : page_files()) {
    const std::string tag = fmt::format("\"{}\"", sha256_hex(file.bytes).substr(0, 16));
    const auto answer = [file, tag](const Context&, const HttpRequest& request,
                                    const std::vector<std::string>&) -> Result<HttpResponse> {
      HttpResponse response;
      response.headers.emplace_back("ETag", tag);
      response.headers.emplace_back("Cache-Control", "no-cache");
      response.headers.emplace_back("Content-Security-Policy", kPolicy);
      const auto known = request.header("if-none-match");
      if (known && known->find(tag) != std::string_view::npos) {
        response.status = 304;
        return response;
      }
      response.content_type = file.type;
      response.body = file.bytes;
      return response;
    };
    const bool is_page = file.type.starts_with("text/html");
    format.routes.push_back({"GET", file.path, answer, Right::kNone, false, is_page});
  }
  format.error = own_format().error;
  return format;
}

}  // namespace saccade::serve

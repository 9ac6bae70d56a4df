# Every outside library, found once; docs/dependencies.md says why each is here.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tl-expected 1.0 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto SSL)
find_package(ICU 72 REQUIRED COMPONENTS uc i18n)
find_package(SQLite3 3.40 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(CURL 7.85 REQUIRED)
pkg_check_modules(vips REQUIRED IMPORTED_TARGET vips>=8.14)
pkg_check_modules(gobject REQUIRED IMPORTED_TARGET gobject-2.0)
# What pictures say of themselves; 0.27 of Debian 12 and 0.28 differ in their pointers and sizes alone.
pkg_check_modules(exiv2 REQUIRED IMPORTED_TARGET exiv2>=0.27)
# The pictures within RAW files. Without it, they are files that are not looked at.
pkg_check_modules(libraw QUIET IMPORTED_TARGET libraw>=0.20)
if(libraw_FOUND)
  # Its -fopenmp is for programs linked with it statically; clang would look for a runtime library of its own.
  set_property(TARGET PkgConfig::libraw PROPERTY INTERFACE_LINK_OPTIONS "")
else()
  message(STATUS "RAW photographs: not read, no LibRaw (libraw-dev) is here")
endif()
# These are beneath libvips already: JPEG is decoded without its detours, vector pictures are read before librsvg
# draws them.
find_package(JPEG REQUIRED)
find_package(LibXml2 2.9 REQUIRED)
find_package(ZLIB REQUIRED)
# Documents that pictures are found for. The library of cmark-gfm's extensions has no file for pkg-config.
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd>=1.4)
pkg_check_modules(gumbo REQUIRED IMPORTED_TARGET gumbo)
pkg_check_modules(cmark_gfm REQUIRED IMPORTED_TARGET libcmark-gfm)
find_library(CMARK_GFM_EXTENSIONS_LIBRARY cmark-gfm-extensions REQUIRED)
add_library(saccade_cmark_gfm INTERFACE)
target_link_libraries(saccade_cmark_gfm INTERFACE PkgConfig::cmark_gfm ${CMARK_GFM_EXTENSIONS_LIBRARY})

# saccade_late_library(NAME FILE HEADERS...): NAME is an interface library with a library's headers, and not the library
# itself, which is loaded when it is first needed (src/saccade/core/process/late_library.h). NAME_FILE is how the loader finds it:
# FILE, a link to the newest, ends in all of its version's numbers; the first of them is what stays the same.
function(saccade_late_library name file)
  add_library(saccade_${name} INTERFACE)
  target_include_directories(saccade_${name} SYSTEM INTERFACE ${ARGN})
  get_filename_component(real ${file} REALPATH)
  string(REGEX MATCH "[^/]+\\.so\\.[0-9]+" loaded ${real})
  get_filename_component(folder ${real} DIRECTORY)
  if(NOT loaded OR NOT EXISTS ${folder}/${loaded})
    message(FATAL_ERROR "${file}: no file of its folder is named as the loader would look for it (${loaded})")
  endif()
  set(${name}_FILE ${loaded} PARENT_SCOPE)
endfunction()
list(FILTER vips_LINK_LIBRARIES INCLUDE REGEX "/libvips\\.")
saccade_late_library(late_vips "${vips_LINK_LIBRARIES}" ${vips_INCLUDE_DIRS})
find_library(CURL_SHARED_LIBRARY curl REQUIRED)
get_target_property(curl_includes CURL::libcurl INTERFACE_INCLUDE_DIRECTORIES)
saccade_late_library(late_curl ${CURL_SHARED_LIBRARY} ${curl_includes})

# Debian's CMake file for oneDNN asks for OpenCL's headers, which nothing here needs: found by hand.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(saccade_dnnl INTERFACE)
target_include_directories(saccade_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(saccade_dnnl INTERFACE ${DNNL_LIBRARY})

# Headers alone: the server's sockets and HTTP.
find_package(Boost 1.81 REQUIRED)
add_library(saccade_asio INTERFACE)
target_include_directories(saccade_asio SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})

# libtorch's own target drags flags into everything that links it; ours is private to train. Without it, all but
# the training is built.
find_package(Torch QUIET)
if(Torch_FOUND)
  add_library(saccade_torch INTERFACE)
  target_link_libraries(saccade_torch INTERFACE ${TORCH_LIBRARIES})
else()
  message(STATUS "Training: not built, no libtorch (libtorch-dev) is here")
endif()

if(SACCADE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SACCADE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

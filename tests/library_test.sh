#!/usr/bin/env bash
# Installs the library into an empty prefix and builds and runs examples/ there with find_package(saccade) alone. Compiles the
# C++ in the documents, and an example by pkg-config after the tree was moved.
# usage: tests/library_test.sh BUILD_FOLDER SOURCE_FOLDER COMPILER...
set -euo pipefail
build=$1 source=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_STATE_HOME=$work/state XDG_CACHE_HOME=$work/cache
prefix=$work/prefix

for component in library development; do
  cmake --install "$build" --prefix "$prefix" --component "$component" >/dev/null
done
# The models and the decoding process, which the library finds from where it lies itself.
mkdir -p "$prefix/share/saccade" "$prefix/libexec/saccade"
cp -r "$source/models" "$prefix/share/saccade/"
cp "$build/bin/saccade-decode" "$prefix/libexec/saccade/"

# Nothing of the source tree is needed: the examples are copied away from it.
cp -r "$source/examples" "$work/examples"
mkdir "$work/images"
cp "$source"/docs/images/*.jpg "$source"/docs/images/*.png "$work/images/"

# No private name is exported, and no third-party header but tl/expected.hpp is included.
nm -DC --defined-only "$(find "$prefix" -name 'libsaccade.so')" >"$work/symbols"
if grep -E ' [TWVB] .*(saccade::(nn|store|serve|hub)::|EncoderBackend::|CollectionReader::|CollectionWriter::)' "$work/symbols"; then
  echo "private symbols are exported" >&2
  exit 1
fi
if grep -rhE '#include' "$prefix/include" | grep -vE '<[a-z_]+>|"saccade/|<tl/expected.hpp>'; then
  echo "public headers include what is neither standard nor public" >&2
  exit 1
fi

# The C++ of the documents: each block is a function's body. What it leaves to its reader is declared here.
declared='#include <saccade/saccade.h>
int fail(const std::string& message);
template <typename... Values> void use(const Values&... values);
void print_progress(const saccade::ProgressUpdate& update);
extern const std::stop_token token;
extern const saccade::MatrixView<const float> queries, rows;
int block() {
'
for document in README docs/library; do
  awk -v declared="$declared" -v stem="$work/block-${document##*/}-" '
    /^```cpp$/ { on = 1; includes = body = ""; ++count; next }
    /^```$/ && on { print includes declared body "return 0;\n}" >(stem count ".cc"); on = 0; next }
    on && /^#include/ { includes = includes $0 "\n"; next }
    on { body = body $0 "\n" }
    END { exit count == 0 }' "$source/$document.md" || { echo "$document.md: there is no C++" >&2; exit 1; }
done

run() {
  echo "+ $*" >&2
  "$@"
}
for compiler in "$@"; do
  command -v "$compiler" >/dev/null || { echo "no $compiler here" >&2; exit 1; }
  # Each header stands alone.
  while read -r header; do
    echo "#include <$header>" |
      "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" -x c++ - ||
      { echo "$header does not compile by itself with $compiler" >&2; exit 1; }
  done < <(find "$prefix/include" -name '*.h' -printf '%P\n' | sort)
  for block in "$work"/block-*.cc; do
    "$compiler" -std=c++20 -Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-but-set-variable -fsyntax-only \
      -I "$prefix/include" "$block" ||
      { echo "$(basename "$block"): C++ of a document does not compile with $compiler" >&2; exit 1; }
  done
  programs=$work/build-$(basename "$compiler")
  cmake -S "$work/examples" -B "$programs" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" -DCMAKE_CXX_COMPILER_LAUNCHER= >/dev/null
  cmake --build "$programs" >/dev/null
  run "$programs/top_k" | grep >/dev/null '^row 7 '
  run "$programs/own_preprocessing" starter | grep >/dev/null "the model's own way: 0\."
  run "$programs/encode_and_compare" starter "$work"/images/*.jpg -- "a page" "a red apple" | grep >/dev/null 'a red apple$'
  run "$programs/index_and_search" "$programs/collection" "$work/images" "red apple" 2>/dev/null | grep >/dev/null 'images/'
done
# The static library, through its CMake target.
mkdir "$work/static"
cp "$source/examples/top_k.cc" "$work/static/"
cat >"$work/static/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(static_example LANGUAGES CXX)
find_package(saccade REQUIRED)
add_executable(top_k top_k.cc)
target_link_libraries(top_k PRIVATE saccade::static)
CMAKE
cmake -S "$work/static" -B "$work/static/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/static/build" >/dev/null
run "$work/static/build/top_k" | grep >/dev/null '^row 7 '

# By pkg-config, after the tree was moved: the file names the prefix relative to itself.
mv "$prefix" "$work/moved"
pc=$(find "$work/moved" -name saccade.pc)
libraries=$(dirname "$(dirname "$pc")")
if grep -F "$prefix" "$pc"; then
  echo "saccade.pc names the folder that it was installed in" >&2
  exit 1
fi
export PKG_CONFIG_PATH=${pc%/*}
version=$(pkg-config --modversion saccade)
[[ $version == 0.* ]] && soname=libsaccade.so.${version%.*} || soname=libsaccade.so.${version%%.*}
readelf -d "$libraries/libsaccade.so" | grep -F "[$soname]" >/dev/null ||
  { echo "libsaccade.so $version: its name is not $soname" >&2; exit 1; }
read -ra flags < <(pkg-config --cflags --libs saccade)
for compiler in "$@"; do
  "$compiler" -std=c++20 "$source/examples/top_k.cc" -o "$work/by-pkg-config" "${flags[@]}"
  LD_LIBRARY_PATH=$libraries run "$work/by-pkg-config" | grep >/dev/null '^row 7 '
done
echo "library: installed, found, linked and run"

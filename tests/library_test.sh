#!/usr/bin/env bash
# Installs the library into an empty prefix and builds and runs examples/ there with find_package(saccade) alone.
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
  programs=$work/build-$(basename "$compiler")
  cmake -S "$work/examples" -B "$programs" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" -DCMAKE_CXX_COMPILER_LAUNCHER= >/dev/null
  cmake --build "$programs" >/dev/null
  run "$programs/top_k" | grep >/dev/null '^row 7 '
  run "$programs/own_preprocessing" starter | grep >/dev/null "the model's own way: 0\."
  run "$programs/encode_and_compare" starter "$work"/images/*.jpg -- "a page" "a red apple" | grep >/dev/null 'a red apple$'
  run "$programs/index_and_search" "$programs/collection" "$work/images" "red apple" 2>/dev/null | grep >/dev/null 'images/'
done
# The static library, through pkg-config's view of the headers.
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
echo "library: installed, found, linked and run"

# saccade_module(NAME SOURCES ... DEPENDS ... LIBRARIES ... PRIVATE_LIBRARIES ... TESTS ... [TORCH] [COMPUTES])
#   SOURCES            the module's .cc files
#   DEPENDS            the Saccade modules it uses (the direction is checked by tools/check/modules)
#   LIBRARIES          outside libraries that show in its headers
#   PRIVATE_LIBRARIES  outside libraries that do not
#   TESTS              its x_test.cc files, one GoogleTest program for all of them
#   TORCH              its sources include libtorch: they get the precompiled torch headers
#   COMPUTES           its loops run long: optimized under sanitizers too, where others are not
#   ALONE              sources and tests that share a compilation with no other file (SACCADE_UNITY)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths below the source folder count as relative ones, so that another clone finds what this one compiled; messages
  # are in one language, because ccache takes the language for part of what is compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env LC_ALL=C CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 "CCACHE_IGNOREOPTIONS=--param=ggc-*" ${CCACHE_PROGRAM})
endif()

# The flags of all of Saccade's own targets.
add_library(saccade_flags INTERFACE)
target_compile_features(saccade_flags INTERFACE cxx_std_20)
target_include_directories(saccade_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(saccade_flags INTERFACE -pthread -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                               $<$<BOOL:${SACCADE_WERROR}>:-Werror>)
# Modules become a shared library too (src/saccade/CMakeLists.txt), which shows public names alone.
target_compile_options(saccade_flags INTERFACE -fPIC -fvisibility=hidden -fvisibility-inlines-hidden)
# g++ looks for garbage at 128 MB, which is less than its precompiled headers: a tenth of its time.
target_compile_options(saccade_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
if(SACCADE_SANITIZE)
  target_compile_options(
    saccade_flags INTERFACE -fsanitize=${SACCADE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                            $<$<BOOL:$<TARGET_PROPERTY:SACCADE_COMPUTES_NOTHING>>:-fno-sanitize=undefined>)
  target_link_options(saccade_flags INTERFACE -fsanitize=${SACCADE_SANITIZE})
endif()

# Where tests, benchmarks and fuzzers find the source tree (core/source_dir.h).
add_library(saccade_source_dir STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/saccade/core/source_dir.cc)
target_link_libraries(saccade_source_dir PRIVATE saccade_flags)
target_compile_definitions(saccade_source_dir PRIVATE SACCADE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# For every program of ours: what the sanitizers should know of other people's libraries.
function(saccade_sanitized_program target)
  if(SACCADE_SANITIZE MATCHES "address")
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/lsan_suppressions.cc)
  elseif(SACCADE_SANITIZE MATCHES "thread")
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/tsan_suppressions.cc)
  endif()
endfunction()

# saccade_source_path(SOURCE NAME PATH): defines NAME in one source file as a path of the source tree, where a program that
# is run from its build folder finds what an installed one has under share/saccade. Packages are built without
# (SACCADE_SOURCE_PATHS off): NAME is then empty.
function(saccade_source_path source name path)
  set(whole "")
  if(SACCADE_SOURCE_PATHS)
    set(whole "${PROJECT_SOURCE_DIR}/${path}")
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS "${name}=\"${whole}\"")
endfunction()

# saccade_compile_together(TARGET [ALONE FILES...]): with SACCADE_UNITY, eight of the target's files are one compilation. Most
# of the time goes into what files include and instantiate alike: this takes less than half of it. Names in unnamed
# namespaces must then differ within a module; a file for which that would be a burden, as one of many of a kind, is ALONE.
# Source files with definitions or options of their own are alone anyway.
function(saccade_compile_together target)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  if(SACCADE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # g++ takes an included .cc file for a header, which others could include too.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# saccade_precompile(TARGET KIND [LIBRARIES...]): the target's files find cmake/precompiled/KIND.h compiled already.
# There is one such header a kind, made by a target of its own, for all targets that want it. Command line and tests
# compute nothing that takes long themselves: a lower optimization compiles them in two thirds of the time. Checks of
# undefined behaviour stay with the library, where the arithmetic is: without them they compile in little over half.
# Under a sanitizer nothing but "computing" is optimized at all, which takes a third off again.
function(saccade_precompile target kind)
  if(kind MATCHES "^(app|test)$")
    set(options $<$<CONFIG:Release>:-O1>)
    set_target_properties(${target} PROPERTIES SACCADE_COMPUTES_NOTHING ON)
  endif()
  if(SACCADE_SANITIZE AND NOT SACCADE_FUZZ AND kind MATCHES "^(app|test|base)$")
    set(options -O0)
  endif()
  target_compile_options(${target} PRIVATE ${options})
  if(NOT TARGET saccade_pch_${kind})
    file(WRITE ${PROJECT_BINARY_DIR}/pch_${kind}.cc "// Holds the precompiled headers of ${kind}.h.\n")
    add_library(saccade_pch_${kind} STATIC ${PROJECT_BINARY_DIR}/pch_${kind}.cc)
    target_link_libraries(saccade_pch_${kind} PRIVATE saccade_flags fmt::fmt tl::expected nlohmann_json::nlohmann_json ${ARGN})
    target_compile_options(saccade_pch_${kind} PRIVATE ${options})
    get_target_property(computes_nothing ${target} SACCADE_COMPUTES_NOTHING)
    set_target_properties(saccade_pch_${kind} PROPERTIES SACCADE_COMPUTES_NOTHING "${computes_nothing}")
    string(REPLACE computing base header ${kind})
    target_precompile_headers(saccade_pch_${kind} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled/${header}.h")
  endif()
  target_precompile_headers(${target} REUSE_FROM saccade_pch_${kind})
endfunction()

function(saccade_use_torch target)
  target_link_libraries(${target} PRIVATE saccade_torch)
  saccade_precompile(${target} torch saccade_torch)
endfunction()

# Tests run side by side: OpenMP's threads must not spin for processors that another test is using. Servers of tests are on
# this machine, whatever proxy its user has.
set(SACCADE_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive;no_proxy=127.0.0.1,localhost")

function(saccade_add_test name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LIBRARIES;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  saccade_compile_together(${name} ALONE ${ARG_ALONE})
  saccade_sanitized_program(${name})
  target_link_libraries(${name} PRIVATE saccade_flags ${ARG_LIBRARIES} saccade_source_dir GTest::gmock GTest::gtest_main)
  if(ARG_TORCH)
    saccade_use_torch(${name})
    # As other tests; g++ takes the precompiled header all the same.
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  else()
    saccade_precompile(${name} test GTest::gmock)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600 ENVIRONMENT "${SACCADE_TEST_ENVIRONMENT}")
endfunction()

function(saccade_module name)
  cmake_parse_arguments(ARG "TORCH;COMPUTES" "" "SOURCES;DEPENDS;LIBRARIES;PRIVATE_LIBRARIES;TESTS;ALONE" ${ARGN})
  set(target saccade_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(saccade::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY SACCADE_LINKS_OF_${name} ${ARG_LIBRARIES} ${ARG_PRIVATE_LIBRARIES})
  list(TRANSFORM ARG_DEPENDS PREPEND saccade_)
  target_link_libraries(${target} PUBLIC saccade_flags ${ARG_DEPENDS} ${ARG_LIBRARIES}
                                  PRIVATE ${ARG_PRIVATE_LIBRARIES})
  if(NOT ARG_COMPUTES)
    saccade_compile_together(${target} ALONE ${ARG_ALONE})
  endif()
  if(ARG_TORCH)
    saccade_use_torch(${target})
    set(torch TORCH)
  elseif(ARG_COMPUTES AND SACCADE_SANITIZE)
    saccade_precompile(${target} computing)
  else()
    saccade_precompile(${target} base)
  endif()
  if(SACCADE_BUILD_TESTS AND ARG_TESTS)
    saccade_add_test(${target}_test SOURCES ${ARG_TESTS} LIBRARIES ${target} ALONE ${ARG_ALONE} ${torch})
  endif()
endfunction()

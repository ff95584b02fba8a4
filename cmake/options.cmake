# What can be chosen: cmake -DNAME=VALUE, or a preset of CMakePresets.json.

option(TFDIST_WERROR "Treat warnings as errors (CI does)" OFF)
set(TFDIST_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=: address,undefined or thread")
option(TFDIST_FUZZ "Link fuzz targets with libFuzzer, which clang alone has, and let ctest run those" OFF)
option(TFDIST_AGENT_ONLY "For a build of the target tfdist-agent alone, as agent_aarch64.cmake makes one" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The cache is shared by all checkouts on a machine: paths below the sources count relative to them, and a precompiled header by
# its content.
find_program(TFDIST_CCACHE ccache)
if(TFDIST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(ccache "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    "CCACHE_SLOPPINESS=pch_defines,time_macros" "${TFDIST_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
endif()

# Several files of a target as one: what they include and instantiate is compiled once, which halves a cold
# build. The presets for daily work (debug) and for checks compile each file alone, so a missing #include shows.
option(TFDIST_UNITY_BUILD "Compile the files of a target in batches" ON)
set(CMAKE_UNITY_BUILD ${TFDIST_UNITY_BUILD})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

# Without NDEBUG: an assert is a bug of ours, and going on after one harms more than it saves. Small rather than fast: the agent is
# sent to each host, and waits more than it computes, as tfdist does. runtime/CMakeLists.txt has what computes.
set(CMAKE_C_FLAGS_RELEASE "-Os")
set(CMAKE_CXX_FLAGS_RELEASE "-Os")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")

# Libraries end up in position-independent executables, and may be linked into others' shared objects.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

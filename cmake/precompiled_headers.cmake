# Headers of others that nearly every file includes are parsed once for a build folder: half of the time that
# a file takes goes into them otherwise. A file still includes what it uses: the presets clang, tsan and fuzz
# compile without precompiled headers. Headers of ours are not in here, else a change to one would compile
# everything anew.
#   tfdist_library_headers  standard library, fmt, nlohmann/json
#   tfdist_runtime_headers  the same, with the optimization of runtime/, which sets TFDIST_LIBRARY_HEADERS
#   tfdist_test_headers     the same and GoogleTest, for tests and fuzz targets, with their flags: GCC 14 takes a set
#                           only where it was compiled with the same ones

set(TFDIST_LIBRARY_HEADERS library)
option(TFDIST_PRECOMPILED_HEADERS "Parse headers of others once instead of once a file" ON)

# tfdist_use_headers(TARGET library|runtime|test): TARGET is compiled with that set.
function(tfdist_use_headers target kind)
  if(TFDIST_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM tfdist_${kind}_headers)
    if(kind STREQUAL "test")
      target_link_libraries(${target} PRIVATE GTest::gtest)  # its definitions are part of the set
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A precompiled header is no system header to GCC 12: its false alarms about moved texts would show.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
    endif()
  endif()
endfunction()

if(NOT TFDIST_PRECOMPILED_HEADERS)
  return()
endif()

# CMake precompiles for a target with a source alone.
set(source "${CMAKE_BINARY_DIR}/precompiled_headers.cc")
file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
add_library(tfdist_library_headers OBJECT "${source}")
add_library(tfdist_runtime_headers OBJECT "${source}")
add_executable(tfdist_test_headers "${source}")
foreach(name IN ITEMS tfdist_library_headers tfdist_runtime_headers tfdist_test_headers)
  target_link_libraries(${name} PRIVATE tfdist_flags tfdist_deps::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <charconv> <chrono> <deque> <filesystem> <fstream> <functional> <map> <memory> <optional>
    <random> <set> <span> <sstream> <string> <string_view> <variant> <vector>
    <fmt/format.h> <nlohmann/json.hpp>)
endforeach()
target_compile_options(tfdist_runtime_headers PRIVATE $<$<CONFIG:Release>:-O2>)
tfdist_test_flags(tfdist_test_headers)
target_link_libraries(tfdist_test_headers PRIVATE GTest::gtest)
target_precompile_headers(tfdist_test_headers PRIVATE <gtest/gtest.h>)

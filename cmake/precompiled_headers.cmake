# Headers of others that nearly every file includes are parsed once for a build folder: half of the time that
# a file takes goes into them otherwise. A file still includes what it uses: the presets clang, tsan and fuzz
# compile without precompiled headers. Headers of ours are not in here, else a change to one would compile
# everything anew.
#   tfdist_library_headers  standard library, fmt, nlohmann/json
#   tfdist_test_headers     the same and GoogleTest; executables have flags of their own (-fPIE)

option(TFDIST_PRECOMPILED_HEADERS "Parse headers of others once instead of once a file" ON)

# tfdist_use_headers(TARGET library|test): TARGET is compiled with that set.
function(tfdist_use_headers target kind)
  if(TFDIST_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM tfdist_${kind}_headers)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A precompiled header is no system header to GCC 12: its false alarms about moved texts would show.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
    endif()
  endif()
endfunction()

if(NOT TFDIST_PRECOMPILED_HEADERS)
  return()
endif()

# The body of nlohmann's `_json` literal instantiates the parser in every file that includes the header, which
# takes a second of each. Precompiled, the literal is declared alone: we do not use it. Where the text is another
# one, nothing is replaced, and the build is slower.
file(READ "${TFDIST_JSON_INCLUDE}/nlohmann/json.hpp" text)
string(REPLACE "\n{\n    return nlohmann::json::parse(s, s + n);\n}" ";" text "${text}")
set(changed_headers "${CMAKE_BINARY_DIR}/precompiled_headers")
file(CONFIGURE OUTPUT "${changed_headers}/nlohmann/json.hpp" CONTENT "@text@" @ONLY)

# CMake precompiles for a target with a source alone.
set(source "${CMAKE_BINARY_DIR}/precompiled_headers.cc")
file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
add_library(tfdist_library_headers OBJECT "${source}")
add_executable(tfdist_test_headers "${source}")
foreach(name IN ITEMS tfdist_library_headers tfdist_test_headers)
  target_include_directories(${name} SYSTEM BEFORE PRIVATE "${changed_headers}")
  target_link_libraries(${name} PRIVATE tfdist_flags tfdist_deps::fmt)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <charconv> <chrono> <deque> <filesystem> <fstream> <functional> <map> <memory> <optional>
    <random> <set> <span> <sstream> <string> <string_view> <variant> <vector>
    <fmt/format.h> <nlohmann/json.hpp>)
endforeach()
target_link_libraries(tfdist_test_headers PRIVATE GTest::gtest)
target_precompile_headers(tfdist_test_headers PRIVATE <gtest/gtest.h>)

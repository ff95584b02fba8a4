# How a folder declares what it builds. Includes are written from the repository root:
# "wire/protocol.h".

# tfdist_library(NAME tfdist_x SOURCES ... [DEPENDS ...]): a static library, also called tfdist::x.
# What it depends on is passed on to those who link it. Headers alone make an interface library.
function(tfdist_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  string(REGEX REPLACE "^tfdist_" "tfdist::" alias "${arg_NAME}")
  if(arg_SOURCES)
    add_library(${arg_NAME} STATIC ${arg_SOURCES})
    target_include_directories(${arg_NAME} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_compile_features(${arg_NAME} PUBLIC cxx_std_20)
    target_link_libraries(${arg_NAME} PRIVATE tfdist_flags PUBLIC ${arg_DEPENDS})
    tfdist_use_headers(${arg_NAME} ${TFDIST_LIBRARY_HEADERS})
  else()
    add_library(${arg_NAME} INTERFACE)
    target_include_directories(${arg_NAME} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_compile_features(${arg_NAME} INTERFACE cxx_std_20)
    target_link_libraries(${arg_NAME} INTERFACE ${arg_DEPENDS})
  endif()
  add_library(${alias} ALIAS ${arg_NAME})
endfunction()

# tfdist_executable(NAME x SOURCES ... [DEPENDS ...]): bin/x; libc alone is dynamic. See also static_executable.cmake.
function(tfdist_executable)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE tfdist_flags ${arg_DEPENDS})
  if(NOT TFDIST_SANITIZE)
    # An older machine's libstdc++ need not know the names that this compiler uses.
    target_link_options(${arg_NAME} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# Read by base/testing/test_paths.h.
file(CONFIGURE OUTPUT "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/.source_dir" CONTENT "${PROJECT_SOURCE_DIR}\n")

# What .ci/run builds: with sanitizers unit_tests, all that `ctest -L unit` runs; for release job_tests, what all other tests
# run: jobs as users start them, and what a sanitizer's build does not have (label `release`).
add_custom_target(unit_tests)
add_custom_target(job_tests)

# tfdist_time_limit(TEST SECONDS): after so long ctest ends the test; sanitizers take several times as long.
function(tfdist_time_limit test seconds)
  if(TFDIST_SANITIZE)
    math(EXPR seconds "5 * ${seconds}")
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# tfdist_test(NAME x_test SOURCES ... [DEPENDS ...] [RUNS ...] [LABELS ...] [TIMEOUT seconds] [PARTS n]):
# bin/x_test, run by ctest as one test; label `unit` unless others are given: `release` for one that a sanitizer's build does not
# have. GoogleTest brings main().
# RUNS names executables that the test starts; base/testing/test_paths.h finds them and the sources.
# TFDIST_TEST_SANITIZED is 1 or 0. With PARTS, n tests of ctest share its cases and run side by side.
function(tfdist_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT;PARTS" "SOURCES;DEPENDS;RUNS;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 90)
  endif()
  set(sanitized 0)
  if(TFDIST_SANITIZE)
    set(sanitized 1)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${arg_NAME} PRIVATE TFDIST_TEST_SANITIZED=${sanitized})
  target_link_libraries(${arg_NAME} PRIVATE tfdist_flags ${arg_DEPENDS} GTest::gmock_main)
  tfdist_test_flags(${arg_NAME})
  tfdist_use_headers(${arg_NAME} test)
  if(arg_RUNS)
    add_dependencies(${arg_NAME} ${arg_RUNS})
  endif()
  if(arg_PARTS)
    foreach(part RANGE 1 ${arg_PARTS})
      math(EXPR index "${part} - 1")
      tfdist_add_test(${arg_NAME}_${part} ${arg_NAME})
      set_tests_properties(${arg_NAME}_${part} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_PARTS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    tfdist_add_test(${arg_NAME} ${arg_NAME})
  endif()
  if("unit" IN_LIST arg_LABELS)
    add_dependencies(unit_tests ${arg_NAME})
  else()
    add_dependencies(job_tests ${arg_NAME})
  endif()
endfunction()

# Reads arg_LABELS and arg_TIMEOUT of tfdist_test. ctest starts first what may take longest.
function(tfdist_add_test test program)
  add_test(NAME ${test} COMMAND ${program})
  set_tests_properties(${test} PROPERTIES LABELS "${arg_LABELS}" COST ${arg_TIMEOUT})
  tfdist_time_limit(${test} ${arg_TIMEOUT})
endfunction()

# What scripts/bench runs is built when it is asked for, by target `benchmarks` or its own: it is a sixth of a cold build.
add_custom_target(benchmarks)

# tfdist_bench_executable(NAME x_bench SOURCES ... [DEPENDS ...]): bin/x_bench, with a main() of its own. Its tests (label
# `bench`) belong to scripts/test --long, which builds `benchmarks`. What a sanitizer makes of it measures nothing.
function(tfdist_bench_executable)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  tfdist_executable(${ARGV})
  set_target_properties(${arg_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(benchmarks ${arg_NAME})
endfunction()

# tfdist_benchmark(NAME x_bench SOURCES ... [DEPENDS ...]): the same with Google Benchmark's main().
function(tfdist_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  add_executable(${arg_NAME} EXCLUDE_FROM_ALL ${arg_SOURCES})
  add_dependencies(benchmarks ${arg_NAME})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE tfdist_flags ${arg_DEPENDS} benchmark::benchmark_main)
endfunction()

# tfdist_fuzz_target(NAME x_fuzz SOURCES ... [DEPENDS ...]): bin/x_fuzz from a LLVMFuzzerTestOneInput. ctest
# runs it on the inputs in corpus/x (label `unit`), `long` on 20,000 changed ones, or, with TFDIST_FUZZ, lets libFuzzer
# look for new ones for a minute (label `fuzz`); those stay in the build folder for the next time.
function(tfdist_fuzz_target)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  string(REGEX REPLACE "_fuzz$" "" corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${arg_NAME}")
  set(found "${CMAKE_BINARY_DIR}/fuzz_inputs/${arg_NAME}")
  file(MAKE_DIRECTORY "${found}")
  # Some targets write each input into a file: 20,000 of them are slow on a disk.
  set(in_memory "")
  if(IS_DIRECTORY /dev/shm)
    set(in_memory TMPDIR=/dev/shm)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE tfdist_flags ${arg_DEPENDS})
  tfdist_test_flags(${arg_NAME})
  tfdist_use_headers(${arg_NAME} test)
  if(TFDIST_FUZZ)
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} -max_total_time=60 -timeout=10 -print_final_stats=1
      "-artifact_prefix=${found}-" "${found}" "${corpus}")
    set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT 300 LABELS fuzz ENVIRONMENT "${in_memory}")
    add_dependencies(fuzz_targets ${arg_NAME})
  else()
    target_sources(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/base/testing/fuzz_replay.cc")
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} "${found}-input" 0 "${corpus}")
    set_tests_properties(${arg_NAME} PROPERTIES LABELS unit ENVIRONMENT "${in_memory}")
    tfdist_time_limit(${arg_NAME} 20)
    add_test(NAME ${arg_NAME}_changed COMMAND ${arg_NAME} "${found}-changed" 20000 "${corpus}")
    set_tests_properties(${arg_NAME}_changed PROPERTIES LABELS "unit;long" ENVIRONMENT "${in_memory}")
    tfdist_time_limit(${arg_NAME}_changed 120)
    add_dependencies(unit_tests ${arg_NAME})
  endif()
endfunction()

if(TFDIST_FUZZ)
  add_custom_target(fuzz_targets)
endif()

# The agent for hosts with aarch64, cross-compiled: a build of its own in build/aarch64, of the target tfdist-agent alone.
#   TFDIST_WITH_AARCH64     whether there is one
#   TFDIST_AARCH64_AGENT    its file, made by the target tfdist-agent-aarch64

set(TFDIST_AARCH64 AUTO CACHE STRING
  "Build the agent for aarch64, too: ON, OFF, or AUTO: where scripts/setup --aarch64 has been")
set_property(CACHE TFDIST_AARCH64 PROPERTY STRINGS AUTO ON OFF)

set(TFDIST_WITH_AARCH64 OFF)
set(why "")
find_program(TFDIST_AARCH64_COMPILER aarch64-linux-gnu-g++)
mark_as_advanced(TFDIST_AARCH64_COMPILER)
if(TFDIST_AARCH64 STREQUAL "OFF")
  set(why "TFDIST_AARCH64 is OFF")
elseif(TFDIST_SANITIZE OR TFDIST_FUZZ OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(why "only in release builds")
elseif(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(why "this machine is ${CMAKE_SYSTEM_PROCESSOR}")
elseif(NOT TFDIST_AARCH64_COMPILER)
  set(why "no aarch64-linux-gnu-g++: scripts/setup --aarch64 installs it")
else()
  foreach(library IN ITEMS fmt sodium z zmq)
    if(NOT EXISTS "${TFDIST_DEPS_DIR}/prefix-aarch64/lib/lib${library}.a")
      set(why "no lib${library}.a for aarch64: scripts/setup --aarch64 brings it")
    endif()
  endforeach()
  if(NOT why)
    set(TFDIST_WITH_AARCH64 ON)
  endif()
endif()

if(NOT TFDIST_WITH_AARCH64)
  if(TFDIST_AARCH64 STREQUAL "ON")
    message(FATAL_ERROR "TFDIST_AARCH64 is ON: ${why}")
  endif()
  message(STATUS "tfdist-agent for aarch64: not built (${why})")
  return()
endif()
message(STATUS "tfdist-agent for aarch64: by ${TFDIST_AARCH64_COMPILER}")

include(ExternalProject)
set(folder "${CMAKE_BINARY_DIR}/aarch64")
set(TFDIST_AARCH64_AGENT "${folder}/bin/tfdist-agent")
# Its own build knows what has changed: it is asked each time, and leaves an agent as it is when nothing has.
ExternalProject_Add(tfdist-agent-aarch64
  SOURCE_DIR "${PROJECT_SOURCE_DIR}"
  BINARY_DIR "${folder}"
  PREFIX "${folder}/steps"
  CMAKE_ARGS
    "-DCMAKE_TOOLCHAIN_FILE=${PROJECT_SOURCE_DIR}/cmake/aarch64_toolchain.cmake"
    "-DTFDIST_DEPS_DIR=${TFDIST_DEPS_DIR}"
    -DTFDIST_AGENT_ONLY=ON
    -DTFDIST_CUDA=OFF
    "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
    "-DTFDIST_WERROR=${TFDIST_WERROR}"
    -DTFDIST_UNITY_BUILD=ON
    "-DTFDIST_PRECOMPILED_HEADERS=${TFDIST_PRECOMPILED_HEADERS}"
  BUILD_COMMAND "${CMAKE_COMMAND}" --build <BINARY_DIR> --target tfdist-agent
  BUILD_BYPRODUCTS "${TFDIST_AARCH64_AGENT}"
  BUILD_ALWAYS ON
  USES_TERMINAL_BUILD ON
  INSTALL_COMMAND "")

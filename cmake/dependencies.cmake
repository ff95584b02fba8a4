# Libraries of others. Those of the distribution keep their own target names:
#   nlohmann_json::nlohmann_json  tomlplusplus::tomlplusplus  CLI11::CLI11
#   GTest::gmock_main  benchmark::benchmark  Threads::Threads
# Those that are linked statically, or built by scripts/setup, are defined here:
#   tfdist_deps::zmq       libzmq with CURVE, and zmq.hpp
#   tfdist_deps::ssh2      libssh2 1.11 or newer
#   tfdist_deps::crypto    OpenSSL's libcrypto
#   tfdist_deps::fmt       text formatting (GCC 12 has no std::format)
#   tfdist_deps::sodium    tfdist_deps::zlib    tfdist_deps::openblas (cblas.h)

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(TFDIST_JSON_INCLUDE NAMES nlohmann/json.hpp REQUIRED)
mark_as_advanced(TFDIST_JSON_INCLUDE)

set(TFDIST_DEPS_DIR "${PROJECT_SOURCE_DIR}/build/deps" CACHE PATH "Where scripts/setup builds libraries")
set(prefix "${TFDIST_DEPS_DIR}/prefix")
if(CMAKE_CROSSCOMPILING)
  set(prefix "${TFDIST_DEPS_DIR}/prefix-${CMAKE_SYSTEM_PROCESSOR}")
endif()

# Defines tfdist_deps::NAME from the archive FILE, found in the given folders or the compiler's own.
function(tfdist_import_static name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILE;HEADER" "PATHS;INCLUDE_PATHS;LINKS")
  string(TOUPPER "${name}" upper)
  if(arg_PATHS)
    find_library(TFDIST_${upper}_LIBRARY NAMES ${arg_FILE} PATHS ${arg_PATHS} NO_DEFAULT_PATH)
    find_path(TFDIST_${upper}_INCLUDE NAMES ${arg_HEADER} PATHS ${arg_INCLUDE_PATHS} NO_DEFAULT_PATH)
  else()
    find_library(TFDIST_${upper}_LIBRARY NAMES ${arg_FILE})
    find_path(TFDIST_${upper}_INCLUDE NAMES ${arg_HEADER})
  endif()
  mark_as_advanced(TFDIST_${upper}_LIBRARY TFDIST_${upper}_INCLUDE)
  if(NOT TFDIST_${upper}_LIBRARY OR NOT TFDIST_${upper}_INCLUDE)
    message(FATAL_ERROR "${arg_FILE} is missing: run scripts/setup (--tsan for the thread sanitizer)")
  endif()
  add_library(tfdist_deps::${name} STATIC IMPORTED GLOBAL)
  set_target_properties(tfdist_deps::${name} PROPERTIES
    IMPORTED_LOCATION "${TFDIST_${upper}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TFDIST_${upper}_INCLUDE}"
    INTERFACE_LINK_LIBRARIES "${arg_LINKS}")
endfunction()

tfdist_import_static(fmt FILE libfmt.a HEADER fmt/core.h
  PATHS "${prefix}/lib" INCLUDE_PATHS "${prefix}/include")
tfdist_import_static(zlib FILE libz.a HEADER zlib.h)
tfdist_import_static(sodium FILE libsodium.a HEADER sodium.h)

# libzmq for the thread sanitizer is built with it (scripts/setup --tsan), else its queues look like races.
set(zmq_prefix "${prefix}")
if(TFDIST_SANITIZE MATCHES "thread")
  set(zmq_prefix "${TFDIST_DEPS_DIR}/prefix-tsan")
endif()
tfdist_import_static(zmq FILE libzmq.a HEADER zmq.h
  PATHS "${zmq_prefix}/lib" INCLUDE_PATHS "${zmq_prefix}/include"
  LINKS tfdist_deps::sodium Threads::Threads)
set_target_properties(tfdist_deps::zmq PROPERTIES INTERFACE_COMPILE_DEFINITIONS ZMQ_STATIC)

# What only others than the agent need is declared, and not there.
if(TFDIST_AGENT_ONLY)
  foreach(name IN ITEMS CLI11::CLI11 GTest::gtest GTest::gmock_main benchmark::benchmark_main)
    add_library(${name} INTERFACE IMPORTED GLOBAL)
  endforeach()
  return()
endif()

find_package(PkgConfig REQUIRED)
find_package(CLI11 REQUIRED)
find_path(TFDIST_CLI11_INCLUDE NAMES CLI/CLI.hpp REQUIRED)
mark_as_advanced(TFDIST_CLI11_INCLUDE)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

# Debian's own target of toml++ is a shared library, which users' machines lack, and which brings a
# second libstdc++ into the process.
find_path(TFDIST_TOMLPLUSPLUS_INCLUDE NAMES toml++/toml.h REQUIRED)
mark_as_advanced(TFDIST_TOMLPLUSPLUS_INCLUDE)
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED GLOBAL)
set_target_properties(tomlplusplus::tomlplusplus PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${TFDIST_TOMLPLUSPLUS_INCLUDE}"
  INTERFACE_COMPILE_DEFINITIONS TOML_HEADER_ONLY=1)

# Debian's own target of yaml-cpp is a shared library, too.
tfdist_import_static(yaml_cpp FILE libyaml-cpp.a HEADER yaml-cpp/yaml.h)

# What libcrypto itself needs differs: Debian 13's has zlib and zstd inside.
pkg_check_modules(TFDIST_CRYPTO_PKG REQUIRED libcrypto)
set(crypto_needs ${TFDIST_CRYPTO_PKG_STATIC_LIBRARIES})
list(REMOVE_ITEM crypto_needs crypto)
tfdist_import_static(crypto FILE libcrypto.a HEADER openssl/crypto.h LINKS ${crypto_needs} Threads::Threads)
tfdist_import_static(ssh2 FILE libssh2.a HEADER libssh2.h
  PATHS "${prefix}/lib" INCLUDE_PATHS "${prefix}/include"
  LINKS tfdist_deps::crypto tfdist_deps::zlib)

# OpenBLAS: a program that links it runs on glibc alone. Debian keeps several variants side by side.
tfdist_import_static(openblas FILE libopenblas.a HEADER cblas.h
  PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread"
  INCLUDE_PATHS "/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread"
  LINKS Threads::Threads m)

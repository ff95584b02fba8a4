# The flags of every target of ours, as the interface target `tfdist_flags`.

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)

add_library(tfdist_flags INTERFACE)

# --- warnings ------------------------------------------------------------------------------------
target_compile_options(tfdist_flags INTERFACE -Wall -Wextra -Wshadow -Wformat=2 -Werror=format-security)
if(TFDIST_WERROR)
  target_compile_options(tfdist_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(tfdist_flags INTERFACE -Wthread-safety)
endif()

# Paths of this machine stay out of messages and of the agent's hash.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(tfdist_flags INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
endif()

# --- sanitizers ----------------------------------------------------------------------------------
if(TFDIST_SANITIZE)
  # -g1: functions and lines are what a report shows.
  target_compile_options(tfdist_flags INTERFACE
    "-fsanitize=${TFDIST_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(tfdist_flags INTERFACE "-fsanitize=${TFDIST_SANITIZE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC warns about its own instrumentation, inside fmt for one.
    target_compile_options(tfdist_flags INTERFACE -Wno-uninitialized -Wno-maybe-uninitialized)
    # Never mind 130 MB more: collecting garbage takes a tenth of the time.
    target_compile_options(tfdist_flags INTERFACE --param=ggc-min-heapsize=400000)
    if(TFDIST_SANITIZE MATCHES "undefined")
      # What these look for before every access is a fourth of the time that a file takes. A null pointer ends the process anyway,
      # what is beyond an object is the address sanitizer's, and the preset `fuzz`, built by clang, has all three.
      target_compile_options(tfdist_flags INTERFACE -fno-sanitize=null,alignment,object-size)
    endif()
  endif()
endif()

if(TFDIST_FUZZ)
  # Tells libFuzzer which branches an input took. Loops that must be vector code elsewhere cannot be then.
  target_compile_options(tfdist_flags INTERFACE -fsanitize=fuzzer-no-link -Wno-pass-failed)
endif()

# --- hardening -----------------------------------------------------------------------------------
# Level 3 of _FORTIFY_SOURCE needs GCC 12 with glibc 2.34; 2 is the level that every supported pair has.
# It needs optimization, and the address sanitizer checks the same calls itself.
if(NOT TFDIST_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(tfdist_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
target_compile_definitions(tfdist_flags INTERFACE _GLIBCXX_ASSERTIONS)
target_compile_options(tfdist_flags INTERFACE -fstack-protector-strong)

foreach(flag IN ITEMS
    -fstack-clash-protection         # a huge frame cannot jump over the guard page
    -fcf-protection                  # x86 only
    -ftrivial-auto-var-init=zero     # GCC 12; clang 14 wants a second flag for it
    -fno-semantic-interposition)     # nobody overrides our functions: inline them in spite of -fPIC
  string(MAKE_C_IDENTIFIER "TFDIST_HAS${flag}" have)
  check_cxx_compiler_flag(${flag} ${have})
  if(${have})
    target_compile_options(tfdist_flags INTERFACE ${flag})
  endif()
endforeach()

if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # char has a sign on x86-64 and none there; what is written for the one is compiled for the other.
  target_compile_options(tfdist_flags INTERFACE -fsigned-char -mbranch-protection=standard)
endif()

# Unused functions are left out of executables: the agent travels over slow links.
target_compile_options(tfdist_flags INTERFACE -ffunction-sections -fdata-sections)
target_link_options(tfdist_flags INTERFACE
  -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# Relocations of position-independent executables, packed: 19 kB less to send of an agent. A static executable relocates itself
# by what its glibc knows, from 2.36 on. Linkers for other machines than x86 may ignore the flag, and say so.
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
check_cxx_source_compiles("#include <features.h>\n#if !__GLIBC_PREREQ(2, 36)\n#error\n#endif\nint main() {}"
  TFDIST_CAN_PACK_RELOCATIONS FAIL_REGEX "pack-relative-relocs ignored")
unset(CMAKE_REQUIRED_LINK_OPTIONS)

# tfdist_test_flags(TARGET): of tests and fuzz targets. What is tested is optimized and checked as ever; tests
# themselves compile in two thirds of the time.
function(tfdist_test_flags target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(TFDIST_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)  # two thirds again
  endif()
  if(TFDIST_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

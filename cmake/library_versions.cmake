# tfdist_library_versions(TARGET FILE...): the sources of TARGET may include "library_versions.h", which holds
# kLibraryVersions, a line for each of the packages that FILEs (archives, headers, imported targets of archives)
# come from: source package and version, with the distribution's revision. So an executable says itself whether
# it has a security fix.
function(tfdist_library_versions target)
  set(lines)
  set(files)
  foreach(file IN LISTS ARGN)
    if(TARGET ${file})
      get_target_property(file ${file} IMPORTED_LOCATION)
    endif()
    if(file STREQUAL "file-NOTFOUND")
      continue()  # linked dynamically
    endif()
    file(REAL_PATH "${file}" file)
    if(file MATCHES "^${TFDIST_DEPS_DIR}/([^/]+)/lib/lib(.*)\\.a$")  # built by scripts/setup
      set(folder "${TFDIST_DEPS_DIR}/${CMAKE_MATCH_1}/recipe")
      set(package ${CMAKE_MATCH_2})
      string(REPLACE "zmq" "zeromq3" package "${package}")
      string(REPLACE "fmt" "fmtlib" package "${package}")
      string(REPLACE "ssh2" "libssh2" package "${package}")
      string(REPLACE "sodium" "libsodium" package "${package}")
      string(REGEX REPLACE "^z$" "zlib" package "${package}")
      file(STRINGS "${folder}/${package}.version" version)
      list(APPEND lines "${package} ${version}")
    else()
      list(APPEND files "${file}")
    endif()
  endforeach()
  # Lines "package: file"; a machine without dpkg gets none.
  execute_process(COMMAND dpkg-query -S ${files} OUTPUT_VARIABLE owners ERROR_QUIET)
  string(REGEX REPLACE ": [^\n]*\n" ";" owners "${owners}")
  if(owners)
    # That of a cross compiler is named by the compiler's source, and says in its own version which glibc it is.
    if("libc6-dev-arm64-cross" IN_LIST owners)
      list(REMOVE_ITEM owners libc6-dev-arm64-cross)
      execute_process(COMMAND dpkg-query -W -f "glibc \${Version};" libc6-dev-arm64-cross OUTPUT_VARIABLE versions ERROR_QUIET)
      list(APPEND lines ${versions})
    endif()
    execute_process(COMMAND dpkg-query -W -f "\${source:Package} \${source:Version};" ${owners}
      OUTPUT_VARIABLE versions ERROR_QUIET)
    list(APPEND lines ${versions})
  endif()
  list(REMOVE_DUPLICATES lines)
  list(REMOVE_ITEM lines "")
  list(SORT lines)
  list(JOIN lines "\\n" text)
  set(folder "${CMAKE_BINARY_DIR}/library_versions/${target}")
  file(CONFIGURE OUTPUT "${folder}/library_versions.h" CONTENT
    "#pragma once\n\ninline constexpr char kLibraryVersions[] = \"@text@\";\n" @ONLY)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

# The C and C++ libraries themselves, where an executable has them inside.
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libc.a
  OUTPUT_VARIABLE TFDIST_LIBC_ARCHIVE OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.a
  OUTPUT_VARIABLE TFDIST_LIBSTDCXX_ARCHIVE OUTPUT_STRIP_TRAILING_WHITESPACE)

# tfdist_static_executable(NAME x SOURCES ... [DEPENDS ...]): bin/x without any shared library, so that it starts on whatever Linux
# it is copied to: the command and the agent. It must not look up names of hosts or accounts itself (base/getent.h). Sanitizers
# cannot be linked statically: their builds get a dynamic twin. The linker warns about name look-ups inside libzmq, which are never
# reached, as the agent is given numeric addresses. Its --no-warnings would hide undefined functions, too.
function(tfdist_static_executable)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE tfdist_flags ${arg_DEPENDS})
  if(NOT TFDIST_SANITIZE)
    target_link_options(${arg_NAME} PRIVATE -static-pie)
    if(TFDIST_CAN_PACK_RELOCATIONS)
      target_link_options(${arg_NAME} PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
  endif()
endfunction()

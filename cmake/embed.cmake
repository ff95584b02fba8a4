# tfdist_embed_agent(TARGET AGENT): puts the executable AGENT, stripped and compressed, into TARGET,
# which reads it through cli/link/embedded_agent.h. An executable's own agent goes before the one of a library.
function(tfdist_embed_agent target agent)
  set(folder "${CMAKE_BINARY_DIR}/embedded/${agent}")
  set(source "${folder}/embedded_agent.cc")
  # 2 MiB take 25 s on a link of 200 ms and 1 % loss; much larger would hurt every first start there.
  # Regular expressions (logs --grep) took it beyond 2 MiB.
  set(limit_bytes 2228224)
  if(TFDIST_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(limit_bytes 0)  # none
  endif()
  add_custom_command(
    OUTPUT "${source}" "${folder}/tfdist-agent.gz"
    COMMAND "${CMAKE_COMMAND}"
      "-DAGENT=$<TARGET_FILE:${agent}>" "-DFOLDER=${folder}" "-DLIMIT_BYTES=${limit_bytes}"
      "-DSTRIP=${CMAKE_STRIP}" -P "${PROJECT_SOURCE_DIR}/cmake/embed_agent_script.cmake"
    DEPENDS ${agent} "${PROJECT_SOURCE_DIR}/cmake/embed_agent_script.cmake"
    COMMENT "Embedding ${agent}"
    VERBATIM)
  # The compiler does not see through .incbin. In a batch the file would not be compiled again.
  set_source_files_properties("${source}" PROPERTIES
    OBJECT_DEPENDS "${folder}/tfdist-agent.gz" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE "${source}")
endfunction()

# tfdist_embed_text(TARGET NAME FILE): the sources of TARGET may include "FILE.h" (the file's name without its folder), in which
# NAME is the text of FILE.
function(tfdist_embed_text target name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  get_filename_component(base "${file}" NAME)
  set(folder "${CMAKE_BINARY_DIR}/embedded/${target}")
  file(CONFIGURE OUTPUT "${folder}/${base}.h" @ONLY CONTENT
    "#pragma once\n\ninline constexpr char @name@[] = R\"text(@text@)text\";\n")
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

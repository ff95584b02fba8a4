# tfdist_embed_agents(TARGET AGENT): puts the executable AGENT, stripped and compressed, into TARGET, and, where it is built, the
# agent for aarch64 (agent_aarch64.cmake). TARGET reads them through cli/link/embedded_agent.h. An executable's own agents go before
# those of a library.
function(tfdist_embed_agents target agent)
  set(folder "${CMAKE_BINARY_DIR}/embedded/${agent}")
  set(source "${folder}/embedded_agents.cc")
  # Of xz, which most hosts can unpack. More hurts every first start on a slow link.
  set(limit_bytes 1370000)
  if(agent MATCHES "failpoints")
    math(EXPR limit_bytes "${limit_bytes} + 50000")  # it is for tests, and no user gets it
  endif()
  if(TFDIST_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(limit_bytes 0)  # none
  endif()
  set(agents "${CMAKE_SYSTEM_PROCESSOR}=$<TARGET_FILE:${agent}>=${CMAKE_STRIP}")
  set(compressed "${folder}/tfdist-agent.${CMAKE_SYSTEM_PROCESSOR}.gz")
  set(depends ${agent})
  if(TFDIST_WITH_AARCH64)
    list(APPEND agents "aarch64=${TFDIST_AARCH64_AGENT}=aarch64-linux-gnu-strip")
    list(APPEND compressed "${folder}/tfdist-agent.aarch64.gz")
    list(APPEND depends "${TFDIST_AARCH64_AGENT}")
  endif()
  add_custom_command(
    OUTPUT "${source}" ${compressed}
    COMMAND "${CMAKE_COMMAND}"
      "-DAGENTS=${agents}" "-DFOLDER=${folder}" "-DLIMIT_BYTES=${limit_bytes}"
      -P "${PROJECT_SOURCE_DIR}/cmake/embed_agent_script.cmake"
    DEPENDS ${depends} "${PROJECT_SOURCE_DIR}/cmake/embed_agent_script.cmake"
    COMMENT "Embedding ${agent}"
    VERBATIM)
  # The compiler does not see through .incbin. In a batch the file would not be compiled again.
  set_source_files_properties("${source}" PROPERTIES
    OBJECT_DEPENDS "${compressed}" SKIP_UNITY_BUILD_INCLUSION ON)
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

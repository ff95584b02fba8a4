# Run at build time: strips and compresses the AGENTS, a list of "MACHINE=FILE=STRIP", into FOLDER, and writes
# FOLDER/embedded_agents.cc. LIMIT_BYTES bounds what is sent of each (0: no limit, debugging information is kept, and nothing is
# compressed well).

file(MAKE_DIRECTORY "${FOLDER}")
set(archives "")
set(symbols "")
set(entries "")
foreach(agent IN LISTS AGENTS)
  string(REPLACE "=" ";" agent "${agent}")
  list(GET agent 0 machine)
  list(GET agent 1 file)
  list(GET agent 2 strip)
  set(plain "${FOLDER}/tfdist-agent.${machine}")
  if(LIMIT_BYTES)
    # Beside the symbols, what only debuggers and probes of libc read.
    execute_process(COMMAND "${strip}" --strip-all -R .comment -R .note.stapsdt -o "${plain}" "${file}" COMMAND_ERROR_IS_FATAL ANY)
    # A dictionary as large as the agent, and no more: it is memory of the host. The filter for x86 is in every xz(1); that for
    # aarch64 is in new ones alone.
    set(filters --lzma2=preset=9e,dict=8MiB,lc=2,lp=2,pb=2)
    if(machine STREQUAL "x86_64")
      set(filters --x86 --lzma2=preset=9e,dict=8MiB,lc=4,lp=0,pb=1)
    endif()
    execute_process(COMMAND xz -c --check=crc32 ${filters} "${plain}" OUTPUT_FILE "${plain}.xz" COMMAND_ERROR_IS_FATAL ANY)
    set(level -9)
  else()
    file(COPY_FILE "${file}" "${plain}")
    file(WRITE "${plain}.xz" "")
    set(level -1)
  endif()
  # Without name and time (-n): the same agent makes the same bytes.
  execute_process(COMMAND gzip -c -n ${level} "${plain}" OUTPUT_FILE "${plain}.gz" COMMAND_ERROR_IS_FATAL ANY)

  file(SIZE "${plain}.xz" sent_bytes)
  if(LIMIT_BYTES AND sent_bytes GREATER LIMIT_BYTES)
    file(REMOVE "${plain}.xz")
    message(FATAL_ERROR "tfdist-agent for ${machine} takes ${sent_bytes} bytes when sent; the limit is ${LIMIT_BYTES}")
  endif()
  file(SHA256 "${plain}" sha256)
  file(SIZE "${plain}" size_bytes)
  foreach(form IN ITEMS gz xz)
    set(symbol "tfdist_embedded_agent_${machine}_${form}")
    string(APPEND archives
      "  .balign 16\n  .hidden ${symbol}_begin\n  .globl ${symbol}_begin\n${symbol}_begin:\n  .incbin \"${plain}.${form}\"\n"
      "  .hidden ${symbol}_end\n  .globl ${symbol}_end\n${symbol}_end:\n")
    foreach(end IN ITEMS begin end)
      string(APPEND symbols "extern const std::byte ${symbol}_${end}[] __attribute__((visibility(\"hidden\")));\n")
    endforeach()
  endforeach()
  set(symbol "tfdist_embedded_agent_${machine}")
  string(APPEND entries
    "      {.gzip = {${symbol}_gz_begin, ${symbol}_gz_end},\n       .xz = {${symbol}_xz_begin, ${symbol}_xz_end},\n"
    "       .sha256_hex = \"${sha256}\",\n       .size_bytes = ${size_bytes},\n       .machine = \"${machine}\"},\n")
endforeach()

file(CONFIGURE OUTPUT "${FOLDER}/embedded_agents.cc" @ONLY CONTENT [=[
// Written by cmake/embed_agent_script.cmake.
#include "cli/link/embedded_agent.h"

asm(R"(
  .pushsection .rodata.tfdist_embedded_agents, "a"
@archives@  .popsection
)");

extern "C" {
@symbols@}

namespace tfdist::cli {

std::span<const EmbeddedAgent> GetEmbeddedAgents() {
  static const EmbeddedAgent agents[] = {
@entries@  };
  return agents;
}

}  // namespace tfdist::cli
]=])

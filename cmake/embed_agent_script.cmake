# Run at build time: strips and compresses AGENT into FOLDER, and writes FOLDER/embedded_agent.cc.
# LIMIT_BYTES bounds the compressed size (0: no limit, and debugging information is kept).

file(MAKE_DIRECTORY "${FOLDER}")
set(stripped "${FOLDER}/tfdist-agent")
set(compressed "${FOLDER}/tfdist-agent.gz")

if(LIMIT_BYTES)
  execute_process(COMMAND "${STRIP}" --strip-all -o "${stripped}" "${AGENT}" COMMAND_ERROR_IS_FATAL ANY)
  set(level -9)
else()
  file(COPY_FILE "${AGENT}" "${stripped}")
  set(level -1)
endif()
# Without name and time (-n): the same agent makes the same bytes.
execute_process(COMMAND gzip -c -n ${level} "${stripped}"
  OUTPUT_FILE "${compressed}" COMMAND_ERROR_IS_FATAL ANY)

file(SIZE "${compressed}" compressed_bytes)
if(LIMIT_BYTES AND compressed_bytes GREATER LIMIT_BYTES)
  file(REMOVE "${compressed}")
  message(FATAL_ERROR
    "tfdist-agent takes ${compressed_bytes} bytes compressed; the limit is ${LIMIT_BYTES}")
endif()

file(SHA256 "${stripped}" sha256)
file(SIZE "${stripped}" size_bytes)
file(CONFIGURE OUTPUT "${FOLDER}/embedded_agent.cc" @ONLY CONTENT [=[
// Written by cmake/embed_agent_script.cmake.
#include "cli/link/embedded_agent.h"

asm(R"(
  .pushsection .rodata.tfdist_embedded_agent, "a"
  .balign 16
  .hidden tfdist_embedded_agent_begin
  .globl tfdist_embedded_agent_begin
tfdist_embedded_agent_begin:
  .incbin "@compressed@"
  .hidden tfdist_embedded_agent_end
  .globl tfdist_embedded_agent_end
tfdist_embedded_agent_end:
  .popsection
)");

extern "C" {
extern const std::byte tfdist_embedded_agent_begin[] __attribute__((visibility("hidden")));
extern const std::byte tfdist_embedded_agent_end[] __attribute__((visibility("hidden")));
}

namespace tfdist::cli {

const EmbeddedAgent& GetEmbeddedAgent() {
  static const EmbeddedAgent agent{
      .gzip = {tfdist_embedded_agent_begin, tfdist_embedded_agent_end},
      .sha256_hex = "@sha256@",
      .size_bytes = @size_bytes@,
  };
  return agent;
}

}  // namespace tfdist::cli
]=])

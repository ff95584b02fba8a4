#include <cstdio>

#include "runtime/program/program.h"

int main(int argc, char** argv) {
  return tfdist::runtime::RunProgram(argc, argv, [](const std::string& line) {
    // One line, at once: a follower of the output sees a step when it is made.
    std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout);
    std::fflush(stdout);
  });
}

#include "runtime/program/program.h"

int main(int argc, char** argv) {
  return tfdist::runtime::RunProgram(argc, argv, tfdist::runtime::PrintLine,
                                     tfdist::runtime::MakeCpuDevice);
}

#include "cli/commands/command_line.h"

int main(int argc, char** argv) { return tfdist::cli::Main(argc, argv); }

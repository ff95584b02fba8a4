// The command line of tfdist.
#pragma once

namespace tfdist::cli {

// Parses, runs, tells errors on stderr; returns the exit code.
int Main(int argc, char** argv);

}  // namespace tfdist::cli

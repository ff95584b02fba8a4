// Prints errors, and how jobs ended, to stderr: stdout holds only what was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/job/job_record.h"
#include "cli/stream/line_printer.h"
#include "job/state.h"

namespace tfdist::cli {

// "17s", "2m05s", "3h07m"; nothing is negative.
std::string Span(int64_t nanoseconds);
// Of the terminal on stdout; 0: it is none.
size_t StdoutColumns();

// A remedy where `text` names a path in the home folder of this machine's user, which a shell makes of ~/x: for what a host does
// not have. Empty: it names none.
std::string QuoteTheTilde(std::string_view text);
// "1 host", "2 hosts".
std::string Counted(size_t count, std::string_view what);
// "2 of 4 hosts", "0 of 1 host"; of one that is all of them "1 host".
std::string CountedOf(size_t count, size_t all, std::string_view what);

// As the user wrote it.
std::string HostOfSlot(const protocol::JobState& state, int slot);

// "tfdist: gpu07: host key: ...", then "  try: ...". What cannot be written is dropped: the exit
// code still tells.
void PrintError(const Error& error);

// Errors of several hosts, folded (host_fold.h): the first, and where else it is the same.
void PrintErrors(const std::vector<Error>& errors);

// "tfdist: warning: ...", then "  try: ...".
void PrintWarning(const std::string& text, const std::string& remedy);

// Colour and filter where stdout is a terminal (and NO_COLOR is not set).
PrinterOptions TerminalOptions();

// How the job ended; of a failure the first task to fail, its exit code and last lines; output that
// was lost, and hosts where something is left. `quiet`: success itself is not said.
void ReportEnd(const JobRecord& record, const protocol::JobState& state, bool quiet);

}  // namespace tfdist::cli

// How commands are shown to people, by --help and by the manual page: both from the one description
// that CLI11 parses by.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace tfdist::cli {

// The lines of usage: "tfdist up [OPTIONS] [FILE] [-- WORDS]",
// "tfdist up [OPTIONS] -H HOST,... -- COMMAND".
std::vector<std::string> Synopsis(const CLI::App& command);

// "-n,--tail N"; of a positional: "[JOB] [TASK|HOST...]".
std::string ShapeOf(const CLI::Option& option);

// Its help, and with which options it cannot stand.
std::string HelpOf(const CLI::Option& option);

// The layout of --help. Lines have at most 100 columns.
std::shared_ptr<CLI::Formatter> HelpFormat();

// tfdist(1), as troff for `man`. `app` has all commands; `version`: "tfdist 0.1.0".
std::string ManPage(const CLI::App& app, const std::string& version);

}  // namespace tfdist::cli

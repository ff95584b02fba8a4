// What a shell offers while a command line is typed: from the same description that --help prints.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::cli {

struct Candidate {
  std::string word;
  std::string help;  // one line; may be empty
};

// For the last of `words`, which are those behind `tfdist`: commands, options, names of jobs that
// this machine knows, their tasks and hosts. None where a file may stand, say.
std::vector<Candidate> Candidates(const CLI::App& app, const std::vector<std::string>& words);

// The script that a shell ("bash", "zsh", "fish") reads at its start. It asks `tfdist __complete`.
std::string_view CompletionScript(std::string_view shell);

}  // namespace tfdist::cli

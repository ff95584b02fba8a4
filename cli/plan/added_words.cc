#include "cli/plan/added_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tfdist::cli {
namespace {

using Command = std::vector<Located<std::string>>;

constexpr std::array<std::string_view, 9> kShells = {"sh",  "bash", "dash", "zsh", "ksh",
                                                     "ash", "fish", "csh",  "tcsh"};
// They start a login shell, and take its -c.
constexpr std::array<std::string_view, 2> kShellStarters = {"su", "runuser"};

std::string_view NameOf(std::string_view program) { return program.substr(program.rfind('/') + 1); }

bool IsOneOf(const auto& names, std::string_view program) {
  return std::ranges::find(names, NameOf(program)) != names.end();
}

// Their words stand in $argv, from the first on.
bool HasArgv(std::string_view shell) {
  constexpr std::array<std::string_view, 3> kSuch = {"fish", "csh", "tcsh"};
  return IsOneOf(kSuch, shell);
}

struct Script {
  size_t shell = 0;  // where it stands in the command
  size_t text = 0;   // likewise
};

// "-c", "-lc", "--command".
bool TakesScript(std::string_view option) {
  if (option.starts_with("--")) return option == "--command";
  return option.starts_with('-') && option.find('c') != option.npos;
}

// "-o", also among others: "-euo" of `bash -euo pipefail -c SCRIPT`.
bool TakesValue(std::string_view option) {
  if (option.starts_with("--")) return option == "--rcfile" || option == "--init-file";
  return option.find_first_of("oO") != option.npos;
}

bool IsOption(std::string_view word) { return word.starts_with('-') || word.starts_with('+'); }

// In `bash run.sh -c 1` the option is the file's.
std::optional<size_t> ScriptOfShellAt(const Command& command, size_t shell) {
  const bool has_account = IsOneOf(kShellStarters, command[shell].value);
  bool takes_script = false;
  for (size_t at = shell + 1; at < command.size(); ++at) {
    const std::string& word = command[at].value;
    if (!IsOption(word) && takes_script) return at;
    if (!IsOption(word) && !has_account) return std::nullopt;
    takes_script |= TakesScript(word);
    if (TakesValue(word)) ++at;
  }
  return std::nullopt;
}

// Also after a wrapper: `env`, `nice`, `conda run`.
std::optional<Script> ScriptIn(const Command& command) {
  for (size_t at = 0; at < command.size(); ++at) {
    const std::string& word = command[at].value;
    if (!IsShell(word) && !IsOneOf(kShellStarters, word)) continue;
    if (const auto text = ScriptOfShellAt(command, at)) return Script{at, *text};
  }
  return std::nullopt;
}

// Without what stands in single quotes, which no shell looks into: awk's $1 is not the shell's. All of it, where a quote
// stays open: it stood in a comment or a here-document.
std::string OutsideOfSingleQuotes(std::string_view script) {
  std::string text;
  bool in_single = false;
  bool in_double = false;
  for (size_t at = 0; at < script.size(); ++at) {
    const char c = script[at];
    if (c == '\\' && !in_single) {
      ++at;
    } else if (c == '\'' && !in_double) {
      in_single = !in_single;
    } else if (!in_single) {
      in_double ^= c == '"';
      text += c;
    }
  }
  return in_single ? std::string(script) : text;
}

// "for word do", "for word; do": over the words.
bool LoopsOverWords(std::string_view text) {
  for (size_t at = text.find("for "); at != text.npos; at = text.find("for ", at + 1)) {
    const size_t name = text.find_first_not_of(' ', at + 4);
    const size_t after = text.find_first_not_of(" \n", text.find_first_of(" ;\n", name));
    if (after != text.npos && !text.substr(after).starts_with("in ")) return true;
  }
  return false;
}

// "$1", "${@:2}", "$#": `parameters` are the characters that can follow.
bool Reads(std::string_view text, std::string_view parameters) {
  for (size_t at = text.find('$'); at != text.npos; at = text.find('$', at + 1)) {
    const size_t name = text.find_first_not_of("{#!", at + 1);
    const bool is_count = text.substr(at + 1, 1) == "#";
    if (is_count && parameters.find('#') != parameters.npos) return true;
    if (name != text.npos && parameters.find(text[name]) != parameters.npos) return true;
  }
  return false;
}

bool ReadsWords(std::string_view shell, std::string_view script) {
  const std::string text = OutsideOfSingleQuotes(script);
  if (HasArgv(shell) && text.find("$argv") != text.npos) return true;
  return Reads(text, "@*#123456789") || LoopsOverWords(text) || text.find("getopts") != text.npos;
}

void ReportUnread(const Command& command, const Script& script, Problems& problems) {
  const std::string& shell = command[script.shell].value;
  const char* const all = HasArgv(shell) ? "$argv" : "\\\"$@\\\"";
  problems.Add(
      {0, 0, "--"},
      fmt::format("the script of {} in the file's command does not read the words after --", shell),
      fmt::format("hand them on in the script: \"exec python3 train.py {}\"", all));
}

// The script's first word would be its name for itself.
bool NeedsName(const Command& command, const Script& script) {
  return script.text + 1 == command.size() && !HasArgv(command[script.shell].value) &&
         !Reads(OutsideOfSingleQuotes(command[script.text].value), "0");
}

}  // namespace

bool IsShell(std::string_view program) { return IsOneOf(kShells, program); }

void AddWords(const std::vector<std::string>& words, Command& command, Problems& problems) {
  const Where where{0, 0, "--"};
  if (const auto script = ScriptIn(command)) {
    if (!ReadsWords(command[script->shell].value, command[script->text].value)) {
      ReportUnread(command, *script, problems);
    }
    if (NeedsName(command, *script)) command.push_back({command[script->shell].value, where});
  }
  for (const std::string& word : words) command.push_back({word, where});
}

}  // namespace tfdist::cli

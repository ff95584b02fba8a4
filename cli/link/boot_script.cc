#include "cli/link/boot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/home_word.h"
#include "base/text.h"
#include "host.sh.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

// Takes what the script defines, if the whole of it is there, and if this is a shell that splits words as POSIX says: zsh does not. A start-up
// file may have replaced the shell, or may have read a part of our lines. What is left of the first line is then a single word,
// which no shell runs.
constexpr std::string_view kUnseal =
    R"sh(tfdist_words="a b"; set -- $tfdist_words; if [ $# = 2 ] && [ ${{#tfdist_script}} = {0} ]; then eval "$(printf %b "$tfdist_script")"; else echo "{1} unread $# $(readlink /proc/$$/exe)"; exit 1; fi
)sh";

// How a part of host.sh begins.
constexpr std::string_view kPart = "### ";

// The other parts that the script needs, with spaces between them.
std::string_view NeedsOf(std::string_view script) {
  const std::string mark = fmt::format("\n{}{}: ", kPart, script);
  std::string_view text = kHostScript;
  const size_t found = text.find(mark);
  if (found == std::string_view::npos) throw Bug(fmt::format("no script {}", script));
  text.remove_prefix(found + mark.size());
  return TakeUpTo('\n', text);
}

bool IsCode(std::string_view line) { return !line.empty() && line.front() != '#'; }

// The script with all parts that it needs, without comments and indentation.
std::string Lean(std::string_view script) {
  const std::string parts = fmt::format(" common trust {} {} ", NeedsOf(script), script);
  std::string lean;
  bool is_needed = false;
  for (std::string_view text = kHostScript; !text.empty();) {
    std::string_view line = TakeUpTo('\n', text);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with(kPart)) {
      const std::string_view name = line.substr(kPart.size());
      is_needed = parts.find(fmt::format(" {} ", name.substr(0, name.find(':')))) != parts.npos;
    } else if (is_needed && IsCode(line)) {
      lean.append(line).append("\n");
    }
  }
  return lean;
}

// One word for `printf %b`, without any character that means something to a shell but the backslash.
std::string Encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,@%+-^";
  std::string word;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      word.push_back(c);
    } else if (c == '\n') {
      word.append("\\n");
    } else {
      word.append(fmt::format("\\0{:03o}", static_cast<unsigned char>(c)));
    }
  }
  return word;
}

// As a shell reads it unquoted.
std::string Doubled(std::string text) {
  ReplaceAll(text, "\\", "\\\\");
  return text;
}

bool IsHexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

BootScript::BootScript(std::string nonce) : nonce_(std::move(nonce)) {
  if (nonce_.empty() || !IsHexadecimal(nonce_)) throw Bug("bad nonce");
  Set("nonce", nonce_);
  // The scripts spell no name of a folder or file themselves (job/layout.h).
  Set("agents", layout::kAgents).Set("jobs", layout::kJobs).Set("keep", layout::kKeep);
  Set("aside_prefix", layout::kAside).Set("slot_prefix", layout::kSlotPrefix);
  Set("agent_name", layout::kAgent).Set("id_name", layout::kBaseId);
}

BootScript& BootScript::Set(std::string_view name, std::string_view value) {
  if (value.find('\0') != std::string_view::npos) {
    throw Bug(fmt::format("NUL in the script's {}", name));
  }
  values_ += fmt::format("{}={}\n", name, ShellQuoted(value));
  return *this;
}

BootScript& BootScript::SetWords(const std::vector<std::string>& words, bool expands_home) {
  words_.clear();
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos) throw Bug("NUL in a word of the command");
    const size_t home = expands_home ? HomeIn(word) : word.npos;
    words_ += " " + (home == word.npos ? ShellQuoted(word)
                                       : ShellQuoted(word.substr(0, home)) + "\"$HOME\"" +
                                             ShellQuoted(word.substr(home + 1)));
  }
  return *this;
}

std::string BootScript::StartAgent() const { return Sealed("start"); }
std::string BootScript::KeepHouse() const { return Sealed("house"); }
std::string BootScript::Attach() const { return Sealed("attach"); }
std::string BootScript::FindAgent() const { return Sealed("find_agent"); }
std::string BootScript::RunCommand() const { return Sealed("run_command"); }

std::string BootScript::Sealed(std::string_view name) const {
  // with_words COMMAND: runs it with the user's words behind its own.
  const std::string words =
      words_.empty() ? "" : fmt::format("with_words() {{ \"$@\"{}; }}\n", words_);
  const std::string script = fmt::format("values() {{\n{}}}\n{}", values_, words) + Lean(name);
  // The last line calls what the others define. bash dies of a redirection of its stdin in an eval.
  const size_t call = script.rfind('\n', script.size() - 2) + 1;
  const std::string last_line = script.substr(call);
  const std::string word = Encoded(std::string_view(script).substr(0, call));
  return fmt::format("tfdist_script={0}\nnonce={1}\n{2}{3}", Doubled(word), nonce_,
                     fmt::format(kUnseal, word.size(), nonce_), last_line);
}

}  // namespace tfdist::cli

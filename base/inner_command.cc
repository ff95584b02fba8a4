#include "base/inner_command.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>
#include <utility>

namespace tfdist {
namespace {

using std::string_view_literals::operator""sv;

using Words = std::vector<std::string>;

// A program that runs another one in its place or as its child. Long options may have their value behind '=' as well.
struct Wrapper {
  std::string_view name;
  std::string_view flags;                   // letters of options without a value
  std::string_view valued;                  // and of those with one
  std::span<const std::string_view> longs;  // without a value
  std::span<const std::string_view> long_valued;
  size_t words = 0;  // between the options and the command
};

// Sources: the programs' manual pages in section 1.
constexpr std::string_view kTimeoutLongs[] = {"foreground", "preserve-status", "verbose"};
constexpr std::string_view kTimeoutValued[] = {"signal", "kill-after"};
constexpr std::string_view kSetsidLongs[] = {"ctty", "fork", "wait"};
constexpr std::string_view kNiceValued[] = {"adjustment"};
constexpr std::string_view kStdbufValued[] = {"input", "output", "error"};
constexpr std::string_view kEnvLongs[] = {"ignore-environment", "debug"};
constexpr std::string_view kEnvValued[] = {"unset"};
constexpr std::string_view kIoniceValued[] = {"class", "classdata"};
constexpr Wrapper kWrappers[] = {
    {"env", "iv", "u", kEnvLongs, kEnvValued},
    {"nohup", "", "", {}, {}},
    {"nice", "", "n", {}, kNiceValued},
    {"timeout", "fpv", "sk", kTimeoutLongs, kTimeoutValued, 1},
    {"stdbuf", "", "ioe", {}, kStdbufValued},
    {"setsid", "cfw", "", kSetsidLongs, {}},
    {"ionice", "t", "cn", {}, kIoniceValued},
    {"taskset", "ac", "", {}, {}, 1},
    {"time", "apqv", "fo", {}, {}},
};

constexpr std::string_view kShells[] = {"sh", "bash", "dash"};
// What a shell runs itself. Sources: POSIX 2.9 and 2.14, bash(1).
constexpr std::string_view kShellWords[] = {
    "!",       "case",     "do",     "done",    "elif",      "else",     "esac",    "fi",
    "for",     "function", "if",     "in",      "select",    "then",     "time",    "until",
    "while",   ".",        ":",      "[",       "alias",     "bg",       "bind",    "break",
    "builtin", "caller",   "cd",     "command", "compgen",   "complete", "compopt", "continue",
    "coproc",  "declare",  "dirs",   "disown",  "echo",      "enable",   "eval",    "exec",
    "exit",    "export",   "false",  "fc",      "fg",        "getopts",  "hash",    "help",
    "history", "jobs",     "kill",   "let",     "local",     "logout",   "mapfile", "popd",
    "printf",  "pushd",    "pwd",    "read",    "readarray", "readonly", "return",  "set",
    "shift",   "shopt",    "source", "suspend", "test",      "times",    "trap",    "true",
    "type",    "typeset",  "ulimit", "umask",   "unalias",   "unset",    "wait"};

// python(1): letters of options without a value, and of those with one.
constexpr std::string_view kPythonFlags = "bBdEIOPqRsSuv";
constexpr std::string_view kPythonValued = "WX";

std::string_view NameOf(std::string_view program) { return program.substr(program.rfind('/') + 1); }

bool IsKnown(std::string_view word) { return word.find(kUnknown) == word.npos; }

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// How many words the option takes; 0: it is not known.
size_t WordsOfOption(const Wrapper& wrapper, std::string_view option) {
  if (option.starts_with("--")) {
    const std::string_view name = option.substr(2, option.find('=') - 2);
    const bool has_value = name.size() + 2 < option.size();
    if (Has(wrapper.long_valued, name)) return has_value ? 1 : 2;
    return Has(wrapper.longs, name) && !has_value ? 1 : 0;
  }
  const bool is_number =
      std::ranges::all_of(option.substr(1), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (wrapper.name == "nice" && is_number) return 1;  // nice -5
  for (size_t at = 1; at < option.size(); ++at) {
    if (wrapper.valued.find(option[at]) != wrapper.valued.npos)
      return at + 1 == option.size() ? 2 : 1;
    if (wrapper.flags.find(option[at]) == wrapper.flags.npos) return 0;
  }
  return 1;
}

// Without a program of a known name nothing is to be said.
std::optional<InnerCommand> Checked(InnerCommand inner) {
  if (inner.words.empty() || inner.words[0].empty() || !IsKnown(inner.words[0]))
    return std::nullopt;
  const bool is_path_known = std::ranges::all_of(inner.set, [](const std::string& entry) {
    return IsKnown(entry) || !entry.starts_with("PATH=");
  });
  if (!is_path_known) return std::nullopt;
  return inner;
}

bool ClearsEnvironment(std::string_view option) {
  return option == "-" || option == "--ignore-environment" ||
         (!option.starts_with("--") && option.find('i') != option.npos &&
          option.find('u') == option.npos);
}

std::optional<InnerCommand> WithinWrapper(const Wrapper& wrapper, const Words& words) {
  InnerCommand inner;
  const bool is_env = wrapper.name == "env";
  size_t at = 1;
  while (at < words.size() && words[at].starts_with('-')) {
    const std::string& option = words[at];
    if (!IsKnown(option)) return std::nullopt;
    if (option == "--") {
      ++at;
      break;
    }
    const size_t count = is_env && option == "-" ? 1 : WordsOfOption(wrapper, option);
    if (count == 0 || at + count > words.size()) return std::nullopt;
    const bool takes_path = is_env && words[at + count - 1].ends_with("PATH");
    if (takes_path) return std::nullopt;  // -u PATH: what is looked through then is not known
    inner.clears_environment = inner.clears_environment || (is_env && ClearsEnvironment(option));
    at += count;
  }
  at += wrapper.words;
  while (is_env && at < words.size() && IsAssignment(words[at])) inner.set.push_back(words[at++]);
  if (at < words.size())
    inner.words.assign(words.begin() + static_cast<ptrdiff_t>(at), words.end());
  return Checked(std::move(inner));
}

// Parts the text of one simple command as POSIX 2.3 has it; what only the shell knows becomes kUnknown.
class ShellText {
 public:
  explicit ShellText(std::string_view text) : text_(text) {}

  // nullopt: it is more than a simple command.
  std::optional<Words> Parted() {
    for (; at_ < text_.size(); ++at_) {
      if (!Take(text_[at_])) return std::nullopt;
    }
    EndWord();
    return words_;
  }

  // Valid after Parted().
  [[nodiscard]] bool sets_input() const { return sets_input_; }

 private:
  // False: an operator, or a quote that does not end.
  bool Take(char c) {
    if (c == ' ' || c == '\t') return EndWord();
    if (c == '\n' || c == ';') return EndWord() && IsBlankFromHere();
    if (c == '\\') return TakeEscaped();
    if (c == '\'') return TakeQuoted();
    if (c == '"') return TakeDoublyQuoted();
    if (c == '<' || c == '>') return TakeRedirection();
    if (c == '&' && text_.substr(at_).starts_with("&>")) return ++at_, TakeRedirection();
    if ("&|()`"sv.find(c) != std::string_view::npos) return false;
    if (c == '#' && !in_word_) return false;
    Add("$*?[{~"sv.find(c) != std::string_view::npos ? kUnknown : c);
    return true;
  }

  void Add(char c) {
    word_ += c;
    in_word_ = true;
  }

  bool EndWord() {
    if (in_word_ && !std::exchange(is_target_, false)) words_.push_back(word_);
    word_.clear();
    in_word_ = false;
    return true;
  }

  [[nodiscard]] bool IsBlankFromHere() const {
    return text_.substr(at_ + 1).find_first_not_of(" \t\n") == text_.npos;
  }

  bool TakeEscaped() {
    if (++at_ == text_.size()) return false;
    if (text_[at_] != '\n') Add(text_[at_]);
    return true;
  }

  bool TakeQuoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == text_.npos) return false;
    word_ += text_.substr(at_ + 1, end - at_ - 1);
    in_word_ = true;
    at_ = end;
    return true;
  }

  bool TakeDoublyQuoted() {
    in_word_ = true;
    while (++at_ < text_.size() && text_[at_] != '"') {
      const bool escapes = text_[at_] == '\\' && at_ + 1 < text_.size() &&
                           "$`\"\\"sv.find(text_[at_ + 1]) != std::string_view::npos;
      if (text_[at_] == '`' || text_.substr(at_).starts_with("$(")) return false;
      word_ += escapes ? text_[++at_] : text_[at_] == '$' ? kUnknown : text_[at_];
    }
    return at_ < text_.size();
  }

  // "2>&1", ">>log", "<in": the next word is no argument. Not "<<".
  bool TakeRedirection() {
    const bool is_number =
        std::ranges::all_of(word_, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) {
      word_.clear();
      in_word_ = false;
    }
    EndWord();
    is_target_ = true;
    sets_input_ = sets_input_ || text_[at_] == '<';
    if (text_.substr(at_).starts_with("<<")) return false;
    while (at_ + 1 < text_.size() && "<>&|"sv.find(text_[at_ + 1]) != std::string_view::npos) ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  Words words_;
  std::string word_;
  bool in_word_ = false;
  bool is_target_ = false;
  bool sets_input_ = false;
};

// Options of a shell that are letters, -c among them. With those of the second it reads files of the user's first.
constexpr std::string_view kShellLetters = "ceuxo";
constexpr std::string_view kUsersShellLetters = "ceuxoli";
// Options in front of a script, which they leave one; o and O have a value.
constexpr std::string_view kScriptLetters = "abefhiklmpruvxoBCEHOPT";
constexpr std::string_view kShellLongs[] = {"--",     "--login", "--noprofile",
                                            "--norc", "--posix", "--verbose"};

// The text of -c, where all options are `known`.
const std::string* ScriptOf(const Words& words, std::string_view known) {
  for (size_t at = 1; at + 1 < words.size() && words[at].starts_with('-'); ++at) {
    const std::string_view letters = std::string_view(words[at]).substr(1);
    if (letters.find_first_not_of(known) != letters.npos) return nullptr;
    if (letters.find('o') != letters.npos && ++at + 1 >= words.size()) return nullptr;
    if (letters.find('c') != letters.npos) return &words[at + 1];
  }
  return nullptr;
}

std::optional<InnerCommand> WithinShell(const Words& words, std::string_view letters) {
  const std::string* script = ScriptOf(words, letters);
  if (script == nullptr || !IsKnown(*script)) return std::nullopt;
  ShellText text(*script);
  auto parted = text.Parted();
  if (!parted) return std::nullopt;
  InnerCommand inner;
  inner.sets_input = text.sets_input();
  inner.by_shell = true;
  auto word = parted->begin();
  while (word != parted->end() && IsAssignment(*word)) inner.set.push_back(std::move(*word++));
  if (word != parted->end() && *word == "exec") {
    ++word;
  } else if (word != parted->end() && Has(kShellWords, *word)) {
    return std::nullopt;
  }
  inner.words.assign(std::make_move_iterator(word), std::make_move_iterator(parted->end()));
  if (!inner.words.empty() && inner.words[0].starts_with('-')) return std::nullopt;
  return Checked(std::move(inner));
}

// Not python3-config, or a launcher of the user's that has a name like it.
bool IsPython(std::string_view program) {
  const std::string_view name = NameOf(program);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

constexpr std::string_view kInputPath = "/dev/stdin";
// Without a word more these run what they read, too.
constexpr std::string_view kReaders[] = {"zsh",  "ksh",     "mksh",     "fish", "csh",
                                         "tcsh", "ipython", "ipython3", "node", "julia",
                                         "lua",  "perl",    "ruby",     "php"};

// Where a script, "-", -c, -m or an option that is not known stands.
size_t AfterPythonOptions(const Words& words) {
  if (words.empty() || !IsPython(words[0])) return words.size();
  size_t at = 1;
  for (; at < words.size() && IsKnown(words[at]); ++at) {
    const std::string& word = words[at];
    const size_t flags = std::min(word.find_first_not_of(kPythonFlags, 1), word.size());
    if (!word.starts_with('-') || word == "-") break;
    if (flags == word.size()) continue;
    if (kPythonValued.find(word[flags]) == kPythonValued.npos) break;
    if (flags + 1 == word.size()) ++at;
  }
  return at;
}

bool PythonReadsInput(Words words) {
  constexpr std::string_view kInteractive = "bBdEIOPqRsSuvi";
  size_t at = AfterPythonOptions(words);
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-' &&
         words[at].find_first_not_of(kInteractive, 1) == std::string::npos) {
    words.erase(words.begin() + static_cast<ptrdiff_t>(at));
    at = AfterPythonOptions(words);
  }
  return at >= words.size() || words[at] == "-" || words[at] == kInputPath;
}

bool ShellReadsInput(const Words& words) {
  for (size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!word.starts_with('-') && !word.starts_with('+')) return word == kInputPath;
    if (word == "-" || Has(kShellLongs, word)) continue;
    const size_t odd = word.find_first_not_of(kScriptLetters, 1);
    if (odd != word.npos) return word[0] == '-' && word[odd] == 's';
    if (word.find_first_of("oO") != word.npos) ++at;
  }
  return true;
}

}  // namespace

bool IsShellWord(std::string_view word) { return Has(kShellWords, word); }

bool IsAssignment(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return name.size() < word.size() && !name.empty() &&
         std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; });
}

std::optional<InnerCommand> InnerOf(const Words& words) {
  if (words.empty() || !IsKnown(words[0])) return std::nullopt;
  const std::string_view name = NameOf(words[0]);
  if (Has(kShells, name)) return WithinShell(words, kShellLetters);
  const auto wrapper = std::ranges::find(kWrappers, name, &Wrapper::name);
  if (wrapper == std::end(kWrappers)) return std::nullopt;
  return WithinWrapper(*wrapper, words);
}

std::optional<InnerCommand> InnerOfUsersShell(const Words& words) {
  if (words.empty() || !IsKnown(words[0]) || !Has(kShells, NameOf(words[0]))) return std::nullopt;
  return WithinShell(words, kUsersShellLetters);
}

Words InnermostOf(Words words) {
  // Each time it becomes shorter.
  while (auto inner = InnerOf(words)) words = std::move(inner->words);
  return words;
}

std::string ReaderOfInput(Words words) {
  while (true) {
    auto inner = InnerOf(words);
    if (!inner) inner = InnerOfUsersShell(words);
    if (!inner) break;
    if (inner->sets_input) return {};
    words = std::move(inner->words);
  }
  if (words.empty() || !IsKnown(words[0])) return {};
  const std::string_view name = NameOf(words[0]);
  const bool reads = IsPython(name)       ? PythonReadsInput(words)
                     : Has(kShells, name) ? ShellReadsInput(words)
                                          : words.size() == 1 && Has(kReaders, name);
  return reads ? words[0] : "";
}

std::optional<std::string> PythonScriptOf(const Words& words) {
  const size_t at = AfterPythonOptions(words);
  if (at >= words.size() || !IsKnown(words[at]) || words[at].starts_with('-')) return std::nullopt;
  return words[at];
}

std::optional<std::string> OddPythonOptionOf(const Words& words) {
  const size_t at = AfterPythonOptions(words);
  if (at >= words.size() || !IsKnown(words[at]) || !words[at].starts_with('-')) return std::nullopt;
  const size_t flags = words[at].find_first_not_of(kPythonFlags, 1);
  const bool is_known =
      flags == words[at].npos || words[at][flags] == 'c' || words[at][flags] == 'm';
  return is_known ? std::nullopt : std::optional(words[at]);
}

std::optional<std::string> ShellScriptOf(const Words& words) {
  if (words.empty() || !Has(kShells, NameOf(words[0]))) return std::nullopt;
  for (size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!IsKnown(word)) return std::nullopt;
    if (!word.starts_with('-') && !word.starts_with('+')) return word;
    if (word.starts_with("--")) {
      if (!Has(kShellLongs, word)) return std::nullopt;
    } else if (word.size() == 1 || word.find_first_not_of(kScriptLetters, 1) != word.npos) {
      return std::nullopt;  // -c, -s, and what is not known
    } else if (word.find_first_of("oO") != word.npos) {
      ++at;
    }
  }
  return std::nullopt;
}

std::optional<PythonModule> PythonModuleOf(const Words& words) {
  if (words.empty() || !IsPython(words[0])) return std::nullopt;
  PythonModule found;
  for (size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!word.starts_with('-') || !IsKnown(word)) return std::nullopt;
    const size_t flags = std::min(word.find_first_not_of(kPythonFlags, 1), word.size());
    if (flags < word.size() && word[flags] == 'm') {
      if (flags > 1) found.options.push_back(word.substr(0, flags));
      found.name = flags + 1 < word.size() ? word.substr(flags + 1)
                   : at + 1 < words.size() ? words[at + 1]
                                           : "";
      found.package = found.name.substr(0, found.name.find('.'));
      const bool is_name = std::ranges::all_of(
          found.package, [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; });
      if (found.package.empty() || !is_name) return std::nullopt;
      return found;
    }
    if (word == "-" ||
        (flags < word.size() && kPythonValued.find(word[flags]) == kPythonValued.npos))
      return std::nullopt;
    found.options.push_back(word);
    const bool takes_next = flags + 1 == word.size();
    if (takes_next && ++at < words.size()) found.options.push_back(words[at]);
  }
  return std::nullopt;
}

}  // namespace tfdist

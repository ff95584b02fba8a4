#include "cli/deploy/workdir_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/inner_command.h"
#include "base/size_text.h"
#include "base/text.h"
#include "cli/deploy/credentials.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamed = 3;
constexpr uint64_t kSmallCaches = 1'000'000;  // bytes; smaller caches are sent without a warning
constexpr std::array<std::string_view, 8> kCaches = {
    "__pycache__",        ".mypy_cache",  ".pytest_cache", ".ruff_cache",
    ".ipynb_checkpoints", "node_modules", ".tox",          ".eggs"};
constexpr std::array<std::string_view, 6> kScriptEndings = {".py", ".sh", ".jl",
                                                            ".R",  ".pl", ".lua"};

// A word without open parts; nullptr: it has some, or is a path that only the host knows.
const std::string* Literal(const protocol::Text& text) {
  if (text.parts.size() != 1) return nullptr;
  const auto* literal = std::get_if<std::string>(&text.parts.front());
  const bool is_known = literal != nullptr && literal->find(kUnknown) == std::string::npos;
  return is_known ? literal : nullptr;
}

// Of "~/venv/bin/python" only the end is known here, which is a word that begins with kUnknown.
std::string WordOf(const protocol::Text& text) {
  if (const std::string* literal = Literal(text)) return *literal;
  const auto* end = text.parts.empty() ? nullptr : std::get_if<std::string>(&text.parts.back());
  return kUnknown + (end == nullptr ? "" : end->substr(std::min(end->size(), end->rfind('/'))));
}

std::vector<std::string> AllWordsOf(const TaskOnHost& task) {
  std::vector<std::string> words;
  for (const protocol::Text& text : task.argv) words.push_back(WordOf(text));
  return words;
}

// Of `nohup python3 train.py` and `bash -lc 'python3 train.py'`, what python3 gets as well.
std::vector<std::string> WordsOf(const TaskOnHost& task) {
  std::vector<std::string> words = InnermostOf(AllWordsOf(task));
  auto inner = InnerOfUsersShell(words);
  return inner ? InnermostOf(std::move(inner->words)) : words;
}

bool IsKnown(std::string_view word) { return word.find(kUnknown) == word.npos; }

bool IsScriptName(std::string_view word) {
  return !word.starts_with('-') && word.find_first_of(" \t\n;&|$*?'\"") == word.npos &&
         std::ranges::any_of(kScriptEndings, [&](auto ending) { return word.ends_with(ending); });
}

// It opens the first word that is no option, in the folder in which it starts.
bool IsInterpreter(std::string_view name) {
  constexpr std::array<std::string_view, 9> kOthers = {"sh",   "bash",  "dash",    "zsh", "ksh",
                                                       "perl", "julia", "Rscript", "lua"};
  return name.starts_with("python") || std::ranges::find(kOthers, name) != kOthers.end();
}

// "-c" and "-m", by themselves or among others ("-lc"): what follows is no file.
bool TakesNoFile(std::string_view option) {
  return !option.starts_with("--") && option.find_first_of("cme") != option.npos;
}

// Below the work folder, "" for itself; nullopt: only the host knows.
std::optional<fs::path> StartFolder(const TaskOnHost& task) {
  if (task.cwd.parts.empty()) return "";
  const std::string* cwd = Literal(task.cwd);
  if (cwd == nullptr || cwd->starts_with('/')) return std::nullopt;
  return (fs::path(*cwd) / "").lexically_normal().parent_path();
}

struct Script {
  std::string path;
  bool is_opened = false;  // by that name, whatever else the command does
};

// "train.py" of ["python3", "-u", "train.py", ...]; "./run" of ["./run", ...]. Only the first: a later one may be an
// argument that names what the program makes.
std::optional<Script> ScriptOf(const TaskOnHost& task) {
  const std::vector<std::string> words = WordsOf(task);
  if (words.empty()) return std::nullopt;
  const std::string& program = words.front();
  if (IsKnown(program) && program.find('/') != std::string::npos && !program.starts_with('/')) {
    return Script{program, true};
  }
  bool is_opened = IsInterpreter(program.substr(program.rfind('/') + 1));
  for (size_t at = 1; at < words.size(); ++at) {
    if (!IsKnown(words[at])) return std::nullopt;
    if (IsScriptName(words[at])) return Script{words[at], is_opened};
    is_opened = is_opened && words[at].starts_with('-') && !TakesNoFile(words[at]);
  }
  return std::nullopt;
}

// "tool/" of `python3 tool/`: what may be a folder.
std::optional<std::string> FolderThatPythonRuns(const TaskOnHost& task) {
  const std::vector<std::string> words = WordsOf(task);
  if (words.empty() || !words[0].substr(words[0].rfind('/') + 1).starts_with("python"))
    return std::nullopt;
  for (size_t at = 1; at < words.size(); ++at) {
    if (!IsKnown(words[at]) || (words[at].starts_with('-') && TakesNoFile(words[at])))
      return std::nullopt;
    if (!words[at].starts_with('-')) return words[at];
  }
  return std::nullopt;
}

// "package.train" of `python3 -m package.train`, `torchrun ... -m package.train` and `accelerate launch -m package.train`,
// where it is looked for in the folder in which the task starts.
std::optional<std::string> ModuleOf(const TaskOnHost& task) {
  constexpr std::array<std::string_view, 3> kLaunchers = {
      "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"};
  const std::vector<std::string> words = WordsOf(task);
  if (words.empty()) return std::nullopt;
  size_t at = 1;
  if (const auto module = PythonModuleOf(words)) {
    const bool is_isolated = std::ranges::any_of(module->options, [](const std::string& option) {
      return option.find_first_of("IP") != option.npos;
    });
    if (is_isolated) return std::nullopt;
    if (std::ranges::find(kLaunchers, module->name) == kLaunchers.end()) return module->name;
    while (words[at].find(module->name) == std::string::npos) ++at;
    ++at;
  } else {
    const std::string program = words[0].substr(words[0].rfind('/') + 1);
    if (program != "torchrun" && program != "accelerate") return std::nullopt;
  }
  for (; at + 1 < words.size() && IsKnown(words[at]) && !IsScriptName(words[at]); ++at) {
    if (words[at] == "-m" || words[at] == "--module") return words[at + 1];
  }
  return std::nullopt;
}

// Names, with a point between two.
bool IsModuleName(std::string_view name) {
  while (!name.empty()) {
    const std::string_view one = TakeUpTo('.', name);
    const bool is_name = std::ranges::all_of(
        one, [](unsigned char c) { return c == '_' || c >= 0x80 || std::isalnum(c) != 0; });
    if (one.empty() || !is_name) return false;
  }
  return true;
}

// Also where it leads to nothing.
bool LeadsOut(const fs::path& folder, const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(folder / path, error);
  if (error) return false;
  if (target.is_absolute()) return true;
  const fs::path inside = (fs::path(path).parent_path() / target).lexically_normal();
  return !inside.empty() && *inside.begin() == "..";
}

// "a/node_modules" of "a/node_modules/x/node_modules/y"; empty: it is in none.
std::string CacheAround(const std::string& path) {
  fs::path folder;
  for (const fs::path& part : fs::path(path).parent_path()) {
    folder /= part;
    if (std::ranges::find(kCaches, part.string()) != kCaches.end()) return folder.string();
  }
  return {};
}

class Look {
 public:
  Look(const Plan& plan, const WorkdirListing& listing) : plan_(plan), listing_(listing) {
    for (const WorkdirEntry& entry : listing.entries) sent_.insert(entry.path);
  }

  void AtStartFolders(std::vector<WorkdirWarning>& warnings) const {
    std::set<fs::path> seen;
    for (const TaskOnHost& task : plan_.tasks) {
      const auto folder = StartFolder(task);
      if (!folder || folder->empty() || !seen.insert(*folder).second) continue;
      const bool is_sent = std::ranges::any_of(listing_.entries, [&](const WorkdirEntry& entry) {
        return entry.path == *folder && (entry.is_folder() || entry.is_link());
      });
      if (is_sent || IsBehindLink(folder->string())) continue;
      warnings.push_back(
          {fmt::format("cwd: there is no folder {} in what is sent of the workdir {}",
                       folder->string(), plan_.workdir->string()),
           "a folder of the workdir, or an absolute path of the hosts", true});
    }
  }

  void AtScripts(std::vector<WorkdirWarning>& warnings) const {
    std::set<std::string> seen;
    for (const TaskOnHost& task : plan_.tasks) {
      const auto script = ScriptOf(task);
      const auto start = StartFolder(task);
      if (!script || !start) continue;
      const std::string path = (*start / script->path).lexically_normal().string();
      if (!seen.insert(path).second || sent_.contains(path)) continue;
      const bool is_below = !path.starts_with('/') && !path.starts_with("../");
      if (!is_below && !IsOfThisFolder(path)) continue;
      WorkdirWarning warning = is_below ? WarningOfScript(path) : WarningOfPath(path, *start);
      warning.is_certain = is_below && script->is_opened && !IsBehindLink(path);
      warning.is_of_script = !path.starts_with('/');  // else the hosts say whether they have it
      warnings.push_back(std::move(warning));
    }
  }

  // `python3 tool` runs tool/__main__.py.
  void AtFolders(std::vector<WorkdirWarning>& warnings) const {
    std::set<std::string> seen;
    for (const TaskOnHost& task : plan_.tasks) {
      const auto folder = FolderThatPythonRuns(task);
      const auto start = StartFolder(task);
      if (!folder || !start) continue;
      const std::string path = ((*start / *folder).lexically_normal() / "").parent_path().string();
      const bool is_folder = std::ranges::any_of(listing_.entries, [&](const WorkdirEntry& entry) {
        return entry.path == path && entry.is_folder();
      });
      const std::string main = (fs::path(path) / "__main__.py").lexically_normal().string();
      if (!seen.insert(path).second || sent_.contains(main)) continue;
      if (!is_folder && path != ".") continue;
      WorkdirWarning warning = WarningOfScript(main);
      std::error_code error;
      if (!fs::exists(*plan_.workdir / main, error))
        warning.remedy = "python3 runs a folder by its __main__.py: name the script itself";
      warning.is_certain = true;
      warning.is_of_script = true;
      warnings.push_back(std::move(warning));
    }
  }

  // A host may have it in its Python, which the host says: no warning here is certain.
  void AtModules(std::vector<WorkdirWarning>& warnings) const {
    std::set<std::string> seen;
    for (const TaskOnHost& task : plan_.tasks) {
      const auto module = ModuleOf(task);
      const auto start = StartFolder(task);
      if (!module || !start || !IsModuleName(*module)) continue;
      std::string path = *module;
      std::ranges::replace(path, '.', '/');
      path = (*start / path).lexically_normal().string();
      if (!seen.insert(path).second || path.starts_with("../") || IsBehindLink(path)) continue;
      if (auto warning = WarningOfModule(*module, path)) warnings.push_back(*std::move(warning));
    }
  }

  void AtLinks(std::vector<WorkdirWarning>& warnings) const {
    const std::vector<std::string> out = LinksOut(*plan_.workdir, listing_);
    if (out.empty()) return;
    const bool one = out.size() == 1;
    warnings.push_back({fmt::format("{} in the workdir {} out of it: {}; {}, and what {} to is not",
                                    one ? "a link" : "links", one ? "leads" : "lead", SomeOf(out),
                                    one ? "it is sent as a link" : "they are sent as links",
                                    one ? "it leads" : "they lead"),
                        "put the data on each host under that path, or copy it into the workdir"});
  }

  void AtVirtualEnvironments(std::vector<WorkdirWarning>& warnings) const {
    std::vector<std::string> found;
    for (const WorkdirEntry& entry : listing_.entries) {
      const fs::path path = entry.path;
      if (path.filename() != "pyvenv.cfg" || !path.has_parent_path()) continue;
      const std::string folder = path.parent_path().string();
      found.push_back(fmt::format("{} ({})", folder, SizeText(BytesBelow(folder))));
    }
    if (found.empty()) return;
    warnings.push_back(
        {fmt::format("the workdir holds {}, which cannot work at another path: {}",
                     found.size() == 1 ? "a virtual environment" : "virtual environments",
                     SomeOf(found)),
         "name it in .tfdistignore, and make one on each host"});
  }

  // Programs read them where they start: they are sent.
  void AtSettings(std::vector<WorkdirWarning>& warnings) const {
    for (const WorkdirEntry& entry : listing_.entries) {
      const std::string name = fs::path(entry.path).filename().string();
      if (!entry.is_file() || (name != ".env" && !name.starts_with(".env."))) continue;
      const std::vector<std::string> secrets = SecretsIn(*plan_.workdir / entry.path);
      if (secrets.empty()) continue;
      warnings.push_back(
          {fmt::format("{} is sent to each host, and sets {}", entry.path, SomeOf(secrets)),
           fmt::format("a line {} in .tfdistignore keeps it here; env_from in [task], or --env "
                       "NAME, gives tasks single variables",
                       entry.path)});
    }
  }

  // The largest first.
  void AtCaches(std::vector<WorkdirWarning>& warnings) const {
    std::map<std::string, uint64_t> caches;
    uint64_t bytes = 0;
    for (const WorkdirEntry& entry : listing_.entries) {
      const std::string cache = CacheAround(entry.path);
      if (cache.empty()) continue;
      caches[cache] += entry.size_bytes();
      bytes += entry.size_bytes();
    }
    if (bytes < kSmallCaches) return;
    std::vector<std::pair<std::string, uint64_t>> found(caches.begin(), caches.end());
    std::ranges::stable_sort(found, std::ranges::greater(), &decltype(found)::value_type::second);
    std::vector<std::string> named;
    for (const auto& [path, size] : found) {
      named.push_back(fmt::format("{} ({})", path, SizeText(size)));
    }
    warnings.push_back({fmt::format("the workdir holds {} of caches, which are sent: {}",
                                    SizeText(bytes), SomeOf(named)),
                        fmt::format("a line {}/ in .tfdistignore keeps them here",
                                    fs::path(found[0].first).filename().string())});
  }

 private:
  [[nodiscard]] WorkdirWarning WarningOfScript(const std::string& path) const {
    std::error_code error;
    if (IsInData(path)) {
      return {fmt::format("{} is sent as data, not with the workdir", path),
              "write {data:NAME} in its path"};
    }
    if (fs::exists(*plan_.workdir / path, error)) {
      return {fmt::format("{} stays on this machine: an ignore file names it", path),
              fmt::format("a line !{} in .tfdistignore sends it", path)};
    }
    return {fmt::format("there is no {} in the workdir {}", path, plan_.workdir->string()),
            "paths of a command count from the workdir, or from cwd"};
  }

  // `path`: of the module, without its ending.
  [[nodiscard]] std::optional<WorkdirWarning> WarningOfModule(const std::string& module,
                                                              const std::string& path) const {
    if (IsModuleSent(path)) return std::nullopt;
    for (const char* const ending : {".py", "/__main__.py"}) {
      std::error_code error;
      if (fs::exists(*plan_.workdir / (path + ending), error)) {
        return WarningOfScript(path + ending);
      }
    }
    // Python takes a package from the folder in which the task starts, before any other.
    const size_t last = path.rfind('/');
    const bool has_package = module.find('.') != module.npos && last != path.npos &&
                             sent_.contains(path.substr(0, last) + "/__init__.py");
    if (!has_package) return std::nullopt;
    return WorkdirWarning{
        fmt::format("there is no module {} in the workdir {}", module, plan_.workdir->string()),
        fmt::format("is the name right? {} is sent, without it", path.substr(0, last))};
  }

  // There, or somewhere else in what is sent: PYTHONPATH may lead to it.
  [[nodiscard]] bool IsModuleSent(const std::string& path) const {
    return std::ranges::any_of(sent_, [&](const std::string& sent) {
      const std::string rooted = "/" + sent;
      return rooted.find("/" + path + ".") != rooted.npos ||
             rooted.find("/" + path + "/__main__.") != rooted.npos;
    });
  }

  [[nodiscard]] bool IsInData(const std::string& path) const {
    return std::ranges::any_of(listing_.left_out, [&](const LeftOut& one) {
      const bool inside = path == one.path || path.starts_with(one.path + '/');
      return one.by == LeftOutBy::kData && inside;
    });
  }

  // A shell has completed it, say: the hosts may have something else there, or nothing.
  [[nodiscard]] bool IsOfThisFolder(const std::string& path) const {
    std::error_code error;
    if (path.starts_with("../")) return fs::exists(*plan_.workdir / path, error);
    return !BelowWorkdir(path).empty() && !std::ranges::all_of(plan_.hosts, &HostPlan::local);
  }

  // "train.py" of an absolute path, by whichever links it leads into the workdir; empty: it does not.
  [[nodiscard]] std::string BelowWorkdir(const fs::path& path) const {
    const auto real = [](const fs::path& folder) {
      std::error_code error;
      const fs::path found = fs::weakly_canonical(folder, error);
      return error ? folder : found;
    };
    const fs::path file = real(path.parent_path()) / path.filename();
    const std::string below = file.lexically_relative(real(*plan_.workdir)).string();
    return below.starts_with("..") ? "" : below;
  }

  [[nodiscard]] WorkdirWarning WarningOfPath(const std::string& path, const fs::path& start) const {
    return {fmt::format("{} is a path of this machine: a task starts in a copy of {}", path,
                        plan_.workdir->string()),
            path.starts_with('/')
                ? fmt::format(
                      "write {}",
                      (fs::path("/") / BelowWorkdir(path)).lexically_relative("/" / start).string())
                : "send the folder above as the workdir, with cwd for where the command starts"};
  }

  // What it leads to on the hosts is not known here.
  [[nodiscard]] bool IsBehindLink(const std::string& path) const {
    return std::ranges::any_of(listing_.entries, [&](const WorkdirEntry& entry) {
      return entry.is_link() && path.starts_with(entry.path + '/');
    });
  }

  [[nodiscard]] uint64_t BytesBelow(const std::string& folder) const {
    uint64_t bytes = 0;
    for (const WorkdirEntry& entry : listing_.entries) {
      if (entry.path.starts_with(folder + '/')) bytes += entry.size_bytes();
    }
    return bytes;
  }

  const Plan& plan_;
  const WorkdirListing& listing_;
  std::set<std::string> sent_;
};

}  // namespace

std::string SomeOf(const std::vector<std::string>& paths) {
  const auto shown = static_cast<ptrdiff_t>(std::min(paths.size(), kNamed));
  std::string text = fmt::format("{}", fmt::join(paths.begin(), paths.begin() + shown, ", "));
  if (paths.size() > kNamed) text += fmt::format(" and {} more", paths.size() - kNamed);
  return text;
}

std::vector<std::string> LinksOut(const fs::path& folder, const WorkdirListing& listing) {
  std::vector<std::string> out;
  for (const WorkdirEntry& entry : listing.entries) {
    if (entry.is_link() && LeadsOut(folder, entry.path)) out.push_back(entry.path);
  }
  return out;
}

namespace {

// In an empty folder, unless an image or an earlier command of the task fills it.
void WarnOfScriptsNotSent(const Plan& plan, std::vector<WorkdirWarning>& warnings) {
  std::set<std::string> seen;
  for (const TaskOnHost& task : plan.tasks) {
    const auto script = ScriptOf(task);
    const bool starts_in_empty = task.cwd.parts.empty() && !task.container;
    if (!script || !script->is_opened || !starts_in_empty || script->path.starts_with('/'))
      continue;
    if (!seen.insert(script->path).second) continue;
    warnings.push_back(
        {fmt::format("no workdir is sent: {} starts in an empty folder, where no {} is",
                     ToString(task.id), script->path),
         "workdir = \".\" in [task] (without a file: no --no-workdir) sends the folder; cwd = "
         "\"/PATH\" names one of the hosts",
         false, true});
  }
}

// The input of every task is empty.
void WarnOfEmptyInput(const Plan& plan, std::vector<WorkdirWarning>& warnings) {
  std::set<std::string> seen;
  for (const TaskOnHost& task : plan.tasks) {
    const std::string reader = ReaderOfInput(AllWordsOf(task));
    if (reader.empty() || !seen.insert(reader).second) continue;
    warnings.push_back(
        {fmt::format("{} runs {} without a script: it reads its standard input, which is empty for "
                     "a task, and ends at once",
                     ToString(task.id), reader),
         "name the script, as python3 train.py; tfdist shell is for commands that you type", false,
         true});
  }
}

}  // namespace

std::vector<WorkdirWarning> WarningsOfWorkdir(const Plan& plan, const WorkdirListing& listing) {
  std::vector<WorkdirWarning> warnings;
  WarnOfEmptyInput(plan, warnings);
  if (!plan.workdir) {
    WarnOfScriptsNotSent(plan, warnings);
    return warnings;
  }
  const Look look(plan, listing);
  look.AtStartFolders(warnings);
  look.AtScripts(warnings);
  look.AtFolders(warnings);
  look.AtModules(warnings);
  look.AtLinks(warnings);
  look.AtVirtualEnvironments(warnings);
  look.AtCaches(warnings);
  look.AtSettings(warnings);
  return warnings;
}

}  // namespace tfdist::cli

#include "cli/command_line/completion.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/failures.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {
namespace {

using Words = std::vector<std::string>;

// A colon, @ or = ends a word for bash: only what stands behind the last of them is replaced.
constexpr std::string_view kBash = R"sh(# tfdist completion bash: eval "$(tfdist completion bash)"
_tfdist() {
  local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n' words current before
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current=${words[${#words[@]} - 1]}
  before=${current%"${current##*[:@=]}"}
  IFS=$'\n'
  COMPREPLY=($(tfdist __complete "${words[@]:1}" 2>/dev/null | cut -f1))
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o default -F _tfdist tfdist
)sh";

constexpr std::string_view kZsh = R"sh(#compdef tfdist
# tfdist completion zsh: source <(tfdist completion zsh), once compinit has run
_tfdist() {
  local line
  local -a described
  for line in "${(@f)$(tfdist __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#described )); then _describe tfdist described; else _files; fi
}
compdef _tfdist tfdist
)sh";

constexpr std::string_view kFish = R"sh(# tfdist completion fish: tfdist completion fish | source
function __tfdist_complete
    set -l words (commandline -opc) (commandline -ct)
    tfdist __complete $words[2..-1] 2>/dev/null
end
complete -c tfdist -a '(__tfdist_complete)'
)sh";

const std::map<std::string_view, std::string_view>& Scripts() {
  static const std::map<std::string_view, std::string_view> scripts = {
      {"bash", kBash}, {"fish", kFish}, {"zsh", kZsh}};
  return scripts;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<Candidate> Commands(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    found.push_back({command->get_name(), FirstLine(command->get_description())});
  }
  found.push_back({"help", "help for a command"});
  return found;
}

std::vector<Candidate> Options(const CLI::App& command) {
  std::vector<Candidate> found;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // not for users
    for (const std::string& name : option->get_lnames()) {
      found.push_back({"--" + name, FirstLine(option->get_description())});
    }
  }
  return found;
}

// "--since ...": the shell itself completes files.
bool IsValueOfOption(const CLI::App& command, const Words& words) {
  const std::string& before = words[words.size() - 2];
  if (!before.starts_with('-') || before.find('=') != before.npos) return false;
  const CLI::Option* option = command.get_option_no_throw(before);
  return option != nullptr && option->get_items_expected_max() > 0;
}

bool TakesJob(const CLI::App& command) {
  const auto options = command.get_options();
  return std::ranges::any_of(options, [](const CLI::Option* option) {
    return option->get_positional() &&
           (option->get_name() == "JOB" || option->get_name() == "WORDS");
  });
}

// Names first: the newest job of one is meant. An id only where it tells jobs of one name apart, or was begun.
std::vector<Candidate> Jobs(const std::vector<JobRecord>& records, const std::string& begun) {
  std::vector<Candidate> found;
  std::map<std::string, int> count;
  for (const JobRecord& record : records) {
    if (++count[record.name] == 1) found.push_back({record.name, record.id});
  }
  for (const JobRecord& record : records) {
    if (count[record.name] == 1 && !begun.starts_with(record.name + "-")) continue;
    found.push_back({record.id, std::string(StateName(record.last_seen))});
  }
  return found;
}

// Those that the command has something to do with; all where there is none.
std::vector<JobRecord> JobsFor(const std::string& command) {
  static const std::set<std::string> kOfRunning = {"down", "exec", "restart", "shell"};
  const std::vector<JobRecord> all = LoadRecords();
  std::vector<JobRecord> fitting = all;
  if (kOfRunning.contains(command)) {
    std::erase_if(fitting, [](const JobRecord& record) { return record.last_seen.is_over(); });
  } else if (command == "prune") {
    std::erase_if(fitting, [](const JobRecord& record) { return !record.last_seen.is_over(); });
  }
  return fitting.empty() ? all : fitting;
}

std::vector<Candidate> TasksAndHosts(const JobRecord& record) {
  std::vector<Candidate> found;
  std::set<std::string> types;
  for (const JobRecord::Task& task : record.tasks) {
    const std::string& host = record.hosts.at(static_cast<size_t>(task.slot)).name;
    found.push_back({task.id, "task on " + host});
    types.insert(task.id.substr(0, task.id.find(':')));
  }
  for (const std::string& type : types) found.push_back({type, "all tasks of this type"});
  std::set<std::string> hosts;
  for (const HostPlan& host : record.hosts) {
    if (hosts.insert(host.name).second) found.push_back({"@" + host.name, "tasks on this host"});
  }
  return found;
}

// `words`: those behind the command.
std::vector<Candidate> JobWords(const std::string& command, const Words& words, bool with_tasks) {
  const std::vector<JobRecord> records = JobsFor(command);
  if (records.empty()) return {};
  std::vector<Candidate> found;
  if (words.size() == 1) found = Jobs(records, words[0]);
  if (!with_tasks) return found;
  const auto named = std::ranges::find_if(records, [&](const JobRecord& record) {
    return record.name == words[0] || record.id == words[0];
  });
  const auto tasks = TasksAndHosts(named == records.end() ? records.front() : *named);
  found.insert(found.end(), tasks.begin(), tasks.end());
  return found;
}

std::vector<Candidate> Unfiltered(const CLI::App& app, const Words& words) {
  if (words.size() < 2) return Commands(app);
  if (words[0] == "help") return Commands(app);
  const auto commands =
      app.get_subcommands([&](const CLI::App* known) { return known->get_name() == words[0]; });
  if (commands.empty()) return {};
  const CLI::App* command = commands.front();
  if (words.back().starts_with('-')) return Options(*command);
  if (IsValueOfOption(*command, words)) return {};
  std::vector<Candidate> found;
  if (words[0] == "completion") {
    for (const auto& [shell, script] : Scripts()) found.push_back({std::string(shell), ""});
  }
  if (!TakesJob(*command)) return found;
  Words rest;
  for (size_t at = 1; at < words.size(); ++at) {
    if (!words[at].starts_with('-')) rest.push_back(words[at]);
  }
  const bool with_tasks = words[0] != "prune" && command->get_option_no_throw("WORDS") != nullptr;
  return JobWords(words[0], rest, with_tasks);
}

}  // namespace

std::vector<Candidate> Candidates(const CLI::App& app, const Words& words) {
  std::vector<Candidate> found = Unfiltered(app, words);
  const std::string begin = words.empty() ? "" : words.back();
  std::erase_if(found, [&](const Candidate& c) { return !c.word.starts_with(begin); });
  return found;
}

std::string_view CompletionScript(std::string_view shell) {
  const auto found = Scripts().find(shell);
  if (found != Scripts().end()) return found->second;
  throw UsageError(Phase::kUsage, "there is completion for bash, zsh and fish",
                   "tfdist completion bash");
}

}  // namespace tfdist::cli

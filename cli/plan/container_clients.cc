#include "cli/plan/container_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::cli {
namespace {

using Words = std::vector<std::string_view>;

struct Client {
  std::string_view name;
  // What follows it where it begins something, perhaps after options; none: whatever follows.
  std::span<const std::string_view> verbs;
  std::string_view remedy;
  std::string_view shown_by;
  std::string_view worker = "a daemon";  // who does the work
  // One of these stands before the verb; none: it need not.
  std::span<const std::string_view> only_with = {};
  size_t least_words = 0;  // behind it that are no options
};

constexpr std::array<std::string_view, 8> kContainerVerbs = {
    "run", "create", "start", "restart", "compose", "exec", "up", "deploy"};
constexpr std::string_view kContainerRemedy =
    "the container must end with its client: run --init --rm, without -d";
constexpr std::array<std::string_view, 2> kTmuxVerbs = {"new", "new-session"};
constexpr std::array<std::string_view, 3> kScreenVerbs = {"-d", "-dm", "-dmS"};
constexpr std::array<std::string_view, 4> kKubectlVerbs = {"run", "apply", "create", "exec"};
constexpr std::array<std::string_view, 1> kInstanceVerbs = {"start"};  // instance start
constexpr std::array<std::string_view, 2> kSystemctlVerbs = {"start", "restart"};
constexpr std::array<std::string_view, 1> kRayVerbs = {"submit"};  // job submit
constexpr std::array<std::string_view, 4> kAtVerbs = {"-f", "-t", "now", "tomorrow"};
constexpr std::array<std::string_view, 5> kPodmanRemote = {"--remote", "-r", "--url",
                                                           "--connection", "-c"};
constexpr std::array<std::string_view, 3> kLxcVerbs = {"exec", "launch", "start"};
constexpr std::array<std::string_view, 2> kMachinectlVerbs = {"shell", "start"};
constexpr std::string_view kPodRemedy = "kubectl delete ends it";
constexpr std::string_view kHostRemedy = "make that machine a host of the job";
constexpr Client kClients[] = {
    {"docker", kContainerVerbs, kContainerRemedy, "docker ps"},
    {"docker-compose", {}, "in the foreground, without -d, it ends its containers", "docker ps"},
    {"nerdctl", kContainerVerbs, kContainerRemedy, "nerdctl ps"},
    {"podman-remote", kContainerVerbs, kContainerRemedy, "podman-remote ps"},
    {"podman", kContainerVerbs, kContainerRemedy, "podman --remote ps", "a daemon", kPodmanRemote},
    {"lxc", kLxcVerbs, "lxc stop ends it", "lxc list"},
    {"incus", kLxcVerbs, "incus stop ends it", "incus list"},
    {"machinectl", kMachinectlVerbs, "systemd-run --scope stays the task's own", "machinectl list"},
    {"ssh", {}, kHostRemedy, "ps", "another machine", {}, 2},
    {"pdsh", {}, kHostRemedy, "ps", "other machines", {}, 2},
    {"ctr", kContainerVerbs, "run --rm, without --detach", "ctr tasks ls"},
    {"systemd-run", {}, "with --scope it stays the task's own", "systemctl list-units 'run-*'"},
    {"systemctl", kSystemctlVerbs, "systemd-run --scope stays the task's own", "systemctl status"},
    {"tmux", kTmuxVerbs, "call what it runs without it", "tmux ls"},
    {"screen", kScreenVerbs, "with -Dm it stays the task's own", "screen -ls"},
    {"at", kAtVerbs, "call what it runs without it", "atq"},
    {"apptainer", kInstanceVerbs, "exec and run stay the task's own", "apptainer instance list"},
    {"singularity", kInstanceVerbs, "exec and run stay the task's own",
     "singularity instance list"},
    {"kubectl", kKubectlVerbs, kPodRemedy, "kubectl get pods", "a cluster"},
    {"oc", kKubectlVerbs, kPodRemedy, "oc get pods", "a cluster"},
    {"sbatch", {}, "scancel ends it", "squeue"},
    {"qsub", {}, "qdel ends it", "qstat"},
    {"bsub", {}, "bkill ends it", "bjobs"},
    {"batch", {}, "call what it runs without it", "atq"},
    {"srun", {}, "a killed srun leaves its steps: scancel ends them", "squeue"},
    {"ray", kRayVerbs, "ray job stop ends it", "ray job list"},
};
// "docker --context lab -H tcp://host run", "ray job submit": the verb is one of the first words that are no options nor follow
// one, or is an option.
constexpr int kMostWordsToTheVerb = 2;
constexpr size_t kLongestScriptBytes = size_t{256} * 1024;

// Of shell text: quotes and operators part words, as blanks do.
Words ShellWordsOf(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n'\"`;&|()<>{}$=,[]";
  Words words;
  while (true) {
    const size_t begin = text.find_first_not_of(kBetween);
    if (begin == text.npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kBetween), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

bool HasWords(std::span<const std::string_view> after, size_t least) {
  const auto is_word = [](std::string_view word) { return !word.starts_with('-'); };
  return static_cast<size_t>(std::ranges::count_if(after, is_word)) >= least;
}

bool IsOneOf(std::span<const std::string_view> options, std::string_view word) {
  return std::ranges::find(options, word.substr(0, word.find('='))) != options.end();
}

bool BeginsSomething(const Client& client, std::span<const std::string_view> after) {
  if (client.verbs.empty()) return HasWords(after, client.least_words);
  int words = 0;
  bool may_be_value = false;
  bool may_begin = client.only_with.empty();
  for (const std::string_view word : after) {
    may_begin = may_begin || IsOneOf(client.only_with, word);
    if (std::ranges::find(client.verbs, word) != client.verbs.end()) return may_begin;
    if (word.starts_with('-')) {
      may_be_value = true;
    } else if (!std::exchange(may_be_value, false) && ++words == kMostWordsToTheVerb) {
      break;
    }
  }
  return false;
}

const Client* ClientIn(const Words& words) {
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string_view name = words[at].substr(words[at].rfind('/') + 1);
    const auto client = std::ranges::find(kClients, name, &Client::name);
    if (client == std::end(kClients)) continue;
    // "--launcher ssh" only names it.
    const std::string_view before = at > 0 ? words[at - 1] : "";
    const bool is_named = before.starts_with('-') && !before.ends_with('c');  // not "-lc"
    if (client->least_words > 0 && is_named) continue;
    if (BeginsSomething(*client, std::span(words).subspan(at + 1))) return &*client;
  }
  return nullptr;
}

// Without comments: those tell of what is not run.
std::string ScriptText(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const auto content = ReadFileIfExists(path, kLongestScriptBytes);
  if (!content || content->find('\0') != std::string::npos) return {};
  std::string text;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const size_t first = line.find_first_not_of(" \t");
    if (first != line.npos && line[first] != '#') text.append(line).append("\n");
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return text;
}

std::string LiteralsOf(const protocol::Text& text) {
  std::string literals;
  for (const auto& part : text.parts) {
    const auto* literal = std::get_if<std::string>(&part);
    literals += literal == nullptr ? "_" : *literal;
  }
  return literals;
}

class Search {
 public:
  explicit Search(const Plan& plan) : plan_(plan) {}

  const Client* In(const TaskOnHost& task) {
    std::string command;
    for (const protocol::Text& text : task.argv) command += LiteralsOf(text) + ' ';
    if (const Client* client = ClientIn(ShellWordsOf(command))) return client;
    if (!plan_.workdir) return nullptr;
    for (const std::string_view word : ShellWordsOf(command)) {
      if (const Client* client = InScript(std::string(word))) return client;
    }
    return nullptr;
  }

 private:
  const Client* InScript(const std::string& word) {
    const auto [known, is_new] = scripts_.try_emplace(word, nullptr);
    if (is_new && !word.starts_with('/') && !word.starts_with('-')) {
      try {
        known->second = ClientIn(ShellWordsOf(ScriptText(*plan_.workdir / word)));
      } catch (const Error&) {
        return nullptr;  // who sends the file says what is wrong with it
      }
    }
    return known->second;
  }

  const Plan& plan_;
  std::map<std::string, const Client*> scripts_;  // by path in the workdir
};

std::vector<const Client*> ClientsOf(const Plan& plan) {
  Search search(plan);
  std::vector<const Client*> clients;
  for (const TaskOnHost& task : plan.tasks) {
    const Client* client = search.In(task);
    if (client != nullptr && std::ranges::find(clients, client) == clients.end()) {
      clients.push_back(client);
    }
  }
  return clients;
}

}  // namespace

std::vector<std::string> ContainerClientsOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const Client* client : ClientsOf(plan)) names.emplace_back(client->name);
  return names;
}

std::string UnseenWorkOf(std::string_view client) {
  // A record may name one that only another version of tfdist knew.
  const auto known = std::ranges::find(kClients, client, &Client::name);
  return fmt::format("what {} runs for the job's tasks belongs to {} and cannot be seen{}", client,
                     known == std::end(kClients) ? "a daemon" : known->worker,
                     known == std::end(kClients)
                         ? ""
                         : fmt::format(": {} on the hosts shows it", known->shown_by));
}

void WarnOfContainerClients(Plan& plan) {
  for (const Client* client : ClientsOf(plan)) {
    plan.warnings.push_back(
        fmt::format("a task runs {}, which hands its work to {}: `down` and restarts end the "
                    "client only; {}",
                    client->name, client->worker, client->remedy));
  }
}

}  // namespace tfdist::cli

#include "job/daemon_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

namespace tfdist::protocol {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 8> kContainerVerbs = {
    "run", "create", "start", "restart", "compose", "exec", "up", "deploy"};
constexpr std::string_view kContainerRemedy =
    "the container must end with its client: run --init --rm, without -d";
constexpr std::array<std::string_view, 17> kTmuxVerbs = {
    "new",      "new-session",    "neww", "new-window", "splitw",   "split-window",
    "send",     "send-keys",      "run",  "run-shell",  "respawnp", "respawn-pane",
    "respawnw", "respawn-window", "if",   "if-shell",   "pipe-pane"};
constexpr std::array<std::string_view, 4> kScreenVerbs = {"-d", "-dm", "-dmS", "-X"};
constexpr std::array<std::string_view, 2> kScreenEnds = {"quit", "kill"};  // -X quit
constexpr std::array<std::string_view, 12> kKubectlVerbs = {
    "run",   "apply",   "create", "exec",    "scale",     "set",
    "patch", "replace", "debug",  "rollout", "autoscale", "expose"};
constexpr std::array<std::string_view, 3> kHelmVerbs = {"install", "upgrade", "rollback"};
constexpr std::array<std::string_view, 4> kFluxVerbs = {"run", "submit", "batch", "alloc"};
constexpr std::array<std::string_view, 2> kCrontabLooks = {"-l", "-r"};
constexpr std::array<std::string_view, 1> kInstanceVerbs = {"start"};  // instance start
constexpr std::array<std::string_view, 6> kSystemctlVerbs = {
    "start", "restart", "try-restart", "reload-or-restart", "enable", "isolate"};
constexpr std::array<std::string_view, 3> kServiceVerbs = {"start", "restart", "reload"};
constexpr std::array<std::string_view, 1> kRayVerbs = {"submit"};  // job submit
constexpr std::array<std::string_view, 9> kAtVerbs = {
    "-f", "-t", "-m", "now", "today", "tomorrow", "midnight", "noon", "teatime"};
constexpr std::array<std::string_view, 5> kPodmanRemote = {"--remote", "-r", "--url",
                                                           "--connection", "-c"};
constexpr std::array<std::string_view, 3> kLxcVerbs = {"exec", "launch", "start"};
constexpr std::array<std::string_view, 2> kMachinectlVerbs = {"shell", "start"};
constexpr std::array<std::string_view, 1> kScope = {"--scope"};
constexpr std::string_view kPodRemedy = "kubectl delete ends it";
constexpr std::string_view kHostRemedy = "make that machine a host of the job";
constexpr DaemonClient kClients[] = {
    {"docker", kContainerVerbs, kContainerRemedy, "docker ps"},
    {"nvidia-docker", kContainerVerbs, kContainerRemedy, "docker ps"},
    {"podman-compose", {}, "in the foreground, without -d, it ends its containers", "podman ps"},
    {"docker-compose", {}, "in the foreground, without -d, it ends its containers", "docker ps"},
    {"nerdctl", kContainerVerbs, kContainerRemedy, "nerdctl ps"},
    {"podman-remote", kContainerVerbs, kContainerRemedy, "podman-remote ps"},
    {"podman", kContainerVerbs, kContainerRemedy, "podman --remote ps", "a daemon", kPodmanRemote},
    {"lxc", kLxcVerbs, "lxc stop ends it", "lxc list"},
    {"incus", kLxcVerbs, "incus stop ends it", "incus list"},
    {"machinectl", kMachinectlVerbs, "systemd-run --scope stays the task's own", "machinectl list"},
    {"ssh", {}, kHostRemedy, "ps", "another machine", {}, 2, true},
    {"rsh", {}, kHostRemedy, "ps", "another machine", {}, 2, true},
    {"pdsh", {}, kHostRemedy, "ps", "other machines", {}, 2, true},
    {"ctr", kContainerVerbs, "run --rm, without --detach", "ctr tasks ls"},
    {"systemd-run",
     {},
     "with --scope it stays the task's own",
     "systemctl list-units 'run-*'",
     "a daemon",
     {},
     0,
     false,
     kScope},
    {"systemctl", kSystemctlVerbs, "systemd-run --scope stays the task's own", "systemctl status"},
    {"service", kServiceVerbs, "systemd-run --scope stays the task's own", "service --status-all"},
    {"supervisorctl", kServiceVerbs, "call what it runs without it", "supervisorctl status"},
    {"tmux", kTmuxVerbs, "call what it runs without it", "tmux ls"},
    {"screen",
     kScreenVerbs,
     "with -Dm it stays the task's own",
     "screen -ls",
     "a daemon",
     {},
     0,
     false,
     kScreenEnds},
    {"at", kAtVerbs, "call what it runs without it", "atq"},
    {"crontab",
     {},
     "call what it runs without it",
     "crontab -l",
     "a daemon",
     {},
     0,
     false,
     kCrontabLooks},
    {"apptainer", kInstanceVerbs, "exec and run stay the task's own", "apptainer instance list"},
    {"singularity", kInstanceVerbs, "exec and run stay the task's own",
     "singularity instance list"},
    {"kubectl", kKubectlVerbs, kPodRemedy, "kubectl get pods", "a cluster"},
    {"oc", kKubectlVerbs, kPodRemedy, "oc get pods", "a cluster"},
    {"helm", kHelmVerbs, "helm uninstall ends it", "helm list", "a cluster"},
    {"sbatch", {}, "scancel ends it", "squeue"},
    {"salloc", {}, "a killed salloc leaves its allocation: scancel ends it", "squeue"},
    {"flux", kFluxVerbs, "flux cancel ends it", "flux jobs"},
    {"condor_submit", {}, "condor_rm ends it", "condor_q"},
    {"qsub", {}, "qdel ends it", "qstat"},
    {"bsub", {}, "bkill ends it", "bjobs"},
    {"batch", {}, "call what it runs without it", "atq"},
    {"srun", {}, "a killed srun leaves its steps: scancel ends them", "squeue"},
    {"ray", kRayVerbs, "ray job stop ends it", "ray job list"},
};
// "docker --context lab -H tcp://host run", "ray job submit": the verb is one of the first words that are no options nor follow
// one, or is an option.
constexpr int kMostWordsToTheVerb = 2;

bool HasWords(std::span<const std::string_view> after, size_t least) {
  const auto is_word = [](std::string_view word) { return !word.starts_with('-'); };
  return static_cast<size_t>(std::ranges::count_if(after, is_word)) >= least;
}

bool IsOneOf(std::span<const std::string_view> options, std::string_view word) {
  return std::ranges::find(options, word.substr(0, word.find('='))) != options.end();
}

// The verb among the words `after` the client's name: "run". "": the client needs no verb. nullopt: the command begins nothing.
std::optional<std::string_view> VerbOf(const DaemonClient& client, Words after) {
  const auto keeps = [&](std::string_view word) { return IsOneOf(client.never_with, word); };
  if (std::ranges::any_of(after, keeps)) return std::nullopt;
  if (client.verbs.empty()) {
    return HasWords(after, client.least_words) ? std::optional<std::string_view>("") : std::nullopt;
  }
  int words = 0;
  bool may_be_value = false;
  bool may_begin = client.only_with.empty();
  for (const std::string_view word : after) {
    may_begin = may_begin || IsOneOf(client.only_with, word);
    const bool is_time = client.name == "at" && !word.empty() &&
                         std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    if (is_time || IsOneOf(client.verbs, word))
      return may_begin ? std::optional(word) : std::nullopt;
    if (word.starts_with('-')) {
      may_be_value = true;
    } else if (!std::exchange(may_be_value, false) && ++words == kMostWordsToTheVerb) {
      break;
    }
  }
  return std::nullopt;
}

std::string_view FileNameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

const DaemonClient* FindDaemonClient(std::string_view name) {
  const auto* const known = std::ranges::find(kClients, name, &DaemonClient::name);
  return known == std::end(kClients) ? nullptr : known;
}

std::span<const DaemonClient> DaemonClients() { return kClients; }

const DaemonClient* DaemonClientIn(std::span<const std::string_view> words) {
  for (size_t at = 0; at < words.size(); ++at) {
    const DaemonClient* client = FindDaemonClient(FileNameOf(words[at]));
    if (client == nullptr) continue;
    // "--launcher ssh" only names it.
    const std::string_view before = at > 0 ? words[at - 1] : "";
    const bool is_named = before.starts_with('-') && !before.ends_with('c');  // not "-lc"
    if (client->least_words > 0 && is_named) continue;
    if (VerbOf(*client, words.subspan(at + 1))) return client;
  }
  return nullptr;
}

std::optional<DaemonCall> DaemonCallOf(std::span<const std::string_view> argv) {
  // docker-compose is a program of Python's. What a shell runs may be a wrapper that calls something else (podman-docker).
  const bool by_python = !argv.empty() && FileNameOf(argv[0]).starts_with("python");
  for (size_t at = 0; at < std::min<size_t>(argv.size(), by_python ? 2 : 1); ++at) {
    const DaemonClient* client = FindDaemonClient(FileNameOf(argv[at]));
    const auto verb = client ? VerbOf(*client, argv.subspan(at + 1)) : std::nullopt;
    if (!verb) continue;
    return DaemonCall{client, fmt::format("{}{}{}", client->name, verb->empty() ? "" : " ", *verb)};
  }
  return std::nullopt;
}

}  // namespace tfdist::protocol

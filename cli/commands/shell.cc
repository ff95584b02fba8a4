// `tfdist shell HOST|TASK`: hands the terminal over to ssh(1).

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/clock.h"
#include "base/descriptor_limit.h"
#include "base/failures.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/find/sites.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/slurm/srun_transport.h"
#include "cli/stream/host_fold.h"

namespace tfdist::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::chrono::seconds kShellLookLimit{30};

Site OnlySite(const Sites& sites) {
  if (sites.sites.size() == 1) return sites.sites[0];
  Words labels;
  for (const Site& site : sites.sites) labels.push_back(site.label());
  throw UsageError(Phase::kUsage, fmt::format("a shell is for one of them: {}", FoldHosts(labels)),
                   fmt::format("tfdist shell {}", labels[0]));
}

// The job's own agent knows the task's environment and folder. The look at its folder comes right before it runs.
std::string AgentOf(const Site& site, const SshOptions& ssh) {
  TimePoint deadline = SystemClock().Now() + kShellLookLimit;
  try {
    const auto transport = MakeTransport(site.host, ssh);
    auto shell = transport->OpenShell(deadline);
    std::string path =
        FindAgent(std::move(shell), site.base, site.job, site.slot, deadline, site.known);
    CheckRemoteDir(path);
    return path;
  } catch (Error& error) {
    error = error.WithHost(site.host.name);
    throw;
  }
}

Words SshWords(const Site& site, const SshOptions& ssh) {
  Words words = {"ssh", "-t"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  const auto port = site.host.ssh_port ? site.host.ssh_port : ssh.port;
  add("-F", ssh.config.string());
  add("-l", site.host.ssh_user.empty() ? ssh.user : site.host.ssh_user);
  add("-p", port ? std::to_string(*port) : "");
  add("-i", ssh.identity_file);
  add("-o", ssh.host_keys == "accept-new" ? "StrictHostKeyChecking=accept-new"
                                          : "StrictHostKeyChecking=yes");
  words.insert(words.end(), {"--", site.host.ssh});
  if (site.task.empty()) return words;
  // The account's own shell reads this, whichever it is: all have single quotes, and nothing in the
  // path needs more (CheckRemoteDir).
  words.push_back(
      fmt::format("{} in-task {}", ShellQuoted(AgentOf(site, ssh)), ShellQuoted(site.task)));
  return words;
}

Words LocalWords(const Site& site, const SshOptions& ssh) {
  if (!site.task.empty()) return {AgentOf(site, ssh), "in-task", site.task};
  const char* shell = std::getenv("SHELL");
  return {shell == nullptr || *shell == '\0' ? "/bin/sh" : shell};
}

// A step on a terminal. On the node its shell is the account's own.
Words SrunWords(const Site& site, const SshOptions& ssh) {
  Words words = {"--pty"};
  if (site.task.empty()) {
    words.insert(words.end(), {"/bin/sh", "-c", "cd; exec \"${SHELL:-/bin/sh}\" -l"});
  } else {
    words.insert(words.end(), {AgentOf(site, ssh), "in-task", site.task});
  }
  return InStep({site.host.slurm_job, site.host.ssh}, words);
}

[[noreturn]] void Become(Words words) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = InheritedDescriptorLimit();
  setrlimit(RLIMIT_NOFILE, &limit);
  (void)std::signal(SIGXFSZ, SIG_DFL);  // main.cc ignores it
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw Error(Phase::kExec, WithErrno(fmt::format("cannot run {}", words[0]), errno));
}

}  // namespace

int ShellCommand(const ShellArguments& arguments) {
  if (arguments.words.empty()) {
    throw UsageError(Phase::kUsage, "shell needs a host or a task",
                     "tfdist shell worker:0, or tfdist shell FILE gpu1");
  }
  const Sites sites = FindRunningSites(arguments.words);
  const Site site = OnlySite(sites);
  Words words = site.host.local                ? LocalWords(site, sites.ssh)
                : !site.host.slurm_job.empty() ? SrunWords(site, sites.ssh)
                                               : SshWords(site, sites.ssh);
  EndConnections();
  Become(std::move(words));
}

}  // namespace tfdist::cli

#include "cli/slurm/srun_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "base/error.h"
#include "base/failures.h"
#include "cli/channel/child_channel.h"
#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

// What the step runs. Slurm sends a signal of the whole job (scancel, its time limit, --signal) to this shell only, which hands it on:
// SIGTERM to the keeper, which ends the host's tasks, SIGUSR1 to the holders, which warn theirs. Processes of the step are known by a
// variable, as there may be cgroups or not.
constexpr const char* kStep = R"sh(mark=$SLURM_JOB_ID.$SLURM_STEP_ID.
marked() { how=$1; shift; grep "$how" -sF "TFDIST_SLURM_STEP=$mark" "$@" /dev/null; }
left() { left=$(marked -l /proc/[0-9]*/environ); [ -n "$left" ]; }
tell() {
  for process in $(marked -l /proc/[0-9]*/environ); do
    case $(tr '\0' ' ' <"${process%environ}cmdline") in
      "tfdist-agent $2 "*) process=${process#/proc/}; kill -s "$1" "${process%/*}" ;;
    esac
  done 2>/dev/null
}
trap 'tell TERM keeper' TERM
trap 'tell USR1 holder' USR1
trap : HUP INT USR2
cd 2>/dev/null
echo tfdist
TFDIST_SLURM_STEP=$mark /bin/sh
left || exit 0
echo "tfdist: stays" >&2
while left; do
  for process in $left; do
    while marked -q "$process"; do sleep 0.5 || sleep 1; done 2>/dev/null
  done
done)sh";
// What srun runs under on this machine. An srun that gets SIGTERM, as in a batch script at scancel, kills its step at once. A step whose
// srun has got SIGKILL goes on. So that is what it gets once its step stays without a connection. The process that watches over srun
// is its child, and goes first. A cluster that binds no CPUs says so at each step.
constexpr const char* kClient = R"sh(trap '' PIPE
exec 4>&1 >/dev/null
sh -c 'echo "$$" >&2; exec "$@"' sh "$@" 2>&1 >&4 4>&- | {
  exec 4>&-
  read -r srun
  while IFS= read -r line; do
    case $line in
      "tfdist: stays") read -r its </proc/"$srun"/task/"$srun"/children; kill -KILL $its "$srun" ;;
      "srun: cluster configuration lacks support for cpu binding") ;;
      *) printf '%s\n' "$line" >&2 ;;
    esac
  done
})sh";
constexpr std::string_view kBegun = "tfdist\n";

// But for what tells a run of a script from its others: tasks go by it.
bool DescribesAStep(std::string_view name) {
  if (name.starts_with("SLURM_ARRAY_") || name == "SLURM_RESTART_COUNT") return false;
  return (name.starts_with("SLURM_") && name != "SLURM_CONF") || name.starts_with("SLURMD_") ||
         name.starts_with("SRUN_");
}

bool HasEnded(std::string_view said) {
  for (const std::string_view word : {"Invalid job id", "has expired", "Job has finished",
                                      "already completing", "Job/step already"}) {
    if (said.find(word) != said.npos) return true;
  }
  return false;
}

[[noreturn]] void Fail(const SlurmNode& node, const std::string& said, bool is_late) {
  const std::string words = OnOneLine(said);
  if (HasEnded(said)) {
    throw AllocationEnded(
        Phase::kConnect, fmt::format("Slurm's job {} has ended: {}", node.job, words),
        "what the job wrote lies in the hosts' folders; a new allocation: salloc, sbatch");
  }
  const std::string what = is_late ? "srun has started no step so far" : "srun started no step";
  throw Unreachable(Phase::kConnect, words.empty() ? what : fmt::format("{}: {}", what, words),
                    fmt::format("see whether srun works: srun --overlap --jobid={} -w {} hostname",
                                node.job, node.name));
}

// Nothing else comes before we write.
void AwaitBegin(ByteChannel& channel, const SlurmNode& node, TimePoint deadline) {
  std::string begun;
  while (begun.find(kBegun) == begun.npos) {
    const auto result = channel.Read(begun, deadline);
    if (result != ByteChannel::ReadResult::kData) {
      Fail(node, channel.Stderr() + begun, result == ByteChannel::ReadResult::kTimeout);
    }
  }
}

}  // namespace

std::vector<std::string> InStep(const SlurmNode& node, const std::vector<std::string>& words) {
  std::vector<std::string> argv = {"env"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (DescribesAStep(name)) argv.insert(argv.end(), {"-u", std::string(name)});
  }
  argv.insert(argv.end(), {"srun", "--overlap", "--jobid=" + node.job, "--nodelist=" + node.name,
                           "--nodes=1", "--ntasks=1", "--chdir=/", "--cpu-bind=none", "--mpi=none",
                           "--propagate=NONE", "--job-name=tfdist", "--quiet"});
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

std::unique_ptr<ByteChannel> SrunTransport::OpenShell(TimePoint& deadline) {
  try {
    // Else Slurm keeps each line back until its end comes, and messages are no lines.
    std::vector<std::string> argv = {"/bin/sh", "-c", kClient, "sh"};
    const auto srun = InStep(node_, {"--unbuffered", "/bin/sh", "-c", kStep});
    argv.insert(argv.end(), srun.begin(), srun.end());
    auto channel = OpenChildChannel(argv);
    AwaitBegin(*channel, node_, deadline);
    return channel;
  } catch (Error& error) {
    error = error.WithHost(host_);
    throw;
  }
}

}  // namespace tfdist::cli

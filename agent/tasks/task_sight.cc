#include "agent/tasks/task_sight.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "agent/census/process_table.h"
#include "agent/census/tcp_table.h"
#include "agent/container/container_processes.h"
#include "agent/log/log_files.h"
#include "agent/tasks/gpu_use.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::TaskConnection;
using protocol::TaskLook;

constexpr std::chrono::milliseconds kCpuSpan{200};
constexpr std::chrono::milliseconds kUsageSpan{500};
constexpr std::chrono::seconds kGpuLimit{2};
constexpr std::chrono::seconds kStacksLimit{4};  // of all tasks together
constexpr size_t kMostTableBytes = 16 << 20;
constexpr size_t kMostStatmBytes = 256;
constexpr size_t kMostEnvironmentBytes = 1 << 20;
constexpr size_t kMostDescriptors = 65536;  // of one process
constexpr int64_t kMillisecond = 1'000'000;

std::string ReadProc(pid_t pid, const char* name, size_t limit_bytes) {
  try {
    return ReadFileIfExists(fmt::format("/proc/{}/{}", pid, name), limit_bytes).value_or("");
  } catch (const Error&) {  // it has ended, or is not ours to read
    return "";
  }
}

// Since the process was started; -1: it has ended.
int64_t AgeMs(pid_t pid) {
  const auto process = ReadProcess(pid);
  timespec now{};
  if (!process || process->ended() || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;
  const auto ticks = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const auto begun_ms = static_cast<int64_t>(process->id.start_time * 1000 / ticks);
  return std::max<int64_t>(now.tv_sec * 1000 + now.tv_nsec / kMillisecond - begun_ms, 0);
}

// Since the log's last change; by the wall clock, which the file system may not share. -1: there is
// no log yet.
int64_t LogAgeMs(const fs::path& folder) {
  try {
    const std::vector<uint64_t> files = ListLogFiles(folder);
    struct stat info {};
    if (files.empty() || stat(LogTextPath(folder, files.back()).c_str(), &info) != 0) return -1;
    const int64_t changed_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    return std::max<int64_t>(WallClockNanoseconds() - changed_ns, 0) / kMillisecond;
  } catch (const Error&) {
    return -1;
  }
}

// A task that has started again is not as silent as its log.
int64_t SilentMs(const TaskToSee& task) {
  const int64_t log = LogAgeMs(task.folder);
  const int64_t age = AgeMs(task.pid);
  return log < 0 || age < 0 ? std::max(log, age) : std::min(log, age);
}

// The task's own process, or its container's first, then what descends from it; empty: it has ended.
using Tree = std::vector<ProcessInfo>;

Tree TreeOf(const TaskToSee& task, const std::vector<ProcessInfo>& table) {
  const pid_t pid = task.pid;
  const auto own = ReadProcess(pid);
  if (pid <= 0 || !own || own->ended()) return {};
  // `pid` is the engine's client then, and its parent the holder.
  if (!task.container_run.empty()) {
    Tree inside = ProcessesInContainer(task.container_run, own->parent, table);
    if (!inside.empty()) return inside;
  }
  Tree tree = {*own};
  for (ProcessInfo& process : Descendants(pid, table)) {
    if (!process.ended()) tree.push_back(std::move(process));
  }
  return tree;
}

uint64_t CpuTicks(const Tree& tree) {
  uint64_t ticks = 0;
  for (const ProcessInfo& process : tree) {
    if (const auto now = ReadProcess(process.id.pid); now && now->id == process.id) {
      ticks += now->cpu_ticks;
    }
  }
  return ticks;
}

// /proc/PID/statm, proc(5): the second number, in pages.
uint64_t ResidentBytes(const Tree& tree) {
  uint64_t pages = 0;
  for (const ProcessInfo& process : tree) {
    const std::string text = ReadProc(process.id.pid, "statm", kMostStatmBytes);
    std::string_view rest = text;
    (void)TakeUpTo(' ', rest);
    const std::string_view resident = TakeUpTo(' ', rest);
    uint64_t own = 0;
    std::from_chars(resident.data(), resident.data() + resident.size(), own);
    pages += own;
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::vector<pid_t> PidsOf(const Tree& tree) {
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : tree) pids.push_back(process.id.pid);
  return pids;
}

std::set<uint64_t> SocketsOf(const Tree& tree) {
  std::set<uint64_t> inodes;
  for (const ProcessInfo& process : tree) {
    std::error_code error;
    fs::directory_iterator entry(fmt::format("/proc/{}/fd", process.id.pid), error);
    for (size_t seen = 0; !error && entry != fs::directory_iterator() && seen < kMostDescriptors;
         entry.increment(error), ++seen) {
      std::error_code unreadable;
      std::string target = fs::read_symlink(entry->path(), unreadable).string();
      constexpr std::string_view kSocket = "socket:[";
      if (unreadable || !target.starts_with(kSocket)) continue;
      uint64_t inode = 0;
      std::from_chars(target.data() + kSocket.size(), target.data() + target.size(), inode);
      inodes.insert(inode);
    }
  }
  return inodes;
}

// The kernel's tables of sockets, which may be long: each network namespace's is read once in a look.
class TcpTables {
 public:
  const std::vector<TcpSocket>& Of(pid_t pid) {
    std::error_code error;
    std::string network = fs::read_symlink(fmt::format("/proc/{}/ns/net", pid), error).string();
    if (error) network = std::to_string(pid);
    const auto [table, is_new] = tables_.try_emplace(std::move(network));
    if (!is_new) return table->second;
    for (const char* file : {"net/tcp", "net/tcp6"}) {
      for (TcpSocket& socket : ParseTcpTable(ReadProc(pid, file, kMostTableBytes))) {
        table->second.push_back(std::move(socket));
      }
    }
    return table->second;
  }

 private:
  std::map<std::string, std::vector<TcpSocket>> tables_;
};

void LookAtSockets(const Tree& tree, TcpTables& tables, TaskLook& look) {
  const std::set<uint64_t> own = SocketsOf(tree);
  std::set<int> listens;
  for (const TcpSocket& socket : tables.Of(tree.front().id.pid)) {
    if (!own.contains(socket.inode)) continue;
    if (socket.listens()) listens.insert(socket.local_port);
    if (!socket.established() && !socket.connecting()) continue;
    look.connections.push_back(
        {socket.local, socket.remote, socket.connecting(), socket.unread_bytes});
  }
  look.listens.assign(listens.begin(), listens.end());
  std::stable_partition(look.connections.begin(), look.connections.end(),
                        [](const TaskConnection& connection) { return connection.half_open; });
}

// Of the task, which may have py-spy in its own environment.
std::optional<std::string> FindPySpy(pid_t pid) {
  const std::string environment = ReadProc(pid, "environ", kMostEnvironmentBytes);
  std::string_view rest = environment;
  while (!rest.empty()) {
    std::string_view variable = TakeUpTo('\0', rest);
    if (!variable.starts_with("PATH=")) continue;
    variable.remove_prefix(5);
    while (!variable.empty()) {
      const std::string program = std::string(TakeUpTo(':', variable)) + "/py-spy";
      if (program.front() == '/' && access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return std::nullopt;
}

// Without stopping the process. Empty where py-spy is not there, or may not look.
std::string StackOf(pid_t pid, TimePoint deadline) {
  const auto program = FindPySpy(pid);
  if (!program || SystemClock().Now() >= deadline) return "";
  try {
    ProgramResult result =
        RunProgram({.argv = {*program, "dump", "--nonblocking", "--pid", std::to_string(pid)},
                    .output_limit_bytes = protocol::kMostStackBytes},
                   deadline);
    return result.exit_code == 0 ? result.output : "";
  } catch (const Error&) {
    return "";
  }
}

// A process in uninterruptible sleep may hold what reading its environment waits for. What another
// account, to which a task of root has changed, says of its PATH is not run.
void LookAtStack(const Tree& tree, TimePoint deadline, TaskLook& look) {
  for (const ProcessInfo& process : tree) {
    if (process.state == 'D' || !process.comm.starts_with("python")) continue;
    if (!IsOfThisAccount(process.id.pid)) continue;
    look.stack = StackOf(process.id.pid, deadline);
    return;
  }
}

void LookDeep(const std::vector<TaskToSee>& tasks, const protocol::LookRequest& request,
              std::vector<TaskLook>& looks) {
  const std::vector<ProcessInfo> table = ReadProcessTable();
  std::vector<Tree> trees;
  std::vector<uint64_t> before;
  const TimePoint begin = SystemClock().Now();
  for (const TaskToSee& task : tasks) {
    trees.push_back(TreeOf(task, table));
    before.push_back(CpuTicks(trees.back()));
  }
  std::future<GpuUses> gpus;
  if (request.usage) {
    gpus = std::async(std::launch::async, [begin] { return AskGpuUses(begin + kGpuLimit); });
  }
  const auto sample = request.usage ? kUsageSpan : kCpuSpan;
  const timespec span{0, std::chrono::nanoseconds(sample).count()};
  nanosleep(&span, nullptr);
  TcpTables tables;
  for (size_t at = 0; at < tasks.size(); ++at) {
    const Tree& tree = trees[at];
    if (tree.empty()) continue;
    const double seconds = std::chrono::duration<double>(SystemClock().Now() - begin).count();
    const uint64_t after = CpuTicks(tree);  // less than before, where a process has ended
    const auto ticks = static_cast<double>(after - std::min(after, before[at]));
    looks[at].cpu_percent = 100 * ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds;
    looks[at].state = std::string(1, tree.front().state);
    looks[at].processes = static_cast<int>(tree.size());
    if (request.usage) looks[at].memory_bytes = ResidentBytes(tree);
    if (request.deep) LookAtSockets(tree, tables, looks[at]);
  }
  const GpuUses uses = request.usage ? gpus.get() : GpuUses();
  for (size_t at = 0; at < tasks.size(); ++at) looks[at].gpus = UsedBy(PidsOf(trees[at]), uses);
  const TimePoint deadline = SystemClock().Now() + kStacksLimit;
  for (size_t at = 0; request.stacks && at < tasks.size(); ++at)
    LookAtStack(trees[at], deadline, looks[at]);
}

}  // namespace

std::vector<TaskLook> LookAtTasks(const std::vector<TaskToSee>& tasks,
                                  const protocol::LookRequest& request) {
  std::vector<TaskLook> looks;
  for (const TaskToSee& task : tasks) {
    TaskLook look;
    look.task = task.task;
    look.ports = task.ports;
    look.silent_ms = SilentMs(task);
    looks.push_back(std::move(look));
  }
  if (request.deep || request.usage) LookDeep(tasks, request, looks);
  return looks;
}

}  // namespace tfdist::agent

#include "agent/census/census.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <unordered_set>

#include "agent/census/kill.h"
#include "agent/census/left_file.h"
#include "base/error.h"
#include "base/file.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

// Linux lets an environment grow to a quarter of the stack's limit; this is far above.
constexpr size_t kEnvironLimitBytes = 64 << 20;
constexpr std::chrono::milliseconds kPassInterval{20};

// By the name that it gives itself (prctl(2), PR_SET_NAME), or, just after its exec, its file's.
bool IsOwn(const ProcessInfo& process) {
  return IsOfThisAccount(process.id.pid) &&
         (process.comm.starts_with("tfdist-") ||
          ExecutableOf(process.id.pid).filename() == layout::kAgent);
}

class Finder {
 public:
  Finder(const Marks& marks, const std::vector<pid_t>& exclude)
      : table_(ReadProcessTable()), excluded_(exclude.begin(), exclude.end()) {
    excluded_.insert(getpid());
    for (const ProcessInfo& process : table_) {
      if (!excluded_.contains(process.id.pid) && HasMark(process, marks)) {
        found_.insert(process.id.pid);
      }
    }
  }

  std::vector<ProcessInfo> Find() {
    while (AddRelatives()) continue;
    std::vector<ProcessInfo> processes;
    for (const ProcessInfo& process : table_) {
      if (found_.contains(process.id.pid) && !process.ended()) processes.push_back(process);
    }
    return processes;
  }

 private:
  [[nodiscard]] bool HasMark(const ProcessInfo& process, const Marks& marks) const {
    if (std::ranges::find(marks.noted, process.id) != marks.noted.end()) return true;
    return CookieOfProcess(process.id.pid) == marks.cookie &&
           !(marks.is_foreign && marks.is_foreign(process, table_));
  }

  // One generation more; false when there is none. A session counts only by its leader: a process
  // that was given the cookie by hand must not condemn the login session that it runs in.
  bool AddRelatives() {
    const size_t before = found_.size();
    for (const ProcessInfo& process : table_) {
      if (excluded_.contains(process.id.pid)) continue;
      if (found_.contains(process.parent) || found_.contains(process.session)) {
        found_.insert(process.id.pid);
      }
    }
    return found_.size() > before;
  }

  std::vector<ProcessInfo> table_;
  std::unordered_set<pid_t> excluded_;
  std::unordered_set<pid_t> found_;
};

std::vector<ProcessInfo> StillRunning(std::vector<ProcessInfo> processes) {
  std::erase_if(processes, [](const ProcessInfo& process) { return !IsRunning(process.id); });
  return processes;
}

bool MayBeSignalled(const ProcessInfo& process) {
  return kill(process.id.pid, 0) == 0 || errno != EPERM;
}

std::string WhyLeft(const ProcessInfo& process) {
  if (!MayBeSignalled(process)) {
    return fmt::format("{}: runs as another account, and this account may not end it",
                       Describe(process));
  }
  const auto now = ReadProcess(process.id.pid);
  return fmt::format("{}: cannot be killed (state {})", Describe(process),
                     now ? now->state : process.state);
}

// The file of those that an earlier census left, and that this one leaves: a help to end them, and
// a condition for saying that nothing is left.
class LeftFile {
 public:
  explicit LeftFile(const std::filesystem::path& path) : path_(path) {}

  std::vector<ProcessInfo> Read() {
    try {
      return ReadLeft(path_);
    } catch (const Error& e) {
      problem_ = fmt::format("{} (what an earlier census left there is unknown)", e.cause());
      return {};
    }
  }
  // What could not be read stays as it is: the only note of what it names.
  void Write(const std::vector<ProcessInfo>& running) {
    if (problem_) return;
    try {
      WriteLeft(path_, running);
    } catch (const Error& e) {
      problem_ = fmt::format("{} (the next census may not find what is left)", e.cause());
    }
  }
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }

 private:
  const std::filesystem::path& path_;
  std::optional<std::string> problem_;
};

std::optional<std::string> Checked(std::string_view cookie) {
  return layout::ParseSlotPath(cookie) ? std::optional<std::string>(cookie) : std::nullopt;
}

// Processes that are not our children cannot be waited for, and Linux 4.18 has no pidfd: one looks
// again.
void Pause() { poll(nullptr, 0, static_cast<int>(kPassInterval.count())); }

}  // namespace

std::string CookieValue(std::string_view job, int slot) { return layout::SlotPath(job, slot); }

std::optional<std::string> CookieIn(std::string_view environ_bytes) {
  const std::string name = fmt::format("{}=", kCookieName);
  while (!environ_bytes.empty()) {
    const size_t end = std::min(environ_bytes.find('\0'), environ_bytes.size());
    const std::string_view entry = environ_bytes.substr(0, end);
    if (entry.starts_with(name)) return Checked(entry.substr(name.size()));
    environ_bytes.remove_prefix(std::min(end + 1, environ_bytes.size()));
  }
  return std::nullopt;
}

std::optional<std::string> CookieOfProcess(pid_t pid) {
  // First: what a page of another account's environment comes from may keep its reader waiting.
  if (!IsOfThisAccount(pid)) return std::nullopt;
  try {
    const auto path = fmt::format("/proc/{}/environ", pid);
    return CookieIn(ReadFileIfExists(path, kEnvironLimitBytes).value_or(""));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<ProcessInfo> FindProcesses(const Marks& marks, const std::vector<pid_t>& exclude) {
  return Finder(marks, exclude).Find();
}

std::vector<FoundCookie> FindCookies() {
  std::map<std::string, bool> owned;
  for (const ProcessInfo& process : ReadProcessTable()) {
    if (process.ended() || process.id.pid == getpid()) continue;
    if (const auto cookie = CookieOfProcess(process.id.pid)) owned[*cookie] |= IsOwn(process);
  }
  std::vector<FoundCookie> cookies;
  for (const auto& [value, is_owned] : owned) cookies.push_back({value, is_owned});
  return cookies;
}

std::vector<std::string> CookiesWithoutOwner() {
  std::vector<std::string> cookies;
  for (const FoundCookie& cookie : FindCookies()) {
    if (!cookie.owned) cookies.push_back(cookie.value);
  }
  return cookies;
}

protocol::Census EndProcesses(const Marks& marks, const std::vector<pid_t>& exclude,
                              const std::filesystem::path& left_file, TimePoint deadline) {
  const SystemClock clock;
  LeftFile left(left_file);
  std::vector<ProcessInfo> seen = left.Read();
  std::vector<ProcessInfo> running;
  // A process that is between two programs (execve) shows no environment for a moment: it is not
  // overlooked twice. One that was found counts for as long as it runs: with its parent and its
  // memory gone, nothing else shows that it is the job's.
  int vain_passes = 0;
  for (int empty_passes = 0; empty_passes < 2 && vain_passes < 2;) {
    for (const ProcessInfo& process : FindProcesses(marks, exclude)) {
      if (!Contains(seen, process.id)) seen.push_back(process);
    }
    running = StillRunning(seen);
    for (const ProcessInfo& process : running) SignalProcess(process.id, SIGKILL);
    empty_passes = running.empty() ? empty_passes + 1 : 0;
    const bool is_vain = !running.empty() && std::ranges::none_of(running, MayBeSignalled);
    vain_passes = is_vain ? vain_passes + 1 : 0;
    if (clock.Now() >= deadline) break;
    Pause();
  }
  running = StillRunning(running);
  left.Write(running);
  protocol::Census census;
  for (const ProcessInfo& process : seen) {
    const bool is_left = Contains(running, process.id);
    (is_left ? census.left : census.killed)
        .push_back(is_left ? WhyLeft(process) : Describe(process));
  }
  if (left.problem()) census.left.push_back(*left.problem());
  return census;
}

}  // namespace tfdist::agent

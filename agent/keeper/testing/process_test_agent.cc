// Stands in for the agent's executable in tests of keeper and holder: the real roles `keeper` and
// `holder`, an agent that does what a test writes into a FIFO, and tasks that do what tasks should
// not.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "agent/holder/holder.h"
#include "agent/keeper/keeper.h"
#include "agent/keeper/keeper_link.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

using Arguments = std::vector<std::string>;

constexpr int kNicest = 19;

// --- the agent ---

void AppendLine(const std::filesystem::path& path, const std::string& line) {
  const UniqueFd fd = OpenFile(path, O_WRONLY | O_APPEND | O_CREAT);
  WriteAll(fd.get(), line + "\n", path.string());
}

void Obey(KeeperLink& link, const std::string& order) {
  std::istringstream words(order);
  std::string verb;
  std::string first;
  std::string second;
  words >> verb >> first >> second;
  bool taken = true;
  if (verb == "start") taken = link.StartHolder(first, second);
  if (verb == "stop") taken = link.StopHolder(first, second);
  if (verb == "kill") taken = link.KillHolder(first, second);
  if (verb == "warn") taken = link.WarnHolder(first, second);
  if (verb == "quit") taken = link.Quit(std::chrono::milliseconds(std::stoi(first)));
  if (verb == "exit") exit(std::stoi(first));
  if (!taken) Log("the keeper did not take '{}'", order);
}

std::string NoteLine(const Note& note) {
  return std::to_string(static_cast<int>(note.kind)) + " " + std::to_string(note.value) + " " +
         note.task + " " + note.run;
}

int AgentMain(const Arguments& arguments) {
  SetLogName("test agent");
  KeeperLink link(arguments);
  const std::filesystem::path folder = link.handover().slot_folder;
  const UniqueFd orders = OpenFile(folder / "orders", O_RDWR | O_NONBLOCK);
  std::ostringstream birth;
  birth << getpid() << " " << link.handover().agent_restarts << " " << link.handover().keeper_lost
        << " " << (fcntl(link.listener_fd(), F_GETFD) >= 0) << " "
        << (fcntl(link.name_lock_fd(), F_GETFD) >= 0);
  AppendLine(folder / "agents", birth.str());
  while (true) {
    pollfd fds[] = {
        {orders.get(), POLLIN, 0}, {link.notes_fd(), POLLIN, 0}, {link.keeper_fd(), POLLIN, 0}};
    poll(fds, 3, -1);
    if (link.KeeperGone()) link.BecomeKeeper();
    for (const Note& note : link.ReadNotes()) AppendLine(folder / "notes", NoteLine(note));
    char buffer[65536];
    const ssize_t got = read(orders.get(), buffer, sizeof buffer);
    std::istringstream lines(std::string(buffer, got > 0 ? static_cast<size_t>(got) : 0));
    for (std::string line; std::getline(lines, line);) {
      Obey(link, line);
      AppendLine(folder / "obeyed", line);
    }
  }
}

// --- tasks ---

// Everything that it was given, NUL-terminated each.
int ShowMain(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) std::cout << argv[i] << '\0';
  for (char** entry = environ; *entry != nullptr; ++entry) std::cout << *entry << '\0';
  return 0;
}

int DescriptorsMain() {
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(folder)) std::cout << fd << "\n";
  }
  closedir(folder);
  return 0;
}

// Leaves a process that shares neither session, nor environment, nor pipes with the task.
void LeaveDaemon() {
  int started[2];
  if (pipe2(started, O_CLOEXEC) != 0) exit(1);
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    setsid();
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    const char* const argv[] = {"innocent", "sleep", nullptr};
    const char* const env[] = {nullptr};
    execve("/proc/self/exe", const_cast<char**>(argv), const_cast<char**>(env));
  }
  close(started[1]);
  char byte = 0;
  [[maybe_unused]] const ssize_t end = read(started[0], &byte, 1);  // until the daemon has executed
}

// A chain of processes, each forking the next and ending at once; it ends by itself some time.
int CometMain() {
  for (int generation = 0; generation < 100'000; ++generation) {
    if (fork() != 0) _exit(0);
  }
  return 0;
}

// As many processes as there may be, each forking as often as it can. In the cgroup that `procs` is of, and nice to the tests
// beside it.
int BombMain(const std::filesystem::path& procs) {
  setpriority(PRIO_PROCESS, 0, kNicest);
  WriteAll(OpenFile(procs, O_WRONLY).get(), "0", procs.string());
  while (true) {
    if (fork() < 0) sched_yield();
  }
}

int SleepForEver() {
  while (true) pause();
}

int TaskMain(const std::string& what, int argc, char** argv) {
  if (what == "show") return ShowMain(argc, argv);
  if (what == "descriptors") return DescriptorsMain();
  if (what == "sleep") return SleepForEver();
  if (what == "comet") return CometMain();
  if (what == "bomb" && argc > 2) return BombMain(argv[2]);
  if (what == "daemon-and-end") {
    LeaveDaemon();
    return 0;
  }
  if (what == "daemon-and-sleep") {
    LeaveDaemon();
    std::cout << "left a daemon" << std::endl;
    return SleepForEver();
  }
  return 99;
}

int Main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const Arguments arguments(argv + std::min(argc, 2), argv + argc);
  if (role == "keeper") return KeeperMain(arguments);
  if (role == "holder") return HolderMain(arguments);
  if (role == "agent") return AgentMain(arguments);
  return TaskMain(role, argc, argv);
}

}  // namespace
}  // namespace tfdist::agent

int main(int argc, char** argv) {
  try {
    return tfdist::agent::Main(argc, argv);
  } catch (const tfdist::Error& error) {
    tfdist::Log("{}", error.what());
    return 1;
  }
}

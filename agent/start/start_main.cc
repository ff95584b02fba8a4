#include "agent/start/start_main.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/check/serve_check.h"
#include "agent/cleanup/house.h"
#include "agent/cleanup/retention.h"
#include "agent/files/file_store.h"
#include "agent/process/handover.h"
#include "agent/start/create_slot.h"
#include "agent/start/other_jobs.h"
#include "agent/start/run_from_memory.h"
#include "agent/stdio/bridge.h"
#include "agent/stdio/stdio_messages.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "job/layout.h"
#include "wire/host_check.h"
#include "wire/house.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

// As the role `attach`: the CLI pings.
constexpr std::chrono::seconds kIdleLimit{30};
// The CLI waits for the slot meanwhile, and not for ever.
constexpr std::chrono::seconds kHouseLimit{15};
// The CLI sends `create` once it has read the hello. A connection may also be cut without a word.
constexpr std::chrono::seconds kCreateLimit{60};

protocol::Message Hello(const AgentFile& executable) {
  protocol::Hello hello;
  hello.serving = protocol::Serving::kStart;
  hello.agent_sha256 = executable.sha256;
  hello.base = BaseOf(executable.path).string();
  return {std::string(protocol::type::kHello), 0, hello};
}

protocol::Message Removed(const std::vector<std::filesystem::path>& removed) {
  std::vector<std::string> folders;
  for (const auto& path : removed) folders.push_back(path.string());
  return {std::string(protocol::type::kRemoved), 0, {{"folders", folders}}};
}

protocol::Create ReadCreate(const protocol::Message& message) {
  if (message.type != protocol::type::kCreate) {
    throw Error(Phase::kStart, "expected 'create', got '" + message.type + "'");
  }
  auto create = protocol::Body<protocol::Create>(message);
  if (create.version < protocol::kOldestVersion || create.version > protocol::kVersion) {
    throw Error(Phase::kStart, "this agent does not speak the protocol's version " +
                                   std::to_string(create.version));
  }
  return create;
}

// A CLI that has given up wants no agent any more; its `create` may have come before.
bool IsPeerGone() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) > 0 && (out.revents & (POLLHUP | POLLERR)) != 0;
}

constexpr const char* kThisProgram = "/proc/self/exe";

// Where another slot's start has replaced a damaged one meanwhile, the file that is there now: Linux says "(deleted)" then.
std::filesystem::path PathOfThisProgram() {
  constexpr std::string_view kDeleted = " (deleted)";
  std::error_code error;
  std::string path = std::filesystem::read_symlink(kThisProgram, error).string();
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  if (!error) return path;
  throw Error(Phase::kStart, "there is no /proc here, by which the agent looks at processes",
              "mount it, also where sshd has a ChrootDirectory");
}

// A check that ends removes it, and locks it first. Nobody does where `file` is locked, and still the one at its path.
bool IsRemoved(const UniqueFd& file, int open_error) {
  if (!file.valid()) return open_error == ENOENT;
  if (flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  struct stat info {};
  return fstat(file.get(), &info) == 0 && info.st_nlink == 0;
}

// As cli/link/host.sh calls it: a user's own folder may begin so, too.
bool IsAside(std::string_view name) {
  constexpr size_t kNonceDigits = 32;
  if (!name.starts_with(layout::kAside)) return false;
  name.remove_prefix(layout::kAside.size());
  return name.size() == kNonceDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// An agent that was put aside is there for one request alone: it runs on without its file.
void Settle(const std::filesystem::path& executable) {
  const std::filesystem::path base = BaseOf(executable);
  if (!IsAside(base.filename().string())) return;
  unlink(executable.c_str());
  rmdir(executable.parent_path().c_str());
  rmdir(base.c_str());
}

bool IsOfHouse(const protocol::Message& request) {
  return request.type == protocol::type::kListSlots || request.type == protocol::type::kRemoveSlots;
}

int ServeHouse(const protocol::Message& request) {
  const auto answer = [&]() -> protocol::Json {
    if (request.type == protocol::type::kListSlots) {
      return ListSlots(protocol::Body<protocol::ListSlots>(request));
    }
    return RemoveSlots(protocol::Body<protocol::RemoveSlots>(request));
  };
  try {
    WriteToStdout({std::string(protocol::type::kOk), request.id, answer()});
  } catch (const Error& error) {
    WriteToStdout(protocol::ErrorMessage(request.id, error));
  }
  return 0;
}

int Serve(const std::filesystem::path& program) {
  SetLogName("start");
  const HostSettings host = HostSettings::Capture();
  HostSettings::SetOurs();  // no core file shows the keys either
  // As in the agent.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGXCPU}) std::signal(number, SIG_IGN);
  // Of what runs, whatever lies there by now: a damaged one is replaced when the command hears of its hash.
  const AgentFile executable{.path = program, .sha256 = HashFile(kThisProgram)};
  // As long as this process is there, no check removes the file. Where one has just done so, the command hears no hello, and
  // sends the agent again.
  UniqueFd in_use(open(executable.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (IsRemoved(in_use, errno)) return 1;
  Settle(executable.path);
  FailPoint("start hello");
  WriteToStdout(Hello(executable));
  const auto message = ReadMessage(STDIN_FILENO, SystemClock().Now() + kCreateLimit);
  if (!message) return 1;
  if (message->type == protocol::type::kSurvey) {
    return ServeCheck(*message, executable.path, in_use.get(), BaseOf(executable.path),
                      WhyNameIsTaken);
  }
  MarkUsed(executable.path);  // not for a check, which may have to remove it
  if (IsOfHouse(*message)) {
    in_use.Reset();  // as in HouseMain: on NFS its folder would keep the file
    return ServeHouse(*message);
  }
  // Before the slot is made: it may need the room that this makes, and its tasks the ports.
  std::string log;
  SetLogSink([&](const std::string& line) { log += line; });
  const auto removed = KeepHouse(BaseOf(executable.path), SystemClock().Now() + kHouseLimit);
  SetLogSink({});
  if (IsPeerGone()) return 1;
  if (!removed.empty()) WriteToStdout(Removed(removed));
  UniqueFd agent;
  try {
    agent = CreateSlot(ReadCreate(*message), executable, host, log);
  } catch (const Error& e) {
    WriteToStdout(protocol::ErrorMessage(message->id, e));
    return 1;
  }
  Bridge(agent.get(), kIdleLimit);
  return 0;
}

}  // namespace

int StartMain() { return Serve(PathOfThisProgram()); }

int HouseMain(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return Serve(arguments[0]);
  const std::filesystem::path program = PathOfThisProgram();
  RunFromMemory("house", {program.string()});
  return Serve(program);
}

}  // namespace tfdist::agent

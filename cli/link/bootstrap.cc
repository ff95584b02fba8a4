#include "cli/link/bootstrap.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/hash.h"
#include "base/process_limits.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/link/boot_conversation.h"
#include "cli/link/boot_script.h"

namespace tfdist::cli {
namespace {

// An upload has limits of its own: 32 KiB take 26 s at 10 kbit/s; when all is written, much of it
// may still be on its way.
constexpr size_t kPieceBytes = 32 * 1024;
constexpr std::chrono::seconds kPieceLimit{30};
constexpr std::chrono::seconds kArrivalLimit{120};
constexpr std::chrono::seconds kLastWordsLimit{5};

constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kIdCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr std::string_view kFolderCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._/~@%+=:,-";

bool Holds(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

// If `line` is "WORD rest", the rest.
std::optional<std::string> After(std::string_view word, const std::string& line) {
  if (line == word) return std::string();
  if (!line.starts_with(word) || line[word.size()] != ' ') return std::nullopt;
  return line.substr(word.size() + 1);
}

BootScript NewScript(const std::string& remote_dir) {
  BootScript script(RandomHex(16));
  script.Set("remote_dir", remote_dir);
  return script;
}

void Begin(BootConversation& talk, const BootScript& script, const std::string& text,
           TimePoint& deadline) {
  talk.Begin(text, script.nonce(), deadline);
}

// ---------------------------------------------------------------------------------------------
// Starting an agent

[[noreturn]] void FailWithSystem(const std::string& system, std::span<const EmbeddedAgent> agents) {
  std::vector<std::string_view> machines;
  for (const EmbeddedAgent& agent : agents) machines.push_back(agent.machine);
  std::string cause = fmt::format("the host is {}; the agents in this tfdist are for Linux on {}",
                                  OnOneLine(system), fmt::join(machines, " and "));
  if (system == "Linux aarch64") {
    throw Error(Phase::kStart, std::move(cause),
                "scripts/setup --aarch64, and build tfdist again: it then has one for that, too");
  }
  throw Error(Phase::kStart, std::move(cause), "leave the host out");
}

[[noreturn]] void FailWithoutPrograms(const std::string& names) {
  throw Error(
      Phase::kStart,
      fmt::format("the host lacks programs that bring tfdist's agent: {}", OnOneLine(names)),
      "install them there (coreutils or busybox), or let a start-up file (.bashrc) add their "
      "folder to PATH");
}

[[noreturn]] void FailWithRefusals(const std::string& why,
                                   const std::vector<std::string>& refused) {
  const std::string all = OnOneLine(fmt::format("{}", fmt::join(refused, "; ")), 1000);
  std::string remedy(LimitRemedy(all));
  if (remedy.empty()) {
    remedy =
        "set remote_dir in [ssh] (--set ssh.remote_dir=FOLDER) to a folder of yours where programs "
        "can be run";
  }
  throw Error(Phase::kStart, fmt::format("{} ({})", OnOneLine(why), all), std::move(remedy));
}

// Lines that are not progress; returns when `line` is.
void ThrowIfFailed(const std::string& line, const std::vector<std::string>& refused) {
  if (const auto why = After("failed", line)) {
    if (!refused.empty()) FailWithRefusals(*why, refused);
    const std::string_view limit = LimitRemedy(*why);
    throw Error(Phase::kUpload, OnOneLine(*why, 1000),
                std::string(limit.empty() ? kRoomRemedy : limit));
  }
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// As the host wants it that has neither xz nor gzip.
std::string Unpacked(const EmbeddedAgent& agent) {
  std::string bytes(agent.size_bytes, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(agent.gzip.data()));
  stream.avail_in = static_cast<uInt>(agent.gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  inflateInit2(&stream, MAX_WBITS + 16);
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) throw Bug("the embedded agent is damaged");
  return bytes;
}

// The shell's own reason is the better one: no room on the disk, no process may be started.
[[noreturn]] void FailAsTheShellSays(BootConversation& talk, const LostConnection& error) {
  std::string line;
  try {
    line = talk.ReadLine(SystemClock().Now() + kLastWordsLimit);
  } catch (const LostConnection& end) {
    throw LostConnection(Phase::kUpload, end.cause(), end.remedy());
  }
  ThrowIfFailed(line, {});
  throw LostConnection(Phase::kUpload, error.cause(), error.remedy());
}

// Piece by piece: a slow link is no failure, but one that takes nothing for long is dead.
void SendInPieces(BootConversation& talk, std::string_view bytes) {
  try {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPieceBytes))) {
      talk.Send(bytes.substr(0, kPieceBytes), SystemClock().Now() + kPieceLimit);
    }
  } catch (const LostConnection& error) {
    FailAsTheShellSays(talk, error);
  }
}

const EmbeddedAgent& AgentFor(std::string_view machine, std::span<const EmbeddedAgent> agents) {
  const auto found = std::ranges::find(agents, machine, &EmbeddedAgent::machine);
  if (found != agents.end()) return *found;
  throw ProtocolError(Phase::kStart,
                      fmt::format("the host asks for an agent for {}", OnOneLine(machine)));
}

// What the host has asked for: "xz x86_64", "gzip x86_64" or "plain x86_64".
void SendAgent(BootConversation& talk, const std::string& wanted,
               std::span<const EmbeddedAgent> agents) {
  const size_t space = std::min(wanted.find(' '), wanted.size() - 1);
  const EmbeddedAgent& agent = AgentFor(std::string_view(wanted).substr(space + 1), agents);
  const std::string_view form = std::string_view(wanted).substr(0, space);
  if (form == "xz") {
    SendInPieces(talk, AsText(agent.xz));
  } else if (form == "gzip") {
    SendInPieces(talk, AsText(agent.gzip));
  } else if (form == "plain") {
    SendInPieces(talk, Unpacked(agent));
  } else {
    throw ProtocolError(Phase::kUpload,
                        fmt::format("the host asks for an agent in the form {}", OnOneLine(form)));
  }
}

// As the host says it, - for none.
std::string BaseId(std::string_view word) {
  return Holds(word, kHexadecimal) && word.size() <= 64 ? std::string(word) : "";
}

// "ID PATH"
std::string TakeFolder(std::string_view words, HostFolders& folders) {
  const std::string_view id = TakeUpTo(' ', words);
  std::string path(words);
  folders.ids[path] = BaseId(id);
  return path;
}

}  // namespace

std::string FollowFolders(BootConversation& talk, TimePoint deadline, HostFolders& folders) {
  while (true) {
    std::string line = talk.ReadLine(deadline);
    if (const auto base = After("base", line)) {
      folders.bases.push_back(TakeFolder(*base, folders));
    } else if (const auto lacking = After("lacks", line)) {
      folders.lacking.push_back(TakeFolder(*lacking, folders));
    } else if (const auto gone = After("gone", line)) {
      folders.gone.push_back(*gone);
    } else if (auto refused = After("refused", line)) {
      folders.refused.push_back(std::move(*refused));
    } else {
      return line;
    }
  }
}

namespace {

// Follows the script until it runs the agent; says which, and whether it was uploaded.
void FollowStart(BootConversation& talk, std::span<const EmbeddedAgent> agents, TimePoint deadline,
                 BootedAgent& booted) {
  std::vector<std::string> refused;
  while (true) {
    const std::string line = talk.ReadLine(deadline);
    if (const auto run = After("run", line)) {
      std::string_view words = *run;
      booted.agent = &AgentFor(TakeUpTo(' ', words), agents);
      booted.pid = TakeUpTo(' ', words);
      booted.base_id = BaseId(words);
      if (!Holds(booted.pid, "0123456789"))
        throw ProtocolError(Phase::kStart, fmt::format("the host ran the agent as process '{}'",
                                                       OnOneLine(booted.pid)));
      return;
    }
    if (const auto wanted = After("upload", line)) {
      if (booted.uploaded) throw ProtocolError(Phase::kUpload, "the host asks for the agent twice");
      refused.clear();  // a later folder served: what fails from now on has another reason
      SendAgent(talk, *wanted, agents);
      deadline = std::max(deadline, SystemClock().Now() + kArrivalLimit);
      booted.uploaded = true;
    } else if (auto refusal = After("refused", line)) {
      refused.push_back(std::move(*refusal));
    } else if (const auto programs = After("lacks", line)) {
      FailWithoutPrograms(*programs);
    } else if (const auto system = After("system", line)) {
      FailWithSystem(*system, agents);
    } else {
      ThrowIfFailed(line, refused);
    }
  }
}

BootScript ScriptFor(std::span<const EmbeddedAgent> agents, const FoldersAsked& asked,
                     Upload upload) {
  std::string kinds;
  for (const EmbeddedAgent& agent : agents) {
    if (agent.sha256_hex.empty() || !Holds(agent.sha256_hex, kHexadecimal)) {
      throw Bug("the embedded agent has no hash");
    }
    kinds += fmt::format("{} {} {} {} {}\n", agent.machine, agent.sha256_hex, agent.size_bytes,
                         agent.gzip.size(), agent.xz.size());
  }
  BootScript script = NewScript(asked.remote_dir);
  script.Set("kinds", kinds).Set("anew", upload == Upload::kAlways ? "yes" : "");
  script.Set("aside", asked.aside ? "yes" : "").Set("places", "");
  return script;
}

BootedAgent Booted(BootConversation& talk, BootedAgent booted) {
  booted.noise = talk.noise();
  booted.channel = talk.Release();
  return booted;
}

std::string Joined(const std::vector<std::string>& refused) {
  return OnOneLine(fmt::format("{}", fmt::join(refused, "; ")), 1000);
}

Error FolderNotUsed(const std::string& job, const std::vector<std::string>& refused) {
  return {Phase::kRun,
          fmt::format("job {} runs on, and its folder is not used: {}", job, Joined(refused)),
          "once only your account may write there (chmod go-w), the same command again"};
}

}  // namespace

void CheckRemoteDir(std::string_view remote_dir) {
  if (Holds(remote_dir, kFolderCharacters)) return;
  throw UsageError(Phase::kConfig,
                   fmt::format("remote_dir may hold letters, digits and \" ._/~@%+=:,-\" only: {}",
                               OnOneLine(remote_dir)));
}

void CheckId(std::string_view id) {
  if (id.empty() || id.front() == '.' || id.size() > 200 || !Holds(id, kIdCharacters)) {
    throw UsageError(Phase::kUsage, fmt::format("'{}' is not a job's id", OnOneLine(id)));
  }
}

bool IsInSight(const HostFolders& folders, const KnownBase& known) {
  if (known.path.empty()) return folders.refused.empty();
  const auto is_in_it = [&](const std::string& refused) {
    return refused.starts_with(known.path + "/") || refused.starts_with(known.path + ":");
  };
  if (std::ranges::any_of(folders.refused, is_in_it)) return false;
  const auto has = [&](const std::vector<std::string>& paths) {
    return std::ranges::find(paths, known.path) != paths.end();
  };
  // A folder may be gone, or be another one, in the place of a file system that is not mounted.
  if (!known.id.empty()) {
    const auto there = folders.ids.find(known.path);
    return there != folders.ids.end() && there->second == known.id;
  }
  return has(folders.bases) || has(folders.lacking) || has(folders.gone);
}

OutOfSight::OutOfSight(Phase phase, const std::string& path, std::string remedy, bool is_gone)
    : Unreachable(phase, "tfdist's folder cannot be seen (is its file system mounted?)",
                  remedy.empty()
                      ? fmt::format("look at {} there; the same again once it can be seen",
                                    path.empty() ? "the home folder" : path)
                      : std::move(remedy)),
      is_gone_(is_gone) {}

FolderGone JobRunsElsewhere(Phase phase, const std::string& job, const std::string& pids,
                            const std::string& remedy) {
  return {phase,
          fmt::format("job {} runs there (processes {}), and its folder is not where it was", job,
                      OnOneLine(pids)),
          "if it was moved, or another file system lies over it, put that right; else " + remedy};
}

void ThrowIfOutOfSight(Phase phase, const std::string& line, const HostFolders& folders,
                       const std::string& job, const KnownBase& known) {
  if (const auto pids = After("lost", line)) {
    // They are well, and can be asked again once nobody else may write there.
    if (!folders.refused.empty()) throw FolderNotUsed(job, folders.refused);
    throw JobRunsElsewhere(phase, job, *pids, fmt::format("tfdist down {} ends it", job));
  }
  // Nobody can say then that nothing is there.
  if (!folders.refused.empty()) throw RefusedFolders(phase, folders.refused);
  if (IsInSight(folders, known)) return;
  const bool is_gone = std::ranges::find(folders.gone, known.path) != folders.gone.end();
  throw OutOfSight(phase, known.path, "", is_gone);
}

Error RefusedFolders(Phase phase, const std::vector<std::string>& refused) {
  constexpr std::string_view kClosed = ": Permission denied";
  const auto closed =
      std::ranges::find_if(refused, [&](const std::string& one) { return one.ends_with(kClosed); });
  if (closed != refused.end()) {
    return Error(phase, Joined(refused),
                 fmt::format("on that host, chmod u+rwx {}; then the same again",
                             OnOneLine(closed->substr(0, closed->size() - kClosed.size()))));
  }
  return Error(phase, Joined(refused), "look who made it; [ssh] remote_dir names another folder");
}

BootedAgent StartAgent(std::unique_ptr<ByteChannel> channel, std::span<const EmbeddedAgent> agents,
                       const std::string& remote_dir, Upload upload, TimePoint deadline) {
  CheckRemoteDir(remote_dir);
  const BootScript script = ScriptFor(agents, {.remote_dir = remote_dir}, upload);
  BootConversation talk(std::move(channel));
  Begin(talk, script, script.StartAgent(), deadline);
  BootedAgent booted;
  FollowStart(talk, agents, deadline, booted);
  return Booted(talk, std::move(booted));
}

BootedAgent StartHouse(std::unique_ptr<ByteChannel> channel, std::span<const EmbeddedAgent> agents,
                       const FoldersAsked& asked, Upload upload, TimePoint deadline) {
  const bool of_slot = !asked.job.empty();
  if (of_slot) CheckId(asked.job);
  if (!of_slot) CheckRemoteDir(asked.remote_dir);
  BootScript script = ScriptFor(agents, asked, upload);
  script.Set("places", of_slot ? "each_known_base" : "each_base");
  script.Set("job", asked.job).Set("slot", std::to_string(asked.slot));
  BootConversation talk(std::move(channel));
  Begin(talk, script, script.KeepHouse(), deadline);
  BootedAgent booted;
  const std::string line = FollowFolders(talk, deadline, booted.folders);
  if (line == "nothing") return booted;
  if (line != "found" || booted.folders.bases.empty()) {
    throw ProtocolError(Phase::kStart, fmt::format("an unexpected answer: {}", OnOneLine(line)));
  }
  FollowStart(talk, agents, deadline, booted);
  return Booted(talk, std::move(booted));
}

BootedAgent AttachAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                        const std::string& job, int slot, TimePoint deadline,
                        const KnownBase& known, Displaced displaced) {
  CheckId(job);
  BootScript script = NewScript(base);
  script.Set("job", job).Set("slot", std::to_string(slot));
  script.Set("ends", displaced == Displaced::kIsReached ? "yes" : "");
  BootConversation talk(std::move(channel));
  Begin(talk, script, script.Attach(), deadline);
  HostFolders folders;
  const std::string line = FollowFolders(talk, deadline, folders);
  BootedAgent booted;
  const auto pids = After("lost", line);
  if (pids && displaced == Displaced::kIsReached && folders.refused.empty()) {
    booted.displaced = *pids;
  } else if (line != "run") {
    ThrowIfOutOfSight(Phase::kRun, line, folders, job, known);
    throw NothingThere(Phase::kRun, fmt::format("this host has no job {} (slot {}){}", job, slot,
                                                base.empty() ? "" : " in " + OnOneLine(base)));
  }
  return Booted(talk, std::move(booted));
}

std::string FindAgent(std::unique_ptr<ByteChannel> channel, const std::string& base,
                      const std::string& job, int slot, TimePoint deadline,
                      const KnownBase& known) {
  CheckId(job);
  BootScript script = NewScript(base);
  script.Set("job", job).Set("slot", std::to_string(slot));
  BootConversation talk(std::move(channel));
  Begin(talk, script, script.FindAgent(), deadline);
  HostFolders folders;
  const std::string line = FollowFolders(talk, deadline, folders);
  if (auto path = After("agent", line)) return std::move(*path);
  ThrowIfOutOfSight(Phase::kExec, line, folders, job, known);
  throw NothingThere(Phase::kExec, fmt::format("job {} has no folder here", job),
                     "was it cleaned, or has it another tfdist folder?");
}

}  // namespace tfdist::cli

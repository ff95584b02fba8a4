#include "cli/ssh/openssh/openssh_masters.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/text.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "cli/channel/child.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/logins.h"
#include "cli/ssh/config/off_question.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/config/refused_port.h"
#include "cli/ssh/keys/ssh_agent.h"
#include "cli/ssh/openssh/connections.h"
#include "cli/ssh/openssh/master_end.h"
#include "cli/ssh/openssh/openssh_failure.h"

namespace tfdist::ssh {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Short: sockaddr_un has 108 bytes, of which ssh adds 17 to the name while it makes the socket.
constexpr const char* kParent = "/tmp";
constexpr std::string_view kPrefix = "tfdist-masters-";
constexpr std::string_view kPattern = "XXXXXX";  // of mkdtemp
// Of a process that was killed: how long after the last channel.
constexpr int kPersistSeconds = 10;
// A host that has lost its power is given up after the limit. ssh takes it for the time between two packets of a login as
// well.
constexpr std::chrono::seconds kAliveInterval{5};
constexpr std::chrono::milliseconds kAliveLimit = 3 * kAliveInterval;
constexpr int kLongestTurnMs = 20;
constexpr auto kEndLimit = 2s;  // of what the ends of all have in common, each
// MaxSessions is 10; sshd may see the end of a channel after we have.
constexpr long kChannels = 8;
constexpr auto kEndOfOthersLimit = 2s;
constexpr auto kEndOfOthersPause = 100ms;

bool IsSocket(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// For -S: ssh expands %.
std::string Escaped(const std::string& path) {
  std::string escaped;
  for (const char c : path) escaped.append(c == '%' ? "%%" : std::string(1, c));
  return escaped;
}

std::vector<std::string> SocketsIn(const fs::path& folder) {
  std::vector<std::string> sockets;
  std::error_code none;  // it may go meanwhile
  for (fs::directory_iterator it(folder, none); it != end(it); it.increment(none)) {
    if (IsSocket(it->path().string())) sockets.push_back(it->path().string());
  }
  return sockets;
}

// Whether the open file has that name still.
bool IsAt(const fs::path& path, int fd) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

// The folder, open and locked for as long as this lives. The system frees the lock when its process ends, in whatever
// way. nullopt: another process has locked it, or it is not a folder that tfdist has made for this user.
std::optional<UniqueFd> LockFolder(const fs::path& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat opened {};
  if (!folder.valid() || fstat(folder.get(), &opened) != 0 || opened.st_uid != geteuid() ||
      (opened.st_mode & 0777) != 0700) {
    return std::nullopt;
  }
  if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  if (!IsAt(path, folder.get())) return std::nullopt;  // it was removed between
  return folder;
}

// Sockets, and the folder where nothing else is in it: /tmp has names of everybody's choice.
void Remove(const fs::path& folder) {
  EndMastersAt(SocketsIn(folder));
  for (const std::string& path : SocketsIn(folder)) unlink(path.c_str());
  rmdir(folder.c_str());
}

bool IsOurName(const std::string& name) {
  return name.starts_with(kPrefix) && name.size() == kPrefix.size() + kPattern.size();
}

void SweepFoldersOfTheDead() {
  std::error_code none;
  for (fs::directory_iterator it(kParent, none); it != end(it); it.increment(none)) {
    if (!IsOurName(it->path().filename().string())) continue;
    if (const auto lock = LockFolder(it->path())) Remove(it->path());
  }
}

class SocketFolder {
 public:
  SocketFolder() {
    SweepFoldersOfTheDead();
    constexpr int kTries = 10;  // another process may have just swept the one that we have made
    for (int i = 0; i < kTries; ++i) {
      std::string name = fmt::format("{}/{}{}", kParent, kPrefix, kPattern);
      if (mkdtemp(name.data()) == nullptr) break;
      chmod(name.c_str(), 0700);  // whatever the umask is
      auto lock = LockFolder(name);
      if (!lock) continue;
      path_ = name;
      lock_ = *std::move(lock);
      return;
    }
    throw Error(
        Phase::kConnect,
        WithErrno(fmt::format("cannot make a folder in {} for ssh's sockets", kParent), errno),
        fmt::format("let this account write to {0}, and make room there (df {0})", kParent));
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  ~SocketFolder() {
    if (IsThere()) Remove(path_);
  }

  // Not one that a cleaner of /tmp has taken, even if another one has its name now.
  [[nodiscard]] bool IsThere() const { return IsAt(path_, lock_.get()); }

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  UniqueFd lock_;
};

// argv with which `ssh`, an argv too, cannot ask on a display either, nor can the ssh programs that it starts.
std::vector<std::string> WithoutQuestions(const std::vector<std::string>& ssh) {
  // Before OpenSSH 8.4 it is the display alone that counts.
  std::vector<std::string> argv = {"env", "-u", "DISPLAY", "SSH_ASKPASS_REQUIRE=never"};
  argv.insert(argv.end(), ssh.begin(), ssh.end());
  return argv;
}

// What ssh puts in for it is the host that it is to reach.
constexpr std::string_view kToItsHost = "[%h]:%p";

// As a value of ProxyCommand.
std::string AsProxyCommand(const std::vector<std::string>& argv) {
  std::string command;
  for (std::string word : argv) {
    if (word != kToItsHost) ReplaceAll(word, "%", "%%");
    command.append(command.empty() ? "" : " ").append(ShellQuoted(word));
  }
  return command;
}

// With a host that was slow before: in the key exchange, or in the login.
enum class Patience { kUsual, kSlowExchange, kLong };

// How long the host may be silent once it has said its version.
std::chrono::milliseconds SilenceLimit(Patience patience, const Limits& limits) {
  if (patience == Patience::kLong) return kUserLimit;
  return patience == Patience::kUsual ? kAliveLimit : std::max(kAliveLimit, limits.banner);
}

// kAll: with those of the program that connects ssh, which ssh passes on with -v only. A connection that lasts has a jump host's ssh
// there, or nothing: another program may not bear that nobody reads what it says after the login.
enum class Words { kOfSsh, kAll };

std::vector<std::string> LoginCommand(const Target& target, const HostConfig& host,
                                      const std::optional<JumpWay>& jump, const std::string& socket,
                                      Patience patience, Words words) {
  std::vector<std::string> argv = {"ssh", "-M", "-S", socket, "-N", "-T"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {option, value});
  };
  add("-F", target.config.string());
  add("-l", target.user);
  add("-p", target.port ? std::to_string(*target.port) : "");
  add("-i", target.identity_file);
  const auto connect_limit =
      std::chrono::ceil<std::chrono::seconds>(target.limits.tcp + target.limits.banner);
  for (const std::string& option :
       {std::string("BatchMode=yes"), fmt::format("ControlPersist={}", kPersistSeconds),
        fmt::format("ConnectTimeout={}", connect_limit.count()),
        fmt::format("ServerAliveInterval={}", kAliveInterval.count()),
        fmt::format("ServerAliveCountMax={}",
                    SilenceLimit(patience, target.limits) / kAliveInterval),
        fmt::format("StrictHostKeyChecking={}", host.accept_new ? "accept-new" : "yes"),
        // Many at a time would each write known_hosts anew.
        std::string("UpdateHostKeys=no"), std::string("ForwardAgent=no"),
        std::string("ForwardX11=no"), std::string("ClearAllForwardings=yes"),
        std::string("Tunnel=no"), std::string("PermitLocalCommand=no"),
        std::string("GSSAPIDelegateCredentials=no"), std::string("RemoteCommand=none"),
        std::string("LogLevel=DEBUG1")}) {
    argv.insert(argv.end(), {"-o", option});
  }
  if (words == Words::kAll) argv.emplace_back("-v");
  if (jump) argv.insert(argv.end(), {"-o", "ProxyCommand=" + AsProxyCommand(jump->argv)});
  argv.insert(argv.end(), {"--", target.name});
  return WithoutQuestions(argv);
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(Phase::kConnect, WithErrno("pipe", errno));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The stdin of a program that ends with this process, however that ends.
class LifeLine {
 public:
  LifeLine() = default;
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;
  // Cuts nothing: a program in the background may still be of the group.
  ~LifeLine() { fcntl(stdin_end(), F_SETFL, O_NONBLOCK); }

  [[nodiscard]] int stdin_end() const { return pipe_.read_end.get(); }

 private:
  const Pipe pipe_ = MakePipe();
};

// False at its end.
bool TakeWords(int fd, std::string& said) {
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    cli::AppendToTail(said, {buffer.data(), static_cast<size_t>(got)});
  }
}

// Programs that run. For any thread.
class Running {
 public:
  // Counted for as long as this lives.
  std::shared_ptr<const void> Count() { return count_; }
  // Returns at `deadline` at the latest.
  void WaitUntilNone(TimePoint deadline) const {
    while (count_.use_count() > 1 && SystemClock().Now() < deadline) poll(nullptr, 0, 1);
  }

 private:
  std::shared_ptr<const int> count_ = std::make_shared<int>();
};

// Logins of this process, all of which may be told to end.
class Logins {
 public:
  // Counts one from now on. Throws where they are to end.
  std::shared_ptr<const void> Begin() {
    auto login = running_.Count();
    ThrowIfEnding();
    return login;
  }
  void ThrowIfEnding() const {
    if (ending_) throw Error(Phase::kConnect, "this command is about to end");
  }
  [[nodiscard]] bool ending() const { return ending_; }
  void End(TimePoint deadline) {
    ending_ = true;
    running_.WaitUntilNone(deadline);
  }

 private:
  std::atomic<bool> ending_ = false;
  Running running_;
};

// What the time of a login goes to that is not the host's: its user, or ssh-agent.
class OthersTime {
 public:
  OthersTime(const Target& target, Patience patience, bool has_jump, TimePoint& deadline)
      : target_(target),
        patience_(patience),
        unanswered_(has_jump ? Reached::kNothing : Reached::kConnecting),
        deadline_(deadline) {
    Begin();
  }

  // At every turn, with what ssh has said until then.
  void Look(std::string_view said) {
    const TimePoint now = SystemClock().Now();
    if (said.size() != said_bytes_) {
      last_word_ = now;
      Reach(ReachedOf(said));
    }
    said_bytes_ = said.size();
    if (WaitsForAgent(said)) {
      if (asked_ == TimePoint{}) asked_ = now;
      if (now < asked_ + kUserLimit) deadline_ += now - last_look_;
      if (now > asked_ + kPatience) Tell(std::string(kWaitsForAgent));
    } else if (now > begin_ + kPatience) {
      // It may ask its user to look at a page, or say that it is starting up.
      const std::string words = WordsOfHost(said);
      host_speaks_ = !words.empty();
      if (host_speaks_ && patience_ != Patience::kUsual) Tell("it says: " + words);
    }
    last_look_ = now;
  }

  // Nobody has taken the connection in time, directly or through a jump host.
  [[nodiscard]] bool is_unanswered() const {
    // Nothing at all is heard of an ssh in a script that drops its stderr.
    return said_bytes_ > 0 && reached_ == unanswered_ && last_look_ > last_word_ + connect_limit();
  }
  [[nodiscard]] std::chrono::milliseconds connect_limit() const {
    const Limits& limits = target_.limits;
    return limits.tcp + std::min<std::chrono::milliseconds>(limits.banner, kUnknownWay);
  }

  // The host has not said its SSH version, as far as ssh tells.
  [[nodiscard]] bool lacks_version() const {
    return said_bytes_ > 0 && reached_ != Reached::kVersion;
  }

  // The host has said something, and waits. A page that it names is shown by the login that has the time for it. The agent
  // is not asked twice.
  [[nodiscard]] bool needs_more_patience() const {
    return host_speaks_ && patience_ == Patience::kUsual && asked_ == TimePoint{} &&
           last_look_ > last_word_ + kPatience;
  }

 private:
  void Reach(Reached reached) {
    if (std::exchange(reached_, reached) != reached) Begin();
  }

  void Begin() {
    const auto waits_for = [this] {
      switch (reached_) {
        case Reached::kNothing:
          return kWaitsForWay;
        case Reached::kConnecting:
          return kWaitsForConnection;
        case Reached::kConnected:
          return kWaitsForVersion;
        case Reached::kVersion:
          break;
      }
      return kWaitsForLogin;
    };
    target_.Begin({"login", waits_for(), std::min(deadline_, End())});
  }

  // Of what is waited for, where ssh or we have a limit for that.
  [[nodiscard]] TimePoint End() const {
    if (reached_ == unanswered_) return last_word_ + connect_limit();
    if (reached_ == Reached::kConnected) {
      return begin_ + target_.limits.tcp + target_.limits.banner;
    }
    // The last try.
    if (reached_ == Reached::kVersion && patience_ != Patience::kUsual) {
      return last_word_ + SilenceLimit(patience_, target_.limits);
    }
    return deadline_;
  }

  // Once.
  void Tell(const std::string& note) {
    if (told_.insert(note).second && target_.on_note) target_.on_note(note);
  }

  const Target& target_;
  const Patience patience_;
  const Reached unanswered_;
  TimePoint& deadline_;
  const TimePoint begin_ = SystemClock().Now();
  TimePoint last_look_ = begin_;
  TimePoint asked_{};  // the agent
  std::set<std::string> told_;
  Reached reached_ = Reached::kNothing;
  bool host_speaks_ = false;
  size_t said_bytes_ = 0;
  TimePoint last_word_ = begin_;
};

// One login. ssh goes into the background once it is logged in, and only then ends in the foreground: with 0. (Before
// OpenSSH 8.5 the one in the background keeps stderr, so the pipe's end says nothing.) nullopt: it has worked.
std::optional<LoginFailure> LogIn(Logins& logins, const Target& target, const HostConfig& host,
                                  const std::optional<JumpWay>& jump, const std::string& socket,
                                  Patience patience, Words words, TimePoint& deadline) {
  (void)unlink(socket.c_str());  // of a killed one: ssh would not listen
  const TimePoint begin = SystemClock().Now();
  Pipe errors = MakePipe();
  LifeLine life;
  cli::Child ssh = cli::Child::Spawn(
      LoginCommand(target, host, jump, socket, patience, words),
      {.in = life.stdin_end(), .out = -1, .err = errors.write_end.get()}, logins.Begin());
  ssh.TieTo(life.stdin_end());
  errors.write_end.Reset();
  std::string said;
  bool open = true;
  OthersTime others(target, patience, jump.has_value(), deadline);
  OffQuestion off(target);
  bool is_off = false;
  while (true) {
    open = open && TakeWords(errors.read_end.get(), said);
    others.Look(said);
    if (const auto status = ssh.TryWait()) {
      if (open) (void)TakeWords(errors.read_end.get(), said);
      if (*status == 0 && IsListenedTo(socket)) return std::nullopt;
      return ExplainLogin(said, target.name, host);
    }
    const TimePoint now = SystemClock().Now();
    is_off = others.lacks_version() && off.Ask();
    if (now >= deadline || logins.ending() || others.needs_more_patience() ||
        others.is_unanswered() || is_off)
      break;
    pollfd waited{open ? errors.read_end.get() : -1, POLLIN, 0};
    poll(&waited, 1, open ? std::min(kLongestTurnMs, PollTimeout(now, deadline)) : 1);
  }
  ssh.Kill();
  logins.ThrowIfEnding();
  if (others.needs_more_patience()) return SlowLogin();
  if (is_off || others.is_unanswered()) {
    const auto waited = std::chrono::round<std::chrono::milliseconds>(SystemClock().Now() - begin);
    return ExplainNoAnswer(said, is_off ? waited : others.connect_limit());
  }
  return ExplainTimeout(said, std::chrono::round<std::chrono::milliseconds>(deadline - begin));
}

// As LogIn. `deadline` is moved by the time that is not the host's.
std::optional<LoginFailure> LogInWith(Patience patience, Words words, Logins& logins,
                                      const Target& target, const HostConfig& host,
                                      const std::optional<JumpWay>& jump, const std::string& socket,
                                      TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  const bool is_long = patience != Patience::kUsual;
  const TimePoint first_end = is_long ? begin + kUserLimit + LoginLimit(target.limits)
                                      : Within(LoginLimit(target.limits), deadline);
  TimePoint end = first_end;
  auto failure = LogIn(logins, target, host, jump, socket, patience, words, end);
  deadline += is_long ? SystemClock().Now() - begin : end - first_end;
  return failure;
}

// A host that hangs up without a word has no reason that goes by itself, as far as one knows; one that has too many logins says
// so, in one of some tries: its words may be lost.
constexpr std::chrono::milliseconds kWordlessLimit{5'000};

// What this process has found out: hosts that did so to the end. The next login is tried once.
class WordlessHosts {
 public:
  [[nodiscard]] bool Has(const std::string& host) {
    const MutexLock lock(mutex_);
    return hosts_.contains(host);
  }
  void Set(const std::string& host, bool is_wordless) {
    const MutexLock lock(mutex_);
    is_wordless ? (void)hosts_.insert(host) : (void)hosts_.erase(host);
  }

 private:
  Mutex mutex_;
  std::set<std::string> hosts_ GUARDED_BY(mutex_);
};

WordlessHosts& AllWordlessHosts() {
  static WordlessHosts hosts;
  return hosts;
}

// All of it: again where the host is busy or slow, or a firewall may count connections.
std::optional<LoginFailure> LogInWithPatience(Logins& logins, const Target& target,
                                              const HostConfig& host,
                                              const std::optional<JumpWay>& jump,
                                              const std::string& socket, TimePoint& deadline) {
  const Limits& limits = target.limits;
  TimePoint give_up = Within(limits.busy, deadline);
  const std::string door = fmt::format("{} {} {}", host.host_name, host.port, host.gateway);
  const TimePoint wordless_end =
      SystemClock().Now() + (AllWordlessHosts().Has(door) ? std::chrono::milliseconds(0)
                                                          : std::min(kWordlessLimit, limits.busy));
  bool is_wordless = true;
  RefusedPort port(target, host);
  auto patience = Patience::kUsual;
  auto words = jump ? Words::kAll : Words::kOfSsh;
  for (int tries = 1;; ++tries) {
    auto failure = LogInWith(patience, words, logins, target, host, jump, socket, deadline);
    if (!failure && words == Words::kAll && !jump) {  // now it works
      EndMastersAt({socket});
      words = Words::kOfSsh;
      continue;
    }
    is_wordless = is_wordless && (!failure || failure->is_wordless);
    if (!failure || !is_wordless) AllWordlessHosts().Set(door, false);
    if (!failure) {
      RememberConnection(target, host);
      return std::nullopt;
    }
    const bool is_slow_login = failure->kind == LoginFailure::Kind::kSlowLogin;
    const bool is_slow = is_slow_login || failure->kind == LoginFailure::Kind::kSlowExchange;
    if (is_slow && patience == Patience::kUsual) {
      patience = is_slow_login ? Patience::kLong : Patience::kSlowExchange;
      continue;
    }
    if (failure->kind == LoginFailure::Kind::kRefusedPort &&
        port.WaitAfterRefusal(deadline, give_up)) {
      continue;
    }
    if (failure->kind == LoginFailure::Kind::kSilentPort &&
        port.WaitAfterSilence(deadline, give_up)) {
      continue;
    }
    if (failure->is_on_the_way && words == Words::kOfSsh && tries == 1) {
      words = Words::kAll;
      continue;
    }
    const auto pause = PauseAfter(tries);
    // A ProxyCommand that fails does so for a reason that stays.
    if (HasEnded(jump) || failure->kind != LoginFailure::Kind::kBusy ||
        (!host.gateway.empty() && !jump) || SystemClock().Now() + pause > give_up) {
      return failure;
    }
    if (is_wordless && SystemClock().Now() + pause > wordless_end) {
      AllWordlessHosts().Set(door, true);
      return GivenUpWordless(std::move(*failure));
    }
    poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

constexpr std::string_view kScheme = "ssh://";
constexpr int kMostJumps = 8;

bool IsJump(const Target& target) { return target.jump_depth > 0; }

// Of the last of `jumps`, as the user has written it.
std::string LastJump(const std::string& jumps) {
  const std::string last = jumps.substr(jumps.rfind(',') + 1);
  return last.starts_with(kScheme) ? last.substr(kScheme.size()) : last;
}

// "user@[::1]:2200": ssh takes no such address in a URI.
bool IsBracketed(const std::string& jump) {
  return jump.substr(jump.rfind('@') + 1).starts_with('[');
}

void TakeBracketed(const std::string& address, Target& jump) {
  const size_t at = address.rfind('@');
  if (at != std::string::npos) jump.user = address.substr(0, at);
  const size_t begin = address.find('[', at + 1) + 1;
  const size_t end = std::min(address.find(']', begin), address.size());
  jump.name = address.substr(begin, end - begin);
  if (address.compare(end, 2, "]:") == 0) jump.port = std::atoi(address.c_str() + end + 2);
}

// The last of `jumps`, through those before it. [ssh] of the cluster file is about the target.
Target JumpTarget(const std::string& jumps, const Target& target) {
  if (target.jump_depth >= kMostJumps) {
    throw Error(
        Phase::kConnect,
        fmt::format("ProxyJump leads through more than {} hosts, or in a circle", kMostJumps),
        "give the jump host a Host block with ProxyJump none in ~/.ssh/config");
  }
  const size_t comma = jumps.rfind(',');
  const std::string last = LastJump(jumps);
  Target jump;
  if (IsBracketed(last)) {
    TakeBracketed(last, jump);
  } else {
    jump.name = std::string(kScheme) + last;
  }
  jump.config = target.config;
  jump.accept_new = target.accept_new;
  jump.strict = target.strict;
  jump.program = Program::kOpenssh;
  jump.jumps = comma == std::string::npos ? "" : jumps.substr(0, comma);
  jump.jump_depth = target.jump_depth + 1;
  jump.limits = target.limits;
  jump.connections = target.connections;
  jump.on_note = target.on_note;
  return jump;
}

// Those of this process.
class Masters {
 public:
  Masters() = default;
  Masters(const Masters&) = delete;
  Masters& operator=(const Masters&) = delete;
  ~Masters() { End(); }

  MasterPlace TakePlace(const Target& target, TimePoint& deadline);
  MasterPlace TakeAnotherPlace(const Target& target, const MasterPlace& refused,
                               TimePoint& deadline);
  MasterPlace TakePlaceBesideSilent(const Target& target, const MasterPlace& users,
                                    TimePoint& deadline);
  void End();

 private:
  // On a connection with room for it.
  std::shared_ptr<MasterChannel> ChannelFor(const Target& target);
  // On the user's own connection, where one is open and has room.
  std::optional<MasterPlace> PlaceOfTheUser(const Target& target, const std::string& control_path);
  // How many others the connection has.
  long Refuse(const Target& target, const MasterPlace& place);
  // Where the user's own connection has no room.
  MasterPlace TakePlaceBesideTheUsers(const Target& target, TimePoint& deadline);
  // A channel that has ended counts on the host until its program has, which may take its time or for ever. Throws where
  // there was none.
  void GiveTimeToEnd(const Target& target, const Master& master);

  Logins logins_;
  Running channels_;

  Mutex mutex_;
  std::unique_ptr<SocketFolder> folder_ GUARDED_BY(mutex_);
  std::map<std::string, Connections> masters_ GUARDED_BY(mutex_);  // by what tells hosts apart
  int sockets_ GUARDED_BY(mutex_) = 0;                             // named so far
  std::map<std::string, Connections> users_ GUARDED_BY(mutex_);    // by control path
  std::set<std::string> silent_ GUARDED_BY(mutex_);                // of these
};

// On one connection.
long MostChannels(const Target& target) {
  return IsJump(target) ? std::numeric_limits<long>::max() : kChannels;
}

// Equal for targets that share connections.
std::string KeyOf(const Target& target) {
  std::string key;
  for (const std::string& part :
       {target.name, target.config.string(), target.user,
        target.port ? std::to_string(*target.port) : "", target.identity_file,
        std::string(target.accept_new ? "accept-new" : ""),
        std::string(target.strict ? "strict" : ""), target.jumps,
        // Each depth has its own: ways in a circle meet the limit of depth, not their own login.
        IsJump(target) ? fmt::format("jump {}", target.jump_depth) : ""}) {
    key.append(part).push_back('\0');
  }
  return key;
}

std::shared_ptr<MasterChannel> Masters::ChannelFor(const Target& target) {
  const MutexLock lock(mutex_);
  logins_.ThrowIfEnding();
  if (folder_ == nullptr || !folder_->IsThere()) {
    // Nobody reaches connections whose sockets have gone. They end after their last channel.
    masters_.clear();
    folder_ = std::make_unique<SocketFolder>();
  }
  Connections& connections =
      masters_.try_emplace(KeyOf(target), MostChannels(target), 1).first->second;
  if (auto channel = connections.Join(channels_.Count())) return channel;
  auto master = std::make_shared<Master>();
  master->socket = (folder_->path() / std::to_string(++sockets_)).string();
  return connections.Begin(std::move(master), channels_.Count());
}

std::optional<MasterPlace> Masters::PlaceOfTheUser(const Target& target,
                                                   const std::string& control_path) {
  if (!IsListenedTo(control_path)) return std::nullopt;
  const MutexLock lock(mutex_);
  if (silent_.contains(control_path)) return std::nullopt;
  const auto [at, is_new] = users_.try_emplace(control_path, MostChannels(target), 0);
  auto channel = is_new ? at->second.Begin(std::make_shared<Master>(), channels_.Count())
                        : at->second.Join(channels_.Count());
  if (channel == nullptr) return std::nullopt;
  return MasterPlace{control_path, std::move(channel), true};
}

MasterPlace Masters::TakePlace(const Target& target, TimePoint& deadline) {
  const std::shared_ptr<MasterChannel> channel = ChannelFor(target);
  const std::shared_ptr<Master>& master = channel->master;
  target.Begin({"wait for other logins", kWaitsForTurn, deadline});
  const int logins_before = master->logins;
  const TimePoint begin = SystemClock().Now();
  const MutexLock lock(master->mutex);
  deadline += SystemClock().Now() - begin;
  if (IsListenedTo(master->socket)) return {master->socket, channel};
  // What another one has just found out: a host that says nothing takes its time once, not once a slot.
  if (master->logins != logins_before && master->failure) Throw(*master->failure);
  target.Begin({"ssh's configuration", kWaitsForConfig, Within(target.limits.config, deadline)});
  HostConfig host = ConfigOf(target, deadline);
  if (!target.jumps.empty()) host.proxy_jump = host.gateway = target.jumps;
  if (auto users = PlaceOfTheUser(target, host.control_path)) return *std::move(users);
  for (int tries = 1;; ++tries) {
    // Before this login has a place among the others, as that to the jump host needs one, too.
    std::optional<JumpWay> jump;
    if (!host.proxy_jump.empty()) {
      jump = ThroughJumps(host.proxy_jump, std::string(kToItsHost), target, deadline);
    }
    target.Begin({"wait for other logins", kWaitsForTurn, deadline});
    const LoginPlaces places = TakeLoginPlaces(host, target, deadline);
    const Target patient = WithTimeToConnect(target, host, deadline);
    master->failure = LogInWithPatience(logins_, patient, host, jump, master->socket, deadline);
    ++master->logins;
    if (!master->failure) return {master->socket, channel};
    if (tries == kMostWays || !HasEnded(jump)) Throw(*master->failure);
  }
}

long Masters::Refuse(const Target& target, const MasterPlace& place) {
  const MutexLock lock(mutex_);
  auto& those = place.is_users ? users_ : masters_;
  const auto found = those.find(place.is_users ? place.socket : KeyOf(target));
  return found == those.end() ? 0 : found->second.Refuse(*place.held);
}

MasterPlace Masters::TakeAnotherPlace(const Target& target, const MasterPlace& refused,
                                      TimePoint& deadline) {
  const bool is_only_one = Refuse(target, refused) == 0;
  if (refused.is_users) return TakePlaceBesideTheUsers(target, deadline);
  if (is_only_one) GiveTimeToEnd(target, *refused.held->master);
  return TakePlace(target, deadline);
}

MasterPlace Masters::TakePlaceBesideSilent(const Target& target, const MasterPlace& users,
                                           TimePoint& deadline) {
  bool is_first = false;
  {
    const MutexLock lock(mutex_);
    is_first = silent_.insert(users.socket).second;
  }
  if (is_first && target.on_note) {
    target.on_note(fmt::format(
        "your own connection ({}) does not answer, and ssh -O exit would end it: logs in anew",
        users.socket));
  }
  return TakePlace(target, deadline);
}

MasterPlace Masters::TakePlaceBesideTheUsers(const Target& target, TimePoint& deadline) {
  try {
    return TakePlace(target, deadline);
  } catch (const Error& error) {
    throw Error(
        Phase::kExec,
        fmt::format("its sshd opens no further session on the connection, and a new one fails: {}",
                    error.cause()),
        "it is your own connection (ControlPath): end what else uses it, end it (ssh -O exit), or "
        "raise MaxSessions in the host's sshd_config");
  }
}

void Masters::GiveTimeToEnd(const Target& target, const Master& master) {
  const TimePoint ended = master.channel_ended;
  if (ended == TimePoint{}) {
    throw Error(Phase::kExec, "its sshd opens no session on a connection",
                "MaxSessions 10 (the default) or more in its sshd_config");
  }
  if (SystemClock().Now() < ended + kEndOfOthersLimit) {
    poll(nullptr, 0, static_cast<int>(kEndOfOthersPause.count()));
    return;
  }
  const MutexLock lock(mutex_);
  const auto found = masters_.find(KeyOf(target));
  if (found != masters_.end()) found->second.Leave(master);
}

void Masters::End() {
  logins_.End(SystemClock().Now() + kEndLimit);
  {
    const MutexLock lock(mutex_);
    masters_.clear();
    folder_.reset();
  }
  // Without their connection they end.
  channels_.WaitUntilNone(SystemClock().Now() + kEndLimit);
}

// Of the process: a host has one, whoever calls. Its destructor runs when main has returned.
Masters& AllMasters() {
  static Masters masters;
  return masters;
}

}  // namespace

MasterPlace TakeMasterPlace(const Target& target, TimePoint& deadline) {
  return AllMasters().TakePlace(target, deadline);
}

MasterPlace TakeAnotherPlace(const Target& target, const MasterPlace& refused,
                             TimePoint& deadline) {
  return AllMasters().TakeAnotherPlace(target, refused, deadline);
}

MasterPlace TakePlaceBesideSilent(const Target& target, const MasterPlace& users,
                                  TimePoint& deadline) {
  return AllMasters().TakePlaceBesideSilent(target, users, deadline);
}

std::chrono::milliseconds LoginLimit(const Limits& limits) {
  return limits.tcp + limits.banner + limits.key_exchange + limits.authentication;
}

JumpWay ThroughJumps(const std::string& jumps, const std::string& to, const Target& target,
                     TimePoint& deadline) {
  const Target jump = JumpTarget(jumps, target);
  const std::string name = LastJump(jumps);
  target.Begin({"jump host", "waits for its jump host", deadline});
  try {
    MasterPlace place = TakeMasterPlace(jump, deadline);
    return {ThroughMaster(place.socket, jump, {"-v", "-W", to}, ""), name, place.socket,
            std::move(place.held)};
  } catch (const Unreachable& error) {
    throw Unreachable(error.phase(), fmt::format("its jump host {}: {}", name, error.cause()),
                      error.remedy());
  } catch (const Error& error) {
    throw Error(error.phase(), fmt::format("its jump host {}: {}", name, error.cause()),
                error.remedy());
  }
}

bool HasEnded(const std::optional<JumpWay>& jump) { return jump && HasEnded(jump->socket); }

std::vector<std::string> ThroughMaster(const std::string& socket, const Target& target,
                                       const std::vector<std::string>& words,
                                       const std::string& command) {
  std::vector<std::string> argv = {"ssh", "-F", "/dev/null", "-S", Escaped(socket), "-T"};
  // Where the socket has gone or the host opens no channel, ssh would connect anew, to what it takes for the host.
  for (const char* option : {"ControlMaster=no", "BatchMode=yes", "ProxyCommand=false"}) {
    argv.insert(argv.end(), {"-o", option});
  }
  argv.insert(argv.end(), words.begin(), words.end());
  argv.insert(argv.end(), {"--", target.name});
  if (!command.empty()) argv.push_back(command);
  return argv;
}

void EndMasters() { AllMasters().End(); }

}  // namespace tfdist::ssh

#include "cli/ssh/keys/ssh_agent.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include "base/thread_annotations.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/keys/public_key.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

constexpr char kRequestIdentities = 11;
constexpr char kSignRequest = 13;
constexpr uint8_t kIdentitiesAnswer = 12;
constexpr uint8_t kSignResponse = 14;
constexpr uint8_t kSuccess = 6;
constexpr char kExtension = 27;
constexpr uint32_t kRsaSha256 = 2;
constexpr uint32_t kRsaSha512 = 4;

// A session of nobody: its name, an ed25519 key whose private part was thrown away when this was written, and its signature
// of the name (RFC 8709).
constexpr std::string_view kNobodysSession = "none";
constexpr std::string_view kNobodysKey =
    "AAAAC3NzaC1lZDI1NTE5AAAAIBLCjOOcKPcpeYburxgQDsMQBr9mTRQdFoZzuCyT64li";
constexpr std::string_view kNobodysSignature =
    "AAAAC3NzaC1lZDI1NTE5AAAAQBmpyaLL6elFU4QI+JejRPdNK8eymonkC14sgdzT"
    "tmmiMW+p4YeZYOWjMtoT3AH1sJ30bfLYGjY2pJRFTVNq5wM=";

constexpr size_t kMaxMessageBytes = 256 * 1024;  // as OpenSSH
constexpr uint32_t kMaxKeys = 2048;
constexpr int kFullQueuePauseMs = 20;
constexpr std::chrono::seconds kFreshFor{5};
// For logins that were about to ask as well; later its user may be back.
constexpr std::chrono::seconds kSilentFor{30};

uint32_t FlagsFor(std::string_view algorithm) {
  if (algorithm == "rsa-sha2-512") return kRsaSha512;
  return algorithm == "rsa-sha2-256" ? kRsaSha256 : 0;
}

bool WaitFor(int fd, int16_t events, TimePoint deadline) {
  pollfd waited{fd, events, 0};
  int ready = 0;
  do {
    ready = poll(&waited, 1, PollTimeout(SystemClock().Now(), deadline));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

std::optional<std::vector<AgentKey>> KeysInAnswer(std::string_view answer) {
  WireReader reader(answer);
  if (reader.TakeByte() != kIdentitiesAnswer) return std::nullopt;
  const uint32_t count = std::min(reader.TakeUint32().value_or(0), kMaxKeys);
  std::vector<AgentKey> keys;
  for (uint32_t i = 0; i < count; ++i) {
    const auto blob = reader.TakeString();
    const auto comment = reader.TakeString();
    if (!blob || !comment) break;
    keys.push_back({std::string(*blob)});
  }
  return keys;
}

Signature SignatureInAnswer(std::string_view answer, std::string_view algorithm) {
  WireReader reader(answer);
  if (reader.TakeByte() != kSignResponse) return {Signature::Kind::kRefused, ""};
  WireReader signature(reader.TakeString().value_or(""));
  if (signature.TakeString() != algorithm) return {};
  const auto bytes = signature.TakeString();
  return bytes ? Signature{Signature::Kind::kMade, std::string(*bytes)} : Signature();
}

std::optional<SshAgent> SshAgent::Connect(const std::string& socket_path, TimePoint deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return std::nullopt;
  // EAGAIN: its queue is full.
  while (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN || SystemClock().Now() >= deadline) return std::nullopt;
    poll(nullptr, 0, kFullQueuePauseMs);
  }
  return SshAgent(std::move(fd));
}

std::optional<std::vector<AgentKey>> SshAgent::Keys(TimePoint deadline) {
  const auto answer = Ask({&kRequestIdentities, 1}, deadline);
  return answer ? KeysInAnswer(*answer) : std::nullopt;
}

Signature SshAgent::Sign(std::string_view blob, std::string_view data, std::string_view algorithm,
                         TimePoint deadline) {
  std::string request(1, kSignRequest);
  AppendString(request, blob);
  AppendString(request, data);
  AppendUint32(request, FlagsFor(algorithm));
  const auto answer = Ask(request, deadline);
  if (!answer) {
    return {SystemClock().Now() >= deadline ? Signature::Kind::kSilent : Signature::Kind::kNone,
            ""};
  }
  return SignatureInAnswer(*answer, algorithm);
}

// PROTOCOL.agent in OpenSSH's sources: a host's key, the session, the host's signature of that, whether the agent is forwarded.
bool SshAgent::BindToNoHost(TimePoint deadline) {
  std::string request(1, kExtension);
  AppendString(request, "session-bind@openssh.com");
  AppendString(request, FromBase64(kNobodysKey).value());
  AppendString(request, kNobodysSession);
  AppendString(request, FromBase64(kNobodysSignature).value());
  request.push_back(0);
  const auto answer = Ask(request, deadline);
  return answer && WireReader(*answer).TakeByte() == kSuccess;
}

std::optional<std::string> SshAgent::Ask(std::string_view request, TimePoint deadline) {
  std::string message;
  AppendString(message, request);
  if (!Send(message, deadline)) return std::nullopt;
  const TimePoint patience = Within(kPatience, deadline);
  if (on_slow_ && !WaitFor(fd_.get(), POLLIN, patience)) on_slow_();
  const auto header = Receive(4, deadline);
  if (!header) return std::nullopt;
  const uint32_t size = WireReader(*header).TakeUint32().value_or(0);
  if (size > kMaxMessageBytes) return std::nullopt;
  return Receive(size, deadline);
}

bool SshAgent::Send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put > 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno != EAGAIN || !WaitFor(fd_.get(), POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

std::optional<std::string> SshAgent::Receive(size_t size, TimePoint deadline) {
  std::string bytes(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = recv(fd_.get(), bytes.data() + filled, size - filled, 0);
    if (got > 0) {
      filled += static_cast<size_t>(got);
    } else if (got == 0 || errno != EAGAIN || !WaitFor(fd_.get(), POLLIN, deadline)) {
      return std::nullopt;
    }
  }
  return bytes;
}

namespace {

// What this process knows of an agent. One login at a time asks it.
struct KnownAgent {
  Mutex mutex;
  std::vector<AgentKey> keys GUARDED_BY(mutex);
  TimePoint asked GUARDED_BY(mutex){};
  TimePoint silent_at GUARDED_BY(mutex){};  // it had not signed in time
};

KnownAgent& AgentAt(const std::string& socket_path) {
  static Mutex mutex;
  static std::map<std::string, KnownAgent> agents;
  const MutexLock lock(mutex);
  return agents[socket_path];
}

// Moves the caller's deadline by its own life.
class OutsideOf {
 public:
  explicit OutsideOf(TimePoint& deadline) : deadline_(deadline) {}
  OutsideOf(const OutsideOf&) = delete;
  OutsideOf& operator=(const OutsideOf&) = delete;
  ~OutsideOf() { deadline_ += SystemClock().Now() - begin_; }

 private:
  TimePoint& deadline_;
  const TimePoint begin_ = SystemClock().Now();
};

}  // namespace

std::vector<AgentKey> AgentKeysAt(const std::string& socket_path, const Limits& limits,
                                  TimePoint& deadline) {
  if (socket_path.empty()) return {};
  const OutsideOf outside(deadline);
  KnownAgent& known = AgentAt(socket_path);
  const MutexLock lock(known.mutex);
  const TimePoint now = SystemClock().Now();
  if (known.asked != TimePoint{} && now - known.asked < kFreshFor) return known.keys;
  const TimePoint give_up = now + limits.agent;
  auto agent = SshAgent::Connect(socket_path, give_up);
  known.keys =
      agent ? agent->Keys(give_up).value_or(std::vector<AgentKey>()) : std::vector<AgentKey>();
  known.asked = SystemClock().Now();
  return known.keys;
}

namespace {

// Whether the agent has the key, and keeps it for some hosts.
bool IsBound(const std::string& socket_path, std::string_view blob, TimePoint deadline) {
  auto agent = SshAgent::Connect(socket_path, deadline);
  if (!agent || !agent->BindToNoHost(deadline)) return false;
  const auto keys = agent->Keys(deadline);
  return keys && std::ranges::none_of(*keys, [&](const AgentKey& key) { return key.blob == blob; });
}

}  // namespace

Signature SignByAgentAt(const std::string& socket_path, std::string_view blob,
                        std::string_view data, std::string_view algorithm, const Target& target,
                        TimePoint& deadline) {
  target.Begin({"ssh-agent", "", {}});  // the line that names it comes earlier
  const OutsideOf outside(deadline);
  KnownAgent& known = AgentAt(socket_path);
  const MutexLock lock(known.mutex);
  // Each login that waits for its turn would wait as long, one after the other.
  if (known.silent_at + kSilentFor > SystemClock().Now()) return {Signature::Kind::kSilent, ""};
  const TimePoint give_up = SystemClock().Now() + target.limits.signature;
  auto agent = SshAgent::Connect(socket_path, give_up);
  if (agent && target.on_note) {
    agent->SetOnSlow([&] { target.on_note(std::string(kWaitsForAgent)); });
  }
  Signature signature = agent ? agent->Sign(blob, data, algorithm, give_up) : Signature();
  if (signature.kind == Signature::Kind::kSilent) known.silent_at = SystemClock().Now();
  if (signature.kind == Signature::Kind::kRefused && IsBound(socket_path, blob, give_up)) {
    signature.kind = Signature::Kind::kBound;
  }
  return signature;
}

}  // namespace tfdist::ssh

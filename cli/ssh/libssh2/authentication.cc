#include "cli/ssh/libssh2/authentication.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/channel/tail.h"
#include "cli/ssh/config/library_failure.h"
#include "cli/ssh/config/path_words.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/keys/ssh_agent.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

// As many as an sshd takes by default (MaxAuthTries); ssh itself fails at that too.
constexpr size_t kMaxOffers = 6;

// What the signing callback needs; libssh2 hands it a pointer to this.
struct AgentSigner {
  const std::string& socket;
  const std::string& blob;
  const Target& target;
  TimePoint& deadline;
  Signature::Kind& kind;
};

// The signature algorithm that libssh2 has settled on: it stands in the data to be signed (RFC 4252
// 7).
std::string AlgorithmIn(std::string_view data) {
  WireReader reader(data);
  (void)reader.TakeString();  // session identifier
  (void)reader.TakeByte();    // SSH_MSG_USERAUTH_REQUEST
  (void)reader.TakeString();  // user
  (void)reader.TakeString();  // "ssh-connection"
  (void)reader.TakeString();  // "publickey"
  (void)reader.TakeByte();    // TRUE
  return std::string(reader.TakeString().value_or(""));
}

void BeginLogin(const Target& target, TimePoint deadline) {
  target.Begin({"authentication", kWaitsForLogin, deadline});
}

int SignWithAgent(LIBSSH2_SESSION* /*session*/, unsigned char** signature, size_t* signature_size,
                  const unsigned char* data, size_t data_size, void** abstract) noexcept {
  try {
    const auto& signer = *static_cast<const AgentSigner*>(*abstract);
    const std::string_view text(reinterpret_cast<const char*>(data), data_size);
    const auto [kind, bytes] = SignByAgentAt(signer.socket, signer.blob, text, AlgorithmIn(text),
                                             signer.target, signer.deadline);
    BeginLogin(signer.target, signer.deadline);
    signer.kind = kind;
    if (kind != Signature::Kind::kMade) return LIBSSH2_ERROR_AGENT_PROTOCOL;
    *signature = static_cast<unsigned char*>(std::malloc(bytes.size()));  // libssh2 frees it
    if (*signature == nullptr) return LIBSSH2_ERROR_ALLOC;
    std::memcpy(*signature, bytes.data(), bytes.size());
    *signature_size = bytes.size();
    return 0;
  } catch (...) {  // a C library cannot pass it on
    return LIBSSH2_ERROR_AGENT_PROTOCOL;
  }
}

// ssh finds it beside the key; libssh2 shows the key alone. Empty: there is none.
std::string Certificate(const HostConfig& host) {
  std::vector<std::string> paths = host.certificate_files;
  for (const std::string& path : host.identity_files) paths.push_back(path + "-cert.pub");
  const auto found = std::ranges::find_if(
      paths, [](const std::string& path) { return access(path.c_str(), R_OK) == 0; });
  return found == paths.end() ? "" : *found;
}

class Authenticator {
 public:
  Authenticator(Connection& connection, const HostConfig& host, const KeyOffers& keys,
                const Target& target, TimePoint& deadline)
      : connection_(connection), host_(host), keys_(keys), target_(target), deadline_(deadline) {}

  void Run();

 private:
  // Asks which methods there are, which a host answers with success if it needs no proof at all.
  bool IsWelcomeAnyway();
  // As Connection::Finish; a host that has said something, and waits, is waited for.
  template <typename Step>
  auto Finish(Step step) -> std::optional<decltype(step())>;
  void TellWhatTheHostSays();
  // Before the login, on one line; empty: nothing.
  [[nodiscard]] std::string WordsOfHost() const;
  // Whether the host lets us in with it.
  bool Try(const KeyOffer& offer);
  int TryAgentKey(const KeyOffer& offer);
  int TryFile(const KeyOffer& offer);
  [[noreturn]] void FailWithoutAcceptance() const;
  [[noreturn]] void FailWithBrokenConnection() const;
  [[noreturn]] static void FailOfSilence();

  Connection& connection_;
  const HostConfig& host_;
  const KeyOffers& keys_;
  const Target& target_;
  TimePoint& deadline_;
  bool ssh_has_another_way_ = false;  // than keys, without a question
  // The agent has asked its user in vain, or asks still: no other program is to ask again.
  bool agent_refuses_ = false;
  bool agent_is_silent_ = false;
  const TimePoint begin_ = SystemClock().Now();
  bool told_ = false;
};

template <typename Step>
auto Authenticator::Finish(Step step) -> std::optional<decltype(step())> {
  while (true) {
    const auto result = step();
    if (result != LIBSSH2_ERROR_EAGAIN) return result;
    const TimePoint look = told_ ? deadline_ : std::min(deadline_, begin_ + kPatience);
    if (connection_.Wait(look)) continue;
    TellWhatTheHostSays();
    if (SystemClock().Now() >= deadline_ || !connection_.Wait(deadline_)) return std::nullopt;
  }
}

void Authenticator::TellWhatTheHostSays() {
  if (std::exchange(told_, true)) return;
  const std::string words = WordsOfHost();
  if (words.empty()) return;
  if (target_.on_note) target_.on_note("it says: " + words);
  deadline_ = std::max(deadline_, begin_ + kUserLimit);
}

std::string Authenticator::WordsOfHost() const {
  char* text = nullptr;
  if (libssh2_userauth_banner(connection_.session(), &text) != 0 || text == nullptr) return "";
  return cli::OnOneLine(text);
}

void Authenticator::Run() {
  BeginLogin(target_, deadline_);
  if (IsWelcomeAnyway()) return;
  for (size_t at = 0; at < std::min(keys_.offers.size(), kMaxOffers); ++at) {
    const KeyOffer& offer = keys_.offers[at];
    if (offer.in_agent && agent_is_silent_) continue;
    if (Try(offer)) return;
  }
  FailWithoutAcceptance();
}

bool Authenticator::IsWelcomeAnyway() {
  LIBSSH2_SESSION* session = connection_.session();
  const char* methods = nullptr;
  const auto size = static_cast<unsigned int>(host_.user.size());
  const auto code = Finish([&] {
    methods = libssh2_userauth_list(session, host_.user.c_str(), size);
    return methods != nullptr ? 0 : libssh2_session_last_errno(session);
  });
  if (methods == nullptr) {
    if (libssh2_userauth_authenticated(session) != 0) return true;
    if (!code) FailOfSilence();
    FailWithBrokenConnection();
  }
  const std::string_view all(methods);
  ssh_has_another_way_ = all.find("gssapi") != all.npos || all.find("hostbased") != all.npos;
  if (all.find("publickey") == all.npos) {
    throw LibraryFailure(Phase::kAuth, fmt::format("the host takes no keys; it offers: {}",
                                                   cli::OnOneLine(methods)));
  }
  return false;
}

bool Authenticator::Try(const KeyOffer& offer) {
  const auto code = Finish([&] { return offer.in_agent ? TryAgentKey(offer) : TryFile(offer); });
  if (!code) FailOfSilence();
  if (*code == 0) return true;
  // The server ends the connection when it has had enough.
  if (*code == LIBSSH2_ERROR_SOCKET_DISCONNECT || *code == LIBSSH2_ERROR_SOCKET_SEND ||
      *code == LIBSSH2_ERROR_SOCKET_RECV) {
    FailWithBrokenConnection();
  }
  return false;
}

int Authenticator::TryAgentKey(const KeyOffer& offer) {
  auto kind = Signature::Kind::kMade;
  AgentSigner signer{host_.agent_socket, offer.blob, target_, deadline_, kind};
  void* abstract = &signer;
  const int code =
      libssh2_userauth_publickey(connection_.session(), host_.user.c_str(),
                                 reinterpret_cast<const unsigned char*>(offer.blob.data()),
                                 offer.blob.size(), SignWithAgent, &abstract);
  agent_refuses_ = agent_refuses_ || kind == Signature::Kind::kRefused;
  agent_is_silent_ = agent_is_silent_ || kind == Signature::Kind::kSilent;
  return code;
}

void Authenticator::FailWithoutAcceptance() const {
  const std::string cause = fmt::format("the host does not let {} in with its {} keys", host_.user,
                                        std::min(keys_.offers.size(), kMaxOffers));
  if (ssh_has_another_way_ || (!agent_refuses_ && !agent_is_silent_)) {
    throw LibraryFailure(Phase::kAuth, cause);
  }
  const auto limit = std::chrono::round<std::chrono::seconds>(target_.limits.signature);
  throw Error(Phase::kAuth,
              cause + (agent_is_silent_
                           ? fmt::format("; ssh-agent has not signed within {} s", limit.count())
                           : "; ssh-agent refuses to sign"),
              std::string(kAskTheAgent));
}

int Authenticator::TryFile(const KeyOffer& offer) {
  return libssh2_userauth_publickey_fromfile_ex(connection_.session(), host_.user.c_str(),
                                                static_cast<unsigned int>(host_.user.size()),
                                                nullptr, offer.path.c_str(), "");
}

// ssh would wait as long again.
void Authenticator::FailOfSilence() {
  throw Unreachable(Phase::kAuth, "the host has begun the login and then fell silent",
                    std::string(kAboutSlowLogin));
}

void Authenticator::FailWithBrokenConnection() const {
  throw LibraryFailure(
      Phase::kAuth, fmt::format("the connection broke in the login ({})", connection_.LastError()));
}

}  // namespace

KeyOffers CollectKeys(const HostConfig& host, const Limits& limits, TimePoint& deadline) {
  std::vector<IdentityFile> files;
  for (const std::string& path : host.identity_files) {
    if (auto file = LookAtIdentityFile(path)) files.push_back(std::move(*file));
  }
  KeyOffers keys = ArrangeOffers(AgentKeysAt(host.agent_socket, limits, deadline), files, host);
  if (const std::string path = Certificate(host); !path.empty() && keys.beyond.empty()) {
    keys.beyond = path + " is a certificate";
  }
  return keys;
}

void Authenticate(Connection& connection, const HostConfig& host, const KeyOffers& keys,
                  const Target& target, TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  TimePoint end = begin + target.limits.authentication;
  Authenticator(connection, host, keys, target, end).Run();
  deadline += SystemClock().Now() - begin;
}

}  // namespace tfdist::ssh

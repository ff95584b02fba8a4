#include "cli/ssh/libssh2/authentication.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/failures.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/keys/key_offers.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

// As many as an sshd takes by default (MaxAuthTries); ssh itself fails at that too.
constexpr size_t kMaxOffers = 6;

// What the signing callback needs; libssh2 hands it a pointer to this.
struct AgentSigner {
  SshAgent* agent;
  const std::string* blob;
  TimePoint deadline;
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

int SignWithAgent(LIBSSH2_SESSION* /*session*/, unsigned char** signature, size_t* signature_size,
                  const unsigned char* data, size_t data_size, void** abstract) noexcept {
  try {
    const auto& signer = *static_cast<const AgentSigner*>(*abstract);
    const std::string_view text(reinterpret_cast<const char*>(data), data_size);
    const auto bytes = signer.agent->Sign(*signer.blob, text, AlgorithmIn(text), signer.deadline);
    if (!bytes) return LIBSSH2_ERROR_AGENT_PROTOCOL;
    *signature = static_cast<unsigned char*>(std::malloc(bytes->size()));  // libssh2 frees it
    if (*signature == nullptr) return LIBSSH2_ERROR_ALLOC;
    std::memcpy(*signature, bytes->data(), bytes->size());
    *signature_size = bytes->size();
    return 0;
  } catch (...) {  // a C library cannot pass it on
    return LIBSSH2_ERROR_AGENT_PROTOCOL;
  }
}

// `methods`: that the host offers instead.
std::string RemedyWithoutKeys(std::string_view methods) {
  if (methods.find("gssapi") != methods.npos || methods.find("hostbased") != methods.npos) {
    return std::string(kUseOpenssh);
  }
  return "PubkeyAuthentication must be on in its sshd_config; or log in by hand where "
         "~/.ssh/config has ControlMaster, "
         "ControlPath and ControlPersist: with transport = \"openssh\" in [ssh], tfdist uses that "
         "connection";
}

// ssh finds it beside the key; libssh2 shows the key alone.
bool HasCertificate(const HostConfig& host) {
  const auto is_there = [](const std::string& path) { return access(path.c_str(), R_OK) == 0; };
  return std::ranges::any_of(host.certificate_files, is_there) ||
         std::ranges::any_of(host.identity_files,
                             [&](const std::string& path) { return is_there(path + "-cert.pub"); });
}

class Authenticator {
 public:
  Authenticator(Connection& connection, const HostConfig& host, TimePoint deadline)
      : connection_(connection), host_(host), deadline_(deadline) {}

  void Run();

 private:
  // Asks which methods there are, which a host answers with success if it needs no proof at all.
  bool IsWelcomeAnyway();
  void CollectKeys();
  bool Try(const KeyOffer& offer);
  int TryAgentKey(const KeyOffer& offer);
  int TryFile(const KeyOffer& offer);
  [[noreturn]] void FailWithoutAcceptance() const;
  [[noreturn]] void FailWithBrokenConnection() const;

  Connection& connection_;
  const HostConfig& host_;
  TimePoint deadline_;
  std::optional<SshAgent> agent_;
  KeyOffers keys_;
  std::vector<std::string> tried_;  // labels
};

void Authenticator::Run() {
  if (IsWelcomeAnyway()) return;
  CollectKeys();
  for (const KeyOffer& offer : keys_.offers) {
    if (tried_.size() == kMaxOffers) break;
    tried_.push_back(offer.label);
    if (Try(offer)) return;
  }
  FailWithoutAcceptance();
}

bool Authenticator::IsWelcomeAnyway() {
  LIBSSH2_SESSION* session = connection_.session();
  const char* methods = nullptr;
  const auto size = static_cast<unsigned int>(host_.user.size());
  const auto code = connection_.Finish(deadline_, [&] {
    methods = libssh2_userauth_list(session, host_.user.c_str(), size);
    return methods != nullptr ? 0 : libssh2_session_last_errno(session);
  });
  if (methods == nullptr) {
    if (libssh2_userauth_authenticated(session) != 0) return true;
    if (!code) throw Unreachable(Phase::kAuth, "the host fell silent when asked how to log in");
    FailWithBrokenConnection();
  }
  if (std::strstr(methods, "publickey") == nullptr) {
    throw Error(Phase::kAuth,
                fmt::format("the host takes no keys from user {}; it offers: {}", host_.user,
                            cli::OnOneLine(methods)),
                RemedyWithoutKeys(methods));
  }
  return false;
}

void Authenticator::CollectKeys() {
  std::vector<IdentityFile> files;
  for (const std::string& path : host_.identity_files) {
    if (auto file = LookAtIdentityFile(path)) files.push_back(std::move(*file));
  }
  agent_ = SshAgent::Connect(host_.agent_socket);
  const std::vector<AgentKey> agent_keys =
      agent_ ? agent_->Keys(deadline_) : std::vector<AgentKey>();
  keys_ = ArrangeOffers(agent_keys, files, host_.identities_only);
}

bool Authenticator::Try(const KeyOffer& offer) {
  const auto code = connection_.Finish(
      deadline_, [&] { return offer.in_agent ? TryAgentKey(offer) : TryFile(offer); });
  if (!code) {
    throw Unreachable(Phase::kAuth,
                      fmt::format("the host fell silent when offered {}", offer.label));
  }
  if (*code == 0) return true;
  // The server ends the connection when it has had enough.
  if (*code == LIBSSH2_ERROR_SOCKET_DISCONNECT || *code == LIBSSH2_ERROR_SOCKET_SEND ||
      *code == LIBSSH2_ERROR_SOCKET_RECV) {
    FailWithBrokenConnection();
  }
  if (*code != LIBSSH2_ERROR_AUTHENTICATION_FAILED)
    tried_.back() += fmt::format(" ({})", connection_.LastError());
  return false;
}

int Authenticator::TryAgentKey(const KeyOffer& offer) {
  AgentSigner signer{&*agent_, &offer.blob, deadline_};
  void* abstract = &signer;
  return libssh2_userauth_publickey(connection_.session(), host_.user.c_str(),
                                    reinterpret_cast<const unsigned char*>(offer.blob.data()),
                                    offer.blob.size(), SignWithAgent, &abstract);
}

int Authenticator::TryFile(const KeyOffer& offer) {
  return libssh2_userauth_publickey_fromfile_ex(connection_.session(), host_.user.c_str(),
                                                static_cast<unsigned int>(host_.user.size()),
                                                nullptr, offer.path.c_str(), "");
}

void Authenticator::FailWithoutAcceptance() const {
  std::string cause = tried_.empty()
                          ? fmt::format("there is no key to log in with as {}", host_.user)
                          : fmt::format("the host does not let {} in with any of: {}", host_.user,
                                        fmt::join(tried_, ", "));
  if (!keys_.left_out.empty())
    cause += fmt::format("; not offered: {}", fmt::join(keys_.left_out, ", "));
  if (keys_.offers.size() > kMaxOffers)
    cause += fmt::format("; {} more keys were not offered", keys_.offers.size() - kMaxOffers);
  if (HasCertificate(host_)) cause += "; tfdist itself shows no certificates";
  std::string remedy = tried_.empty()
                           ? "ssh-keygen -t ed25519, then ssh-copy-id to the host"
                           : "check [ssh] user and identity_file, or ssh-copy-id to the host";
  if (!keys_.left_out.empty())
    remedy = "ssh-add the key that was not offered, or name another as [ssh] identity_file";
  if (keys_.openssh_could || HasCertificate(host_)) remedy = kUseOpenssh;
  throw Error(Phase::kAuth, std::move(cause), std::move(remedy));
}

void Authenticator::FailWithBrokenConnection() const {
  if (tried_.empty()) {
    throw Unreachable(Phase::kAuth, fmt::format("the connection broke before the login ({})",
                                                connection_.LastError()));
  }
  throw Error(
      Phase::kAuth,
      fmt::format("the host ended the connection after {} keys of user {} ({}): {}", tried_.size(),
                  host_.user, connection_.LastError(), fmt::join(tried_, ", ")));
}

}  // namespace

void Authenticate(Connection& connection, const HostConfig& host, TimePoint deadline) {
  Authenticator(connection, host, deadline).Run();
}

}  // namespace tfdist::ssh

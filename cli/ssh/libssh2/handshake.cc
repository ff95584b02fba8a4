#include "cli/ssh/libssh2/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "base/error.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/path_words.h"
#include "cli/ssh/config/phase_deadline.h"
#include "cli/ssh/libssh2/library_failure.h"

namespace tfdist::ssh {
namespace {

// No methods: without them libssh2 would ask neither which signatures the server
// takes (RFC 8308), nor for strict key exchange (Terrapin, CVE-2023-48795).
constexpr const char* kKeyExchangeExtensions = ",ext-info-c,kex-strict-c-v00@openssh.com";
constexpr const char* kSignatures = "rsa-sha2-512,rsa-sha2-256";  // for RSA user keys

void SetMethods(const Connection& connection, int kind, const char* methods) {
  if (libssh2_session_method_pref(connection.session(), kind, methods) != 0) {
    throw Error(Phase::kInternal, fmt::format("libssh2 has none of {}", methods));
  }
}

void RestrictAlgorithms(const Connection& connection, const Algorithms& algorithms,
                        const std::vector<std::string>& first_key_types) {
  SetMethods(connection, LIBSSH2_METHOD_KEX,
             (algorithms.key_exchanges + kKeyExchangeExtensions).c_str());
  SetMethods(connection, LIBSSH2_METHOD_HOSTKEY,
             HostKeyMethods(first_key_types, algorithms.host_keys).c_str());
  for (const int kind : {LIBSSH2_METHOD_CRYPT_CS, LIBSSH2_METHOD_CRYPT_SC})
    SetMethods(connection, kind, algorithms.ciphers.c_str());
  for (const int kind : {LIBSSH2_METHOD_MAC_CS, LIBSSH2_METHOD_MAC_SC})
    SetMethods(connection, kind, algorithms.macs.c_str());
  for (const int kind : {LIBSSH2_METHOD_COMP_CS, LIBSSH2_METHOD_COMP_SC})
    SetMethods(connection, kind, "none");
  SetMethods(connection, LIBSSH2_METHOD_SIGN_ALGO, kSignatures);
}

[[noreturn]] void FailHandshake(const Connection& connection, const Algorithms& algorithms,
                                int code) {
  const bool met = libssh2_session_banner_get(connection.session()) != nullptr;
  if (met && code == LIBSSH2_ERROR_KEX_FAILURE) {
    throw LibraryFailure(
        Phase::kConnect,
        fmt::format("no agreement on algorithms, or the key exchange failed ({}); tfdist has {}; "
                    "ciphers {}; MACs {}; host keys {}",
                    connection.LastError(), algorithms.key_exchanges, algorithms.ciphers,
                    algorithms.macs, algorithms.host_keys),
        fmt::format("{} (ssh -vv to the host shows what it offers)", kUseOpenssh));
  }
  throw LibraryBreak(Phase::kConnect, fmt::format("the connection broke during the {}: {}",
                                                  met ? "key exchange" : "exchange of versions",
                                                  connection.LastError()));
}

Greeting Classify(std::string_view text) {
  if (text.starts_with(std::string_view("SSH-").substr(0, text.size())))
    return {Greeting::Kind::kSomething, ""};
  const std::string line = cli::OnOneLine(text);
  // sshd.c, drop_connection(). From OpenSSH 9.8 on the second text stands for MaxStartups and for
  // PerSourcePenalties alike; a connection that it drops with it adds to no penalty.
  if (text.starts_with("Exceeded MaxStartups") || text.starts_with("Not allowed at this time"))
    return {Greeting::Kind::kDropped, line};
  // RFC 4253 4.2: other lines may come before the version.
  return {Greeting::Kind::kSomething, line};
}

}  // namespace

Greeting AwaitGreeting(Stream& stream, TimePoint deadline) {
  while (stream.Poll(POLLIN, deadline) == 0) {
    if (SystemClock().Now() >= deadline) return {Greeting::Kind::kSilent, ""};
  }
  std::array<char, 256> text{};
  const ssize_t got = recv(stream.fd.get(), text.data(), text.size(), MSG_PEEK);
  if (got <= 0) return {Greeting::Kind::kDropped, ""};
  return Classify({text.data(), static_cast<size_t>(got)});
}

void Handshake(Connection& connection, const Algorithms& algorithms,
               const std::vector<std::string>& first_key_types, const Limits& limits,
               TimePoint deadline) {
  RestrictAlgorithms(connection, algorithms, first_key_types);
  TimePoint phase_end = Within(limits.banner, deadline);
  bool met = false;
  int code = 0;
  while ((code = libssh2_session_handshake(connection.session(), connection.fd())) ==
         LIBSSH2_ERROR_EAGAIN) {
    if (!met && libssh2_session_banner_get(connection.session()) != nullptr) {
      met = true;
      phase_end = Within(limits.key_exchange, deadline);
    }
    if (!connection.Wait(phase_end)) {
      if (!met) {
        const std::string on_the_way = connection.JumpErrors();
        throw NoVersion(Phase::kConnect,
                        fmt::format("it took the connection and then said nothing{}{}",
                                    on_the_way.empty() ? "" : ": ", on_the_way),
                        "is it an sshd that listens on that port? Its machine may be too busy");
      }
      throw LibraryBreak(Phase::kConnect, "the host fell silent during the key exchange",
                         std::string(kSilentHandshake));
    }
  }
  if (code != 0) FailHandshake(connection, algorithms, code);
}

std::string HostKeyBlob(const Connection& connection) {
  size_t size = 0;
  int type = 0;
  const char* blob = libssh2_session_hostkey(connection.session(), &size, &type);
  if (blob == nullptr) throw Error(Phase::kHostKey, "the host showed no key");
  return {blob, size};
}

}  // namespace tfdist::ssh

#include "cli/ssh/libssh2/handshake.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/ssh/config/library_failure.h"
#include "cli/ssh/config/off_question.h"
#include "cli/ssh/config/phase_deadline.h"

namespace tfdist::ssh {
namespace {

// No methods: without them libssh2 would ask neither which signatures the server
// takes (RFC 8308), nor for strict key exchange (Terrapin, CVE-2023-48795).
constexpr const char* kKeyExchangeExtensions = ",ext-info-c,kex-strict-c-v00@openssh.com";
constexpr std::chrono::seconds kJumpPatience{5};
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

[[noreturn]] void FailHandshake(const Connection& connection, bool met, int code) {
  const bool disagree = met && code == LIBSSH2_ERROR_KEX_FAILURE;
  throw LibraryFailure(
      Phase::kConnect,
      fmt::format("{}: {}",
                  disagree ? "no agreement on algorithms, or the key exchange failed"
                  : met    ? "the connection broke during the key exchange"
                           : "it hung up before its SSH version",
                  connection.LastError()));
}

[[noreturn]] void FailOfSilence(const Connection& connection, bool met) {
  if (met) throw LibraryFailure(Phase::kConnect, "it fell silent during the key exchange");
  if (connection.has_jump()) {
    throw LibraryFailure(Phase::kConnect, "nothing came through its jump host");
  }
  throw NoVersion(Phase::kConnect, "it took the connection and then said nothing",
                  "is it an sshd that listens on that port? Its machine may be too busy");
}

}  // namespace

void Handshake(Connection& connection, const Algorithms& algorithms,
               const std::vector<std::string>& first_key_types, const Target& target,
               TimePoint deadline) {
  RestrictAlgorithms(connection, algorithms, first_key_types);
  TimePoint end = Within(target.limits.banner, deadline);
  // What is beyond the jump host only ssh can tell.
  if (connection.has_jump()) end = Within(kJumpPatience, end);
  target.Begin({"SSH version", connection.has_jump() ? "" : kWaitsForVersion, end});
  OffQuestion off(target);
  bool met = false;
  while (true) {
    const int code = libssh2_session_handshake(connection.session(), connection.fd());
    if (code == 0) return;
    if (!met && libssh2_session_banner_get(connection.session()) != nullptr) {
      met = true;
      end = Within(target.limits.key_exchange, deadline);
      target.Begin({"key exchange", kWaitsForLogin, end});
    }
    if (code != LIBSSH2_ERROR_EAGAIN) FailHandshake(connection, met, code);
    if (connection.Wait(met ? end : std::min(end, off.next()))) continue;
    if (met || SystemClock().Now() >= end || off.Ask()) FailOfSilence(connection, met);
  }
}

std::string HostKeyBlob(const Connection& connection) {
  size_t size = 0;
  int type = 0;
  const char* blob = libssh2_session_hostkey(connection.session(), &size, &type);
  if (blob == nullptr) throw Error(Phase::kHostKey, "the host showed no key");
  return {blob, size};
}

}  // namespace tfdist::ssh

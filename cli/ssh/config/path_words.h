// What may be wrong on the way to a host: remedies, some of which libssh2 and the user's ssh program share.
#pragma once

#include <string_view>

namespace tfdist::ssh {

// The first large packets of a login are those of the key exchange.
inline constexpr std::string_view kSilentHandshake =
    "it may be very busy; or small packets reach it and large ones do not (the MTU of a VPN): ping "
    "-M do -s 1400 to it, and a smaller MTU of the interface, show that";
// The host has begun the login.
inline constexpr std::string_view kAboutSlowLogin =
    "ssh to it by hand: what its sshd asks for keys and accounts (AuthorizedKeysCommand, PAM, "
    "LDAP) may be slow; its log may say "
    "more (journalctl -u ssh there)";
// Of a connection that had come about.
inline constexpr std::string_view kBrokenConnection =
    "is the host up? A firewall or a router on the way (NAT) may forget connections on which "
    "nothing comes for a while: a job (tfdist up) connects again. Or large packets do not reach it "
    "(the MTU of a VPN): ping -M do -s 1400 to it shows that";
// ufw limit: six connections in 30 s.
inline constexpr std::string_view kOrRateLimit =
    " A firewall that counts connections (ufw limit) takes them again after half a minute";

}  // namespace tfdist::ssh

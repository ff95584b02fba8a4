// tests/hosts/test_known_hosts.py asks ssh about the same files; here are the parts that need no
// sshd.
#include "cli/ssh/keys/known_hosts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::ssh {
namespace {

using Kind = Verdict::Kind;
using Marker = KnownKey::Marker;

KnownKey Key(Marker marker, const std::string& blob) {
  return {.marker = marker, .file = "f", .line = 1, .type = "ssh-ed25519", .blob = blob};
}

TEST(Judge, OneEqualKeyIsEnoughAndARevokedOneTooMuch) {
  EXPECT_EQ(Judge({}, "a").kind, Kind::kUnknown);
  EXPECT_EQ(Judge({Key(Marker::kNone, "b"), Key(Marker::kNone, "a")}, "a").kind, Kind::kKnown);
  EXPECT_EQ(Judge({Key(Marker::kNone, "b")}, "a").kind, Kind::kChanged);
  EXPECT_EQ(Judge({Key(Marker::kNone, "a"), Key(Marker::kRevoked, "a")}, "a").kind, Kind::kRevoked);
  EXPECT_EQ(Judge({Key(Marker::kNone, "a"), Key(Marker::kRevoked, "b")}, "a").kind, Kind::kKnown);
  EXPECT_EQ(Judge({Key(Marker::kAuthority, "a")}, "a").kind, Kind::kUnknown);
}

TEST(KnownHosts, AnotherKeyOfTheAddressIsRefusedWhereCheckHostIpIsSet) {
  const TemporaryFolder folder;
  // A key is a length and its type first (RFC 4253 6.6): "ssh-ed25519", and the letter A or B.
  HostConfig host;
  host.host_name = "gpu9.example";
  host.user_known_hosts = {
      folder.Write("known", "10.0.0.9 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAUE=\n")};
  const std::string known("\0\0\0\vssh-ed25519\0\0\0\1A", 20);
  const std::string other("\0\0\0\vssh-ed25519\0\0\0\1B", 20);
  KnownHosts::Load(host).CheckAddress(other, "10.0.0.9");
  host.check_host_ip = true;
  KnownHosts::Load(host).CheckAddress(known, "10.0.0.9");
  KnownHosts::Load(host).CheckAddress(other, "10.0.0.10");
  EXPECT_THROW(KnownHosts::Load(host).CheckAddress(other, "10.0.0.9"), Error);
}

}  // namespace
}  // namespace tfdist::ssh

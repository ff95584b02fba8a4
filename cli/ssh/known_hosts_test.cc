// tests/hosts/test_known_hosts.py asks ssh about the same files; here are the parts that need no
// sshd.
#include "cli/ssh/known_hosts.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tfdist::ssh

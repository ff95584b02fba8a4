// tests/hosts/test_known_hosts.py asks ssh about the same files; here are the parts that need no
// sshd.
#include "cli/ssh/known_hosts.h"

#include <gtest/gtest.h>

#include "cli/ssh/public_key.h"

namespace tfdist::ssh {
namespace {

using Kind = Verdict::Kind;
using Marker = KnownKey::Marker;

KnownKey Key(Marker marker, const std::string& blob) {
  return {.marker = marker, .file = "f", .line = 1, .type = "ssh-ed25519", .blob = blob};
}

TEST(ParseFound, TakesLinesWithTheirNumbersAndMarkers) {
  const KnownKeys keys = ParseFound(
      "# Host [h]:2200 found: line 3 \n[h]:2200 ssh-ed25519 AAAA a comment\n"
      "# Host h found: line 14 REVOKED\n@revoked\th,*.x\tssh-rsa\tBBBB\n"
      "# Host h found: line 15 CA\n@cert-authority * ssh-rsa CCCC\r\n"
      "# Host h found: line 16 \nh ssh-rsa not*base64\n",
      "file");
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].line, 3);
  EXPECT_EQ(keys[0].marker, Marker::kNone);
  EXPECT_EQ(keys[0].blob, FromBase64("AAAA"));
  EXPECT_EQ(keys[1].line, 14);
  EXPECT_EQ(keys[1].marker, Marker::kRevoked);
  EXPECT_EQ(keys[1].type, "ssh-rsa");
  EXPECT_EQ(keys[2].line, 15);
  EXPECT_EQ(keys[2].marker, Marker::kAuthority);
  EXPECT_EQ(keys[2].file, "file");
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

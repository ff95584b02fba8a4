// tests/hosts/test_known_hosts.py asks ssh about the same files; here are the parts that need no
// sshd.
#include "cli/ssh/keys/known_hosts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/testing/temporary_folder.h"

namespace tfdist::ssh {
namespace {

// A key is a length and its type first (RFC 4253 6.6): "ssh-ed25519", and the letter A or B.
const std::string kKey("\0\0\0\vssh-ed25519\0\0\0\1A", 20);
const std::string kOther("\0\0\0\vssh-ed25519\0\0\0\1B", 20);
constexpr const char* kLine = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAUE=\n";

class KnownHostsTest : public testing::Test {
 protected:
  KnownHosts Of(const std::string& text) {
    host_.host_name = "gpu9.example";
    host_.user_known_hosts = {folder_.Write("known", text)};
    return KnownHosts::Load(host_);
  }

  const TemporaryFolder folder_;
  HostConfig host_;
};

TEST_F(KnownHostsTest, OnlyAPlainLineWithAnEqualKeyMakesAKeyKnown) {
  const std::string line = std::string("gpu9.example ") + kLine;
  const KnownHosts known = Of(line);
  EXPECT_EQ(known.WhyBeyondLibrary(), "");
  EXPECT_EQ(known.WhyNotKnown(kKey, ""), "");
  EXPECT_NE(known.WhyNotKnown(kOther, ""), "");
  for (const std::string more :
       {"@revoked * ", "@cert-authority *.example ", "@new\tgpu9.example "}) {
    EXPECT_NE(Of(line + more + kLine).WhyBeyondLibrary(), "") << more;
  }
  EXPECT_NE(Of("gpu9.example ssh-dss AAAA\n" + line).WhyBeyondLibrary(), "");
  EXPECT_NE(Of("gpu9.example ssh-rsa" + std::string(kLine).substr(11) + line).WhyBeyondLibrary(),
            "");
  // OpenSSH takes no base64 whose last bits are not 0.
  EXPECT_NE(Of("gpu9.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAUF=\n").WhyBeyondLibrary(), "");
  EXPECT_EQ(Of("@revoked other " + std::string(kLine) + line).WhyBeyondLibrary(), "");
  EXPECT_NE(Of("other " + std::string(kLine)).WhyNotKnown(kKey, ""), "");
}

TEST_F(KnownHostsTest, ANewKeyIsAddedWhereNoLineIsAboutTheHost) {
  host_.accept_new = true;
  const KnownHosts known = Of("");
  EXPECT_EQ(known.WhyBeyondLibrary(), "");
  EXPECT_EQ(known.WhyNotKnown(kKey, ""), "");
  std::ifstream file(host_.user_known_hosts[0]);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), std::string("gpu9.example ") + kLine);
  EXPECT_NE(KnownHosts::Load(host_).WhyNotKnown(kOther, ""), "");
  host_.port = 2200;  // ssh judges lines without the port
  EXPECT_NE(KnownHosts::Load(host_).WhyBeyondLibrary(), "");
}

TEST_F(KnownHostsTest, ANewKeyThatCannotBeAddedIsForSsh) {
  host_.host_name = "gpu9.example";
  host_.accept_new = true;
  host_.user_known_hosts = {"/dev/null/known"};
  EXPECT_NE(KnownHosts::Load(host_).WhyNotKnown(kKey, "").find("cannot add to /dev/null/known"),
            std::string::npos);
}

TEST_F(KnownHostsTest, AnotherKeyOfTheAddressIsForSshWhereCheckHostIpIsSet) {
  const std::string text = std::string("gpu9.example ") + kLine + "10.0.0.9 " +
                           "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAUI=\n";
  EXPECT_EQ(Of(text).WhyNotKnown(kKey, "10.0.0.9"), "");
  host_.check_host_ip = true;
  EXPECT_EQ(Of(text).WhyNotKnown(kKey, "10.0.0.10"), "");
  EXPECT_NE(Of(text).WhyNotKnown(kKey, "10.0.0.9"), "");
}

TEST_F(KnownHostsTest, AShortRsaKeyIsForSsh) {
  host_.accept_new = true;
  const std::string rsa("\0\0\0\7ssh-rsa\0\0\0\1\3\0\0\0\1\x80", 21);
  EXPECT_NE(Of("").WhyNotKnown(rsa, ""), "");
}

}  // namespace
}  // namespace tfdist::ssh

// Keys of the user: what files say, and which are offered in which order.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/subprocess.h"
#include "base/testing/temporary_folder.h"
#include "base/text.h"
#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/keys/identity_file.h"
#include "cli/ssh/keys/key_offers.h"
#include "cli/ssh/keys/public_key.h"
#include "cli/ssh/keys/wire.h"

namespace tfdist::ssh {
namespace {

namespace fs = std::filesystem;

std::string Blob(const std::string& type, const std::string& rest) {
  std::string blob;
  AppendString(blob, type);
  AppendString(blob, rest);
  return blob;
}

IdentityFile Named(const std::string& path, const std::string& blob, bool encrypted) {
  IdentityFile file;
  file.path = path;
  file.public_blob = blob;
  file.encrypted = encrypted;
  return file;
}

std::vector<std::string> Blobs(const KeyOffers& offers) {
  std::vector<std::string> blobs;
  for (const KeyOffer& offer : offers.offers)
    blobs.push_back((offer.in_agent ? "agent " : "file ") + offer.path + offer.blob.substr(19));
  return blobs;
}

class IdentityFileTest : public testing::Test {
 protected:
  std::string MakeKey(const std::string& name, const std::vector<std::string>& options) const {
    std::string path = (folder_ / name).string();
    std::vector<std::string> argv = {"ssh-keygen", "-q", "-f", path};
    argv.insert(argv.end(), options.begin(), options.end());
    const auto result = RunProgram({.argv = argv}, SystemClock().Now() + std::chrono::seconds(30));
    EXPECT_EQ(result.exit_code, 0) << result.error_output;
    return path;
  }

  const TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(IdentityFileTest, TellsEncryptedFromPlainAndKnowsThePublicKey) {
  for (const bool encrypted : {false, true}) {
    const std::string name = encrypted ? "encrypted" : "plain";
    const std::string path = MakeKey(name, {"-t", "ed25519", "-N", encrypted ? "secret" : ""});
    fs::remove(path + ".pub");
    const auto identity = LookAtIdentityFile(path);
    ASSERT_TRUE(identity);
    EXPECT_EQ(identity->encrypted, encrypted);
    EXPECT_EQ(KeyType(identity->public_blob), "ssh-ed25519");
  }
}

// OpenSSH: "UNPROTECTED PRIVATE KEY FILE".
TEST_F(IdentityFileTest, DoesNotOfferAKeyThatOthersMayRead) {
  const std::string path = MakeKey("open", {"-t", "ed25519", "-N", ""});
  fs::permissions(path, fs::perms(0644));
  const auto identity = LookAtIdentityFile(path);
  ASSERT_TRUE(identity);
  const KeyOffers offers = ArrangeOffers({}, {*identity}, {});
  EXPECT_TRUE(offers.offers.empty());
  EXPECT_EQ(offers.beyond, "");
  // An agent that has it signs without the file.
  EXPECT_EQ(ArrangeOffers({{identity->public_blob}}, {*identity}, {}).offers.size(), 1U);
}

TEST_F(IdentityFileTest, TakesThePublicKeyOfAPemFileFromBesideIt) {
  const std::string path = MakeKey("pem", {"-t", "ecdsa", "-m", "PEM", "-N", "secret"});
  const auto identity = LookAtIdentityFile(path);
  ASSERT_TRUE(identity);
  EXPECT_TRUE(identity->encrypted);
  EXPECT_EQ(KeyType(identity->public_blob), "ecdsa-sha2-nistp256");
  fs::remove(path + ".pub");
  EXPECT_EQ(LookAtIdentityFile(path)->public_blob, "");
}

TEST_F(IdentityFileTest, JunkIsAFileWithoutAPublicKey) {
  std::ofstream(folder_ / "junk")
      << "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
  EXPECT_EQ(LookAtIdentityFile(folder_ / "junk")->public_blob, "");
  EXPECT_FALSE(LookAtIdentityFile(folder_ / "none"));
  EXPECT_FALSE(LookAtIdentityFile(folder_));
}

TEST(ArrangeOffers, FollowsOpensshsOrder) {
  const std::vector<AgentKey> agent = {{Blob("ssh-ed25519", "1")}, {Blob("ssh-ed25519", "2")}};
  const std::vector<IdentityFile> files = {Named("/a", Blob("ssh-ed25519", "3"), false),
                                           Named("/b", Blob("ssh-ed25519", "2"), true)};
  HostConfig host;
  EXPECT_EQ(Blobs(ArrangeOffers(agent, files, host)),
            (std::vector<std::string>{"agent 2", "agent 1", "file /a3"}));
  host.identities_only = true;
  EXPECT_EQ(Blobs(ArrangeOffers(agent, files, host)),
            (std::vector<std::string>{"agent 2", "file /a3"}));
}

TEST(ArrangeOffers, LeavesToSshWhatLibssh2CannotUseOrSshDoesNot) {
  const std::vector<AgentKey> agent = {{Blob("sk-ssh-ed25519@openssh.com", "1")}};
  const std::vector<IdentityFile> files = {Named("/a", Blob("ssh-ed25519", "3"), true)};
  const KeyOffers offers = ArrangeOffers(agent, files, {});
  EXPECT_TRUE(offers.offers.empty());
  EXPECT_EQ(offers.beyond, "ssh-agent holds a key of type sk-ssh-ed25519@openssh.com");
  EXPECT_EQ(ArrangeOffers({}, files, {}).beyond, "");
  const auto with_bits = [](int bits) {
    HostConfig host;
    host.required_rsa_bits = bits;
    return host;
  };
  // Nothing tells what the file holds.
  EXPECT_EQ(ArrangeOffers({}, {Named("/pem", "", false)}, with_bits(1024)).beyond, "");
  EXPECT_NE(ArrangeOffers({}, {Named("/pem", "", false)}, with_bits(2048)).beyond, "");
  std::string rsa = Blob("ssh-rsa", "e");
  AppendString(rsa, std::string(128, '\x80'));
  EXPECT_EQ(ArrangeOffers({}, {Named("/rsa", rsa, false)}, with_bits(1024)).beyond, "");
  EXPECT_NE(ArrangeOffers({}, {Named("/rsa", rsa, false)}, with_bits(1025)).beyond, "");
}

TEST_F(IdentityFileTest, LeavesToSshWhatSshRefuses) {
  const std::string path = MakeKey("key", {"-t", "ed25519", "-N", ""});
  EXPECT_EQ(LookAtIdentityFile(path)->odd, "");
  const std::string other = MakeKey("other", {"-t", "ed25519", "-N", ""});
  fs::copy(other + ".pub", path + ".pub", fs::copy_options::overwrite_existing);
  EXPECT_EQ(LookAtIdentityFile(path)->odd, path + " has another key's .pub beside it");
  std::ifstream file(other);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string with_returns = text;
  ReplaceAll(with_returns, "\n", "\r\n");
  for (const std::string& changed :
       {with_returns, "\n" + text, "my key\n" + text, text.substr(0, text.size() - 1)}) {
    std::ofstream(other) << changed;
    EXPECT_EQ(LookAtIdentityFile(other)->odd, other + " is not as ssh-keygen writes a key");
  }
  std::ofstream(other) << text + "behind it\n";
  EXPECT_EQ(LookAtIdentityFile(other)->odd, "");
  EXPECT_EQ(LookAtIdentityFile(other + ".pub")->odd, "IdentityFile names a public key");
  std::ofstream(other) << "";
  EXPECT_EQ(LookAtIdentityFile(other)->odd, other + " holds no key");
}

TEST(Base64, IsThatOfKeyFiles) {
  const auto blob =
      FromBase64("AAAAC3NzaC1lZDI1NTE5AAAAIKP6lstN3kwoJ/U8hHQy16DHmr0HDxCpUQHvMcmIZG26");
  ASSERT_TRUE(blob);
  EXPECT_EQ(Base64(*blob), "AAAAC3NzaC1lZDI1NTE5AAAAIKP6lstN3kwoJ/U8hHQy16DHmr0HDxCpUQHvMcmIZG26");
  EXPECT_FALSE(FromBase64("AAA"));
  EXPECT_EQ(FromBase64("YQ=="), "a");
}

TEST(WireReader, StopsAtTheEndOfWhatItHas) {
  std::string bytes;
  AppendString(bytes, "text");
  bytes += '\x07';
  WireReader reader(bytes);
  EXPECT_EQ(reader.TakeString(), "text");
  EXPECT_EQ(reader.TakeByte(), 7);
  EXPECT_FALSE(reader.TakeByte());
  EXPECT_FALSE(reader.TakeUint32());
  EXPECT_FALSE(WireReader(std::string_view("\xff\xff\xff\xff.", 5)).TakeString());
}

TEST(HostKeyMethods, PutsKnownTypesFirst) {
  EXPECT_EQ(HostKeyMethods({}, Algorithms().host_keys),
            "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,"
            "rsa-sha2-256");
  EXPECT_EQ(HostKeyMethods({"ssh-rsa", "ssh-dss"}, Algorithms().host_keys),
            "rsa-sha2-512,rsa-sha2-256,ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-"
            "sha2-nistp521");
}

}  // namespace
}  // namespace tfdist::ssh

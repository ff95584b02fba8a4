// What `ssh-keygen -F` of this machine finds in a file is what we find there.
#include "cli/ssh/keys/known_hosts_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/subprocess.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

constexpr std::string_view kEd25519 =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
constexpr std::string_view kRsa =
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAIQCampqampqampqampqampqampqampqampqampqampqamg==";

ProgramResult RunInTime(const std::vector<std::string>& argv) {
  return RunProgram({.argv = argv}, SystemClock().Now() + std::chrono::seconds(30));
}

class KnownHostsFileTest : public testing::Test {
 protected:
  KnownHostsFileTest() {
    std::string pattern = testing::TempDir() + "known_hosts_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "known_hosts";
  }
  ~KnownHostsFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }

  // How many lines OpenSSH's own program finds whose key is one, and whether it finds any other.
  struct Found {
    std::vector<std::string> blobs;
    bool odd = false;
  };
  [[nodiscard]] Found FoundBySshKeygen(const std::string& name) const {
    std::istringstream output(RunInTime({"ssh-keygen", "-F", name, "-f", path_.string()}).output);
    Found found;
    std::string head;
    std::string line;
    while (std::getline(output, head) && std::getline(output, line)) {
      std::istringstream words(line);
      std::string names;
      std::string type;
      std::string key;
      words >> names >> type >> key;
      const auto blob = FromBase64(key);
      if (!names.starts_with('@') && blob && KeyType(*blob) == type) {
        found.blobs.push_back(*blob);
      } else {
        found.odd = true;
      }
    }
    return found;
  }
  // What is found here is found there, and the other way round, but for lines that make the file odd.
  void Compare(const std::string& text) const {
    Write(text);
    for (const char* name : {"gpu7", "10.0.0.7", "[gpu7]:2200", "[10.0.0.7]:2200", "::1",
                             "[::1]:2200", "Some.Alias"}) {
      const KnownKeys ours = ReadKnownHosts(path_.string())->Find(name);
      const Found theirs = FoundBySshKeygen(name);
      std::vector<std::string> blobs;
      for (const KnownKey& key : ours.keys) blobs.push_back(key.blob);
      EXPECT_TRUE(!theirs.odd || !ours.odd.empty()) << name << " in:\n" << text;
      if (ours.odd.empty()) {
        EXPECT_EQ(blobs, theirs.blobs) << name << " in:\n" << text;
      }
      // Odd or not: what ssh finds makes the host known here, too.
      EXPECT_TRUE((theirs.blobs.empty() && !theirs.odd) || !ours.empty()) << name << " in:\n"
                                                                          << text;
    }
  }
  void CompareEach(const std::vector<std::string>& lines) const {
    for (const std::string& line : lines) Compare(line + "\n");
  }
  // As `ssh-keygen -H` writes them.
  [[nodiscard]] std::string Hashed(const std::string& text) const {
    Write(text);
    EXPECT_EQ(RunInTime({"ssh-keygen", "-q", "-H", "-f", path_.string()}).exit_code, 0);
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(KnownHostsFileTest, FindsTheLinesThatSshKeygenFinds) {
  const std::string ed(kEd25519);
  const std::string rsa(kRsa);
  const std::string long_name(1022, 'x');
  const std::vector<std::string> names = {"gpu7",
                                          "gpu7,10.0.0.7",
                                          "10.0.0.7,other",
                                          "[gpu7]:2200",
                                          "[gpu7]:2201",
                                          "[10.0.0.7]:2200",
                                          "::1",
                                          "[::1]:2200",
                                          "GPU7",
                                          "*",
                                          "gpu?",
                                          "gpu*7",
                                          "g*u*7",
                                          "*7*",
                                          "**",
                                          "?",
                                          "gpu7?",
                                          "gpu",
                                          "[gpu7]:*",
                                          "[*]:2200",
                                          "10.0.*.7",
                                          "10.0.0.?",
                                          "!gpu7",
                                          "*,!gpu7",
                                          "!gpu7,*",
                                          "!*,gpu7",
                                          "gpu7,!gpu8",
                                          "!!gpu7",
                                          "gpu7,",
                                          ",gpu7",
                                          ",,",
                                          "!",
                                          "gpu7,!",
                                          "Some.Alias",
                                          "some.alias",
                                          "|1|",
                                          "|1||",
                                          "|1|junk|junk",
                                          "|2|AAAA|AAAA",
                                          "|",
                                          "#gpu7",
                                          "\"gpu7\"",
                                          "gpu7:2200",
                                          long_name + ",gpu7",
                                          long_name + "x,gpu7",
                                          "gpu7," + long_name + "x",
                                          "*" + long_name};
  const std::vector<std::string> lines = {"gpu7 " + ed,
                                          "  \t gpu7 " + ed,
                                          "gpu7\t" + ed,
                                          "gpu7 \t " + rsa + "  a comment",
                                          "#gpu7 " + ed,
                                          " #gpu7 " + ed,
                                          "gpu7 " + ed + "\r",
                                          "gpu7\r " + ed,
                                          "\rgpu7 " + ed,
                                          "\fgpu7 " + ed,
                                          "gpu7 ssh-ed25519",
                                          "gpu7 ssh-ed25519 ",
                                          "gpu7",
                                          "gpu7 ",
                                          "gpu7 #" + ed,
                                          "gpu7 ssh-ed25519 #AAAA",
                                          "gpu7 " + ed + " #",
                                          "gpu7 ssh-nothing AAAA",
                                          "gpu7 1024 35 123456789",
                                          "gpu7 x AAAA",
                                          "gpu7 SSH-RSA AAAA",
                                          "gpu7 rsa-sha2-512 AAAA",
                                          "gpu7 ssh-rsa-cert-v01@openssh.com AAAA",
                                          "gpu7 sk-ssh-ed25519@openssh.com AAAA",
                                          "gpu7 ecdsa-sha2-nistp256 AAAA",
                                          "gpu7 ecdsa-sha2-nistp999 AAAA",
                                          "gpu7 " + std::string(200, 'a') + " AAAA",
                                          "@revoked gpu7 " + ed,
                                          "@cert-authority gpu7 " + rsa,
                                          "@revoked * " + ed,
                                          "@revoked\tgpu7 " + ed,
                                          "@revoked\tgpu7\tssh-rsa\tAAAA",
                                          "@revoked  gpu7 " + ed,
                                          "@trusted gpu7 " + ed,
                                          "@ gpu7 " + ed,
                                          "@",
                                          "@revoked",
                                          "@revoked ",
                                          "@revoked @revoked gpu7 " + ed,
                                          "@revoked @cert-authority gpu7 " + ed,
                                          "@REVOKED gpu7 " + ed,
                                          "@" + std::string(40, 'r') + " gpu7 " + ed,
                                          "  @revoked gpu7 " + ed,
                                          std::string(9000, 'x'),
                                          std::string("gpu7\0 ", 6) + ed,
                                          "gpu7 ssh-rsa" + std::string("\0 AAAA", 6),
                                          "gpu7 " + ed + std::string("\0 more", 6)};
  for (const std::string& name : names) Compare(fmt::format("{} {}\n", name, ed));
  CompareEach(lines);
  for (const char* end : {"gpu7", "gpu7 ", "gpu7 ssh-rsa", "gpu7 ssh-rsa ", "gpu7 ssh-rsa AAAA",
                          "@revoked", "#", " "}) {
    Compare("gpu7 " + rsa + "\n" + end);
  }
}

TEST_F(KnownHostsFileTest, FindsTheHashedNamesThatSshKeygenFinds) {
  std::string text;
  for (const char* name : {"gpu7", "10.0.0.7", "[gpu7]:2200", "[10.0.0.7]:2200", "::1",
                           "Some.Alias", "gpu8", "gpu7,10.0.0.7"}) {
    const std::string line = Hashed(fmt::format("{} {}\n", name, kEd25519));
    ASSERT_TRUE(line.starts_with("|1|")) << line;
    text.append(line).append("@revoked ").append(line);
    // A character less, or one changed, of salt and hash.
    for (const size_t at : {size_t{4}, size_t{30}, line.find(' ') - 2}) {
      std::string damaged = line;
      damaged[at] = damaged[at] == 'A' ? 'B' : 'A';
      text += damaged + line.substr(0, at) + line.substr(at + 1);
    }
  }
  Compare(text);
}

// Files made of what lines are made of, in any order.
TEST_F(KnownHostsFileTest, FindsWhatSshKeygenFindsInRandomFiles) {
  const std::vector<std::string> parts = {"gpu7",
                                          "10.0.0.7",
                                          "[gpu7]:2200",
                                          "*",
                                          "?",
                                          "!",
                                          ",",
                                          " ",
                                          " ",
                                          "\t",
                                          "\n",
                                          "\n",
                                          "#",
                                          "@revoked ",
                                          "@cert-authority ",
                                          "ssh-rsa ",
                                          "AAAA",
                                          std::string(kEd25519),
                                          std::string(kRsa),
                                          "|1|",
                                          "\r",
                                          "["};
  std::minstd_rand random(7);
  for (int round = 0; round < 12; ++round) {
    std::string text;
    for (auto count = random() % 400; count > 0; --count) text += parts[random() % parts.size()];
    Compare(text);
  }
}

TEST_F(KnownHostsFileTest, SeesALineThatCameWhileWeRan) {
  EXPECT_TRUE(ReadKnownHosts(path_.string())->Find("gpu7").empty());  // there is no file
  Write(fmt::format("gpu8 {}\n", kEd25519));
  EXPECT_TRUE(ReadKnownHosts(path_.string())->Find("gpu7").empty());
  std::ofstream(path_, std::ios::app) << fmt::format("gpu7 {} a comment\n", kEd25519);
  const KnownKeys found = ReadKnownHosts(path_.string())->Find("gpu7");
  ASSERT_EQ(found.keys.size(), 1U);
  EXPECT_EQ(found.keys[0].type, "ssh-ed25519");
  EXPECT_EQ(KeyType(found.keys[0].blob), "ssh-ed25519");
}

}  // namespace
}  // namespace tfdist::ssh

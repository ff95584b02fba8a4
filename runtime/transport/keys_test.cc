#include "runtime/transport/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "base/testing/temporary_folder.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;
using testing::OtherSecret;
using testing::TestSecret;

TEST(DeriveKeyPair, IsTheSameWhereverTheSecretIs) {
  const KeyPair one = DeriveKeyPair(TestSecret(), {"worker", 1});
  const KeyPair two = DeriveKeyPair(TestSecret(), {"worker", 1});
  EXPECT_EQ(one.public_key, two.public_key);
  EXPECT_EQ(std::memcmp(one.secret_key.data(), two.secret_key.data(), kKeyBytes), 0);
}

TEST(DeriveKeyPair, DiffersByTaskAndByJob) {
  const PublicKey key = DeriveKeyPair(TestSecret(), {"worker", 1}).public_key;
  EXPECT_NE(key, DeriveKeyPair(TestSecret(), {"worker", 2}).public_key);
  EXPECT_NE(key, DeriveKeyPair(TestSecret(), {"ps", 1}).public_key);
  EXPECT_NE(key, DeriveKeyPair(OtherSecret(), {"worker", 1}).public_key);
}

TEST(KeysOfServer, AllowTheTrainersAlone) {
  const ServerKeys keys = KeysOfServer(TestSecret(), {"ps", 0}, {{"master", 0}, {"worker", 0}});
  EXPECT_EQ(keys.allowed.size(), 2U);
  EXPECT_EQ(keys.allowed.at(KeysOfClient(TestSecret(), {"worker", 0}, {"ps", 0}).own.public_key),
            "worker:0");
}

TEST(JobSecret, IsReadFromAFileWithOrWithoutNewline) {
  const TemporaryFolder folder;
  const std::string hex(64, '7');
  for (const std::string& content : {hex, hex + "\n"}) {
    const JobSecret secret = JobSecret::FromFile(folder.Write("secret", content));
    EXPECT_EQ(std::memcmp(secret.bytes().data(), TestSecret().bytes().data(), kKeyBytes), 0);
  }
}

TEST(JobSecret, IsRefusedWhenOthersMayReadIt) {
  const TemporaryFolder folder;
  const auto path = folder.Write("secret", std::string(64, '7'));
  for (const mode_t mode : {0640U, 0604U, 0620U}) {
    chmod(path.c_str(), mode);
    ExpectError([&] { (void)JobSecret::FromFile(path); }, Phase::kConfig, "others than its owner");
  }
}

TEST(JobSecret, IsNeverShownByTheErrorAboutIt) {
  const TemporaryFolder folder;
  const std::string canary = "c0ffeec0ffee";
  for (const std::string& content :
       {std::string(), canary, canary + std::string(53, '0'), canary + std::string(52, 'x')}) {
    try {
      (void)JobSecret::FromFile(folder.Write("secret", content));
      ADD_FAILURE() << content;
    } catch (const Error& error) {
      EXPECT_NE(error.cause().find("not 64 hexadecimal digits"), std::string::npos);
      EXPECT_EQ(error.cause().find(canary), std::string::npos);
    }
  }
}

TEST(JobSecret, IsNeitherAFifoNorAFolder) {
  const TemporaryFolder folder;
  const auto fifo = folder.path() / "fifo";
  mkfifo(fifo.c_str(), 0600);
  ExpectError([&] { (void)JobSecret::FromFile(fifo); }, Phase::kConfig, "not a regular file");
  ExpectError([&] { (void)JobSecret::FromFile(folder.path()); }, Phase::kConfig,
              "not a regular file");
  ExpectError([&] { (void)JobSecret::FromFile(folder.path() / "none"); }, Phase::kConfig,
              "No such file");
}

}  // namespace
}  // namespace tfdist::runtime

#include "cli/ssh/openssh/openssh_failure.h"

#include <gtest/gtest.h>

#include <string>

#include "base/failures.h"

namespace tfdist::ssh {
namespace {

using FailureKind = LoginFailure::Kind;

TEST(OpensshFailure, ASilentKeyExchangeNamesTheMtu) {
  const std::string said =
      "debug1: SSH2_MSG_KEXINIT sent\nConnection to 10.0.0.7 port 22 timed out\n";
  const LoginFailure failure = ExplainLogin(said, "gpu7", {});
  EXPECT_EQ(failure.cause, "the host fell silent during the key exchange");
  EXPECT_NE(failure.remedy.find("MTU"), std::string::npos);
  EXPECT_EQ(failure.kind, FailureKind::kSlowExchange);
  EXPECT_NE(ExplainLogin("Connection to 10.0.0.7 port 22 timed out\n", "gpu7", {})
                .remedy.find("ufw limit"),
            std::string::npos);
}

TEST(OpensshFailure, ATimeOutNamesTheAgentThatSshWaitsFor) {
  const std::string accepted =
      "debug1: Server accepts key: /home/trainer/.ssh/id_ed25519 ED25519 SHA256:abc agent\r\n";
  EXPECT_TRUE(WaitsForAgent(accepted));
  EXPECT_TRUE(WaitsForAgent("debug1: Offering public key: x agent\n" + accepted));
  EXPECT_FALSE(WaitsForAgent(accepted + "Authenticated to gpu7\n"));
  EXPECT_FALSE(
      WaitsForAgent("debug1: Server accepts key: /home/trainer/id ED25519 SHA256:abc\r\n"));
  EXPECT_FALSE(WaitsForAgent(""));
  const LoginFailure failure = ExplainTimeout(accepted, std::chrono::seconds(121));
  EXPECT_EQ(failure.phase, Phase::kAuth);
  EXPECT_EQ(failure.cause, "ssh-agent has not signed within 121 s");
  EXPECT_NE(failure.remedy.find("ssh-add"), std::string::npos);
  const std::string connecting =
      "OpenSSH_9.2p1\r\ndebug1: Reading configuration data /home/u/.ssh/config\r\n"
      "debug1: Connecting to h2 [10.0.0.2] port 22.\r\n";
  const LoginFailure silent = ExplainTimeout(connecting, std::chrono::seconds(5));
  EXPECT_EQ(silent.phase, Phase::kConnect);
  EXPECT_EQ(silent.cause, "no answer within 5 s, from h2 [10.0.0.2] port 22");
  EXPECT_EQ(ExplainTimeout(connecting + "debug1: Connection established.\r\nWelcome\r\n",
                           std::chrono::seconds(5))
                .cause,
            "ssh did not log in within 5 s: Welcome");
}

// As ssh 9.2 says it.
TEST(OpensshFailure, TheCauseIsTheLineThatSaysIt) {
  struct Case {
    const char* said;
    FailureKind kind;
    Phase phase;
    const char* cause;
  };
  const Case cases[] = {
      {"Welcome to gpu7\ntrainer@gpu7: Permission denied (publickey).\r\n", FailureKind::kRefused,
       Phase::kAuth,
       "the host does not let trainer in; ssh says: trainer@gpu7: Permission denied (publickey)"},
      {"Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures\r\n"
       "Disconnected from 10.0.0.7 port 22\r\n",
       FailureKind::kRefused, Phase::kAuth,
       "ssh says: Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures"},
      {"ssh: Could not resolve hostname gpu7: Name or service not known\r\n",
       FailureKind::kUnreachable, Phase::kResolve,
       "ssh says: ssh: Could not resolve hostname gpu7: Name or service not known"},
      {"ssh: connect to host gpu7 port 22: Connection refused\r\n", FailureKind::kRefusedPort,
       Phase::kConnect, "ssh says: ssh: connect to host gpu7 port 22: Connection refused"},
      {"Connection timed out during banner exchange\r\nConnection to 10.0.0.7 port 22 timed "
       "out\r\n",
       FailureKind::kUnreachable, Phase::kConnect,
       "ssh says: Connection to 10.0.0.7 port 22 timed out"},
      {"ssh: connect to host gpu7 port 22: Network is unreachable\r\n", FailureKind::kUnreachable,
       Phase::kConnect, "ssh says: ssh: connect to host gpu7 port 22: Network is unreachable"},
      {"kex_exchange_identification: read: Connection reset by peer\r\n"
       "Connection reset by 10.0.0.7 port 22\r\n",
       FailureKind::kBusy, Phase::kConnect,
       "ssh says: kex_exchange_identification: read: Connection reset by peer"},
      {"Connection closed by 10.0.0.7 port 22\r\n", FailureKind::kBusy, Phase::kConnect,
       "ssh says: Connection closed by 10.0.0.7 port 22"},
      {"Unable to negotiate with 10.0.0.7 port 22: no matching key exchange method found. Their "
       "offer: mlkem768x25519-sha256\r\n",
       FailureKind::kRefused, Phase::kConnect,
       "ssh says: Unable to negotiate with 10.0.0.7 port 22: no matching key exchange method "
       "found. "
       "Their offer: mlkem768x25519-sha256"},
      {"No ED25519 host key is known for gpu7 and you have requested strict checking.\r\n"
       "Host key verification failed.\r\n",
       FailureKind::kRefused, Phase::kHostKey,
       "No ED25519 host key is known for gpu7 and you have requested strict checking"},
      // Built without GSSAPI.
      {"command-line line 0: Unsupported option \"gssapidelegatecredentials\"\nsomething new\r\n",
       FailureKind::kUnreachable, Phase::kConnect, "ssh says: something new"},
      {"command-line line 0: Bad number\r\n", FailureKind::kUnreachable, Phase::kConnect,
       "ssh says: command-line line 0: Bad number"},
      {"something new\r\n", FailureKind::kUnreachable, Phase::kConnect, "ssh says: something new"},
      {"", FailureKind::kUnreachable, Phase::kConnect, "ssh failed and said nothing"},
  };
  for (const Case& one : cases) {
    const LoginFailure failure = ExplainLogin(one.said, "gpu7", {});
    EXPECT_EQ(failure.kind, one.kind) << one.said;
    EXPECT_EQ(failure.phase, one.phase) << one.said;
    EXPECT_EQ(failure.cause, one.cause);
  }
}

// The second one is all that OpenSSH 10 says.
TEST(OpensshFailure, AWayThatFailsIsNamedBeforeABusyHost) {
  for (const std::string said :
       {"kex_exchange_identification: Connection closed by remote host\r\n"
        "Connection closed by UNKNOWN port 65535\r\n",
        "banner exchange: Connection to UNKNOWN port 65535: Broken pipe\r\n",
        "Connection closed by UNKNOWN port 65535\r\n"}) {
    const LoginFailure failure = ExplainLogin(
        "Warning: Permanently added 'gpu7' (ED25519) to the list of known hosts.\r\n" + said,
        "gpu7", {});
    EXPECT_EQ(failure.kind, FailureKind::kBusy);
    EXPECT_EQ(failure.cause, "the jump host or ProxyCommand gave no way to it; ssh says: " +
                                 said.substr(0, said.find('\r')));
    EXPECT_NE(failure.remedy.find("by hand"), std::string::npos) << failure.remedy;
    EXPECT_NE(failure.remedy.find("MaxStartups"), std::string::npos) << failure.remedy;
  }
}

TEST(OpensshFailure, AWayThatSaysNothingIsNamed) {
  const LoginFailure failure = ExplainLogin(
      "debug1: kex_exchange_identification: banner line 0: the certificate of the VPN has "
      "expired\r\n"
      "Connection to UNKNOWN port 65535 timed out\r\n",
      "gpu7", {});
  EXPECT_EQ(failure.cause,
            "the jump host or ProxyCommand gave no way to it; ssh says: Connection to UNKNOWN port "
            "65535 timed out; on the way: line 0: the certificate of the VPN has expired");
  EXPECT_NE(failure.remedy.find("by hand"), std::string::npos) << failure.remedy;
}

TEST(OpensshFailure, EachFailureHasARemedy) {
  EXPECT_NE(ExplainLogin("Connection closed by 10.0.0.7 port 22\r\n", "gpu7", {}).remedy, "");
  EXPECT_NE(ExplainLogin("Connection reset by 10.0.0.7 port 22\r\n", "gpu7", {}).remedy, "");
}

TEST(OpensshFailure, AChangedKeyIsNamedWithItsLineAndFingerprint) {
  const LoginFailure failure = ExplainLogin(
      "@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@\n"
      "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\n"
      "debug1: Server host key: ssh-ed25519 SHA256:abc\n"
      "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:abc.\n"
      "Please contact your system administrator.\n"
      "Add correct host key in /home/u/.ssh/known_hosts to get rid of this message.\n"
      "Offending ED25519 key in /home/u/.ssh/known_hosts:12\n"
      "Host key for [gpu7]:2200 has changed and you have requested strict checking.\n"
      "Host key verification failed.\n",
      "gpu7", {});
  EXPECT_EQ(failure.kind, FailureKind::kRefused);
  EXPECT_EQ(failure.phase, Phase::kHostKey);
  EXPECT_EQ(failure.cause,
            "the key of [gpu7]:2200 differs from /home/u/.ssh/known_hosts:12; it shows ssh-ed25519 "
            "SHA256:abc; somebody may be listening in");
  EXPECT_EQ(failure.remedy,
            "ask who runs the host; if its key was changed on purpose: ssh-keygen -f "
            "'/home/u/.ssh/known_hosts' -R '[gpu7]:2200'");
}

TEST(OpensshFailure, AnotherKeyOfTheAddressIsNamedWithItsLine) {
  const LoginFailure failure = ExplainLogin(
      "debug1: Server host key: ssh-ed25519 SHA256:abc\n"
      "Warning: the ED25519 host key for 'gpu7' differs from the key for the IP address "
      "'10.0.0.7'\nOffending key for IP in /home/u/.ssh/known_hosts:3\n"
      "Matching host key in /home/u/.ssh/known_hosts:2\n"
      "Exiting, you have requested strict checking.\nHost key verification failed.\n",
      "gpu7", {});
  EXPECT_EQ(failure.phase, Phase::kHostKey);
  EXPECT_EQ(failure.cause,
            "the key of gpu7 differs from that of its address 10.0.0.7 in "
            "/home/u/.ssh/known_hosts:3; it shows ssh-ed25519 SHA256:abc");
  EXPECT_EQ(failure.remedy,
            "ask who runs the host; if the address was another host's: ssh-keygen -f "
            "'/home/u/.ssh/known_hosts' -R '10.0.0.7'");
}

TEST(OpensshFailure, WhatMayPassIsUnreachableAndWhatStaysIsNot) {
  EXPECT_THROW(Throw(ExplainLogin("x: Connection refused\n", "x", {})), Unreachable);
  try {
    Throw(ExplainLogin("x: Permission denied (publickey).\n", "x", {}));
  } catch (const Unreachable&) {
    ADD_FAILURE() << "a refused login is no lost host";
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kAuth);
  }
}

TEST(ReachedOf, TellsAHostWithoutPowerFromOneThatIsSilent) {
  std::string said = "OpenSSH_9.2p1\ndebug1: Connecting to h1 [10.0.0.1] port 22.\r\n";
  EXPECT_EQ(ReachedOf(""), Reached::kNothing);
  EXPECT_EQ(ReachedOf(said), Reached::kConnecting);
  const LoginFailure failure = ExplainNoAnswer(said, std::chrono::seconds(21));
  EXPECT_EQ(failure.kind, LoginFailure::Kind::kSilentPort);
  EXPECT_EQ(failure.cause, "no answer within 21 s, from h1 [10.0.0.1] port 22");
  said +=
      "debug1: Connection established.\r\ndebug1: Local version string SSH-2.0-OpenSSH_9.2p1\r\n";
  EXPECT_EQ(ReachedOf(said), Reached::kConnected);
  said += "debug1: Remote protocol version 2.0, remote software version x\r\n";
  EXPECT_EQ(ReachedOf(said), Reached::kVersion);
}

TEST(ReachedOf, HearsTheJumpHost) {
  std::string said = "debug1: Executing proxy command: exec ssh -W [h1]:22\r\n";
  EXPECT_EQ(ReachedOf(said), Reached::kNothing);
  said += "debug1: mux_client_request_stdio_fwd: master session id: 2\r\n";
  EXPECT_EQ(ReachedOf(said), Reached::kConnected);
  EXPECT_EQ(ExplainNoAnswer("", std::chrono::seconds(21)).kind, LoginFailure::Kind::kUnreachable);
}

}  // namespace
}  // namespace tfdist::ssh

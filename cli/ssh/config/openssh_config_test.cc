#include "cli/ssh/config/openssh_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tfdist::ssh {
namespace {

constexpr std::string_view kPlain =
    "host gpu9\nuser ubuntu\nhostname 10.0.0.9\nport 2200\nidentitiesonly yes\nhashknownhosts yes\n"
    "identityfile /keys/one\nidentityfile none\nidentityfile /keys/two\n"
    "userknownhostsfile /k/one /k/two\nglobalknownhostsfile /etc/ssh/ssh_known_hosts\n";

Target Named(const std::string& name) {
  Target target;
  target.name = name;
  return target;
}

HostConfig Parse(const std::string& more) {
  return ParseConfig(std::string(kPlain) + more, Named("gpu9"));
}

TEST(ParseConfig, TakesWhatSshSays) {
  const HostConfig host = Parse("identityagent /run/agent\n");
  EXPECT_EQ(host.host_name, "10.0.0.9");
  EXPECT_EQ(host.user, "ubuntu");
  EXPECT_EQ(host.port, 2200);
  EXPECT_TRUE(host.identities_only);
  EXPECT_TRUE(host.hash_known_hosts);
  EXPECT_EQ(host.identity_files, (std::vector<std::string>{"/keys/one", "/keys/two"}));
  EXPECT_EQ(host.user_known_hosts, (std::vector<std::string>{"/k/one", "/k/two"}));
  EXPECT_EQ(host.global_known_hosts, (std::vector<std::string>{"/etc/ssh/ssh_known_hosts"}));
  EXPECT_EQ(host.agent_socket, "/run/agent");
  EXPECT_EQ(host.proxy_jump, "");
}

TEST(ParseConfig, NoneIsANameWhereNamesStand) {
  const HostConfig host = ParseConfig("hostname none\nuser none\nport 22\n", Named("gpu9"));
  EXPECT_EQ(host.host_name, "none");
  EXPECT_EQ(host.user, "none");
}

TEST(ParseConfig, NoneIsNothing) {
  const HostConfig host =
      Parse("identityagent none\nproxycommand none\nproxyjump none\nrevokedhostkeys none\n");
  EXPECT_EQ(host.agent_socket, "");
  EXPECT_EQ(host.proxy_jump, "");
}

TEST(ParseConfig, WhatLibssh2CannotDoIsForSsh) {
  struct Case {
    const char* lines;
    const char* beyond;
  };
  for (const Case& one : {
           Case{"bindaddress 10.0.0.7\n", "BindAddress 10.0.0.7"},
           Case{"proxycommand nc %h %p\n", "ProxyCommand nc %h %p"},
           Case{"hostkeyalias gpu\n", "HostKeyAlias gpu"},
           Case{"identityagent ~other/agent\n", "IdentityAgent ~other/agent"},
           Case{"revokedhostkeys /etc/ssh/revoked\n", "RevokedHostKeys /etc/ssh/revoked"},
           Case{"revokedhostkeys none\naddressfamily any\n", ""},
           Case{"ciphers aes128-ctr,none-of-ours\n", ""},
           Case{"ciphers none-of-ours\n", "Ciphers none-of-ours"},
           Case{"forwardagent yes\nloglevel DEBUG3\n", ""},
           // As ssh has it without any configuration: nobody has asked for it.
           Case{"tcpkeepalive yes\nneverheardof yes\n", "neverheardof yes"},
           Case{"identityfile /keys/%C\n", "IdentityFile /keys/%C"},
       }) {
    EXPECT_EQ(Parse(one.lines).beyond, one.beyond) << one.lines;
  }
}

TEST(ParseConfig, LetsLibssh2UseNoMoreThanSshMay) {
  const HostConfig host = Parse("ciphers aes256-ctr,aes128-ctr\nhostkeyalgorithms ssh-ed25519\n");
  EXPECT_EQ(host.algorithms.ciphers, "aes128-ctr,aes256-ctr");
  EXPECT_EQ(host.algorithms.host_keys, "ssh-ed25519");
  EXPECT_EQ(host.algorithms.macs, Algorithms().macs);
}

TEST(ParseConfig, NewKeysAreTakenWhereTheConfigurationOrTheFileSaysSo) {
  EXPECT_FALSE(Parse("stricthostkeychecking ask\n").accept_new);
  EXPECT_TRUE(Parse("stricthostkeychecking accept-new\n").accept_new);
  EXPECT_FALSE(Parse("stricthostkeychecking false\n").accept_new);
  EXPECT_TRUE(Parse("stricthostkeychecking false\n").trusts_anybody);
  Target strict = Named("gpu9");
  strict.strict = true;
  EXPECT_FALSE(
      ParseConfig(std::string(kPlain) + "stricthostkeychecking accept-new\n", strict).accept_new);
}

TEST(ParseConfig, HostsBehindTheSameWayHaveTheSameGateway) {
  EXPECT_EQ(Parse("proxycommand nc %h %p\n").gateway, "nc %h %p");
  EXPECT_EQ(Parse("proxyjump login\n").gateway, "login");
  EXPECT_EQ(Parse("proxyjump gw%p\n").gateway, "gw%p");
  EXPECT_EQ(Parse("proxyjump gw%p\n").proxy_jump, "");
  EXPECT_EQ(Parse("proxyjump gw%p\n").beyond, "ProxyJump gw%p");
}

TEST(ParseConfig, RefusesAPortThatIsNone) {
  for (const char* port : {"0", "65536", "x", "22x", ""}) {
    EXPECT_THROW((void)ParseConfig(fmt::format("hostname h\nuser u\nport {}\n", port), Named("h")),
                 Error);
  }
}

}  // namespace
}  // namespace tfdist::ssh

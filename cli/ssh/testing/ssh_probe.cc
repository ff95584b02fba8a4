// Test program: reaches hosts with ssh::SshTransport, and says as JSON lines what came of it.
// tests/hosts drives it.
//
//   ssh_probe [OPTION VALUE]... ACTION HOST...
//   options: --config FILE  --host-keys strict|accept-new  --user NAME
//            --transport auto|openssh (default: auto)
//            --config-ms N  and so on: how long one phase may take (kLimitOptions)
//   actions: open           connects, runs a shell, checks that it answers
//            again          the same, twice over one connection
//            both           two shells at once over one transport
//            bulk           8 MiB to the host and back at once, through a key exchange where sshd
//                           wants one
//            boot DIR       brings a stand-in agent there (DIR: remote_dir), prints its first line
//            jobs           lists the jobs on the host
//   Several hosts: each on a thread of its own.

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/testing/gzip.h"
#include "base/thread_annotations.h"
#include "cli/link/bootstrap.h"
#include "cli/link/house.h"
#include "cli/ssh/ssh_transport.h"

namespace tfdist::ssh {
namespace {

using Json = nlohmann::json;
using ReadResult = cli::ByteChannel::ReadResult;

constexpr std::chrono::seconds kDeadline{60};

TimePoint Soon() { return SystemClock().Now() + kDeadline; }

struct Arguments {
  Target target;  // all but its name
  std::string action;
  std::string remote_dir;
  std::chrono::milliseconds answer = kDeadline;  // limit of `jobs` and `both`, once connected
  std::vector<std::string> hosts;
};

std::unique_ptr<cli::ByteChannel> Shell(SshTransport& transport) {
  TimePoint deadline = Soon();
  return transport.OpenShell(deadline);
}

std::string ReadUntil(cli::ByteChannel& channel, std::string_view end) {
  std::string text;
  while (!text.ends_with(end)) {
    if (channel.Read(text, Soon()) != ReadResult::kData)
      throw Error(Phase::kExec, "no answer: " + text);
  }
  return text;
}

std::string Talk(cli::ByteChannel& channel, std::string_view script, TimePoint deadline = Soon()) {
  channel.Write(script, deadline);
  std::string out;
  while (channel.Read(out, deadline) == ReadResult::kData) {
  }
  return out;
}

Json Greet(SshTransport& transport) {
  const auto channel = Shell(transport);
  const std::string out = Talk(*channel, "echo out; echo err >&2; exit 0\n");
  return {{"out", out}, {"err", channel->Stderr()}};
}

Json Both(SshTransport& transport, std::chrono::milliseconds answer) {
  const auto first = Shell(transport);
  first->Write("echo ready\n", Soon());
  ReadUntil(*first, "ready\n");
  const auto second = Shell(transport);
  const std::string out = Talk(*second, "echo second; exit 0\n", SystemClock().Now() + answer);
  return {{"out", Talk(*first, "echo first; exit 0\n") + out}};
}

Json Bulk(SshTransport& transport) {
  const auto channel = Shell(transport);
  channel->Write("echo ready; exec cat\n", Soon());
  ReadUntil(*channel, "ready\n");
  const std::string text = RandomHex(4 << 20);
  channel->Write(text, Soon());
  std::string echo;
  while (echo.size() < text.size()) {
    if (channel->Read(echo, Soon()) != ReadResult::kData)
      throw Error(Phase::kExec, fmt::format("the echo ended after {} bytes", echo.size()));
  }
  return {{"equal", echo == text}};
}

// A shell script stands in for the agent; its length is that of a real one.
Json Boot(SshTransport& transport, const std::string& remote_dir) {
  std::string agent = "#!/bin/sh\necho \"agent $1\"\nexec cat\n#";
  for (int i = 0; i < 40'000; ++i) agent += fmt::format("{:x}", i * 2654435761U);
  const std::string gzip = Gzip(agent);
  const std::string hash = Sha256Hex(agent);
  const cli::EmbeddedAgent embedded{.gzip = std::as_bytes(std::span(gzip)),
                                    .xz = {},
                                    .sha256_hex = hash,
                                    .size_bytes = agent.size(),
                                    .machine = "x86_64"};
  const cli::BootedAgent booted = cli::StartAgent(Shell(transport), {&embedded, 1}, remote_dir,
                                                  cli::Upload::kIfMissing, Soon());
  return {{"first_line", ReadUntil(*booted.channel, "\n")},
          {"uploaded", booted.uploaded},
          {"noise", booted.noise}};
}

// Whose login may take its time.
class Connected : public cli::Transport {
 public:
  explicit Connected(SshTransport& transport) : transport_(transport) {}
  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint& /*deadline*/) override {
    return Shell(transport_);
  }

 private:
  SshTransport& transport_;
};

Json Jobs(SshTransport& transport, const Arguments& arguments) {
  Json jobs = Json::array();
  Connected host(transport);
  for (const cli::RemoteJob& job :
       cli::FindJobs({host, {}, arguments.remote_dir, arguments.answer}, "")) {
    jobs.push_back({{"job", job.job}, {"base", job.base}, {"running", job.running}});
  }
  return {{"jobs", jobs}};
}

Json Act(const Arguments& arguments, const std::string& host, Json& notes) {
  Target target = arguments.target;
  target.name = host;
  target.on_note = [&notes](const std::string& note) {
    static Mutex mutex;
    const MutexLock lock(mutex);
    notes.push_back(note);
  };
  SshTransport transport(host, std::move(target));
  if (arguments.action == "both") return Both(transport, arguments.answer);
  if (arguments.action == "bulk") return Bulk(transport);
  if (arguments.action == "boot") return Boot(transport, arguments.remote_dir);
  if (arguments.action == "jobs") return Jobs(transport, arguments);
  if (arguments.action == "again") Greet(transport);
  return Greet(transport);
}

Json ActOrFail(const Arguments& arguments, const std::string& host) {
  Json notes = Json::array();
  try {
    Json result = Act(arguments, host, notes);
    result["ok"] = true;
    if (!notes.empty()) result["notes"] = notes;
    return result;
  } catch (const Error& error) {
    return {{"ok", false},
            {"host", error.host()},
            {"phase", PhaseName(error.phase())},
            {"cause", error.cause()},
            {"remedy", error.remedy()}};
  }
}

struct LimitOption {
  std::string_view option;
  std::chrono::milliseconds Limits::*limit;
};

// One for each phase: a test that shortens another phase as well would see that one fail on a slow
// machine.
constexpr std::array kLimitOptions = {
    LimitOption{"--config-ms", &Limits::config},
    LimitOption{"--resolve-ms", &Limits::resolve},
    LimitOption{"--tcp-ms", &Limits::tcp},
    LimitOption{"--banner-ms", &Limits::banner},
    LimitOption{"--key-exchange-ms", &Limits::key_exchange},
    LimitOption{"--authentication-ms", &Limits::authentication},
    LimitOption{"--exec-ms", &Limits::exec},
    LimitOption{"--agent-ms", &Limits::agent},
    LimitOption{"--signature-ms", &Limits::signature},
    LimitOption{"--busy-ms", &Limits::busy},
};

void TakeOption(Arguments& arguments, std::string_view option, const std::string& value) {
  if (option == "--answer-ms") arguments.answer = std::chrono::milliseconds(std::stoi(value));
  Target& target = arguments.target;
  if (option == "--config") target.config = value;
  if (option == "--user") target.user = value;
  if (option == "--transport") {
    target.program = value == "openssh" ? Program::kOpenssh : Program::kAuto;
  }
  if (option == "--host-keys") target.accept_new = value == "accept-new";
  for (const auto& [name, limit] : kLimitOptions) {
    if (option == name) target.limits.*limit = std::chrono::milliseconds(std::stoi(value));
  }
}

Arguments Parse(std::vector<std::string> words) {
  Arguments arguments;
  size_t at = 0;
  for (; at + 1 < words.size() && words[at].starts_with("--"); at += 2) {
    TakeOption(arguments, words[at], words[at + 1]);
  }
  arguments.action = words.at(at++);
  if (arguments.action == "boot") arguments.remote_dir = words.at(at++);
  arguments.hosts.assign(words.begin() + static_cast<ptrdiff_t>(at), words.end());
  return arguments;
}

int Main(std::vector<std::string> words) {
  const Arguments arguments = Parse(std::move(words));
  Mutex output;
  std::vector<std::thread> threads;
  for (const std::string& host : arguments.hosts) {
    threads.emplace_back([&arguments, &output, host] {
      const Json result = ActOrFail(arguments, host);
      const MutexLock lock(output);
      std::cout << result.dump() << std::endl;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace tfdist::ssh

// For the leak sanitizer: libssh2's own, with AES-GCM (see handshake.cc), which one of the tests
// asks for.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: the sanitizer's name
  return "leak:kex_method_curve25519_key_exchange\n";
}

int main(int argc, char** argv) { return tfdist::ssh::Main({argv + 1, argv + argc}); }

// What nothing that uses SSH can do without: connect, key exchange, one key, one command, for all hosts at a time, on
// one thread. No configuration is read and no host key is checked, so it is a floor for benchmarks and no tool.
//
//   login_floor USER PORT KEY COMMAND ADDRESS...    exit code 0: every host printed something

#include <arpa/inet.h>
#include <fcntl.h>
#include <libssh2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::ssh {
namespace {

struct Login {
  std::string user;
  std::string key;
  std::string command;
};

class Host {
 public:
  Host(const Login& login, const std::string& address, uint16_t port)
      : login_(login), address_(address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) Fail("no numeric address");
    fd_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    session_.reset(libssh2_session_init());
    libssh2_session_set_blocking(session_.get(), 0);
    libssh2_session_method_pref(session_.get(), LIBSSH2_METHOD_KEX, "curve25519-sha256");
  }

  [[nodiscard]] bool done() const { return stage_ == Stage::kDone; }
  [[nodiscard]] pollfd Awaited() const {
    const int directions = libssh2_session_block_directions(session_.get());
    const bool out =
        stage_ == Stage::kConnect || (directions & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0;
    return {fd_.get(), static_cast<int16_t>(out ? POLLIN | POLLOUT : POLLIN), 0};
  }
  void Advance() {
    while (!done()) {
      const int code = Step();
      if (code == LIBSSH2_ERROR_EAGAIN) return;
      if (code != 0) Fail("libssh2 error " + std::to_string(code));
      stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
    }
  }

 private:
  enum class Stage { kConnect, kHandshake, kKey, kChannel, kExec, kOutput, kDone };
  struct FreeSession {
    void operator()(LIBSSH2_SESSION* session) const { libssh2_session_free(session); }
  };

  [[noreturn]] void Fail(const std::string& why) const {
    throw std::runtime_error(address_ + ": stage " + std::to_string(static_cast<int>(stage_)) +
                             ": " + why);
  }
  int Step() {
    switch (stage_) {
      case Stage::kConnect:
        return 0;  // asked for only once the socket is writable
      case Stage::kHandshake:
        return libssh2_session_handshake(session_.get(), fd_.get());
      case Stage::kKey:
        return libssh2_userauth_publickey_fromfile_ex(session_.get(), login_.user.c_str(),
                                                      static_cast<unsigned>(login_.user.size()),
                                                      nullptr, login_.key.c_str(), "");
      case Stage::kChannel:
        channel_ = libssh2_channel_open_session(session_.get());
        return channel_ != nullptr ? 0 : libssh2_session_last_errno(session_.get());
      case Stage::kExec:
        return libssh2_channel_exec(channel_, login_.command.c_str());
      case Stage::kOutput:
        return ReadAll();
      case Stage::kDone:
        break;
    }
    return 0;
  }
  int ReadAll() {
    std::array<char, 4096> buffer{};
    while (true) {
      const ssize_t got = libssh2_channel_read(channel_, buffer.data(), buffer.size());
      if (got < 0) return static_cast<int>(got);
      if (got == 0) break;
      any_output_ = true;
    }
    if (libssh2_channel_eof(channel_) == 0) return LIBSSH2_ERROR_EAGAIN;
    if (!any_output_) Fail("printed nothing");
    return 0;
  }

  const Login& login_;
  std::string address_;
  UniqueFd fd_;
  std::unique_ptr<LIBSSH2_SESSION, FreeSession> session_;  // with its channel
  LIBSSH2_CHANNEL* channel_ = nullptr;
  Stage stage_ = Stage::kConnect;
  bool any_output_ = false;
};

void RaiseDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

void LogInEverywhere(std::span<char*> arguments) {
  const Login login{arguments[0], arguments[2], arguments[3]};
  const auto port = static_cast<uint16_t>(std::stoi(arguments[1]));
  std::vector<std::unique_ptr<Host>> hosts;
  for (const char* address : arguments.subspan(4))
    hosts.push_back(std::make_unique<Host>(login, address, port));
  while (!hosts.empty()) {
    std::vector<pollfd> awaited;
    for (const auto& host : hosts) awaited.push_back(host->Awaited());
    poll(awaited.data(), awaited.size(), -1);
    for (size_t i = 0; i < awaited.size(); ++i) {
      if (awaited[i].revents != 0) hosts[i]->Advance();
    }
    std::erase_if(hosts, [](const auto& host) { return host->done(); });
  }
}

}  // namespace
}  // namespace tfdist::ssh

int main(int argc, char** argv) {
  if (argc < 6) {
    (void)fprintf(stderr, "usage: login_floor USER PORT KEY COMMAND ADDRESS...\n");
    return 2;
  }
  try {
    tfdist::ssh::RaiseDescriptors();
    libssh2_init(0);
    tfdist::ssh::LogInEverywhere({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    (void)fprintf(stderr, "login_floor: %s\n", error.what());
    return 1;
  }
}

#include "cli/tensorboard/tensorboard_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/failures.h"
#include "cli/channel/tail.h"
#include "cli/job/connector.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Ending = RunningCommand::Ending;
using Words = std::vector<std::string>;

constexpr auto kServerStartLimit = 30s;
constexpr auto kProgramLookLimit = 60s;  // importing TensorFlow takes its time on a busy host
constexpr auto kServerGrace = 5s;
constexpr auto kServerEndLimit = 10s;
constexpr std::string_view kLocalUrl = "http://127.0.0.1:";

TimePoint FromNow(std::chrono::seconds span) { return SystemClock().Now() + span; }

// "TensorBoard 2.15.2 at http://127.0.0.1:6006/ (Press CTRL+C to quit)"
std::optional<int> PortIn(std::string_view said) {
  const size_t at = said.find(kLocalUrl);
  if (at == said.npos) return std::nullopt;
  const char* end = said.data() + said.size();
  int port = 0;
  const auto [stop, error] = std::from_chars(said.data() + at + kLocalUrl.size(), end, port);
  // A number that is cut off goes on in the next piece.
  if (error != std::errc() || stop == end || port < 1 || port > 65535) return std::nullopt;
  return port;
}

}  // namespace

std::optional<TensorBoardProgram> FindTensorBoard(HostTalk& talk) {
  const HostAnswer module =
      talk.Ask({"python3", "-c", "import tensorboard.version; print(tensorboard.version.VERSION)"},
               kProgramLookLimit);
  if (module.status == 0) {
    return TensorBoardProgram{{"python3", "-m", "tensorboard.main"}, module.LastLine()};
  }
  const HostAnswer program = talk.Ask({"tensorboard", "--version"}, kProgramLookLimit);
  if (program.status == 0) return TensorBoardProgram{{"tensorboard"}, program.LastLine()};
  return std::nullopt;
}

TensorBoardServer::TensorBoardServer(const Site& site, const SshOptions& ssh,
                                     const TensorBoardProgram& program, const std::string& folder)
    : host_(site.host.name), transport_(MakeTransport(site.host, ssh)) {
  Words words = program.words;
  words.insert(words.end(), {"--logdir", folder, "--host", "127.0.0.1", "--port", "0"});
  TimePoint deadline = FromNow(kServerStartLimit);
  try {
    auto shell = transport_->OpenShell(deadline);
    running_.emplace(std::move(shell), CommandAt(site, std::move(words)), deadline);
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(host_);
    throw;
  }
}

bool TensorBoardServer::Read(TimePoint deadline) {
  std::string output;
  try {
    if (!end_) end_ = running_->Read(output, deadline);
  } catch (Error& error) {
    if (error.host().empty()) error = error.WithHost(host_);
    throw;
  }
  AppendToTail(said_, output);
  return end_.has_value();
}

void TensorBoardServer::FailEnded() const {
  throw Error(Phase::kExec,
              fmt::format("TensorBoard has ended with {}: {}", end_->status, OnOneLine(said_)))
      .WithHost(host_);
}

std::optional<int> TensorBoardServer::AwaitPort(TimePoint deadline) {
  while (true) {
    if (const auto port = PortIn(said_)) return port;
    if (Read(deadline)) FailEnded();
    if (SystemClock().Now() >= deadline) return PortIn(said_);
  }
}

void TensorBoardServer::FailSilent() const {
  throw Error(Phase::kExec,
              fmt::format("TensorBoard does not say where it listens: {}", OnOneLine(said_)),
              "run it there by hand, to see why: tfdist shell")
      .WithHost(host_);
}

void TensorBoardServer::Watch(TimePoint deadline) {
  if (Read(deadline)) FailEnded();
}

void TensorBoardServer::End() {
  if (end_) return;
  running_->Ask(Ending::kTerm, FromNow(kServerStartLimit));
  const TimePoint kill_at = FromNow(kServerGrace);
  while (SystemClock().Now() < kill_at) {
    if (Read(kill_at)) return;
  }
  running_->Ask(Ending::kKill, FromNow(kServerStartLimit));
  const TimePoint give_up = FromNow(kServerEndLimit);
  while (SystemClock().Now() < give_up) {
    if (Read(give_up)) return;
  }
  throw WithHost(LostConnection(Phase::kExec, "it does not say that TensorBoard has ended",
                                "look there for what is left of it"),
                 host_);
}

}  // namespace tfdist::cli

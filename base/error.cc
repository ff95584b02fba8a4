#include "base/error.h"

#include <array>
#include <cstring>
#include <utility>

namespace tfdist {
namespace {

constexpr std::array<std::pair<Phase, std::string_view>, 20> kPhaseNames = {{
    {Phase::kUsage, "usage"},
    {Phase::kConfig, "cluster file"},
    {Phase::kResolve, "name lookup"},
    {Phase::kConnect, "connect"},
    {Phase::kHostKey, "host key"},
    {Phase::kAuth, "authentication"},
    {Phase::kExec, "remote shell"},
    {Phase::kUpload, "upload"},
    {Phase::kStart, "agent start"},
    {Phase::kFiles, "files"},
    {Phase::kPorts, "ports"},
    {Phase::kSetUp, "set-up"},
    {Phase::kCommand, "command"},
    {Phase::kGpus, "gpus"},
    {Phase::kControl, "control"},
    {Phase::kCommit, "commit"},
    {Phase::kRun, "run"},
    {Phase::kLogs, "logs"},
    {Phase::kDown, "down"},
    {Phase::kInternal, "internal"},
}};

std::string OneLine(const std::string& host, Phase phase, const std::string& cause) {
  std::string line = host.empty() ? std::string() : host + ": ";
  // What the user wrote needs no name of a phase before it.
  if (phase != Phase::kUsage) line.append(PhaseName(phase)).append(": ");
  line += cause;
  return line;
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  for (const auto& [value, name] : kPhaseNames) {
    if (value == phase) return name;
  }
  return "internal";
}

Phase PhaseFromName(std::string_view name) {
  for (const auto& [value, known] : kPhaseNames) {
    if (known == name) return value;
  }
  return Phase::kInternal;
}

Error::Error(Phase phase, std::string cause, std::string remedy)
    : Error(std::string(), phase, std::move(cause), std::move(remedy)) {}

Error::Error(std::string host, Phase phase, std::string cause, std::string remedy)
    : std::runtime_error(OneLine(host, phase, cause)),
      host_(std::move(host)),
      phase_(phase),
      cause_(std::move(cause)),
      remedy_(std::move(remedy)) {}

Error Error::WithHost(std::string host) const {
  return Error(std::move(host), phase_, cause_, remedy_);
}

std::string WithErrno(std::string_view what, int error_number) {
  // strerrordesc_np is thread-safe, unlike strerror(3); nullptr for an unknown number.
  const char* text = strerrordesc_np(error_number);
  return std::string(what) + ": " + (text != nullptr ? text : "unknown error");
}

}  // namespace tfdist

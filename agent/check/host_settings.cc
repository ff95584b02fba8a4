#include "agent/check/host_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTfConfig = "TF_CONFIG";
// What changes how a training finds GPUs, libraries, Python or other hosts. A name that ends in _ begins others.
constexpr std::string_view kDisturbing[] = {"CUDA_VISIBLE_DEVICES",
                                            "GLOO_SOCKET_IFNAME",
                                            "HIP_VISIBLE_DEVICES",
                                            "LD_PRELOAD",
                                            "NCCL_",
                                            "PYTHONHOME",
                                            "ROCR_VISIBLE_DEVICES",
                                            "all_proxy",
                                            "ALL_PROXY",
                                            "grpc_proxy",
                                            "http_proxy",
                                            "HTTP_PROXY",
                                            "https_proxy",
                                            "HTTPS_PROXY"};
constexpr size_t kMostScriptBytes = 256 << 10;
constexpr size_t kMostScripts = 64;  // of /etc/profile.d

// bash(1) INVOCATION, zsh(1) STARTUP: what login shells read.
std::vector<fs::path> LoginScripts(const fs::path& etc, const fs::path& home) {
  std::vector<fs::path> scripts = {etc / "profile", etc / "zsh/zprofile"};
  std::error_code error;
  fs::directory_iterator entry(etc / "profile.d", error);
  for (; !error && entry != fs::directory_iterator() && scripts.size() < kMostScripts;
       entry.increment(error)) {
    if (entry->path().extension() == ".sh") scripts.push_back(entry->path());
  }
  std::ranges::sort(scripts);
  if (home.empty()) return scripts;
  for (const char* name : {".bash_profile", ".bash_login", ".profile", ".zprofile"}) {
    scripts.push_back(home / name);
  }
  return scripts;
}

// "LD_PRELOAD, NCCL_DEBUG": by name only, as the values may hold a password.
std::string DisturbingIn(const Environment& environment) {
  std::vector<std::string> found;
  for (const std::string& entry : environment.Strings()) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    const bool disturbs = std::ranges::any_of(kDisturbing, [&](std::string_view known) {
      return known.ends_with('_') ? name.starts_with(known) : name == known;
    });
    if (disturbs && name.size() + 1 < entry.size()) found.emplace_back(name);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string ScriptText(const fs::path& path) {
  try {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return "";
    return ReadFileIfExists(path, kMostScriptBytes).value_or("");
  } catch (const Error&) {  // not ours to read, or too long to be looked through
    return "";
  }
}

}  // namespace

bool SetsVariable(std::string_view script, std::string_view name) {
  while (!script.empty()) {
    std::string_view line = TakeUpTo('\n', script);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("export ")) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t", 7), line.size()));
    }
    if (line.starts_with(name) && line.substr(name.size()).starts_with('=')) return true;
  }
  return false;
}

std::vector<protocol::Trouble> FindForeignSettings(const Environment& environment,
                                                   const fs::path& etc, const fs::path& home) {
  std::vector<protocol::Trouble> troubles;
  // What a local agent has is the user's own environment: the command has looked at that.
  if (environment.Get("SSH_CONNECTION") && environment.Get(kTfConfig)) {
    troubles.push_back(
        {"TF_CONFIG is set there for every program; each task gets tfdist's own instead",
         "nothing has to be done for this job; it comes from sshd's SetEnv, ~/.ssh/environment, "
         "/etc/environment or a shell's start-up file"});
  }
  if (environment.Get("SSH_CONNECTION")) {
    if (const std::string names = DisturbingIn(environment); !names.empty()) {
      troubles.push_back(
          {fmt::format("{}: set there for every program, so tasks inherit it", names),
           "where a task is not to have one: env = { NAME = \"\" } in [task] of the file"});
    }
  }
  for (const fs::path& script : LoginScripts(etc, home)) {
    if (!SetsVariable(ScriptText(script), kTfConfig)) continue;
    troubles.push_back(
        {fmt::format("TF_CONFIG is set in {}; each task gets tfdist's own, unless its "
                     "command is a login shell (bash -l), which reads that file",
                     script.string()),
         "take it out there, or use no login shell in the command"});
    break;
  }
  return troubles;
}

std::vector<protocol::Trouble> FindForeignSettings() {
  const Environment environment = Environment::OfHost();
  return FindForeignSettings(environment, "/etc", environment.Get("HOME").value_or(""));
}

}  // namespace tfdist::agent

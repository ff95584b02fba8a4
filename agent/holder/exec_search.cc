#include "agent/holder/exec_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kPathEntry = "PATH=";
constexpr std::string_view kDefaultPath = "/bin:/usr/bin";

std::string_view PathOf(const std::vector<std::string>& env) {
  for (const std::string& entry : env) {
    if (entry.starts_with(kPathEntry)) return std::string_view(entry).substr(kPathEntry.size());
  }
  return kDefaultPath;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Such a candidate is passed over, as exec(3) does.
bool IsAbsent(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == EACCES ||
         error_number == ENODEV || error_number == ESTALE || error_number == ETIMEDOUT;
}

std::string Explain(const std::string& file, int error_number) {
  if (error_number == ENOEXEC) return " (neither a program nor a script that begins with #!)";
  if (error_number == ENOENT && access(file.c_str(), F_OK) == 0) {
    return " (the file exists; its interpreter, in the #! line or the loader, does not)";
  }
  return "";
}

}  // namespace

std::vector<std::string> Candidates(const std::string& command,
                                    const std::vector<std::string>& env) {
  if (command.find('/') != std::string::npos) return {command};
  std::vector<std::string> candidates;
  std::string_view path = PathOf(env);
  while (true) {
    const size_t end = path.find(':');
    const std::string_view folder = path.substr(0, end);
    candidates.push_back(folder.empty() ? "./" + command : fmt::format("{}/{}", folder, command));
    if (end == std::string_view::npos) return candidates;
    path.remove_prefix(end + 1);
  }
}

std::string Execute(const RunSpec& spec) {
  const std::string& command = spec.argv.front();
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> env = Pointers(spec.env);
  int reason = ENOENT;
  std::string culprit = command;
  for (const std::string& file : Candidates(command, spec.env)) {
    execve(file.c_str(), argv.data(), env.data());
    const int error_number = errno;
    const bool exists = error_number != ENOENT || access(file.c_str(), F_OK) == 0;
    if (exists && error_number != ENOTDIR) {
      reason = error_number;
      culprit = file;
    }
    if (!IsAbsent(error_number)) break;
  }
  std::string text = WithErrno("cannot execute " + culprit, reason) + Explain(culprit, reason);
  const bool searched = command.find('/') == std::string::npos;
  return text + (searched ? fmt::format(" (PATH {}, folder {})", PathOf(spec.env), spec.cwd)
                          : fmt::format(" (folder {})", spec.cwd));
}

}  // namespace tfdist::agent

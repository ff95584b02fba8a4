#include "cli/show/known_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/text.h"

namespace tfdist::cli {
namespace {

std::string_view LastLineOf(std::string_view lines) {
  while (lines.ends_with('\n') || lines.ends_with('\r')) lines.remove_suffix(1);
  const size_t before = lines.rfind('\n');
  return NewestFrame(before == lines.npos ? lines : lines.substr(before + 1));
}

// Python's.
bool AskedForInput(std::string_view line) {
  return line == "EOFError: EOF when reading a line" || line == "bdb.BdbQuit";
}

// "torch" of "'torch.nn'".
std::string_view PackageOf(std::string_view module) {
  if (module.starts_with('\'')) module.remove_prefix(1);
  return module.substr(0, module.find_first_of(".'"));
}

std::string RemedyForModule(std::string_view module, std::string_view python) {
  constexpr std::string_view kOwn = "a file of yours: is it in the workdir?";
  if (!python.empty()) {
    return fmt::format("a package: {} -m pip install {} on the hosts; {}", python,
                       PackageOf(module), kOwn);
  }
  return fmt::format(
      "a package: install {} in the Python of the hosts, or name the environment "
      "that has it (venv = \"~/NAME\" in [task], --set task.venv=~/NAME); {}",
      module, kOwn);
}

// The loader's "libcudnn.so.9: cannot open shared object file", with or without a program before it.
std::string_view MissingLibrary(std::string_view line) {
  const size_t end = line.find(": cannot open shared object file");
  if (end == line.npos) return {};
  line = line.substr(0, end);
  const size_t before = line.rfind(' ');
  return before == line.npos ? line : line.substr(before + 1);
}

bool Has(std::string_view line, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return line.find(word) != line.npos; });
}

}  // namespace

std::string RemedyForEnd(std::string_view lines, std::string_view python) {
  constexpr std::string_view kNoModule = "ModuleNotFoundError: No module named ";
  const std::string_view line = LastLineOf(lines);
  if (const size_t at = line.find(kNoModule); at != line.npos) {
    return RemedyForModule(line.substr(at + kNoModule.size()), python);
  }
  if (const std::string_view library = MissingLibrary(line); !library.empty()) {
    return fmt::format(
        "install what has {} on the hosts; where it is there, name its folder: --env "
        "LD_LIBRARY_PATH=FOLDER, or LD_LIBRARY_PATH in `env`",
        library);
  }
  if (Has(line, {"Address already in use", "address already in use", "EADDRINUSE"})) {
    return "let the program listen on a port of the plan: {port}, or MASTER_PORT on the first "
           "task; "
           "--set cluster.ports=auto chooses others";
  }
  if (Has(line, {"CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "OOM when allocating"})) {
    return "a smaller batch; tfdist top shows the GPUs' memory while the job runs, and tasks that "
           "share a GPU share its memory (`gpus`, and nvidia-smi for other programs)";
  }
  if (AskedForInput(line)) {
    return "a task has no input: pass what it asks for as an argument, after --; a debugger works "
           "in tfdist shell";
  }
  return "";
}

std::string RemedyForEnd(const JobRecord& record, const std::string& task, std::string_view lines) {
  const auto found = std::ranges::find(record.tasks, task, &JobRecord::Task::id);
  if (found == record.tasks.end()) return RemedyForEnd(lines, "");
  const auto setting = [&](const char* key) {
    const auto at = found->settings.find(key);
    return at == found->settings.end() ? std::string() : at->second;
  };
  if (const std::string venv = setting("venv"); !venv.empty()) {
    return RemedyForEnd(lines, venv + "/bin/python");
  }
  const std::string conda = setting("conda");
  const std::string_view by = conda.find('/') == conda.npos ? "-n" : "-p";
  return RemedyForEnd(lines, conda.empty() ? "" : fmt::format("conda run {} {} python", by, conda));
}

}  // namespace tfdist::cli
